"""Who has to rest while this process forks: the pools of SQLite.

SQLite keeps one note of locks for each file and process, and a forked child inherits it. What the
child opens would then rest on locks that its parent alone has: when the parent closes its last
connection, it takes the write-ahead log away under the child, and with it what the child has
acknowledged. So nothing of SQLite's is open while a process forks; parent and child open anew.

Rules of this file
  * `rest` is called before each fork, `go_on` after it in the parent. A child's pool finds out by
    its process id, for locks of threads that are not there may be held for ever.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class Resting(Protocol):
    """What has to be quiet during a fork."""

    def rest(self) -> None:
        """Close everything, and open nothing until `go_on`."""

    def go_on(self) -> None:
        """The fork is over."""


def watch(it: Resting) -> None:
    """Have it rest during forks, as long as it lives."""
    with _no_fork:
        _watched.add(it)


_no_fork = threading.RLock()  # held by the thread that forks
_watched: weakref.WeakSet[Resting] = weakref.WeakSet()


def _before() -> None:
    _no_fork.acquire()
    for it in list(_watched):
        it.rest()


def _after_in_parent() -> None:
    for it in list(_watched):
        it.go_on()
    _no_fork.release()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_no_fork.release
)
