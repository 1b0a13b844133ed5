"""A flag in memory that the fibers of one process take in turns (D15).

    try:
        if flag.take(fiber):
            ...
    finally:
        if fiber in flag:
            flag.remove(fiber)

It is the list of those who want it, and the first one has it. So whoever might have it can give it
back, however he was interrupted, and frees nothing that another holds; and giving back is a single
call of the interpreter, with nowhere inside for a signal to come between.
"""

from __future__ import annotations


class Flag(list[object]):
    """At most one fiber has it. A fiber is any object that stands for one call."""

    __slots__ = ()

    def take(self, fiber: object) -> bool:
        """Whether `fiber` has the flag now; never waits."""
        self.append(fiber)
        if self.holder() is fiber:
            return True
        self.remove(fiber)
        return False

    def holder(self) -> object:
        """The fiber that has it, or None."""
        return next(iter(self), None)

    def locked(self) -> bool:
        return bool(self)
