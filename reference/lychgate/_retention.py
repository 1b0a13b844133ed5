"""When dead tasks have been kept long enough: `dead_tasks_retention_period` (D35).

Rules of this file
  * Nothing is dropped that was not asked for: without a period nothing ever is, and a dead task is
    kept for the period at least. It goes with the first sweep at or after its end.
  * A sweep reads every dead task, and copies the file if one is to go. So the next one comes when
    the oldest that is left will be due, but not before a share of the period has passed.
  * A clock that was set back makes tasks stay longer, never go earlier, and does not put off sweeps
    beyond one period. A clock that was set forward makes them go: nothing else tells their age.
"""

from __future__ import annotations

import math

from lychgate._errors import ConfigError
from lychgate._records import as_number

_SHARE = 20  # of the period, which a dead task is kept too long at most
_SWEEP_S_MAX = 3600.0  # and no longer than this


def check_period(seconds: float | None) -> float | None:
    """The period in seconds, None for ever; or ConfigError."""
    if seconds is None:
        return None
    number = as_number(seconds)
    if number is None or not (math.isfinite(number) and number > 0):
        raise ConfigError(
            "dead_tasks_retention_period must be seconds, more than 0 and finite; None keeps dead "
            "tasks for ever"
        )
    return number


class Sweeps:
    """When one backend looks for dead tasks whose time is over. Times are seconds."""

    def __init__(self, period: float) -> None:
        self.period = period
        self.interval = min(period / _SHARE, _SWEEP_S_MAX)
        self.due_at = -math.inf

    def begin(self, now: float) -> bool:
        """Whether a sweep is due; if so it is this caller's, and the next is not due at once."""
        if self.due_at - self.period <= now < self.due_at:
            return False
        self.due_at = now + self.interval
        return True

    def end(self, now: float, oldest: float) -> None:
        """After a sweep that left `oldest` as the earliest time of death, infinite if none is left.

        What is added from now on is due a period from now at the earliest.
        """
        self.due_at = max(now + self.interval, min(oldest, now) + self.period)
