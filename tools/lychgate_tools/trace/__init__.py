"""Trace validation: TLC decides whether what the engine did is a behaviour of the spec.

`format` is the file; `recorder` makes one out of what the driver's observer sees; `simulated`,
`fibers` and `processes` are the sources: the lab's simulator, asyncio tasks on real files, several
real processes; `running` is a call of a simulated worker. `kinds` knows the two specs, `module`
makes TLC's module of many traces, `check` runs it, `explain` says why a trace was rejected.
"""
