"""Level 0: long random sequences of calls, judged by the oracle."""

from __future__ import annotations

import random

from lychgate_conformance._case import case
from lychgate_conformance._history import History
from lychgate_conformance._stage import Stage
from lychgate_conformance._store import Call, Store
from lychgate_conformance._wire import ErrorText

IDS = [f"job-{n}" for n in range(6)]


def random_call(store: Store, rng: random.Random, ids: list[str], dead_only: bool = False) -> Call:
    """One call with ids from a small set, so that calls meet."""
    task_id = rng.choice(ids)
    some = rng.sample(ids, rng.randint(0, 3))
    n = rng.randrange(1000)
    calls = [
        store.call("add_dead_task", task_id, {"n": n}, ErrorText(f"e{n}"), "shop.Ship", n),
        store.call("add_dead_task", task_id, [n], ErrorText("", "foreign"), "shop.Bill", 1),
        store.call("remove_dead_tasks", some),
        store.call("find_dead_task", task_id),
        store.call("list_dead_tasks", limit=None, offset=0),
        store.call("list_dead_tasks", limit=rng.randint(0, 4), offset=rng.randint(0, 4)),
    ]
    if not dead_only:
        later = float(2_000_000_000 + n)
        calls += [
            store.call("add_task", {"n": n}, publish_at=None, task_id=task_id),
            store.call("add_task", [n], publish_at=later, task_id=task_id),
            store.call("remove_task", task_id),
            store.call("remove_task", task_id),
            store.call("pending_tasks"),
        ]
    return rng.choice(calls)


def run_sequence(stage: Stage, count: int, objects: int, reopen: float) -> None:
    """`count` random calls on one of several objects, some closed and opened again on the way."""
    history = History(stage.claims)
    stores = []
    for worker in range(objects):
        stores.append(stage.open())
        history.begin(worker)
    for _ in range(count):
        worker = stage.rng.randrange(objects)
        if stage.rng.random() < reopen:
            stores[worker].close()
            history.end(worker)
            stores[worker] = stage.open()
            history.begin(worker)
        call = random_call(stores[worker], stage.rng, IDS)
        history.did(worker, call, stage.here.ask(call.request()))
    history.expect_no_errors()
    history.judge()


@case(
    "L0-SEQ-001",
    "a random sequence of calls gives what the contract says",
    "D2, D12, D16, D26, W7",
    "stores, caller_ids, not pending_scope=due_unclaimed",
)
def one_object(stage: Stage) -> None:
    run_sequence(stage, 300, objects=1, reopen=0.0)


@case(
    "L0-SEQ-002",
    "so it does when the store is closed and opened on the way",
    "D2, D17, W2, W7",
    "stores, caller_ids, survives_restart, not pending_scope=due_unclaimed",
)
def with_reopening(stage: Stage) -> None:
    run_sequence(stage, 250, objects=1, reopen=0.1)


@case(
    "L0-SEQ-003",
    "so it does with several objects on one store",
    "D31, D13, W2, W12",
    "stores, caller_ids, survives_restart, multi_thread, not pending_scope=due_unclaimed",
)
def several_objects(stage: Stage) -> None:
    run_sequence(stage, 250, objects=3, reopen=0.05)
