"""Level 1: a process ends in an ordinary way and another one goes on."""

from __future__ import annotations

from lychgate_conformance._case import case
from lychgate_conformance._check import expect_equal, expect_ids, expect_order
from lychgate_conformance._history import History
from lychgate_conformance._stage import Stage
from lychgate_conformance.cases.dead import fill
from lychgate_conformance.cases.sequence import IDS, random_call
from lychgate_conformance.cases.tasks import YEAR_9999

RESTART = "stores, survives_restart"


@case(
    "L1-OPEN-001",
    "a later process finds the waiting tasks, payload and time included",
    "W2, W7",
    RESTART,
)
def tasks_are_found(stage: Stage) -> None:
    first = stage.worker()
    store = first.open()
    added = {store.add_task({"n": n}, publish_at=YEAR_9999 + n): n for n in range(20)}
    store.close()
    first.exit()
    waiting = stage.worker().open().pending_tasks()
    expect_ids("pending tasks", [it.task_id for it in waiting], added)
    for it in waiting:
        expect_equal("a task", it.task, {"n": added[it.task_id]})
        expect_equal("publish_at", it.publish_at, YEAR_9999 + added[it.task_id])


@case("L1-OPEN-002", "a later process finds the dead tasks as they were", "D17, D16", RESTART)
def dead_tasks_are_found(stage: Stage) -> None:
    first = stage.worker()
    store = first.open()
    fill(store, 20)
    before = store.list_dead_tasks()
    store.close()
    first.exit()
    after = stage.worker().open().list_dead_tasks()
    expect_order("dead tasks", [it.task_id for it in after], [it.task_id for it in before])
    for now, then in zip(after, before, strict=True):
        expect_equal("a dead task", repr(now), repr(then))


@case("L1-OPEN-003", "what was removed does not come back in a later process", "D17, W7", RESTART)
def removed_stays_removed(stage: Stage) -> None:
    first = stage.worker()
    store = first.open()
    dead = fill(store, 10)
    tasks = [store.add_task(n, publish_at=YEAR_9999) for n in range(10)]
    store.remove_dead_tasks(dead[::2])
    for task_id in tasks[::2]:
        store.remove_task(task_id)
    store.close()
    first.exit()
    again = stage.worker().open()
    expect_ids("dead tasks", again.dead_ids(), dead[1::2])
    expect_ids("pending tasks", again.pending_ids(), tasks[1::2])


@case("L1-OPEN-004", "a process that ends without closing loses nothing", "W8, W3", RESTART)
def exit_without_close(stage: Stage) -> None:
    first = stage.worker()
    store = first.open(fsync_frequency=3600.0)
    tasks = [store.add_task(n, publish_at=YEAR_9999) for n in range(20)]
    store.remove_task(tasks[0])
    dead = fill(store, 5)
    first.exit()
    again = stage.worker().open()
    expect_ids("pending tasks", again.pending_ids(), tasks[1:])
    expect_ids("dead tasks", again.dead_ids(), dead)


@case("L1-OPEN-005", "many generations lose nothing and double nothing", "W2, W5, W11", RESTART)
def generations(stage: Stage) -> None:
    tasks: list[str] = []
    dead: list[str] = []
    for n in range(6):
        worker = stage.worker()
        store = worker.open()
        expect_ids("pending tasks", store.pending_ids(), tasks)
        expect_ids("dead tasks", store.dead_ids(), dead)
        tasks += [store.add_task(n, publish_at=YEAR_9999) for _ in range(3)]
        store.remove_task(tasks.pop(0))
        store.add_dead_task(f"dead-{n}")
        dead.append(f"dead-{n}")
        if n % 2:
            store.close()
        worker.exit()
    expect_ids("pending tasks", stage.worker().open().pending_ids(), tasks)


@case(
    "L1-OPEN-006",
    "a later process may retry and remove what an earlier one added",
    "U2, W10, W12",
    "stores, survives_restart, caller_ids",
)
def later_process_goes_on(stage: Stage) -> None:
    first = stage.worker()
    store = first.open()
    for task_id in ("retried", "removed", "kept"):
        store.add_task("first", publish_at=YEAR_9999, task_id=task_id)
    first.exit()
    second = stage.worker()
    store = second.open()
    store.add_task("second", publish_at=YEAR_9999, task_id="retried")
    store.remove_task("removed")
    second.exit()
    waiting = {it.task_id: it.task for it in stage.worker().open().pending_tasks()}
    expect_ids("pending tasks", waiting, ["retried", "kept"])
    expect_equal("the retried task", waiting["retried"], "second")


@case(
    "L1-OPEN-007",
    "text of any kind outlives the process",
    "D25, W1",
    "stores, survives_restart, caller_ids, any_text",
)
def text_outlives(stage: Stage) -> None:
    ids = ["a:b", "%", "two\nlines", "\0", "\ud83d", "日本", "x" * 3000]
    first = stage.worker()
    store = first.open()
    for task_id in ids:
        store.add_task({"id": task_id}, publish_at=YEAR_9999, task_id=task_id)
        store.add_dead_task(task_id, {"id": task_id})
    first.exit()
    again = stage.worker().open()
    waiting = again.pending_tasks()
    expect_ids("pending tasks", [it.task_id for it in waiting], ids)
    expect_ids("dead tasks", again.dead_ids(), ids)
    for task in waiting:
        expect_equal("a task", task.task, {"id": task.task_id})
    for dead in again.list_dead_tasks():
        expect_equal("a context", dead.context, {"id": dead.task_id})


@case(
    "L1-OPEN-008",
    "random calls in process after process give what the contract says",
    "D2, D12, D17, D26, W2, W7",
    "stores, survives_restart, caller_ids, not pending_scope=due_unclaimed",
)
def random_generations(stage: Stage) -> None:
    history = History(stage.claims)
    for number in range(4):
        worker = stage.worker()
        store = worker.open()
        history.begin(number)
        for _ in range(40):
            call = random_call(store, stage.rng, IDS)
            history.did(number, call, worker.ask(call.request()))
        worker.exit()
        history.end(number)
    history.expect_no_errors()
    history.judge()
