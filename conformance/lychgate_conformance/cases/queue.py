"""Level 0 of the delivery profile: enqueue, claim and the three ends of a claim, in one process."""

from __future__ import annotations

from lychgate_conformance._check import expect, expect_equal
from lychgate_conformance._queue_history import History
from lychgate_conformance._stage import Stage
from lychgate_conformance.cases._queues import Consumer, again, only, queue_case, standing

ANY_BYTES = bytes(range(256)) + b"\r\n\0" + b"\xff" * 7


@queue_case("L0-QPUT-001", "payloads of any bytes come back as they were", "L1, L2")
def payloads(stage: Stage) -> None:
    queue = stage.open_queue()
    sent = [ANY_BYTES, b"\0", b"{}\n", b"\x80" * 33, ANY_BYTES * 100]
    seqs = [queue.put(payload) for payload in sent]
    expect_equal("the payloads shown", [it.payload for it in queue.items()], sent)
    claimed = sorted((queue.take() for _ in sent), key=lambda it: it.seq)
    expect_equal("the numbers claimed", [it.seq for it in claimed], seqs)
    expect_equal("the payloads claimed", [it.payload for it in claimed], sent)


@queue_case("L0-QPUT-002", "a new queue is empty", "L1, L15")
def empty(stage: Stage) -> None:
    queue = stage.open_queue()
    expect_equal("items", queue.items(), [])
    expect_equal("claim", queue.claim(), None)


@queue_case("L0-QPUT-003", "numbers rise and are not given again when items are done", "L7")
def numbers_rise(stage: Stage) -> None:
    queue = stage.open_queue()
    given: list[int] = []
    for n in range(12):
        given.append(queue.put(b"%d" % n))
        while n % 3 == 2 and (claimed := queue.claim()) is not None:
            expect_equal("ack", queue.ack(claimed.seq, claimed.receipt), "OK")
    expect(given == sorted(set(given)) and given[0] > 0, f"the numbers given are {given}")


@queue_case("L0-QPUT-004", "items are numbered one by one", "L6", needs="dense_numbers")
def numbers_are_dense(stage: Stage) -> None:
    queue = stage.open_queue()
    first = queue.put(b"first")
    claimed = queue.take()
    queue.ack(claimed.seq, claimed.receipt)
    expect_equal("the numbers", [queue.put(b"x") for _ in range(3)], [first + n for n in (1, 2, 3)])


@queue_case("L0-QPUT-005", "its files are in its directory and nowhere else", "L10", "uses_path")
def files(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"x")
    there = sorted(it.name for it in stage.root.iterdir())
    expect_equal("what stands beside it", there, [stage.path.name])
    expect(any(stage.path.iterdir()), "its directory is empty, and it holds an item")


@queue_case("L0-QPUT-006", "the same payload twice is two items", "L1")
def twice(stage: Stage) -> None:
    queue = stage.open_queue()
    first, second = queue.put(b"same"), queue.put(b"same")
    expect(first != second, f"both have the number {first}")
    claimed = queue.take()
    expect_equal("ack", queue.ack(claimed.seq, claimed.receipt), "OK")
    expect_equal("the item that is left", only(queue).payload, b"same")


@queue_case("L0-QPUT-007", "two queues in two directories know nothing of each other", "L1, L3")
def two_queues(stage: Stage) -> None:
    one, other = (stage.open_queue(stage.root / name) for name in ("one", "other"))
    one.put(b"one")
    expect_equal("the other's items", other.items(), [])
    other.put(b"other")
    expect_equal("the one's claim", one.take().payload, b"one")
    expect_equal("the other's claim", other.take().payload, b"other")


# --- claiming ---------------------------------------------------------------------------------


@queue_case("L0-QCLAIM-001", "an item is claimed once while its lease lasts", "L1, L5")
def leased(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"x")
    queue.take(queue.short_ms)
    expect_equal("a second claim", queue.claim(), None)
    expect_equal("its state", only(queue).state, "leased")


