"""TLC as the Java program that it is: finding it, running it, and believing it only as far as due.

`toolchain` finds the jar and a Java, `runner` runs one model, `output` turns what TLC printed into
a verdict, `values` reads TLA+ values, `cfg` reads model files, `sany` reads modules.
"""
