"""Level 1 of the delivery profile: restarts, kills, and the lock on the directory."""

from __future__ import annotations

from lychgate_conformance._check import expect, expect_equal
from lychgate_conformance._queue import BEGIN_MS, LEASE_MS, Queue
from lychgate_conformance._queue_history import History
from lychgate_conformance._stage import ProcessWorker, Stage
from lychgate_conformance._store import CallError
from lychgate_conformance._verdict import NotClaimed
from lychgate_conformance.cases._queues import Consumer, only, queue_case, standing
from lychgate_conformance.cases.kill import kill_opening

RESTART = "survives_restart"
KILL = "survives_process_kill"


def of_every_kind(queue: Queue) -> None:
    """Items that wait, are leased, delayed, set aside and acked."""
    for n in range(6):
        queue.put(b"%d" % n * (n + 1))
    claims = [queue.take() for _ in range(5)]
    queue.ack(claims[0].seq, claims[0].receipt)
    queue.quarantine(claims[1].seq, "no such address", claims[1].receipt)
    queue.retry(claims[2].seq, claims[2].receipt, LEASE_MS)
    queue.retry(claims[3].seq, claims[3].receipt)


@queue_case("L1-QOPEN-001", "items of every kind outlive closing and another process", "L4, L5, L7",
            RESTART)  # fmt: skip
def outlives_closing(stage: Stage) -> None:
    first = stage.worker()
    queue = first.open_queue()
    of_every_kind(queue)
    before = queue.items()
    queue.close()
    first.exit()
    again = stage.worker().open_queue()
    expect_equal("items after a restart are those before", again.items() == before, True)
    again.close()
    third = stage.worker().open_queue()
    expect_equal("items after a second restart are the same", third.items() == before, True)


@queue_case("L1-QOPEN-002", "items of every kind outlive an exit without closing", "L4, L5, L7",
            RESTART)  # fmt: skip
def outlives_an_exit(stage: Stage) -> None:
    first = stage.worker()
    queue = first.open_queue()
    of_every_kind(queue)
    before = queue.items()
    first.exit()
    again = stage.worker().open_queue()
    expect_equal("items after a restart are those before", again.items() == before, True)


@queue_case("L1-QOPEN-003", "numbers are not given again after a restart of an empty queue", "L7",
            RESTART)  # fmt: skip
def numbers_after_a_restart(stage: Stage) -> None:
    given: list[int] = []
    for _ in range(4):
        worker = stage.worker()
        queue = worker.open_queue()
        given.append(queue.put(b"x"))
        claimed = queue.take()
        expect_equal("the item claimed", claimed.seq, given[-1])
        expect_equal("ack", queue.ack(claimed.seq, claimed.receipt), "OK")
        queue.close()
        worker.exit()
    expect(given == sorted(set(given)), f"the numbers given are {given}")


@queue_case("L1-QOPEN-004", "a claim from before a restart can be finished after it", "L5", RESTART)
def finished_later(stage: Stage) -> None:
    first = stage.worker()
    queue = first.open_queue()
    for n in range(3):
        queue.put(b"%d" % n)
    claims = [queue.take() for _ in range(3)]
    first.exit()
    again = stage.worker().open_queue()
    said = [
        again.ack(claims[0].seq, claims[0].receipt),
        again.retry(claims[1].seq, claims[1].receipt),
        again.quarantine(claims[2].seq, "no", claims[2].receipt),
    ]
    expect_equal("the results", said, ["OK", "OK", "OK"])
    expect_equal("what is left", [it.state for it in again.items()], ["available", "quarantined"])


@queue_case("L1-QOPEN-005", "a lease that ran out meanwhile leaves the first consumer its claim",
            "L5, L11", RESTART)  # fmt: skip
def ran_out_meanwhile(stage: Stage) -> None:
    first = stage.worker()
    queue = first.open_queue()
    queue.put(b"x")
    claimed = queue.take(queue.short_ms)
    queue.pass_time(queue.short_ms)
    first.exit()
    again = stage.worker().open_queue(now_ms=BEGIN_MS + queue.short_ms)
    expect_equal("its state", only(again).state, "available")
    expect_equal("ack", again.ack(claimed.seq, claimed.receipt), "OK")


@queue_case("L1-QOPEN-006", "a lease lasts through a restart, and ends when it was to", "L5, L7",
            RESTART)  # fmt: skip
