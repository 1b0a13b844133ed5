"""Retry policy, due times and backpressure as plain functions (U1, U2, U5)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lychgate._errors import ConfigError, Refused
from lychgate._policy import RetryPolicy, backoff, publish_time, under_pressure

ATTEMPTS = st.integers(1, 30)
DRAWS = st.integers(0, 14)


@given(ATTEMPTS, DRAWS)
def test_backoff(attempt: int, draw: int) -> None:
    """U2: attempt**4 + 10 + random(0..14) * attempt."""
    assert backoff(attempt, draw) == attempt**4 + 10 + draw * attempt
    assert backoff(attempt, draw) < backoff(attempt + 1, 14)


def test_the_first_and_the_last_retry() -> None:
    """U2: the first after 11 to 25 seconds, all twenty within some eight to nine days."""
    assert (backoff(1, 0), backoff(1, 14)) == (11, 25)
    days = [sum(backoff(attempt, draw) for attempt in range(1, 21)) / 86400 for draw in (0, 14)]
    assert 8.3 < days[0] < days[1] < 8.5


@given(ATTEMPTS, DRAWS)
def test_default_policy(attempt: int, draw: int) -> None:
    """U2: max_retries defaults to 20: the 21st run that fails is the last."""
    delay = RetryPolicy().delay(attempt, ValueError(), draw)
    assert delay == (backoff(attempt, draw) if attempt <= 20 else None)


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        (ConnectionResetError(), 3.0),  # the nearest class decides
        (OSError(), 60.0),
        (TimeoutError(), None),  # stops retries
        (ValueError(), 5.0),  # a function of the attempt
        (TypeError(), 0.0),  # the past is now
        (KeyError(), backoff(5, 2)),  # a function that raises
        (IndexError(), backoff(5, 2)),  # a number that is none
        (Exception(), backoff(5, 2)),  # no entry
    ],
    ids=repr,
)
def test_intervals_per_exception(error: Exception, delay: float | None) -> None:
    """U2: what the class says per exception; what makes no sense never loses the retry."""
    policy = RetryPolicy(
        retry_in={
            OSError: 60,
            ConnectionError: 3.0,
            TimeoutError: None,
            ValueError: float,
            TypeError: -8,
            KeyError: lambda attempt: 1 / (attempt - 5),
            IndexError: float("nan"),
        }
    )
    assert policy.delay(5, error, 2) == delay


@pytest.mark.parametrize("count", [-1, 1.5, True])
def test_nonsense_counts(count: Any) -> None:
    """U2, D5."""
    with pytest.raises(ConfigError, match="max_retries"):
        RetryPolicy(max_retries=count)


@pytest.mark.parametrize("kind", [int, "ValueError", ValueError()])
def test_nonsense_exceptions(kind: Any) -> None:
    """U2, D5."""
    with pytest.raises(ConfigError, match="retry_in"):
        RetryPolicy(retry_in={kind: 1.0})


@given(st.floats(0, 1e10), st.floats(-1e6, 1e10))
def test_a_delay_that_is_no_delay_is_none(now: float, delay: float) -> None:
    """U1: due times are in the future, or none at all."""
    due = publish_time(now, delay, None)
    assert due is None or due > now
    assert publish_time(now, None, now + delay) == due
    assert publish_time(now, None, None) is None


@pytest.mark.parametrize(
    "when",
    [
        (float("nan"), None),
        (float("inf"), None),
        (None, float("nan")),
        (1, 2),
        (None, datetime(2030, 1, 1)),
    ],
)
def test_times_that_are_refused(when: tuple[Any, Any]) -> None:
    """U1: not a number, for ever, both at once, and local time without a zone."""
    with pytest.raises(Refused):
        publish_time(0.0, *when)


def test_timedelta() -> None:
    """U1."""
    assert publish_time(10.0, timedelta(days=3650), None) == 10.0 + 3650 * 86400


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(0, 9), st.integers(1, 10))
def test_pressure_has_two_marks(backlogs: list[int], low: int, gap: int) -> None:
    """U5: on at the high mark, off at the low one, unchanged between them."""
    high = low + gap
    was = False
    for backlog in backlogs:
        now = under_pressure(was, backlog, high, low)
        if backlog >= high:
            assert now
        elif backlog <= low:
            assert not now
        else:
            assert now == was
        was = now
