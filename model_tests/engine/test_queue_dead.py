"""Dead tasks come back (U4, U8)."""

from __future__ import annotations

from typing import Any

import pytest
from engine.queue_doubles import Broken, Recorder
from engine.queue_rig import JOB, MakeRig, backend, clock, make_rig, quiet, run_until_idle, tasks

from lychgate._queue_errors import NotRetriable
from lychgate._task import Registry, current


def test_retry_of_a_dead_task(make_rig: MakeRig, backend: Recorder, tasks: Registry) -> None:
    """U4, U8: live, then synced, then no longer dead; fresh id, link, attempts from nought."""
    runs: list[Any] = []

    @tasks.task(max_retries=0)
    def work(number: int) -> None:
        runs.append(current())
        if len(runs) == 1:
            raise ValueError

    rig = make_rig()
    dead_id = rig.enqueue(work, 4)
    run_until_idle(rig)
    backend.calls.clear()
    fresh = rig.retry_dead(dead_id)
    assert backend.calls == ["find_dead_task", "add_task", "sync", "remove_dead_tasks"]
    value, due = backend.live()[fresh]
    assert fresh != dead_id and (value["retry_of"], value["attempts"], due) == (dead_id, 0, None)
    assert backend.list_dead_tasks() == []
    run_until_idle(rig)
    assert (runs[1].task_id, runs[1].attempt, runs[1].retry_of) == (fresh, 1, dead_id)
    with pytest.raises(NotRetriable, match="no dead task"):
        rig.retry_dead(dead_id)


def test_retry_of_all_takes_a_snapshot(
    make_rig: MakeRig, backend: Recorder, tasks: Registry
) -> None:
    """U8: tasks that die again while all are retried are not met a second time."""

    @tasks.task(max_retries=0)
    def work() -> None:
        raise ValueError

    rig = make_rig()
    old = {rig.enqueue(work) for _ in range(250)}
    run_until_idle(rig)

    def die_again() -> None:
        number = len(backend.inner.dead)
        context = {**JOB, "task": tasks.declared(work).name}
        backend.inner.add_dead_task(f"later{number}", context, ValueError(), "", 1)

    backend.before["remove_dead_tasks"] = die_again
    backend.calls.clear()
    fresh = rig.retry_all_dead()
    assert set(fresh) == old and len(set(fresh.values())) == 250
    assert backend.calls.count("sync") == backend.calls.count("remove_dead_tasks") == 3
    assert len(backend.list_dead_tasks()) == 3, "those that died in the meantime"


def test_no_sync_no_removal(make_rig: MakeRig, backend: Recorder, tasks: Registry) -> None:
    """U4: when the fresh task cannot be made durable, the dead one stays."""

    @tasks.task(max_retries=0)
    def work() -> None:
        raise ValueError

    rig = make_rig()
    dead_id = rig.enqueue(work)
    run_until_idle(rig)
    backend.faults["sync"].append(Broken())
    with pytest.raises(Broken):
        rig.retry_dead(dead_id)
    assert backend.find_dead_task(dead_id) is not None
