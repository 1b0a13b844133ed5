"""Level 1: a process is killed between two calls or somewhere within one.

SIGKILL takes nothing from the operating system: what was acknowledged is there afterwards, what was
under way is there or not, whole (W3, W8, D17).
"""

from __future__ import annotations

import os
from collections.abc import Callable

from lychgate_conformance._case import case
from lychgate_conformance._check import expect, expect_equal, expect_ids, expect_order
from lychgate_conformance._history import History
from lychgate_conformance._stage import ProcessWorker, Stage
from lychgate_conformance._store import Call, Store
from lychgate_conformance._wire import ErrorText
from lychgate_conformance.cases._together import all_right, dead_calls, kill_within
from lychgate_conformance.cases.dead import fill
from lychgate_conformance.cases.sequence import IDS, random_call
from lychgate_conformance.cases.tasks import YEAR_9999

KILL = "stores, survives_process_kill"
KILL_IDS = "stores, survives_process_kill, caller_ids"


def successor(stage: Stage) -> Store:
    """A new process with the store open."""
    return stage.worker().open()


@case("L1-KILL-001", "acknowledged tasks outlive a kill", "W3, W8", KILL)
def tasks_outlive(stage: Stage) -> None:
    worker = stage.worker()
    store = worker.open(fsync_frequency=3600.0)
    ids = [store.add_task({"n": n}, publish_at=YEAR_9999) for n in range(20)]
    worker.kill()
    expect_ids("pending tasks", successor(stage).pending_ids(), ids)


@case("L1-KILL-002", "acknowledged dead tasks outlive a kill, in their order", "D17", KILL)
def dead_tasks_outlive(stage: Stage) -> None:
    worker = stage.worker()
    store = worker.open()
    ids = fill(store, 10)
    worker.kill()
    listed = successor(stage).dead_ids()
    expect_ids("dead tasks", listed, ids)
    if stage.claims.list_order == "file":
        expect_order("dead tasks", listed, ids)


@case("L1-KILL-003", "acknowledged removals outlive a kill", "D17, W3", KILL)
def removals_outlive(stage: Stage) -> None:
    worker = stage.worker()
    store = worker.open(fsync_frequency=3600.0)
    dead = fill(store, 6)
    tasks = [store.add_task(n, publish_at=YEAR_9999) for n in range(6)]
    expect_equal("the count", store.remove_dead_tasks(dead[:3]), 3)
    for task_id in tasks[:3]:
        store.remove_task(task_id)
    worker.kill()
    again = successor(stage)
    expect_ids("dead tasks", again.dead_ids(), dead[3:])
    expect_ids("pending tasks", again.pending_ids(), tasks[3:])


def some_replies(stage: Stage, calls: list[Call]) -> int:
    """After how many replies to kill: any number but all of them."""
    return stage.rng.randrange(1, len(calls) - 1)


@case(
    "L1-KILL-004",
    "killed while adding tasks: all acknowledged ones wait, at most one more",
    "W3, W8",
    KILL_IDS,
)
def killed_while_adding_tasks(stage: Stage) -> None:
    for attempt in range(3):
        worker = stage.worker()
        store = worker.open(stage.path / str(attempt))
        payload = "x" * 20_000
        calls = [
            store.call("add_task", payload, publish_at=YEAR_9999, task_id=f"t{n}")
            for n in range(200)
        ]
        replies = kill_within(worker, calls, some_replies(stage, calls))
        all_right(calls, replies)
        waiting = stage.worker().open(stage.path / str(attempt)).pending_tasks()
        ids = sorted((it.task_id for it in waiting), key=lambda it: int(it[1:]))
        acknowledged = [f"t{n}" for n in range(len(replies))]
        if ids != [*acknowledged, f"t{len(replies)}"]:
            expect_ids("pending tasks", ids, acknowledged)
        expect(all(it.task == payload for it in waiting), "a task came back changed")


