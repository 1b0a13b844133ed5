"""Fixtures of the queue's tests: a queue of either kind over a store in memory.

A test module imports what it uses: `make_rig`, `backend`, `tasks`, `clock`, `claiming`, `quiet`.
Every test that takes `make_rig` runs with threads and with asyncio. Time is a fake clock's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from engine.queue_doubles import FakeClock, MemoryStore, Recorder, Rig

from lychgate._task import Registry

MakeRig = Callable[..., Rig]

JOB = {"task": "?", "args": [], "kwargs": {}, "enqueued_at": 0, "attempts": 0, "crashes": 0}
"""A stored job without what `task` names."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Failures are made by the dozen here; their tracebacks say nothing."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def tasks() -> Registry:
    return Registry()


@pytest.fixture
def backend(clock: FakeClock) -> Recorder:
    return Recorder(MemoryStore(clock))


@pytest.fixture
def make_rig(
    loop: asyncio.Runner | None, backend: Recorder, tasks: Registry, clock: FakeClock
) -> MakeRig:
    """Makes a queue, by default over `backend`; a second one is the process after a restart."""

    def make(over: Any = None, **limits: Any) -> Rig:
        return Rig.over(loop, backend if over is None else over, tasks, clock, **limits)

    return make


@pytest.fixture
def claiming(clock: FakeClock) -> Recorder:
    return Recorder(MemoryStore(clock, "due_unclaimed"))


def run_until_idle(rig: Rig) -> None:
    rig.run(until_idle=True, signals=False)
