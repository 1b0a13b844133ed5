"""What the delivery queue does, call by call: checks on the simulated disk, each asserts.

Tests run them on the engine, and the mutants of the engine are killed by them.
"""

from __future__ import annotations

import errno
import random
from typing import Any, TypeVar

from lychgate._delivery import DeliveryPrograms
from lychgate._delivery_answers import Claim, Enqueued
from lychgate._delivery_errors import (
    DeliveryCorrupt,
    DeliveryLocked,
    DeliveryPoisoned,
    Result,
)
from lychgate._delivery_files import segment_name
from lychgate._delivery_layout import Limits
from lychgate._drive import run
from lychgate._errors import StorageError
from lychgate._op import Op, Program
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._faults import Fault
from lychgate_conformance.lab._image import cached_image, image_of
from lychgate_conformance.lab._models import PORTABLE
from lychgate_conformance.lab._simfs import SimFs

from delivery.delivery_damage import COMPACTED, SCRIPT, SEGMENT, WIDE, made
from delivery.delivery_lab import LIMITS, PATH

R = TypeVar("R")


def _attempt(op: Op[Any], fs: SimFs, program: Program[None]) -> object:
    """A step's result; what the program does about an error is taken as well."""
    while True:
        try:
            return op.perform(fs)
        except OSError as error:
            op = program.throw(error)


class Desk:
    """One queue on one machine, and whoever calls it."""

    def __init__(
        self, limits: Limits = LIMITS, machine: Machine | None = None, opens: bool = True
    ) -> None:
        self.machine = machine or Machine(image_of({}))
        self.fs = SimFs(self.machine)
        self.queue = DeliveryPrograms(PATH, limits, self.fs)
        if opens:
            self(self.queue.open())

    def __call__(self, program: Program[R]) -> R:
        return run(program, self.fs)

    def enqueue(self, payload: bytes = b"a") -> Enqueued:
        return self(self.queue.enqueue(payload))

    def claim(self, lease_ms: int = 1000) -> Claim:
        claim = self(self.queue.claim(lease_ms)).claim
        assert claim is not None
        return claim

    def empty(self, lease_ms: int = 1000) -> bool:
        return self(self.queue.claim(lease_ms)).result is Result.EMPTY

    def states(self) -> list[str]:
        return [item.state for item in self.queue.items()]

    def wait(self, seconds: float) -> None:
        self.machine.clock += seconds

    def reopened(self, clean: bool = True, limits: Limits = LIMITS) -> Desk:
        if clean:
            self(self.queue.close())
        self.fs.kill()
        return Desk(limits, self.machine)


def one_life() -> None:
    """L1, L5, L15: from enqueue to each end, every answer by its name."""
    desk = Desk()
    queue = desk.queue
    assert desk.empty()
    assert [desk.enqueue(p).sequence for p in (b"a", b"b")] == [1, 2]
    assert desk(queue.ack(1, None)) is Result.NOT_CLAIMED
    assert desk(queue.ack(3, None)) is desk(queue.ack(0, None)) is Result.NOT_FOUND
    first = desk.claim()
    assert (first.sequence, first.receipt) == (1, 1)
    assert desk(queue.read(1)).payload == b"a"
    assert desk(queue.retry(1, 5000, first.receipt)) is Result.OK
    assert desk(queue.retry(1, 5000, first.receipt)) is Result.NOT_CLAIMED
    assert desk.states() == ["delayed", "available"]
    second = desk.claim()
    assert second.sequence == 2
    assert desk(queue.ack(2, second.receipt)) is Result.OK
    assert desk(queue.ack(2, second.receipt)) is Result.ALREADY_DONE
    assert desk(queue.read(2)).result is Result.ALREADY_DONE
    assert desk(queue.read(9)).result is Result.NOT_FOUND
    assert desk.empty()
    desk.wait(5)
    again = desk.claim()
    assert (again.sequence, again.receipt) == (1, 2)
    assert desk(queue.quarantine(1, "no", None)) is Result.OK
    assert desk(queue.read(1)).payload == b"a", "a quarantined payload is kept"
    assert desk.enqueue(b"123456789").result is Result.TOO_LARGE
    assert desk.enqueue().sequence == 3, "a refusal uses no number"


def late_consumer_is_told() -> None:
    """L5: with a receipt a late consumer learns that the item was claimed again; without one it
    may still finish."""
    for ending in ("ack", "retry", "quarantine"):
        desk = Desk()
        desk.enqueue()
        late = desk.claim()
        desk.wait(1)
        current = desk.claim()
        assert current.sequence == late.sequence and current.receipt == late.receipt + 1
        calls = {
            "ack": lambda r, q=desk.queue: q.ack(1, r),
            "retry": lambda r, q=desk.queue: q.retry(1, 0, r),
            "quarantine": lambda r, q=desk.queue: q.quarantine(1, "x", r),
        }
        assert desk(calls[ending](late.receipt)) is Result.CLAIM_LOST
        assert desk.states() == ["leased"], "nothing was changed"
        assert desk(calls[ending](None)) is Result.OK
    desk = Desk()
    desk.enqueue()
    late = desk.claim()
    desk.wait(100)
    assert desk(desk.queue.ack(1, late.receipt)) is Result.OK, "nobody else has it"


