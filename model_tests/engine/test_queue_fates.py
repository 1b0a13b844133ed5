"""What becomes of a task: retry, give-up, dead at once (U2, U3, U6, U7)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from engine.queue_doubles import Broken, FakeClock, Recorder
from engine.queue_rig import JOB, MakeRig, backend, clock, make_rig, quiet, run_until_idle, tasks

from lychgate._queue_errors import NotRetriable
from lychgate._records import Undecodable
from lychgate._task import Registry, Task, current


# --- retries (U2) --------------------------------------------------------------------------------


def test_a_failure_is_stored_under_the_same_id(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U2: attempt**4 + 10 + draw * attempt seconds later, same id, attempts counted."""
    runs: list[object] = []

    @tasks.task
    def work() -> None:
        runs.append(current())
        raise OSError("no")

    rig = make_rig()
    task_id = rig.enqueue(work)
    run_until_idle(rig)
    value, due = backend.live()[task_id]
    assert (due, value["attempts"], value["running"]) == (1011.0, 1, False)
    clock.time = due
    run_until_idle(rig)
    value, due = backend.live()[task_id]
    assert (due, value["attempts"]) == (1011.0 + 16 + 10, 2)
    assert [getattr(run, "attempt") for run in runs] == [1, 2]


def test_max_retries_and_give_up(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U2, U3: after max_retries retries the task is dead, with its error and its arguments."""

    @tasks.task(max_retries=2, retry_in={OSError: 1.0})
    def work(number: int) -> None:
        raise OSError("no")

    rig = make_rig()
    task_id = rig.enqueue(work, 5)
    for _ in range(5):
        run_until_idle(rig)
        clock.time += 1
    assert backend.calls[-2:] == ["add_dead_task", "remove_task"]
    (dead,) = backend.list_dead_tasks()
    assert (dead.task_id, dead.attempts, dead.error_class) == (task_id, 3, "OSError")
    assert dead.context["args"] == [5]
    assert backend.live() == {}


def test_a_class_may_stop_retries(make_rig: MakeRig, backend: Recorder, tasks: Registry) -> None:
    """U2, U9: a class with its policy; None for an exception means dead at once."""

    class Work(Task, registry=tasks):
        retry_in = {LookupError: None}

        def run(self, key: str) -> None:
            raise KeyError(key)

    rig = make_rig()
    rig.enqueue(Work, "k")
    run_until_idle(rig)
    (dead,) = backend.list_dead_tasks()
    assert (dead.error_class, dead.attempts) == ("KeyError", 1)


def test_a_retry_that_cannot_be_stored_is_kept_in_memory(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U2, F2: the store keeps the task as counted, memory keeps the retry."""
    runs: list[int] = []

    @tasks.task(retry_in={ValueError: 5.0})
    def work() -> None:
        runs.append(1)
        backend.faults["add_task"].append(Broken())
        if len(runs) == 1:
            raise ValueError

    rig = make_rig()
    rig.enqueue(work)
    run_until_idle(rig)
    assert len(runs) == 1 and len(backend.live()) == 1
    backend.faults.clear()
    clock.time += 5
    run_until_idle(rig)
    assert len(runs) == 2 and backend.live() == {}


# --- give-up (U3) --------------------------------------------------------------------------------


def test_a_failed_give_up_leaves_the_task_to_the_next_start(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U3, D14: the add raised, so the live task stays, and the next start runs it again."""
    runs: list[int] = []

    @tasks.task(max_retries=0)
    def work() -> None:
        runs.append(1)
        raise ValueError

    rig = make_rig()
    rig.enqueue(work)
    backend.faults["add_dead_task"].append(Broken())
    run_until_idle(rig)
    clock.time += 1e6
    run_until_idle(rig)
    assert len(runs) == 1 and len(backend.live()) == 1 and backend.list_dead_tasks() == []
    run_until_idle(make_rig())
    assert len(runs) == 2 and backend.live() == {} and len(backend.list_dead_tasks()) == 1


def test_a_failed_removal_is_owed(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U3: what is done is removed later in the same process, and not run again."""
    runs: list[int] = []

    @tasks.task
    def work() -> None:
        runs.append(1)

    rig = make_rig()
    rig.enqueue(work)
    backend.faults["remove_task"] += [Broken(), Broken()]
    run_until_idle(rig)
    assert len(backend.live()) == 1 and rig.queue._core.backlog() == 1
    for _ in range(2):
        clock.time += 5
        run_until_idle(rig)
    assert runs == [1] and backend.live() == {} and rig.queue._core.backlog() == 0


# --- tasks that cannot be loaded, tasks that kill (U6, U7) ---------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        JOB,
        Undecodable("json", b"\xff{"),
        None,
        [],
        {**JOB, "task": 1},
        {**JOB, "args": {}},
        {**JOB, "attempts": -1},
        {**JOB, "enqueued_at": 10**400},
        {**JOB, "running": True},
        {**JOB, "retry_of": 3},
    ],
    ids=repr,
)
def test_what_cannot_be_loaded_is_dead_as_it_was(
    make_rig: MakeRig, backend: Recorder, value: object
) -> None:
    """U6: unknown class or payload of any shape: kept raw, and gone from the live tasks."""
    task_id = backend.add_task(value)
    rig = make_rig()
    run_until_idle(rig)
    (dead,) = backend.list_dead_tasks()
    assert (dead.task_id, dead.context, dead.error_class) == (task_id, value, "Unloadable")
    assert backend.live() == {}
    with pytest.raises(NotRetriable, match="cannot be run"):
        rig.retry_dead(task_id)
    assert rig.retry_all_dead() == {} and len(backend.list_dead_tasks()) == 1


