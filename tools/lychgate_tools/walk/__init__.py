"""Walking TLC's state graph on the engine, edge by edge.

`graph` gets the graph of a model out of TLC and keeps it; `tour` plans a way over every edge;
`store` is the engine's side for the modules Lock and DeadTasks, `wal` for Wal: each makes one step
on the simulated file system and compares the engine's whole state with the model's.
"""