@case(
    "L1-KILL-005",
    "killed while adding dead tasks: all acknowledged ones, at most one more",
    "D17, D10",
    KILL,
)
def killed_while_adding_dead(stage: Stage) -> None:
    for attempt in range(3):
        worker = stage.worker()
        store = worker.open(stage.path / str(attempt))
        calls = dead_calls(store, "d", 60)
        replies = kill_within(worker, calls, some_replies(stage, calls))
        all_right(calls, replies)
        again = stage.worker().open(stage.path / str(attempt))
        ids = again.dead_ids()
        acknowledged = [f"d-{n}" for n in range(len(replies))]
        if set(ids) != {*acknowledged, f"d-{len(replies)}"}:
            expect_ids("dead tasks", ids, acknowledged)
        again.add_dead_task("next")
        expect_ids("dead tasks after one more", again.dead_ids(), [*ids, "next"])


@case(
    "L1-KILL-006",
    "killed while removing dead tasks: each removal happened or not, nothing else",
    "D17, D18",
    KILL,
)
def killed_while_removing_dead(stage: Stage) -> None:
    history = History(stage.claims)
    first = stage.worker()
    store = first.open()
    history.begin(0)
    adds = dead_calls(store, "d", 40)
    history.did_all(0, adds, [first.ask(call.request()) for call in adds])
    for number in range(1, 4):
        worker = stage.worker()
        store = worker.open()
        history.begin(number)
        some = [f"d-{n}" for n in range(40)]
        stage.rng.shuffle(some)
        calls = [store.call("remove_dead_tasks", some[n : n + 2]) for n in range(0, 24, 2)]
        history.killed(number, calls, kill_within(worker, calls, stage.rng.randrange(8)))
    look(stage, history, 9)
    history.expect_no_errors()
    history.judge()


def look(stage: Stage, history: History, number: int) -> None:
    """A new process that sees everything there is."""
    worker = stage.worker()
    store = worker.open()
    history.begin(number)
    for call in (store.call("list_dead_tasks", limit=None, offset=0), store.call("pending_tasks")):
        history.did(number, call, worker.ask(call.request()))


def handoff(store: Store, count: int) -> list[Call]:
    """A queue that gives tasks up: into the dead tasks first, then out of the waiting ones (U3)."""
    calls = []
    error = ErrorText("gave up")
    for n in range(count):
        calls += [
            store.call("add_dead_task", f"t{n}", {"n": n}, error, "shop.Ship", 20),
            store.call("remove_task", f"t{n}"),
        ]
    return calls


@case(
    "L1-KILL-007", "killed while giving tasks up: every task waits or is dead", "U3, D17", KILL_IDS
)
def killed_in_handoff(stage: Stage) -> None:
    for attempt in range(3):
        worker = stage.worker()
        store = worker.open(stage.path / str(attempt))
        for n in range(30):
            store.add_task({"n": n}, publish_at=YEAR_9999, task_id=f"t{n}")
        calls = handoff(store, 30)
        replies = kill_within(worker, calls, some_replies(stage, calls))
        all_right(calls, replies)
        again = stage.worker().open(stage.path / str(attempt))
        dead, waiting = again.dead_ids(), again.pending_ids()
        lost = {f"t{n}" for n in range(30)} - {*dead, *waiting}
        expect(not lost, f"lost between the two stores: {sorted(lost)}")
        both = {*dead} & {*waiting}
        expect(len(both) <= 1, f"removals that were acknowledged are undone: {sorted(both)}")


@case(
    "L1-KILL-008",
    "killed while bringing dead tasks back: every task waits or is dead",
    "U4, D17",
    KILL_IDS,
)
def killed_in_retry(stage: Stage) -> None:
    worker = stage.worker()
    store = worker.open()
    ids = fill(store, 20)
    calls: list[Call] = []
    for task_id in ids:
        calls.append(
            store.call("add_task", {"again": task_id}, publish_at=None, task_id=f"new-{task_id}")
        )
        if store.offers("sync"):
            calls.append(store.call("sync"))
        calls.append(store.call("remove_dead_tasks", [task_id]))
    replies = kill_within(worker, calls, some_replies(stage, calls))
    all_right(calls, replies)
    again = successor(stage)
    dead, waiting = again.dead_ids(), again.pending_ids()
    lost = [it for it in ids if it not in dead and f"new-{it}" not in waiting]
    expect(not lost, f"lost between the two stores: {lost}")


