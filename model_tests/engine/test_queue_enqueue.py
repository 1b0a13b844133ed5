"""Enqueueing: stored, then scheduled, and held up when too much waits (U1, U5)."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from engine.queue_doubles import FakeClock, Recorder
from engine.queue_rig import MakeRig, backend, clock, make_rig, quiet, run_until_idle, tasks

from lychgate._errors import ConfigError, Refused
from lychgate._queue_errors import QueueFull
from lychgate._task import Registry


# --- enqueue (U1) --------------------------------------------------------------------------------


def test_enqueue_stores_and_runs(make_rig: MakeRig, backend: Recorder, tasks: Registry) -> None:
    """U1: the store has the task when enqueue returns, and nothing is left of it after its run."""
    seen: list[object] = []

    @tasks.task
    def work(number: int, *, flag: bool) -> None:
        seen.append((number, flag))

    rig = make_rig()
    task_id = rig.enqueue(work, 7, flag=True)
    value, publish_at = backend.live()[task_id]
    assert (value["args"], value["kwargs"], publish_at) == ([7], {"flag": True}, None)
    assert seen == []
    run_until_idle(rig)
    assert seen == [(7, True)]
    assert backend.live() == {}
    assert backend.calls.count("add_task") == 2, "stored once, counted once"


@pytest.mark.parametrize(
    ("when", "due"),
    [
        ({"delay": 5}, 1005.0),
        ({"delay": timedelta(minutes=1)}, 1060.0),
        ({"delay_until": 1007.5}, 1007.5),
        ({"delay_until": datetime.fromtimestamp(1009, timezone.utc)}, 1009.0),
        ({"delay": 0}, None),
        ({"delay_until": 3.0}, None),
    ],
)
def test_delays_set_publish_at(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, when: dict[str, Any], due: float | None
) -> None:
    """U1: delay and delay_until set publish_at; a time that has passed is at once."""

    @tasks.task
    def work() -> None: ...

    task_id = make_rig().enqueue(work, **when)
    assert backend.live()[task_id][1] == due


def test_a_delayed_task_waits(make_rig: MakeRig, tasks: Registry, clock: FakeClock) -> None:
    """U1: not before its time, then without another call."""
    seen: list[float] = []

    @tasks.task
    def work() -> None:
        seen.append(clock.time)

    rig = make_rig()
    rig.enqueue(work, delay=50)
    run_until_idle(rig)
    assert seen == []
    clock.time += 50
    run_until_idle(rig)
    assert seen == [1050.0]


def test_wrong_enqueues_store_nothing(
    make_rig: MakeRig, backend: Recorder, tasks: Registry
) -> None:
    """U1, D25: what could never run, or never be read back, is refused before it is stored."""

    @tasks.task
    def work(number: int) -> None: ...

    rig = make_rig()
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(TypeError):
        rig.enqueue(work)
    with pytest.raises(ConfigError, match="@task"):
        rig.enqueue(print, 1)
    for bad in ({1: 2}, cycle):
        with pytest.raises(Refused):
            rig.enqueue(work, bad)
    with pytest.raises(Refused, match="not both"):
        rig.enqueue(work, 1, delay=1, delay_until=2)
    assert backend.live() == {}


def test_arguments_are_what_a_restart_would_read(make_rig: MakeRig, tasks: Registry) -> None:
    """U1: tuples are lists, and what a run does to its arguments is not stored by its retry."""
    seen: list[object] = []

    @tasks.task(retry_in={ValueError: 0.0})
    def work(values: list[int]) -> None:
        seen.append(list(values))
        values.append(3)
        if len(seen) == 1:
            raise ValueError

    rig = make_rig()
    mine = [1, 2]
    rig.enqueue(work, (mine, 1))
    mine.append(9)
    run_until_idle(rig)
    assert seen == [[[1, 2], 1], [[1, 2], 1]]


# --- backpressure (U5) ---------------------------------------------------------------------------


def test_a_full_queue_refuses_after_the_timeout(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U5: exactly high_water tasks fit; the next waits, then raises, and is not stored."""

    @tasks.task
    def work() -> None: ...

    rig = make_rig(high_water=3, low_water=1, enqueue_timeout=30.0)
    for _ in range(3):
        rig.enqueue(work)
    with pytest.raises(QueueFull, match="high_water") as raised:
        rig.enqueue(work)
    assert raised.value.definite and clock.time == 1030.0 and len(backend.live()) == 3
    run_until_idle(rig)
    rig.enqueue(work)


def test_delayed_tasks_press_nobody(make_rig: MakeRig, tasks: Registry) -> None:
    """U5: what waits for a later time is no backlog, else it could hold producers up for years."""

    @tasks.task
    def work() -> None: ...

    rig = make_rig(high_water=2, enqueue_timeout=0)
    for _ in range(5):
        rig.enqueue(work, delay=1000)
    rig.enqueue(work)


def test_a_running_task_never_waits_for_its_queue(make_rig: MakeRig, tasks: Registry) -> None:
    """U5: else all workers could wait for each other."""
    rig = make_rig(high_water=1, low_water=0, enqueue_timeout=0, concurrency=1)
    depth: list[int] = []

    @tasks.task
    async def work(left: int) -> None:
        depth.append(left)
        for _ in range(2 if left else 0):
            result = rig.queue.enqueue(work, left - 1)
            if asyncio.iscoroutine(result):
                await result

    rig.enqueue(work, 2)
    run_until_idle(rig)
    assert sorted(depth) == [0, 0, 0, 0, 1, 1, 2]
