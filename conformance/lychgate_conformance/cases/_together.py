"""Several processes at once, and processes that are killed on the way."""

from __future__ import annotations

from collections.abc import Sequence

from lychgate_conformance._history import History
from lychgate_conformance._stage import ProcessWorker, Stage
from lychgate_conformance._store import Call, Store, value_of
from lychgate_conformance._wire import ErrorText, Json
from lychgate_conformance.cases.sequence import IDS, random_call

Opened = tuple[ProcessWorker, Store]


def open_all(stage: Stage, count: int) -> list[Opened]:
    """Processes with the store open, started side by side."""
    workers = stage.workers(count)
    return [(worker, worker.open()) for worker in workers]


def race(workers: Sequence[ProcessWorker], plans: Sequence[Sequence[Call]]) -> list[list[Json]]:
    """Each worker makes its calls as fast as it can, all of them at once; the replies of each."""
    for round_of in range(max(map(len, plans))):
        for worker, plan in zip(workers, plans, strict=True):
            if round_of < len(plan):
                worker.send(plan[round_of])
    return [[worker.take() for _ in plan] for worker, plan in zip(workers, plans, strict=True)]


def kill_within(worker: ProcessWorker, calls: Sequence[Call], after: int) -> list[Json]:
    """Makes calls and kills the process after `after` replies; all replies that it gave."""
    for call in calls:
        worker.send(call)
    return [*(worker.take() for _ in range(after)), *worker.kill()]


def run_random(
    stage: Stage, history: History, opened: Sequence[Opened], count: int, dead_only: bool = False
) -> None:
    """`count` random calls in each process at once, written into the history."""
    plans = [
        [random_call(store, stage.rng, IDS, dead_only) for _ in range(count)] for _, store in opened
    ]
    answers = race([worker for worker, _ in opened], plans)
    for number, (plan, replies) in enumerate(zip(plans, answers, strict=True)):
        history.did_all(number, plan, replies)


def dead_calls(store: Store, mark: str, count: int) -> list[Call]:
    """Adds of dead tasks, each with its own id."""
    error = ErrorText("out of stock")
    return [
        store.call("add_dead_task", f"{mark}-{n}", {"n": n}, error, "shop.Ship", 1)
        for n in range(count)
    ]


def all_right(calls: Sequence[Call], replies: Sequence[Json]) -> list[object]:
    """The values of replies, none of which may be an error."""
    return [value_of(call, reply) for call, reply in zip(calls, replies, strict=False)]
