"""Task ids that never repeat (W4).

    {microseconds, 20 digits}-{16 hex digits}

The first part is Lamport's clock: above the wall clock, above every id made here before, and above
every id found in the files, so that it grows even when a clock goes backward. The second part is
random: two containers may have the same process id and the same clock on one volume, and a forked
child starts from its parent's clock.
"""

from __future__ import annotations

import re

from lychgate._fs import Facts

_FORM = re.compile(r"([0-9]{20})-[0-9a-f]{16}", re.ASCII)


class TaskIds:
    """The ids of one backend object."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._last = 0

    def next(self) -> str:
        """A fresh id."""
        self._last = next_stamp(self._last, self._facts.now())
        return f"{self._last:020d}-{self._facts.random(8).hex()}"

    def observe(self, task_id: str) -> None:
        """Note an id found in a file; ids that the caller chose say nothing about time."""
        match = _FORM.fullmatch(task_id)
        if match:
            self._last = max(self._last, int(match.group(1)))


def next_stamp(last: int, now: float) -> int:
    """The next clock value: microseconds of `now`, but always above `last`."""
    return max(last + 1, int(now * 1_000_000))
