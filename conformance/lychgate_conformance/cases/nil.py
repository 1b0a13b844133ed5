"""Level 0: the backend that accepts everything and stores nothing (D4)."""

from __future__ import annotations

from lychgate_conformance._case import case
from lychgate_conformance._check import expect, expect_equal
from lychgate_conformance._stage import Stage
from lychgate_conformance.cases.tasks import YEAR_9999

NOTHING = "not stores"


@case("L0-NIL-001", "any option is accepted", "D4", NOTHING)
def any_option(stage: Stage) -> None:
    store = stage.open(colour="blue", claim_interval=-1, fsync_policy=None)
    expect_equal("pending tasks", store.pending_ids(), [])


@case("L0-NIL-002", "a task is accepted, gets an id, and does not wait", "D4", NOTHING)
def tasks_are_dropped(stage: Stage) -> None:
    store = stage.open()
    first = store.add_task({"n": 1})
    second = store.add_task({"n": 2}, publish_at=YEAR_9999)
    expect(first != second, "two tasks got the same id")
    expect_equal("the caller's id", store.add_task("t", task_id="job"), "job")
    expect_equal("pending tasks", store.pending_ids(), [])


@case("L0-NIL-003", "a dead task is accepted and neither listed nor found", "D4", NOTHING)
def dead_tasks_are_dropped(stage: Stage) -> None:
    store = stage.open()
    store.add_dead_task("job", {"n": 1})
    expect_equal("dead tasks", store.dead_ids(), [])
    expect_equal("a page of dead tasks", store.list_dead_tasks(10, 0), [])
    expect(store.find_dead_task("job") is None, "a dropped dead task is found")


@case("L0-NIL-004", "removals find nothing and are no error", "D4", NOTHING)
def removals_find_nothing(stage: Stage) -> None:
    store = stage.open()
    task_id = store.add_task("t")
    store.remove_task(task_id)
    store.remove_task("unknown")
    store.add_dead_task("job")
    expect_equal("the count", store.remove_dead_tasks(["job", "unknown"]), 0)


@case("L0-NIL-005", "nothing is written where a store would write", "D4", NOTHING)
def nothing_is_written(stage: Stage) -> None:
    store = stage.open()
    store.add_task("t")
    store.add_dead_task("job")
    store.close()
    left = sorted(it.name for it in stage.root.rglob("*"))
    expect_equal("files", left, [])


@case("L0-NIL-006", "what else a backend offers does nothing", "D4, D2", NOTHING)
def the_rest_does_nothing(stage: Stage) -> None:
    store = stage.open()
    for method, args in (("tick", (0.0,)), ("sync", ()), ("stats", ()), ("close", ())):
        if store.offers(method):
            store.optional(method, *args)
    expect_equal("pending tasks", stage.open().pending_ids(), [])