@queue_case(
    "L0-QCLAIM-002", "items are claimed in the order of their numbers", "L1",
    needs="claim_order=number",
)  # fmt: skip
def in_order(stage: Stage) -> None:
    queue = stage.open_queue()
    seqs = [queue.put(b"%d" % n) for n in range(15)]
    expect_equal("the order", [queue.take().seq for _ in seqs], seqs)


@queue_case("L0-QCLAIM-003", "an item whose lease has run out is claimed again", "L5")
def runs_out(stage: Stage) -> None:
    queue = stage.open_queue()
    seq = queue.put(b"x")
    queue.take(queue.short_ms)
    queue.pass_time(queue.short_ms)
    expect_equal("its state", only(queue).state, "available")
    claimed = queue.take()
    expect_equal("the item", (claimed.seq, claimed.payload), (seq, b"x"))


@queue_case("L0-QCLAIM-004", "each claim has a receipt of its own", "L5", needs="receipts")
def receipts_differ(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"x")
    claimed = queue.take()
    seen = [claimed.receipt]
    for _ in range(4):
        claimed = again(queue, claimed)
        seen.append(claimed.receipt)
    expect(None not in seen and len(set(seen)) == 5, f"the receipts are {seen}")


@queue_case(
    "L0-QCLAIM-005", "an item that was given back comes before later ones", "L1",
    needs="claim_order=number",
)  # fmt: skip
def back_in_order(stage: Stage) -> None:
    queue = stage.open_queue()
    seqs = [queue.put(b"%d" % n) for n in range(3)]
    first, second = queue.take(), queue.take()
    expect_equal("retry", queue.retry(second.seq, second.receipt), "OK")
    expect_equal("retry", queue.retry(first.seq, first.receipt), "OK")
    expect_equal("the order", [queue.take().seq for _ in seqs], seqs)


@queue_case("L0-QCLAIM-006", "a claim tells when its lease ends", "L5, L15")
def lease_ends(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"x")
    before = queue.now_ms
    claimed = queue.take(90_000)
    late, early = claimed.until_ms - queue.now_ms, claimed.until_ms - before
    expect(late <= 90_000 <= early, f"a lease of 90000 ms ends {early} ms after the claim")
    expect_equal("what items shows", only(queue).until_ms, claimed.until_ms)


@queue_case("L0-QCLAIM-007", "an item is not claimed before its delay is over", "L1, L15")
def delayed(stage: Stage) -> None:
    queue = stage.open_queue()
    seq = queue.put(b"x")
    claimed = queue.take()
    expect_equal("retry", queue.retry(seq, claimed.receipt, queue.short_ms), "OK")
    expect_equal("claim", queue.claim(), None)
    expect_equal("its state", only(queue).state, "delayed")
    queue.pass_time(queue.short_ms)
    expect_equal("the item claimed", queue.take().seq, seq)


@queue_case("L0-QCLAIM-008", "claims are counted, item by item", "L5, L7")
def counted(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"x")
    expect_equal("attempts before", only(queue).attempts, 0)
    claimed = queue.take()
    for count in (1, 2, 3):
        expect_equal("attempts", only(queue).attempts, count)
        claimed = again(queue, claimed)


@queue_case("L0-QCLAIM-009", "looking at the items changes nothing", "L1")
def looking(stage: Stage) -> None:
    queue = stage.open_queue()
    for n in range(3):
        queue.put(b"%d" % n)
    queue.take()
    before = queue.items()
    expect_equal("items, looked at again", queue.items() == before, True)
    expect_equal("items that can still be claimed", [bool(queue.claim()) for _ in range(3)],
                 [True, True, False])  # fmt: skip


@queue_case("L0-QCLAIM-010", "nothing is claimed of what is leased, delayed or set aside", "L1, L8")
def nothing_left(stage: Stage) -> None:
    queue = stage.open_queue()
    for n in range(3):
        queue.put(b"%d" % n)
    queue.take()
    second, third = queue.take(), queue.take()
    queue.retry(second.seq, second.receipt, 600_000)
    queue.quarantine(third.seq, "no", third.receipt)
    expect_equal("claim", queue.claim(), None)
    states = sorted(it.state for it in queue.items())
    expect_equal("the states", states, ["delayed", "leased", "quarantined"])


