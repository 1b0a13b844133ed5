"""When to retry, when to give up, when a task is due, when producers wait (U1, U2, U5).

Rules of this file
  * Plain functions of plain values: no clock, no chance. The random part of a backoff is an
    argument. CrossHair checks the `pre:` and `post:` lines.
  * `attempt` counts runs from 1: it is 1 when the first run has failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lychgate._errors import ConfigError, Refused

RETRIES_MAX = 20
"""Retries of a task that says nothing else: 21 runs, some 8 days from the first to the last."""

DRAW_MAX = 14
"""The random part of a backoff is 0..DRAW_MAX."""

Interval = float | None | Callable[[int], float | None]
"""Seconds until the next run, or a function of the attempt that says so; None: stop retrying."""


def backoff(attempt: int, draw: int) -> int:
    """Seconds from a failed attempt to the next one (U2).

    pre: attempt >= 1
    pre: 0 <= draw <= 14
    post: __return__ == attempt ** 4 + 10 + draw * attempt
    post: 11 <= attempt ** 4 + 10 <= __return__ <= attempt ** 4 + 10 + 14 * attempt
    """
    return attempt**4 + 10 + draw * attempt


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a task is retried, and how long after which error.

    `retry_in` maps an exception class to an `Interval`; the nearest class in the error's method
    resolution order decides, and an error that no entry covers takes the backoff. `max_retries=0`,
    or None for an exception class, stops retries: the task goes to the dead tasks at once.
    """

    max_retries: int = RETRIES_MAX
    retry_in: Mapping[type[BaseException], Interval] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = self.max_retries
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ConfigError(f"max_retries is a whole number from 0 on, not {count!r}")
        for kind in self.retry_in:
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise ConfigError(f"retry_in maps exception classes to seconds; {kind!r} is none")

    def delay(self, attempt: int, error: BaseException, draw: int) -> float | None:
        """Seconds until the next run, not negative, or None: give up."""
        if attempt > self.max_retries:
            return None
        for kind in type(error).__mro__:
            if kind in self.retry_in:
                return _interval(self.retry_in[kind], attempt, draw)
        return backoff(attempt, draw)


def _interval(interval: Interval, attempt: int, draw: int) -> float | None:
    """What one entry of `retry_in` says. One that makes no sense must not lose the retry."""
    try:
        seconds = interval(attempt) if callable(interval) else interval
        if seconds is None:
            return None
        if math.isfinite(seconds):
            return max(0.0, float(seconds))
    except Exception:  # the function is foreign code and may raise anything
        pass
    return backoff(attempt, draw)


def publish_time(
    now: float, delay: float | timedelta | None, delay_until: float | datetime | None
) -> float | None:
    """When a new task is due, None for at once (U1). Raises Refused.

    A time that is not in the future is "at once": None, never a time that has passed.
    """
    if delay is not None and delay_until is not None:
        raise Refused("give delay or delay_until, not both")
    if isinstance(delay_until, datetime):
        if delay_until.tzinfo is None:
            raise Refused("delay_until needs a time zone: datetime.now(timezone.utc) has one")
        delay_until = delay_until.timestamp()
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    if delay is not None:
        delay_until = now + delay
    if delay_until is None:
        return None
    if not math.isfinite(delay_until):
        raise Refused("delay and delay_until are finite numbers of seconds")
    return delay_until if delay_until > now else None


def under_pressure(was: bool, backlog: int, high: int, low: int) -> bool:
    """Whether producers wait: from the high-water mark on, until the low one is reached (U5).

    pre: 0 <= low < high
    pre: backlog >= 0
    post: __return__ or backlog < high
    post: not __return__ or backlog > low
    post: __return__ == was or backlog >= high or backlog <= low
    """
    return backlog >= high or (was and backlog > low)
