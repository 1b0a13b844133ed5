"""Level 1: a backend that was opened before a fork (D23, W13)."""

from __future__ import annotations

import os

from lychgate_conformance._case import case
from lychgate_conformance._check import expect_equal, expect_ids
from lychgate_conformance._history import History
from lychgate_conformance._stage import ProcessWorker, Stage
from lychgate_conformance._store import Store
from lychgate_conformance._verdict import NotMeasured
from lychgate_conformance.cases._together import all_right, dead_calls
from lychgate_conformance.cases.tasks import YEAR_9999

FORK = "stores, fork_safe, multi_process"
FORK_KILL = "stores, fork_safe, multi_process, survives_process_kill"


def parent(stage: Stage) -> tuple[ProcessWorker, Store]:
    """A process that can fork, with the store open and used."""
    if not hasattr(os, "fork"):
        raise NotMeasured("this system has no fork")
    worker = stage.worker()
    store = worker.open()
    store.add_dead_task("before")
    return worker, store


@case("L1-FORK-001", "dead tasks of parent and child are all kept", "D23, W13", FORK)
def dead_tasks_of_both(stage: Stage) -> None:
    worker, store = parent(stage)
    theirs, mine = dead_calls(store, "child", 15), dead_calls(store, "parent", 15)
    their_replies, my_replies = worker.fork(theirs, mine)
    all_right(theirs, their_replies)
    all_right(mine, my_replies)
    wanted = ["before", *(f"child-{n}" for n in range(15)), *(f"parent-{n}" for n in range(15))]
    expect_ids("dead tasks", store.dead_ids(), wanted)


@case(
    "L1-FORK-002",
    "tasks of parent and child all wait when both are gone",
    "W13, W2",
    "stores, fork_safe, multi_process, survives_restart",
)
def tasks_of_both(stage: Stage) -> None:
    worker, store = parent(stage)
    ids = [store.add_task({"n": 0}, publish_at=YEAR_9999)]
    plan = [store.call("add_task", {"n": n}, publish_at=YEAR_9999) for n in range(20)]
    theirs, mine = worker.fork(plan, plan)
    ids += [str(it) for it in [*all_right(plan, theirs), *all_right(plan, mine)]]
    worker.exit()
    expect_ids("pending tasks", stage.worker().open().pending_ids(), ids)


@case("L1-FORK-003", "ids of parent and child differ", "W4, W13", FORK)
def ids_of_both(stage: Stage) -> None:
    worker, store = parent(stage)
    store.add_task("before")
    plan = [store.call("add_task", n, publish_at=None) for n in range(40)]
    theirs, mine = worker.fork(plan, plan)
    ids = [*all_right(plan, theirs), *all_right(plan, mine)]
    expect_equal("distinct ids of 80 tasks", len(set(map(str, ids))), 80)


@case(
    "L1-FORK-004",
    "a child that ends takes nothing of its parent's with it",
    "W13, W11",
    FORK_KILL + ", pending_scope=owned_all",
)
def child_ends(stage: Stage) -> None:
    worker, store = parent(stage)
    mine = [store.add_task("mine", publish_at=YEAR_9999)]
    close = [store.call("close")] if store.offers("close") else []
    worker.fork([store.call("pending_tasks"), *close])
    visitor = stage.worker()
    expect_ids("a visitor's tasks", visitor.open().pending_ids(), [])
    visitor.kill()
    mine.append(store.add_task("mine too", publish_at=YEAR_9999))
    expect_ids("the parent's tasks", store.pending_ids(), mine)
    worker.kill()
    expect_ids("pending tasks", stage.worker().open().pending_ids(), mine)


@case(
    "L1-FORK-005", "an idle child does not hold its dead parent's tasks back", "W13, D23", FORK_KILL
)
def idle_child(stage: Stage) -> None:
    worker, store = parent(stage)
    task_id = store.add_task("t", publish_at=YEAR_9999)
    worker.fork([], linger=True)
    worker.kill()
    again = stage.worker().open()
    expect_ids("pending tasks", again.pending_ids(), [task_id])
    again.add_dead_task("after")
    expect_ids("dead tasks", again.dead_ids(), ["before", "after"])


@case(
    "L1-FORK-006",
    "a program that was started meanwhile holds nothing back either",
    "D23",
    FORK_KILL,
)
def bystander(stage: Stage) -> None:
    worker, store = parent(stage)
    task_id = store.add_task("t", publish_at=YEAR_9999)
    worker.start_bystander()
    worker.kill()
    again = stage.worker().open()
    expect_ids("pending tasks", again.pending_ids(), [task_id])
    again.add_dead_task("after")
    expect_ids("dead tasks", again.dead_ids(), ["before", "after"])


@case(
    "L1-FORK-007",
    "parent and child change the dead tasks at once: one order explains it",
    "D23, D15",
    FORK,
)
def both_at_once(stage: Stage) -> None:
    worker, store = parent(stage)
    history = History(stage.claims)
    expect_equal("the count", store.remove_dead_tasks(["before"]), 1)
    first = dead_calls(store, "d", 20)
    history.did_all(0, first, [worker.ask(call.request()) for call in first])
    adds = dead_calls(store, "e", 20)
    removes = []
    for n in range(20):
        removes.append(store.call("remove_dead_tasks", [f"d-{n}", f"e-{n}"]))
        removes.append(store.call("list_dead_tasks", limit=3, offset=n))
    theirs, mine = worker.fork(removes, adds)
    history.did_all(0, adds, mine)
    history.did_all(1, removes, theirs)
    last = store.call("list_dead_tasks", limit=None, offset=0)
    history.did(0, last, worker.ask(last.request()))
    history.expect_no_errors()
    history.judge()


@case("L1-FORK-008", "a child goes on while its parent closes, and after it", "D23, W13", FORK)
def parent_closes(stage: Stage) -> None:
    wanted = []
    for first in (0, 1, 2, 4, 8, 16):  # what the parent does first: one of them meets the moment
        worker, store = parent(stage)
        theirs = dead_calls(store, f"child-{first}", 30)
        mine = dead_calls(store, f"parent-{first}", first)
        if store.offers("close"):
            mine.append(store.call("close"))
        their_replies, my_replies = worker.fork(theirs, mine)
        all_right(theirs, their_replies)
        all_right(mine, my_replies)
        worker.exit()
        wanted += ["before", *(f"child-{first}-{n}" for n in range(30))]
        wanted += [f"parent-{first}-{n}" for n in range(first)]
    expect_ids("dead tasks", stage.worker().open().dead_ids(), wanted)