def test_a_run_is_counted_before_it_starts(
    make_rig: MakeRig, backend: Recorder, tasks: Registry
) -> None:
    """U7: the store says that the task runs while it does."""
    seen: list[Any] = []

    @tasks.task
    def work() -> None:
        ((value, _),) = backend.live().values()
        seen.append((value["attempts"], value["running"]))

    rig = make_rig()
    rig.enqueue(work)
    run_until_idle(rig)
    assert seen == [(1, True)]


def test_a_run_that_cannot_be_counted_waits(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U7, F2: no run without its count; the task comes again when the store may have recovered."""
    runs: list[int] = []

    @tasks.task
    def work() -> None:
        runs.append(1)

    rig = make_rig()
    rig.enqueue(work)
    backend.faults["add_task"].append(Broken())
    run_until_idle(rig)
    assert runs == []
    clock.time += 5
    run_until_idle(rig)
    assert runs == [1] and backend.live() == {}


def test_a_task_that_kills_its_workers_is_dead_after_the_limit(
    make_rig: MakeRig, backend: Recorder, tasks: Registry
) -> None:
    """U7: found running at start, so its worker died; past the limit it is not run again."""

    @tasks.task(name="killer")
    def work() -> None:
        raise AssertionError("never run here")

    job = {**JOB, "task": "killer", "attempts": 3, "crashes": 2, "running": True}
    task_id = backend.add_task(job)
    run_until_idle(make_rig(crashes_max=3))
    (dead,) = backend.list_dead_tasks()
    assert (dead.task_id, dead.error_class, dead.attempts) == (task_id, "WorkerDied", 3)
    assert backend.live() == {}


def test_suspects_run_one_at_a_time(make_rig: MakeRig, backend: Recorder, tasks: Registry) -> None:
    """U7: the next death must count against one task, not against all that were under way."""
    together: list[int] = []
    now = [0]

    @tasks.task(name="suspect")
    async def work() -> None:
        now[0] += 1
        together.append(now[0])
        await asyncio.sleep(0.001)
        now[0] -= 1

    for _ in range(4):
        backend.add_task({**JOB, "task": "suspect", "attempts": 1, "running": True})
    run_until_idle(make_rig(crashes_max=3, concurrency=4))
    assert together == [1, 1, 1, 1] and backend.live() == {}
