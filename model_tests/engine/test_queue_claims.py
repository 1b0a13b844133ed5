"""Queues over stores that hand out claims (Q4, Q5, Q6, Q11)."""

from __future__ import annotations

from typing import Any

from engine.queue_doubles import Broken, FakeClock, Recorder
from engine.queue_rig import (
    JOB,
    MakeRig,
    backend,
    claiming,
    clock,
    make_rig,
    quiet,
    run_until_idle,
    tasks,
)

from lychgate._task import Registry


def test_claims(make_rig: MakeRig, tasks: Registry, claiming: Recorder, clock: FakeClock) -> None:
    """Q4, Q11, U7: immediate tasks are ours, delayed ones and retries wait in the store."""
    seen: list[Any] = []

    @tasks.task(retry_in={ValueError: 20.0})
    def work(name: str) -> None:
        seen.append((name, clock.time >= 1010.0))
        if name == "fails" and len(seen) == 1:
            raise ValueError

    rig = make_rig(over=claiming)
    rig.enqueue(work, "fails")
    rig.enqueue(work, "late", delay=10)
    run_until_idle(rig)
    assert seen == [("fails", False)]
    assert rig.stats()["queue_delayed"] == 0, "the store has them, not memory"
    assert claiming.calls.count("add_task") == 3, "two tasks and a retry, no counts"
    assert all(task_id not in claiming.inner.owned for task_id in claiming.live())
    clock.time += 30
    run_until_idle(rig)
    assert sorted(seen[1:]) == [("fails", True), ("late", True)] and claiming.live() == {}


def test_a_claiming_loop_asks_again(
    make_rig: MakeRig, tasks: Registry, claiming: Recorder, clock: FakeClock
) -> None:
    """Q11, D1: every interval, also when nothing happens and when a claim fails."""

    @tasks.task
    def work() -> None:
        rig.stop()

    rig = make_rig(over=claiming)
    rig.enqueue(work, delay=23)
    times: set[float] = set()

    def claim() -> None:
        times.add(clock.time)
        if clock.time == 1005.0:
            claiming.faults["pending_tasks"].append(Broken())

    claiming.before["pending_tasks"] = claim
    rig.run(signals=False)
    assert claiming.live() == {} and times == {1000.0, 1005.0, 1010.0, 1015.0, 1020.0, 1025.0}


def test_claims_are_made_for_free_hands_only(
    make_rig: MakeRig, tasks: Registry, claiming: Recorder
) -> None:
    """Q5, U5: what this worker cannot run yet is left to others; a full batch asks for the next."""
    most: list[int] = []

    @tasks.task(name="work")
    def work() -> None:
        most.append(len(claiming.inner.owned & set(claiming.live())))

    claiming.inner.batch = 3
    for _ in range(20):
        claiming.inner.owned.discard(claiming.add_task({**JOB, "task": "work"}))
    run_until_idle(make_rig(over=claiming, concurrency=2))
    assert claiming.live() == {} and len(most) == 20
    assert max(most) <= 2 + 1 + 3, "running, waiting, and one batch for a free hand"


def test_a_lost_claim_is_seen(make_rig: MakeRig, tasks: Registry, claiming: Recorder) -> None:
    """Q6: finishing, retrying and burying what another owns changes nothing and is counted."""

    @tasks.task(name="work", max_retries=1, retry_in={KeyError: None, ValueError: 1.0})
    def work(kind: str) -> None:
        claiming.inner.owned.clear()  # a sweep thought this worker dead
        if kind != "ok":
            raise {"retry": ValueError, "bury": KeyError}[kind]

    for kind in ("ok", "retry", "bury"):
        rig = make_rig(over=claiming, concurrency=1)
        task_id = rig.enqueue(work, kind)
        core = rig.queue._core
        core.loaded = True  # no claim that would bring it back at once
        core.claim_at = 1e9
        run_until_idle(rig)
        assert rig.stats()["queue_claims_lost"] == 1
        assert task_id in claiming.live() and claiming.inner.dead == []
        claiming.inner.log.append((task_id, None))