def first_reason_stays() -> None:
    """L8: quarantine is not ack, and a second one changes nothing."""
    desk = Desk()
    desk.enqueue()
    desk.claim()
    assert desk(desk.queue.quarantine(1, "first", None)) is Result.OK
    size = desk.queue.stats()["log_bytes"]
    assert desk(desk.queue.quarantine(1, "second", None)) is Result.ALREADY_DONE
    assert desk(desk.queue.ack(1, None)) is Result.ALREADY_DONE
    assert desk(desk.queue.retry(1, 0, None)) is Result.ALREADY_DONE
    assert desk.empty() and desk.queue.stats()["log_bytes"] == size
    for clean in (True, False):
        desk = desk.reopened(clean)
        (item,) = desk.queue.items()
        assert (item.state, item.reason) == ("quarantined", "first")


def claims_outlive_a_restart() -> None:
    """L5, L11: a recovery expires no claim, and loses no attempt and no delay."""
    for clean in (True, False):
        desk = Desk()
        desk.enqueue()
        desk.enqueue()
        claim = desk.claim(3000)
        desk.claim(2000)
        desk(desk.queue.retry(2, 4000, None))
        desk = desk.reopened(clean)
        assert desk.empty() and desk.states() == ["leased", "delayed"]
        desk.wait(3)
        assert desk.claim().receipt == claim.receipt + 1
        desk.wait(1)
        assert desk.claim().sequence == 1
        assert desk.claim().sequence == 2


def clock_jumps() -> None:
    """L5, L15: set forward, leases run out early; set back, nothing is held for ever."""
    desk = Desk()
    desk.enqueue()
    desk.claim(10_000)
    desk.wait(-5)
    assert desk.empty(), "a small step back changes nothing"
    desk.wait(5)
    desk.wait(1_000_000)
    claim = desk.claim(10_000)
    desk.wait(-1_000_000)
    assert desk.claim(10_000).receipt == claim.receipt + 1, "the clock had been wrong"
    assert desk.empty()
    desk.wait(10)
    assert desk.claim(1).receipt == claim.receipt + 2


def clock_was_set_back_before_an_open() -> None:
    """L5, L11: a lease counts from when it began, also for an instance that was not there then."""
    desk = Desk()
    desk.enqueue()
    desk.wait(1_000_000)
    receipt = desk.claim(10_000).receipt
    desk = desk.reopened(clean=False).reopened()  # the snapshot knows the item as claimed
    desk.wait(-1_000_000)
    assert desk.reopened().claim(10_000).receipt == receipt + 1, "the clock had been wrong"


def memory_is_that_of_the_items() -> None:
    """L14: what became of items takes no memory."""
    desk = Desk(WIDE)
    for _ in range(1200):
        desk.enqueue()
        desk(desk.queue.ack(desk.claim(10_000).sequence, None))
    ledger = desk.queue._ledger
    assert len(ledger._timed) + len(ledger._ready) <= 1100


def unclean_end_is_copied() -> None:
    """L11: after an end that was not clean, what is live stands in a new generation."""
    desk = Desk()
    desk.enqueue()
    assert desk.queue.stats()["generation"] == 0
    desk = desk.reopened(clean=True)
    assert desk.queue.stats()["generation"] == 0, "a clean end needs no copy"
    desk = desk.reopened(clean=False)
    assert desk.queue.stats()["generation"] == 1


def other_boot_is_copied() -> None:
    """L11: the mark of another boot is not believed."""
    files = made(["a"])
    desk = Desk(machine=Machine(image_of(files), boot="boot-2"))
    assert desk.queue.stats()["generation"] == 1


def poisoned_end_is_copied() -> None:
    """L11: a failed sync poisons the queue; closing it says nothing of a clean end."""
    desk = Desk()
    desk.enqueue()
    desk.fs.inject(Fault(desk.fs.calls + 2, errno.EIO))
    try:
        desk.enqueue()
        raise AssertionError("the sync failed")
    except StorageError as error:
        assert not error.definite and error.action == "FsyncSegment"
    for program in (desk.queue.enqueue(b"a"), desk.queue.claim(1), desk.queue.ack(1, None)):
        try:
            desk(program)
            raise AssertionError("poisoned")
        except DeliveryPoisoned as error:
            assert error.result is Result.POISONED
    assert desk.queue.stats()["poisoned"] == 1, "statistics stay available"
    desk = desk.reopened()
    assert desk.queue.stats()["generation"] == 1 and len(desk.states()) == 2


def cut_is_durable() -> None:
    """L4: a torn tail that was cut does not come back after a crash."""
    files = made(SCRIPT, WIDE)
    whole = files[SEGMENT]
    machine = Machine(image_of({**files, SEGMENT: whole + b"torn"}))
    desk = Desk(WIDE, machine)
    assert desk.queue.truncation is not None
    for image in Enumerator(PORTABLE).at(machine.disk).images():
        assert image.files()[SEGMENT] == whole


