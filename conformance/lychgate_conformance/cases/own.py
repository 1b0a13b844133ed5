"""Level 1: which process has which waiting tasks, and who takes over from the dead (W2).

For backends whose `pending_tasks` shows what the process owns (`pending_scope=owned_all`).
"""

from __future__ import annotations

from lychgate_conformance._case import case
from lychgate_conformance._check import expect, expect_equal, expect_ids
from lychgate_conformance._layout import is_wal
from lychgate_conformance._stage import Stage
from lychgate_conformance._store import value_of
from lychgate_conformance.cases._together import open_all
from lychgate_conformance.cases.tasks import YEAR_9999

OWNED = "stores, multi_process, survives_process_kill, pending_scope=owned_all"
OWNED_IDS = OWNED + ", caller_ids"


@case("L1-OWN-001", "the tasks of a living process are its own", "W2, W7", OWNED)
def living_owner(stage: Stage) -> None:
    (_, a), (_, b) = open_all(stage, 2)
    first = a.add_task("a", publish_at=YEAR_9999)
    second = b.add_task("b", publish_at=YEAR_9999)
    third = stage.worker().open()
    expect_ids("a's tasks", a.pending_ids(), [first])
    expect_ids("b's tasks", b.pending_ids(), [second])
    expect_ids("the newcomer's tasks", third.pending_ids(), [])


@case("L1-OWN-002", "a newcomer takes over from the dead, not from the living", "W2", OWNED)
def orphan_is_taken_over(stage: Stage) -> None:
    (_, living), (dying, dead) = open_all(stage, 2)
    mine = living.add_task("living", publish_at=YEAR_9999)
    orphans = [dead.add_task({"n": n}, publish_at=YEAR_9999) for n in range(5)]
    dying.kill()
    newcomer = stage.worker().open()
    expect_ids("the newcomer's tasks", newcomer.pending_ids(), orphans)
    expect_ids("the living one's tasks", living.pending_ids(), [mine])


@case("L1-OWN-003", "what was taken over outlives the next kill, and the next", "W5, W2", OWNED)
def taken_over_again(stage: Stage) -> None:
    ids: list[str] = []
    for n in range(4):
        worker = stage.worker()
        store = worker.open()
        expect_ids("pending tasks", store.pending_ids(), ids)
        ids.append(store.add_task({"n": n}, publish_at=YEAR_9999))
        worker.kill()
    expect_ids("pending tasks", stage.worker().open().pending_ids(), ids)


@case("L1-OWN-004", "what was removed does not come back by taking over", "W5, W7", OWNED_IDS)
def removed_stays_removed(stage: Stage) -> None:
    opened = open_all(stage, 2)
    for n, (_, store) in enumerate(opened):
        for k in range(6):
            store.add_task("t", publish_at=YEAR_9999, task_id=f"t{n}{k}")
        for k in range(3):
            store.remove_task(f"t{n}{k}")
    for worker, _ in opened:
        worker.kill()
    wanted = [f"t{n}{k}" for n in range(2) for k in range(3, 6)]
    for _ in range(3):
        worker = stage.worker()
        expect_ids("pending tasks", worker.open().pending_ids(), wanted)
        worker.kill()


@case(
    "L1-OWN-005", "a removal in one process does not reach the same id of another", "W12", OWNED_IDS
)
def same_id_in_two(stage: Stage) -> None:
    (first, a), (second, b) = open_all(stage, 2)
    a.add_task("a's", publish_at=YEAR_9999, task_id="job")
    b.add_task("b's", publish_at=YEAR_9999, task_id="job")
    b.remove_task("job")
    second.kill()
    first.kill()
    waiting = stage.worker().open().pending_tasks()
    expect_ids("pending tasks", [it.task_id for it in waiting], ["job"])
    expect_equal("the task", waiting[0].task, "a's")


@case(
    "L1-OWN-006",
    "comings and goings of others leave the files of the living alone",
    "W11, W2",
    OWNED,
)
def others_come_and_go(stage: Stage) -> None:
    worker = stage.worker()
    store = worker.open()
    ids = [store.add_task("first", publish_at=YEAR_9999)]
    for n in range(3):
        other = stage.worker()
        visitor = other.open()
        visitor.remove_task(visitor.add_task("passing"))
        if n == 1:
            other.kill()
        else:
            visitor.close()
            other.exit()
        ids.append(store.add_task({"n": n}, publish_at=YEAR_9999))
    expect_ids("pending tasks", store.pending_ids(), ids)
    worker.kill()
    expect_ids("pending tasks after a kill", stage.worker().open().pending_ids(), ids)


@case(
    "L1-OWN-007",
    "newcomers that open at once share what the dead left, each task once",
    "W2, W11, W5",
    OWNED,
)
def orphans_are_shared(stage: Stage) -> None:
    opened = open_all(stage, 4)
    ids: list[str] = []
    for _, store in opened:
        ids += [store.add_task("t", publish_at=YEAR_9999) for _ in range(5)]
    newcomers = stage.workers(3)
    for worker in newcomers:
        worker.open(stage.root / "elsewhere")  # they have started
    for worker, _ in opened:
        worker.kill()
    stores = [worker.begin_open() for worker in newcomers]
    for worker in newcomers:
        worker.end_open()
    stores.append(stage.worker().open())  # too late for anything
    found = [task_id for store in stores for task_id in store.pending_ids()]
    expect_ids("tasks of all newcomers", found, ids)


@case(
    "L1-OWN-008",
    "the files of the dead are cleared away once they are taken over",
    "W11, W5",
    OWNED + ", disk_layout",
)
def files_are_cleared(stage: Stage) -> None:
    opened = open_all(stage, 3)
    ids = [store.add_task("t", publish_at=YEAR_9999) for _, store in opened]
    for worker, _ in opened:
        worker.kill()
    store = stage.worker().open()
    expect_ids("pending tasks", store.pending_ids(), ids)
    files = [it.name for it in stage.path.iterdir() if is_wal(it.name)]
    expect(len(files) <= 1, f"{len(files)} tasks files are left after taking over from three")


@case("L1-ID-001", "ids of processes that run at once differ", "W4", "stores, multi_process")
def ids_differ(stage: Stage) -> None:
    opened = open_all(stage, 3)
    plans = [[store.call("add_task", n, publish_at=None) for n in range(50)] for _, store in opened]
    ids: list[str] = []
    for (worker, _), plan in zip(opened, plans, strict=True):
        for call in plan:
            worker.send(call)
    for (worker, _), plan in zip(opened, plans, strict=True):
        ids += [str(value_of(call, worker.take())) for call in plan]
    expect_equal("distinct ids of 150 tasks", len(set(ids)), 150)