def lease_lasts(stage: Stage) -> None:
    first = stage.worker()
    queue = first.open_queue()
    seq = queue.put(b"x")
    claimed = queue.take(2 * queue.short_ms)
    queue.pass_time(queue.short_ms // 2)
    first.exit()
    again = stage.worker().open_queue(now_ms=BEGIN_MS + queue.short_ms // 2)
    expect_equal("claim within the lease", again.claim(), None)
    expect_equal("the end of the lease", only(again).until_ms, claimed.until_ms)
    again.pass_time(2 * queue.short_ms)
    expect_equal("the item claimed after it", again.take().seq, seq)
    expect_equal("attempts", only(again).attempts, 2)


@queue_case("L1-QOPEN-007", "an old receipt stays old through a restart", "L5",
            f"{RESTART}, receipts")  # fmt: skip
def old_receipt(stage: Stage) -> None:
    first = stage.worker()
    queue = first.open_queue()
    queue.put(b"x")
    late = queue.take()
    queue.retry(late.seq, late.receipt)
    new = queue.take()
    first.exit()
    again = stage.worker().open_queue()
    expect_equal("an ack by the late one", again.ack(late.seq, late.receipt), "CLAIM_LOST")
    expect_equal("an ack by the new one", again.ack(new.seq, new.receipt), "OK")


@queue_case("L1-QOPEN-008", "random calls on a queue in one process after the other",
            "L4, L5, L7, L8", RESTART)  # fmt: skip
def many_processes(stage: Stage) -> None:
    history = History(stage.claims)
    consumer = None
    for _ in range(5):
        worker = stage.worker()
        queue = worker.open_queue()
        consumer = consumer or Consumer(queue, stage.rng.randrange)
        consumer.queue = queue
        history.make(queue, queue.call("items"))
        for _ in range(40):
            consumer.saw(history.make(queue, consumer.call()))
        worker.exit()
    history.judge()


@queue_case("L1-QOPEN-009", "recovery in place changes nothing and expires no claim", "L11")
def recover_in_place(stage: Stage) -> None:
    queue = stage.open_queue()
    if not queue.offers("recover"):
        raise NotClaimed("the queue has no recover()")
    of_every_kind(queue)
    claimed = queue.take()
    before = queue.items()
    queue.recover()
    expect_equal("items are the same", queue.items() == before, True)
    expect_equal("ack of a claim", queue.ack(claimed.seq, claimed.receipt), "OK")


# --- the lock ---------------------------------------------------------------------------------


def locked_out(worker: ProcessWorker | Stage) -> None:
    """An opening that has to be refused, and in the right words."""
    try:
        worker.open_queue()
    except CallError as error:
        expect_equal("the error of a second opening", error.code, "locked")
        expect(error.definite is not False, "the refusal says that something may have happened")
        return
    expect(False, "a second instance was let into the directory")


@queue_case("L1-QLOCK-001", "a second process is locked out, and the first goes on", "L3",
            "exclusive")  # fmt: skip
def second_process(stage: Stage) -> None:
    queue = stage.worker().open_queue()
    queue.put(b"before")
    locked_out(stage.worker())
    expect(queue.put(b"after") > 0, "the first cannot go on")
    expect_equal("its items", [it.payload for it in queue.items()], [b"before", b"after"])


@queue_case("L1-QLOCK-002", "a second opening in one process is locked out", "L3", "exclusive")
def second_opening(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"x")
    locked_out(stage)
    expect_equal("what is claimed", queue.take().payload, b"x")


@queue_case("L1-QLOCK-003", "the lock goes with a close, an exit and a kill", "L3",
            f"exclusive, {RESTART}, {KILL}")  # fmt: skip
def lock_goes(stage: Stage) -> None:
    for n, end in enumerate(("close", "exit", "kill")):
        worker = stage.worker()
        queue = worker.open_queue()
        queue.put(b"%d" % n)
        if end == "close":
            queue.close()
        elif end == "exit":
            worker.exit()
        else:
            worker.kill()
    last = stage.worker().open_queue()
    expect_equal("the items", [it.payload for it in last.items()], [b"0", b"1", b"2"])


@queue_case("L1-QLOCK-004", "of several that open at once one gets in", "L3", "exclusive")
def at_once(stage: Stage) -> None:
    for attempt in range(3):
        workers = stage.workers(3)
        path = stage.path / str(attempt)
        for worker in workers:
            worker.open_queue(stage.root / f"elsewhere-{worker.process.pid}-{attempt}")
        for worker in workers:
            worker.begin_queue(path)
        got_in = 0
        for worker in workers:
            try:
                worker.end_open()
                got_in += 1
            except CallError as error:
                expect_equal("the error of those that did not", error.code, "locked")
        expect_equal("how many got in", got_in, 1)


@queue_case("L1-QLOCK-005", "whoever is locked out changes nothing", "L3", "exclusive, uses_path")
def locked_out_changes_nothing(stage: Stage) -> None:
    queue = stage.worker().open_queue()
    of_every_kind(queue)
    before = _contents(stage), standing(queue)
    locked_out(stage.worker())
    expect(_contents(stage) == before[0], "its files were changed by one that was locked out")
    expect(standing(queue) == before[1], "its items were changed by one that was locked out")


def _contents(stage: Stage) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in stage.path.rglob("*") if it.is_file()}


# --- kills ------------------------------------------------------------------------------------


@queue_case("L1-QKILL-001", "acknowledged items outlive a kill", "L2, L4", KILL)
def items_outlive(stage: Stage) -> None:
    worker = stage.worker()
    queue = worker.open_queue()
    seqs = [queue.put(b"%d" % n) for n in range(20)]
    worker.kill()
    again = stage.worker().open_queue()
    expect_equal("the items", [it.seq for it in again.items()], seqs)
    expect(again.put(b"next") > max(seqs), "a number is given a second time")


@queue_case("L1-QKILL-002", "acknowledged claims and their ends outlive a kill", "L2, L5", KILL)
def ends_outlive(stage: Stage) -> None:
    worker = stage.worker()
    queue = worker.open_queue()
    of_every_kind(queue)
    before = queue.items()
    worker.kill()
    again = stage.worker().open_queue()
    expect_equal("items after a kill are those before", again.items() == before, True)


@queue_case("L1-QKILL-003", "killed while enqueuing: all acknowledged, at most one more", "L2, L4",
            KILL)  # fmt: skip
def killed_while_enqueuing(stage: Stage) -> None:
    for attempt in range(3):
        path = stage.path / str(attempt)
        worker = stage.worker()
        queue = worker.open_queue(path)
        payloads = [b"%d:" % n + bytes(3000) for n in range(60)]
        for payload in payloads:
            worker.send(queue.call("enqueue", payload))
        taken = [worker.take() for _ in range(stage.rng.randrange(1, 50))]
        acked = len(taken) + len(worker.kill())
        shown = [it.payload for it in stage.worker().open_queue(path).items()]
        good = payloads[:acked], payloads[: acked + 1]
        expect(shown in good, f"{len(shown)} items after {acked} were acknowledged, or others")


@queue_case("L1-QKILL-004", "random calls on a queue that is killed again and again",
            "L2, L4, L5, L7, L8", KILL)  # fmt: skip
def killed_again_and_again(stage: Stage) -> None:
    history = History(stage.claims)
    consumer = None
    for _ in range(6):
        worker = stage.worker()
        queue = worker.open_queue()
        began = queue.now_ms
        consumer = consumer or Consumer(queue, stage.rng.randrange)
        consumer.queue = queue
        history.make(queue, queue.call("items"))
        for _ in range(20):
            consumer.saw(history.make(queue, consumer.call()))
        calls = [consumer.call() for _ in range(30)]
        for call in calls:
            worker.send(call)
        replies = [worker.take() for _ in range(stage.rng.randrange(25))]
        replies += worker.kill()
        history.killed(calls, replies, (began, queue.now_ms))
    worker = stage.worker()
    queue = worker.open_queue()
    history.make(queue, queue.call("items"))
    history.judge()


@queue_case("L1-QKILL-005", "killed while opening a queue, again and again: nothing is lost",
            "L4, L10", KILL)  # fmt: skip
def killed_while_opening(stage: Stage) -> None:
    worker = stage.worker()
    queue = worker.open_queue()
    of_every_kind(queue)
    for n in range(60):
        queue.put(b"%d" % n + bytes(2000))
    before = queue.items()
    worker.kill()
    for attempt in range(6):
        opener = stage.worker()
        opener.open_queue(stage.root / f"elsewhere-{attempt}")
        kill_opening(stage, opener, attempt % 2 == 0, opener.begin_queue)
    again = stage.worker().open_queue()
    expect_equal("items after it are those before", again.items() == before, True)
