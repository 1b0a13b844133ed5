"""Level 1: several processes on one store at once."""

from __future__ import annotations

import fcntl

from lychgate_conformance._case import case
from lychgate_conformance._check import expect, expect_equal, expect_ids
from lychgate_conformance._history import History
from lychgate_conformance._layout import data_file, lock_file
from lychgate_conformance._stage import Stage
from lychgate_conformance._store import Call, CallError, value_of
from lychgate_conformance._wire import Json
from lychgate_conformance.cases._together import all_right, dead_calls, open_all, race, run_random
from lychgate_conformance.cases.dead import fill
from lychgate_conformance.cases.files import work
from lychgate_conformance.cases.tasks import YEAR_9999

MANY = "stores, multi_process"


@case(
    "L1-RACE-001",
    "dead tasks that processes add at once are all listed, once",
    "D13, D17, D31",
    MANY,
)
def adds_at_once(stage: Stage) -> None:
    opened = open_all(stage, 3)
    plans = [dead_calls(store, f"w{n}", 25) for n, (_, store) in enumerate(opened)]
    for plan, replies in zip(plans, race([it for it, _ in opened], plans), strict=True):
        all_right(plan, replies)
    wanted = [str(call.args[0]) for plan in plans for call in plan]
    for _, store in opened:
        expect_ids("dead tasks", store.dead_ids(), wanted)


@case(
    "L1-RACE-002",
    "adding while another removes: one order explains everything",
    "D13, D12, D17, D31",
    MANY,
)
def adds_and_removes(stage: Stage) -> None:
    history = History(stage.claims)
    opened = open_all(stage, 2)
    (adder, store), (remover, other) = opened
    first = dead_calls(store, "d", 20)
    history.did_all(0, first, [adder.ask(call.request()) for call in first])
    adds = dead_calls(store, "e", 30)
    removes = []
    for n in range(20):
        removes.append(other.call("remove_dead_tasks", [f"d-{n}", f"e-{n}"]))
        removes.append(other.call("list_dead_tasks", limit=None, offset=0))
    for number, (plan, replies) in enumerate(
        zip([adds, removes], race([adder, remover], [adds, removes]), strict=True)
    ):
        history.did_all(number, plan, replies)
    last = store.call("list_dead_tasks", limit=None, offset=0)
    history.did(0, last, adder.ask(last.request()))
    history.expect_no_errors()
    history.judge()


@case(
    "L1-RACE-003",
    "what is read while others write is whole and explained by one order",
    "D16, D31",
    MANY,
)
def reads_among_writes(stage: Stage) -> None:
    history = History(stage.claims)
    opened = open_all(stage, 3)
    run_random(stage, history, opened, 30, dead_only=True)
    history.expect_no_errors()
    history.judge()


@case("L1-RACE-004", "of processes that remove the same dead task one finds it", "D12, D13", MANY)
def one_remover_finds_it(stage: Stage) -> None:
    opened = open_all(stage, 2)
    ids = fill(opened[0][1], 12)
    plans = [[store.call("remove_dead_tasks", [it]) for it in ids] for _, store in opened]
    answers = race([it for it, _ in opened], plans)
    first, second = (all_right(plan, replies) for plan, replies in zip(plans, answers, strict=True))
    for task_id, pair in zip(ids, zip(first, second, strict=True), strict=True):
        expect(sorted(map(str, pair)) == ["0", "1"], f"the two removals of {task_id} found {pair}")
    expect_equal("dead tasks", opened[0][1].dead_ids(), [])


@case("L1-RACE-005", "processes that open a new store at once all can use it", "D9, W2", MANY)
def opening_at_once(stage: Stage) -> None:
    workers = stage.workers(4)
    for worker in workers:
        worker.open(stage.root / "elsewhere")  # they have started
    stores = [worker.begin_open() for worker in workers]
    for worker in workers:
        worker.end_open()
    plans = [dead_calls(store, f"w{n}", 3) for n, store in enumerate(stores)]
    for plan, replies in zip(plans, race(workers, plans), strict=True):
        all_right(plan, replies)
    wanted = [str(call.args[0]) for plan in plans for call in plan]
    expect_ids("dead tasks", stores[0].dead_ids(), wanted)


