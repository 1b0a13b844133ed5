"""The `lychgate` command: model checks, conformance runs and the tools around them.

Nothing here is imported by the engine or by the conformance suite; imports go one way.
"""