@case(
    "L1-KILL-009",
    "random calls, killed again and again, give what the contract says",
    "D17, W3, W5, W6, W7",
    "stores, survives_process_kill, caller_ids, not pending_scope=due_unclaimed",
)
def killed_again_and_again(stage: Stage) -> None:
    history = History(stage.claims)
    for number in range(6):
        worker = stage.worker()
        store = worker.open()
        history.begin(number)
        calls = [random_call(store, stage.rng, IDS) for _ in range(60)]
        history.killed(number, calls, kill_within(worker, calls, stage.rng.randrange(50)))
    look(stage, history, 9)
    history.expect_no_errors()
    history.judge()


@case(
    "L1-KILL-010",
    "a killed process leaves no lock behind for the living",
    "D13, D14",
    "stores, survives_process_kill, multi_process",
)
def no_lock_is_left(stage: Stage) -> None:
    living = stage.worker()
    mine = living.open()
    mine.add_dead_task("before")
    known = {"before"}
    for attempt in range(4):
        worker = stage.worker()
        calls = dead_calls(worker.open(), f"k{attempt}", 30)
        replies = kill_within(worker, calls, 1 + stage.rng.randrange(20))
        mine.add_dead_task(f"after-{attempt}")
        known |= {f"after-{attempt}", *(f"k{attempt}-{n}" for n in range(len(replies)))}
        lost = known - {*mine.dead_ids()}
        expect(not lost, f"lost: {sorted(lost)}")


@case("L1-KILL-011", "killed while opening, again and again: nothing is lost", "W2, W5, D9", KILL)
def killed_while_opening(stage: Stage) -> None:
    worker = stage.worker()
    store = worker.open()
    tasks = [store.add_task({"n": n, "pad": "x" * 2000}, publish_at=YEAR_9999) for n in range(150)]
    dead = fill(store, 5)
    worker.kill()
    for attempt in range(6):
        opener = stage.worker()
        opener.open(stage.root / "elsewhere")  # it has started and imported everything
        kill_opening(stage, opener, attempt % 2 == 0, opener.begin_open)
    again = successor(stage)
    expect_ids("pending tasks", again.pending_ids(), tasks)
    expect_ids("dead tasks", again.dead_ids(), dead)


def kill_opening(
    stage: Stage, worker: ProcessWorker, at_once: bool, begin: Callable[[], object]
) -> None:
    """Kills a process while it opens the store: as soon as that changes a file, or a bit later."""
    before = files_of(stage)
    begin()
    while files_of(stage) == before and not worker.process.has_reply():
        stage.clock.left()
    if not at_once:
        stage.wait(stage.rng.random() * 0.005)
    worker.kill()


def files_of(stage: Stage) -> list[tuple[str, int, int, int]]:
    """What tells that something below the path was changed."""
    found = []
    for entry in os.scandir(stage.path):
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # between the listing and the look
            continue
        found.append((entry.name, status.st_ino, status.st_size, status.st_mtime_ns))
    return sorted(found)


@case(
    "L1-KILL-012",
    "two processes killed at once lose nothing of either",
    "W2, W5, D17",
    "stores, survives_process_kill, multi_process",
)
def two_are_killed(stage: Stage) -> None:
    workers = stage.workers(2)
    tasks: list[str] = []
    for n, worker in enumerate(workers):
        store = worker.open()
        tasks += [store.add_task({"n": n}, publish_at=YEAR_9999) for _ in range(10)]
        store.add_dead_task(f"dead-{n}")
    for worker in workers:
        worker.kill()
    again = successor(stage)
    expect_ids("pending tasks", again.pending_ids(), tasks)
    expect_ids("dead tasks", again.dead_ids(), ["dead-0", "dead-1"])