@case(
    "L1-RACE-006",
    "tasks that processes add at once all wait afterwards",
    "W2, W4",
    "stores, multi_process, survives_restart",
)
def tasks_at_once(stage: Stage) -> None:
    opened = open_all(stage, 3)
    plans = [
        [store.call("add_task", {"n": n}, publish_at=YEAR_9999) for n in range(60)]
        for _, store in opened
    ]
    answers = race([it for it, _ in opened], plans)
    ids = [
        str(it)
        for plan, replies in zip(plans, answers, strict=True)
        for it in all_right(plan, replies)
    ]
    expect_equal("distinct ids of 180 tasks", len(set(ids)), 180)
    for worker, _ in opened:
        worker.exit()
    expect_ids("pending tasks", stage.worker().open().pending_ids(), ids)


@case(
    "L1-RACE-007",
    "processes that open, work and close at once lose nothing",
    "W11, W2, W5",
    "stores, multi_process, survives_restart",
)
def coming_and_going(stage: Stage) -> None:
    workers = stage.workers(3)
    kept: list[str] = []
    for _ in range(4):
        stores = [worker.begin_open() for worker in workers]
        for worker in workers:
            worker.end_open()
        plans = [[store.call("add_task", {"n": 1}, publish_at=YEAR_9999)] for store in stores]
        for plan, replies in zip(plans, race(workers, plans), strict=True):
            kept.append(str(all_right(plan, replies)[0]))
        for store in stores:
            store.close()
    for worker in workers:
        worker.exit()
    expect_ids("pending tasks", stage.worker().open().pending_ids(), kept)


@case(
    "L1-RACE-008",
    "what one process adds another sees at once, also after a removal",
    "D13, D20",
    MANY,
)
def seen_at_once(stage: Stage) -> None:
    (_, a), (_, b) = open_all(stage, 2)
    there: list[str] = []

    def both_see() -> None:
        expect_ids("a sees", a.dead_ids(), there)
        expect_ids("b sees", b.dead_ids(), there)

    for n in range(2):
        for store, other in ((a, b), (b, a)):
            store.add_dead_task(f"first-{n}")
            store.add_dead_task(f"second-{n}")
            there += [f"first-{n}", f"second-{n}"]
            both_see()
            expect_equal("the count", other.remove_dead_tasks([f"first-{n}"]), 1)
            there.remove(f"first-{n}")
            both_see()
            expect(store.find_dead_task(f"first-{n}") is None, "a removed record is found")
            other.add_dead_task(f"third-{n}")
            there.append(f"third-{n}")
            both_see()
            store.remove_dead_tasks([f"second-{n}", f"third-{n}"])
            there.clear()
            both_see()
    a.add_dead_task("last")
    expect_ids("a newcomer sees", stage.worker().open().dead_ids(), ["last"])


@case(
    "L1-RACE-009",
    "random calls of several processes at once: one order explains everything",
    "D31, D13, W2, W12",
    "stores, multi_process, caller_ids, not pending_scope=due_unclaimed",
)
def everything_at_once(stage: Stage) -> None:
    history = History(stage.claims)
    opened = open_all(stage, 2)
    for number in range(2):
        history.begin(number)
    run_random(stage, history, opened, 60)
    history.expect_no_errors()
    history.judge()