def nothing_goes_before_it_is_judged() -> None:
    """L10: of a queue whose selected snapshot is damaged nothing is removed."""
    files = made(COMPACTED)
    name = next(n for n in files if "generation" in n and n.endswith("1.log"))
    other = "q/segment-00000000000000000001.log"
    bad = {**files, name: files[name][:10], other: b"the old one"}
    machine = Machine(image_of(bad))
    try:
        Desk(machine=machine)
        raise AssertionError("damaged")
    except DeliveryCorrupt as error:
        assert error.result is Result.CORRUPT and "damaged at byte 0" in str(error)
    assert cached_image(machine.disk).files().get(other) == b"the old one", "nothing is removed"


def every_item_ends() -> None:
    """L7, L9: what is admitted can be claimed, retried and ended, with the longest reason."""
    shapes = ((200, 1, 8), (280, 2, 8), (400, 3, 60), (150, 4, 8), (700, 2, 200), (244, 2, 60))
    for segment, segments, size in shapes:
        limits = Limits(9, size, segment, segments)
        dice = random.Random(segment)
        desk = Desk(limits)
        while desk.enqueue(bytes(size if segment % 2 == 0 else dice.randrange(size))).sequence:
            pass
        assert desk.states(), "something fits"
        for _ in range(60):
            answer = desk(desk.queue.claim(1))
            assert answer.claim is not None, answer
            assert desk(desk.queue.retry(answer.claim.sequence, 0, None)) is Result.OK
        assert desk.queue.stats()["compactions"] >= 1, "retry history alone is reclaimed"
        desk.wait(1)
        claims = [desk.claim(10**9) for _ in desk.states()]
        assert [claim.sequence for claim in claims] == sorted(c.sequence for c in claims)
        for claim in reversed(claims):
            if segment % 8 and dice.random() < 0.3:
                assert desk(desk.queue.ack(claim.sequence, claim.receipt)) is Result.OK
            else:
                ended = desk(desk.queue.quarantine(claim.sequence, "r" * 5000, None))
                assert ended is Result.OK
        assert desk.queue.stats()["log_bytes"] * 2 <= limits.disk_bytes_max


def orphans_are_gone_first() -> None:
    """L12: before the first new byte no image has anything but the selected generation."""
    files = made(["a"])
    orphans = {f"q/{segment_name(5, n)}": b"left behind" for n in (1, 2)}
    machine = Machine(image_of({**files, **orphans}), boot="boot-2")
    desk = Desk(machine=machine, opens=False)
    program, value, seen = desk.queue.open(), None, False
    try:
        while True:
            op = program.send(value)
            if op.action == "CreateSegment":
                seen = True
                for image in Enumerator(PORTABLE).at(machine.disk).images():
                    assert not orphans.keys() & image.files().keys()
            value = _attempt(op, desk.fs, program)
    except StopIteration:
        assert seen


def second_is_locked_out() -> None:
    """L3: a second instance is told, in this process and in another."""
    desk = Desk()
    try:
        Desk(machine=desk.machine)
        raise AssertionError("locked")
    except DeliveryLocked as error:
        assert error.result is Result.LOCKED
    desk.enqueue()
    assert desk.reopened().states() == ["available"]


def replaced_lock_is_noticed() -> None:
    """L3, D24: a lock file that was replaced between open and lock is not believed."""
    desk = Desk(opens=False)
    program = desk.queue.open()
    value = None
    actions: list[str] = []
    try:
        while True:
            op = program.send(value)
            actions.append(op.action)
            if op.action == "LockTry" and actions.count("LockTry") == 1:
                desk.machine.unlink(f"{PATH}/queue.lock")
            value = _attempt(op, desk.fs, program)
    except StopIteration:
        pass
    assert actions.count("OpenLock") == 2, "the new file is locked"


def damage_is_not_copied() -> None:
    """L4: a record that is no longer what was written is told at a read, and never copied."""
    desk = Desk()
    desk.enqueue(b"abc")
    desk.enqueue(b"def")
    node = desk.machine.look_up(f"{PATH}/segment-00000000000000000001.log")
    assert node is not None
    data = bytes(node.data)
    desk.machine.disk.write(node.number, data.index(b"abc"), b"X")
    try:
        desk(desk.queue.read(1))
        raise AssertionError("damaged")
    except DeliveryCorrupt as error:
        assert error.offset == 0
    try:
        for _ in range(20):  # until a compaction would copy it
            desk(desk.queue.retry(desk.claim(1).sequence, 0, None))
        raise AssertionError("damaged")
    except DeliveryCorrupt as error:
        assert error.offset == 0


CHECKS = (
    one_life,
    late_consumer_is_told,
    first_reason_stays,
    claims_outlive_a_restart,
    clock_jumps,
    clock_was_set_back_before_an_open,
    memory_is_that_of_the_items,
    unclean_end_is_copied,
    other_boot_is_copied,
    poisoned_end_is_copied,
    cut_is_durable,
    nothing_goes_before_it_is_judged,
    every_item_ends,
    orphans_are_gone_first,
    second_is_locked_out,
    replaced_lock_is_noticed,
    damage_is_not_copied,
)
