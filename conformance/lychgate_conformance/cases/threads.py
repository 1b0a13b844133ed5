"""Level 1: threads (asyncio tasks) and several objects in one process (D15, D31)."""

from __future__ import annotations

from collections.abc import Sequence

from lychgate_conformance._case import case
from lychgate_conformance._check import expect_equal, expect_ids
from lychgate_conformance._history import History
from lychgate_conformance._stage import Stage
from lychgate_conformance._store import Call, Store
from lychgate_conformance.cases._together import all_right, dead_calls
from lychgate_conformance.cases.sequence import IDS, random_call
from lychgate_conformance.cases.tasks import YEAR_9999

THREADS = "stores, multi_thread"


@case(
    "L1-THR-001",
    "dead tasks that threads add at once on one object are all listed",
    "D15, D31",
    THREADS,
)
def adds_on_one_object(stage: Stage) -> None:
    store = stage.open()
    plans = [dead_calls(store, f"t{n}", 10) for n in range(4)]
    expect_all_added(stage, [store], plans)


@case(
    "L1-THR-002",
    "dead tasks that threads add at once on several objects are all listed",
    "D15, D31",
    THREADS,
)
def adds_on_several_objects(stage: Stage) -> None:
    stores = [stage.open() for _ in range(3)]
    plans = [dead_calls(store, f"t{n}", 10) for n, store in enumerate(stores)]
    expect_all_added(stage, stores, plans)


def expect_all_added(
    stage: Stage, stores: Sequence[Store], plans: Sequence[Sequence[Call]]
) -> None:
    for plan, replies in zip(plans, stage.here.parallel(plans), strict=True):
        all_right(plan, replies)
    wanted = [str(call.args[0]) for plan in plans for call in plan]
    for store in stores:
        expect_ids("dead tasks", store.dead_ids(), wanted)


@case(
    "L1-THR-003",
    "tasks that threads add at once get different ids and all wait",
    "D31, W4",
    THREADS,
)
def tasks_at_once(stage: Stage) -> None:
    store = stage.open()
    plans = [
        [store.call("add_task", {"n": n}, publish_at=YEAR_9999) for n in range(30)]
        for _ in range(4)
    ]
    answers = stage.here.parallel(plans)
    ids = [
        str(it)
        for plan, replies in zip(plans, answers, strict=True)
        for it in all_right(plan, replies)
    ]
    expect_equal("distinct ids of 120 tasks", len(set(ids)), 120)
    expect_ids("pending tasks", store.pending_ids(), ids)


@case(
    "L1-THR-004",
    "random calls of threads on one object: one order explains everything",
    "D15, D31, D12",
    "stores, multi_thread, caller_ids, not pending_scope=due_unclaimed",
)
def random_on_one_object(stage: Stage) -> None:
    random_threads(stage, [stage.open()] * 3)


@case(
    "L1-THR-005",
    "random calls of threads on several objects: one order explains everything",
    "D15, D31, D12, W2",
    "stores, multi_thread, caller_ids, not pending_scope=due_unclaimed",
)
def random_on_several_objects(stage: Stage) -> None:
    random_threads(stage, [stage.open() for _ in range(3)])


def random_threads(stage: Stage, stores: Sequence[Store]) -> None:
    """A thread for each place in `stores`; places may share an object."""
    history = History(stage.claims)
    workers = [store.handle for store in stores]
    for number in sorted(set(workers)):
        history.begin(number)
    plans = [[random_call(store, stage.rng, IDS) for _ in range(25)] for store in stores]
    answers = stage.here.parallel(plans)
    for number, plan, replies in zip(workers, plans, answers, strict=True):
        history.did_all(number, plan, replies)
    history.expect_no_errors()
    history.judge()
