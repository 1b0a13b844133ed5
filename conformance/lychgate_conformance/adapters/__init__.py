"""Example adapters: each a small program that speaks the protocol of docs/protocol.md.

    python_adapter.py   any Python object with the seven methods, by `module:factory`
    log_store.py        a store for it: one append-only log
    node_adapter.mjs    the same kind of store in Node.js
    ruby_adapter.rb     … in Ruby
    c_adapter.c         … in C: cc -O2 -o c_adapter c_adapter.c

    delivery_queue.py   for the profile `delivery`: the engine's queue in the words of the protocol
    sqlite_queue.py     … a queue on SQLite, for python_adapter.py as well
    node_queue.mjs      … a queue on a log and its adapter, in Node.js

They are there to be read and copied, and use nothing of this package. Each log is one line per
change, with a CRC in front, fsynced before the answer; what a crash left of a line is cut off or
skipped. They never shrink their log.
"""

from __future__ import annotations

from pathlib import Path

HOME = Path(__file__).parent