# --- ending -----------------------------------------------------------------------------------


@queue_case("L0-QEND-001", "an item that was acked is gone", "L1")
def acked(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"one")
    queue.put(b"two")
    claimed = queue.take(queue.short_ms)
    expect_equal("ack", queue.ack(claimed.seq, claimed.receipt), "OK")
    queue.pass_time(queue.short_ms)
    left = only(queue)
    expect(left.seq != claimed.seq, "items shows the item that was acked")
    expect_equal("what is claimed", queue.take().seq, left.seq)
    expect_equal("what is claimed after it", queue.claim(), None)


@queue_case("L0-QEND-002", "acking twice is answered with ALREADY_DONE", "L1, L15")
def acked_twice(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"x")
    claimed = queue.take()
    expect_equal("ack", queue.ack(claimed.seq, claimed.receipt), "OK")
    expect_equal("ack again", queue.ack(claimed.seq, claimed.receipt), "ALREADY_DONE")
    expect_equal("retry", queue.retry(claimed.seq, claimed.receipt), "ALREADY_DONE")
    expect_equal("quarantine", queue.quarantine(claimed.seq, "no"), "ALREADY_DONE")
    expect_equal("items", queue.items(), [])


@queue_case("L0-QEND-003", "an item that is given back keeps its payload", "L1, L7")
def given_back(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(ANY_BYTES)
    claimed = queue.take()
    expect_equal("retry", queue.retry(claimed.seq, claimed.receipt), "OK")
    expect_equal("its state", only(queue).state, "available")
    expect_equal("the payload", queue.take().payload, ANY_BYTES)


@queue_case("L0-QEND-004", "an item set aside keeps its payload and the reason", "L1, L8")
def set_aside(stage: Stage) -> None:
    queue = stage.open_queue()
    seq = queue.put(ANY_BYTES)
    claimed = queue.take(queue.short_ms)
    said = queue.quarantine(seq, "no such address", claimed.receipt)
    expect_equal("quarantine", said, "OK")
    queue.pass_time(queue.short_ms)
    wanted = [(seq, "quarantined", 1, "no such address", ANY_BYTES)]
    expect_equal("the item", list(map(list, standing(queue))), list(map(list, wanted)))
    expect_equal("claim", queue.claim(), None)


@queue_case("L0-QEND-005", "a second quarantine is answered so, and the first reason stays", "L8")
def first_reason(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"x")
    claimed = queue.take()
    queue.quarantine(claimed.seq, "first", claimed.receipt)
    said = queue.quarantine(claimed.seq, "second", claimed.receipt)
    expect_equal("the second", said, "ALREADY_DONE")
    expect_equal("the reason", only(queue).reason, "first")


@queue_case("L0-QEND-006", "what is set aside cannot be acked or given back", "L8")
def quarantine_is_no_ack(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"x")
    claimed = queue.take()
    queue.quarantine(claimed.seq, "no", claimed.receipt)
    expect_equal("ack", queue.ack(claimed.seq, claimed.receipt), "ALREADY_DONE")
    expect_equal("retry", queue.retry(claimed.seq, claimed.receipt), "ALREADY_DONE")
    expect_equal("its state", only(queue).state, "quarantined")


@queue_case(
    "L0-QEND-007", "a late consumer with an old receipt changes nothing and is told", "L5",
    needs="receipts",
)  # fmt: skip
def late_consumer(stage: Stage) -> None:
    queue = stage.open_queue()
    queue.put(b"x")
    late = queue.take(queue.short_ms)
    queue.pass_time(queue.short_ms)
    new = queue.take()
    before = standing(queue)
    expect_equal("ack", queue.ack(late.seq, late.receipt), "CLAIM_LOST")
    expect_equal("retry", queue.retry(late.seq, late.receipt), "CLAIM_LOST")
    expect_equal("quarantine", queue.quarantine(late.seq, "no", late.receipt), "CLAIM_LOST")
    expect(standing(queue) == before, "a call with an old receipt has changed the item")
    expect_equal("the ack of the new claim", queue.ack(new.seq, new.receipt), "OK")


@queue_case("L0-QEND-008", "the first consumer may finish after its lease has run out", "L5")
def late_and_alone(stage: Stage) -> None:
    queue = stage.open_queue()
    for n, end in enumerate(("ack", "retry", "quarantine")):
        queue.put(b"%d" % n)
        claimed = queue.take(queue.short_ms)
        queue.pass_time(queue.short_ms)
        said = {
            "ack": lambda: queue.ack(claimed.seq, claimed.receipt),
            "retry": lambda: queue.retry(claimed.seq, claimed.receipt, 600_000),
            "quarantine": lambda: queue.quarantine(claimed.seq, "late", claimed.receipt),
        }[end]()
        expect_equal(end, said, "OK")


@queue_case("L0-QEND-009", "what nobody has claimed cannot be ended", "L1, L15")
def not_claimed(stage: Stage) -> None:
    queue = stage.open_queue()
    seq = queue.put(b"x")
    said = {queue.ack(seq), queue.retry(seq), queue.quarantine(seq, "no")}
    expect_equal("the results", sorted(said), ["NOT_CLAIMED"])
    expect_equal("its state", only(queue).state, "available")


@queue_case("L0-QEND-010", "a number that was never given is not found", "L15")
def not_found(stage: Stage) -> None:
    queue = stage.open_queue()
    seq = queue.put(b"x")
    said = {queue.ack(seq + 7), queue.retry(seq + 7), queue.quarantine(seq + 7, "no")}
    expect_equal("the results", sorted(said), ["NOT_FOUND"])


@queue_case("L0-QEND-011", "a reason may be any text", "L8")
def any_reason(stage: Stage) -> None:
    queue = stage.open_queue()
    reasons = ["", "two\nlines", "caf\u00e9 \U0001f4ee", '{"code": 550}']
    for reason in reasons:
        queue.put(reason.encode())
        claimed = queue.take()
        expect_equal("quarantine", queue.quarantine(claimed.seq, reason, claimed.receipt), "OK")
    expect_equal("the reasons", [it.reason for it in queue.items()], reasons)


@queue_case("L0-QEND-012", "whoever shows no receipt ends what is claimed", "L5")
def no_receipt(stage: Stage) -> None:
    queue = stage.open_queue()
    seqs = [queue.put(b"%d" % n) for n in range(3)]
    for _ in seqs:
        queue.take()
    said = [queue.ack(seqs[0]), queue.retry(seqs[1]), queue.quarantine(seqs[2], "no")]
    expect_equal("the results", said, ["OK", "OK", "OK"])
    states = [it.state for it in queue.items()]
    expect_equal("what is left", states, ["available", "quarantined"])


# --- many calls -------------------------------------------------------------------------------


@queue_case("L0-QSEQ-001", "random calls on a queue give what the contract says", "L1, L5, L7, L8")
def random_calls(stage: Stage) -> None:
    queue, history = stage.open_queue(), History(stage.claims)
    consumer = Consumer(queue, stage.rng.randrange)
    for _ in range(250):
        consumer.saw(history.make(queue, consumer.call()))
        if queue.sets_time and stage.rng.randrange(6) == 0:
            queue.pass_time(30_000)
    history.make(queue, queue.call("items"))
    history.judge()


@queue_case("L0-QSEQ-002", "random calls on a queue that is closed and opened", "L4, L5, L7, L8")
def random_reopenings(stage: Stage) -> None:
    queue, history = stage.open_queue(), History(stage.claims)
    consumer = Consumer(queue, stage.rng.randrange)
    for n in range(120):
        consumer.saw(history.make(queue, consumer.call()))
        if n % 12 == 11:
            queue = consumer.queue = stage.reopen_queue(queue)
            history.make(queue, queue.call("items"))
    history.judge()