@case(
    "L1-LOCK-001",
    "a lock that stays taken gives a typed time-out and changes nothing",
    "D14, D15",
    "stores, disk_layout",
)
def lock_time_out(stage: Stage) -> None:
    store = stage.open()
    task_id = store.add_task("t", publish_at=YEAR_9999)
    store.add_dead_task("before")
    content = data_file(stage).read_bytes()
    opened = open_all(stage, 3)
    with lock_file(stage).open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        calls = [
            opened[0][1].call("list_dead_tasks", limit=None, offset=0),
            opened[1][1].call("remove_dead_tasks", ["before"]),
            dead_calls(opened[2][1], "during", 1)[0],
        ]
        for (worker, _), call in zip(opened, calls, strict=True):
            worker.send(call)
        for (worker, _), call in zip(opened, calls, strict=True):
            expect_time_out(call, worker.take())
        expect(data_file(stage).read_bytes() == content, "a call that timed out changed the store")
    for n, (_, other) in enumerate(opened):
        other.add_dead_task(f"after-{n}")
    expect_ids("dead tasks", store.dead_ids(), ["before", "after-0", "after-1", "after-2"])
    expect_ids("pending tasks", store.pending_ids(), [task_id])


def expect_time_out(call: Call, reply: Json) -> None:
    try:
        value = value_of(call, reply)
    except CallError as error:
        expect(
            "TimeoutError" in error.bases,
            f"{call.method} raised {error.type_name}, no TimeoutError",
        )
        expect(error.definite is not False, f"the time-out of {call.method} is not definite")
    else:
        expect(False, f"{call.method} gave {value!r} while another held the lock")


@case(
    "L1-LOCK-002",
    "somebody deletes the lock file: those who come later agree on the new one",
    "D24",
    "stores, disk_layout, multi_process",
)
def lock_file_deleted(stage: Stage) -> None:
    opened = open_all(stage, 2)
    for n, (_, store) in enumerate(opened):
        store.add_dead_task(f"before-{n}")
    lock_file(stage).unlink()
    plans = [dead_calls(store, f"w{n}", 15) for n, (_, store) in enumerate(opened)]
    plans[1].insert(7, opened[1][1].call("remove_dead_tasks", ["before-0"]))
    for plan, replies in zip(plans, race([it for it, _ in opened], plans), strict=True):
        all_right(plan, replies)
    wanted = [f"w{n}-{k}" for n in range(2) for k in range(15)]
    expect_ids("dead tasks", opened[0][1].dead_ids(), ["before-1", *wanted])
    expect(lock_file(stage).exists(), "no lock file was made anew")


@case(
    "L1-LOCK-003",
    "a lock that is taken for a moment is waited for",
    "D14, D13",
    "stores, disk_layout",
)
def lock_is_waited_for(stage: Stage) -> None:
    worker = stage.worker()
    store = worker.open()
    store.add_dead_task("before")
    call = dead_calls(store, "during", 1)[0]
    with lock_file(stage).open("rb+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        worker.send(call)
        stage.wait(0.2)
        expect(not worker.process.has_reply(), "an add ended under another's lock")
    value_of(call, worker.take())
    expect_ids("dead tasks", store.dead_ids(), ["before", "during-0"])


@case(
    "L1-PFX-001",
    "two prefixes in one directory, one of them killed, keep apart",
    "D7, W2",
    "stores, uses_path, multi_process, survives_process_kill",
)
def prefixes_keep_apart(stage: Stage) -> None:
    first, second = stage.workers(2)
    kept = {}
    for worker, prefix in ((first, "a-"), (second, "a-0-")):
        kept[prefix] = work(worker.open(prefix=prefix), prefix)
    first.kill()
    third = stage.worker()
    other = third.open(prefix="a-0-")
    again = third.open(prefix="a-")
    expect_ids("pending tasks of a-", again.pending_ids(), [kept["a-"]])
    expect_ids("dead tasks of a-", again.dead_ids(), ["dead-a-"])
    expect_ids("dead tasks of a-0-", other.dead_ids(), ["dead-a-0-"])
    expect(kept["a-"] not in other.pending_ids(), "a-0- took a task of a-")
