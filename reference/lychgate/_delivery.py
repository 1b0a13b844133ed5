"""The leased delivery queue: enqueue, claim with a lease, send, then ack, retry or quarantine.

`DeliveryPrograms` is the queue as programs over ops; `DeliveryQueue` drives them in the calling
thread, `aio.DeliveryQueue` under asyncio, the crash lab on a simulated disk (L1-L15).

Rules of this file (spec/Delivery.tla, DeliverySpec.tla, DeliverySpace.tla)
  * One event, one record, one fsync: an answer is durable (L2, L5).
  * From the first byte of a change to its fsync the instance is poisoned, so that whatever ends the
    change early, a failure or a cancellation, leaves it so (L11).
  * Nothing is kept in memory but where items stand: a payload is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TypeVar

from lychgate._delivery_answers import (
    Claim,
    Claimed,
    Enqueued,
    ItemView,
    Payload,
    cut_reason,
    number,
    span,
    verdict,
    view,
)
from lychgate._delivery_codec import (
    CLAIM_BYTES,
    U32_MAX,
    ItemBody,
    Kind,
    Record,
    State,
    claim_body,
    encode,
    item_body,
    retry_body,
)
from lychgate._delivery_errors import (
    DeliveryBusy,
    DeliveryLimits,
    DeliveryPoisoned,
    Result,
)
from lychgate._delivery_files import LOCK, Log, Segment
from lychgate._delivery_layout import (
    EMPTY,
    Fill,
    Limits,
    admits,
    ends_at,
    fits,
    item_size,
    pack,
    put,
    worst_size,
)
from lychgate._delivery_ledger import Ledger, control_size
from lychgate._delivery_lock import InstanceLock
from lychgate._delivery_ops import AppendEvent, CreateSegment, FsyncQueueDir, FsyncSegment
from lychgate._delivery_publish import publish, retire
from lychgate._delivery_recover import Truncation, read_queue, repair
from lychgate._directory import make_directory
from lychgate._disk import _check_path
from lychgate._errors import ClosedError, StorageError
from lychgate._flag import Flag
from lychgate._fs import Facts
from lychgate._op import Program, StepError, with_release, with_undo
from lychgate._stats import Stats
from lychgate._steps import append_all

R = TypeVar("R")

LEASE_MS = 60_000
DELAY_MS = 10_000


class DeliveryPrograms:
    """The queue as programs over ops; every method but `__init__`, `stats` and `items` is one."""

    def __init__(self, path: str | PurePath, limits: Limits, facts: Facts) -> None:
        limits.check()
        self._directory = facts.resolve(_check_path(path))
        self._limits = limits
        self._facts = facts
        self._pid = facts.pid()
        self._flag = Flag()
        self._lock = InstanceLock(f"{self._directory}/{LOCK}", facts)
        self._stats = Stats()
        self._log = Log(self._directory)
        self._ledger = Ledger()
        self._worst: Fill = EMPTY  # at least what admission counts; exact unless `_stale`
        self._stale = False
        self._poisoned = True
        self._closed = False
        self.truncation: Truncation | None = None

    # --- life ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Make the directory if it is missing, lock it, and recover what it holds."""

        async def body() -> None:
            await make_directory(self._directory)
            trusted = await self._lock.take()
            await with_undo(self._begin(trusted), self._let_go)

        await self._in_turn(body)

    async def _begin(self, trusted: bool) -> None:
        await self._lock.mark_unfinished()
        await self._load(trusted)

    async def recover(self) -> None:
        """Read everything anew and write it to a new generation; ends the poisoning (L11).

        Claims stay claims, run out or not. Raises DeliveryCorrupt, StorageError.
        """

        async def body() -> None:
            self._poisoned = True
            await self._log.close()
            await self._load(trusted=False)

        await self._in_turn(body)

    async def _load(self, trusted: bool) -> None:
        found = await read_queue(self._directory)
        self._log, self._ledger = found.log, found.ledger
        self._recount()
        count = len(self._ledger.items)
        room = admits(self._limits, self._worst) and count <= self._limits.items_max
        if count and not room:  # an empty queue that can take nothing is one that answers FULL
            raise DeliveryLimits(
                f"{count} items in {self._directory} do not fit these limits "
                "with room for their ends; open it with larger ones"
            )
        await repair(found, self._limits, trusted, self._stats)
        self.truncation = found.torn
        self._poisoned = False

    async def close(self) -> None:
        """Give files and lock back; says that the end was clean if it was. Safe to repeat."""

        async def body() -> None:
            self._closed = True
            await with_release(self._say_clean(), self._let_go)

        await self._in_turn(body, closing=True)

    async def _say_clean(self) -> None:
        if not self._poisoned and self._lock.held:
            await self._lock.mark_clean()

    async def _let_go(self) -> None:
        self._poisoned = True
        await self._log.close()
        await self._lock.release()

    async def _in_turn(self, body: Callable[[], Program[R]], closing: bool = False) -> R:
        fiber = object()
        try:
            if not self._flag.take(fiber):
                raise DeliveryBusy(
                    "another call of this queue is under way; make them take turns"
                )
            if self._pid != self._facts.pid():
                raise ClosedError("this queue belongs to the parent process; open one of your own")
            if self._closed and not closing:
                raise ClosedError("this queue was closed; open a new one")
            return await body()
        except StepError as error:
            path = str(error.cause.filename or self._directory)
            definite = not self._poisoned
            raise StorageError(error.action, error.cause, path, definite) from error.cause
        finally:
            if fiber in self._flag:
                self._flag.remove(fiber)

    def _sound(self) -> None:
        if self._poisoned:
            raise DeliveryPoisoned(
                "an earlier write or sync failed, so what the disk holds is not known; "
                "call recover, or open the queue anew"
            )

    # --- changes ------------------------------------------------------------------------------

    async def enqueue(self, payload: bytes) -> Enqueued:
        async def body() -> Enqueued:
            self._sound()
            if len(payload) > self._limits.payload_bytes_max:
                return Enqueued(Result.TOO_LARGE)
            size = item_size(len(payload), 0)
            worst = self._admitted(worst_size(self._limits, len(payload), 0, quarantined=False))
            if worst is None or not await self._make_room(size):
                return Enqueued(Result.FULL)
            sequence = self._ledger.high + 1
            item = ItemBody(State.PENDING, 0, 0, 0, b"", payload)
            await self._append(Kind.ITEM, sequence, item_body(item))
            self._worst = worst
            return Enqueued(Result.OK, sequence)

        return await self._in_turn(body)

    async def claim(self, lease_ms: int) -> Claimed:
        async def body() -> Claimed:
            self._sound()
            now = self._now_ms()
            until = ends_at(now, span("lease_ms", lease_ms, 1))
            item = self._ledger.choose(now)
            if item is None:
                return Claimed(Result.EMPTY)
            attempt = item.attempts + 1
            if attempt > U32_MAX or not await self._make_room(CLAIM_BYTES):
                return Claimed(Result.FULL)
            await self._append(Kind.CLAIM, item.sequence, claim_body(attempt, until, lease_ms))
            return Claimed(Result.OK, Claim(item.sequence, attempt, until))

        return await self._in_turn(body)

    async def read(self, sequence: int) -> Payload:
        async def body() -> Payload:
            self._sound()
            item = self._ledger.items.get(number(sequence))
            if item is None:
                known = 0 < sequence <= self._ledger.high
                return Payload(Result.ALREADY_DONE if known else Result.NOT_FOUND)
            return Payload(Result.OK, self._log.payload(item, await self._log.record(item)))

        return await self._in_turn(body)

    async def ack(self, sequence: int, receipt: int | None) -> Result:
        return await self._finish(sequence, receipt, Kind.ACK, lambda: b"")

    async def retry(self, sequence: int, delay_ms: int, receipt: int | None) -> Result:
        delay = span("delay_ms", delay_ms, 0)
        return await self._finish(
            sequence, receipt, Kind.RETRY, lambda: retry_body(ends_at(self._now_ms(), delay), delay)
        )

    async def quarantine(self, sequence: int, reason: str | bytes, receipt: int | None) -> Result:
        text = cut_reason(reason, self._limits.reason_bytes_max)
        return await self._finish(sequence, receipt, Kind.QUARANTINE, lambda: text)

    async def _finish(
        self, sequence: int, receipt: int | None, kind: Kind, make: Callable[[], bytes]
    ) -> Result:
        """What a consumer says of an item that it claimed."""

        async def body() -> Result:
            self._sound()
            item = self._ledger.items.get(number(sequence))
            refusal = verdict(item, sequence, self._ledger.high, receipt)
            if refusal is not Result.OK:
                return refusal
            event = make()
            if not await self._make_room(control_size(len(event))):
                return Result.FULL
            await self._append(kind, sequence, event)
            self._stale = True
            return Result.OK

        return await self._in_turn(body)

    # --- room ---------------------------------------------------------------------------------

    def _recount(self) -> None:
        worsts = (item.worst(self._limits) for item in self._ledger.items.values())
        self._worst, self._stale = pack(self._limits, worsts), False

    def _admitted(self, size: int) -> Fill | None:
        """The worst case with one more item, None if it has no room (L6, L9). What has ended since
        the last count is counted out only when it matters."""
        if len(self._ledger.items) >= self._limits.items_max:
            return None
        worst = put(self._limits, self._worst, size)
        if not admits(self._limits, worst) and self._stale:
            self._recount()
            worst = put(self._limits, self._worst, size)
        return worst if admits(self._limits, worst) else None

    async def _make_room(self, size: int) -> bool:
        """Whether a record of this size fits now, behind a new generation if need be (L7)."""
        limits, log = self._limits, self._log
        if log.takes(size, limits) or fits(limits, put(limits, log.fill, size)):
            return True
        sizes = list(self._ledger.sizes())
        smaller = sum(sizes) < log.size
        if not smaller or not fits(limits, put(limits, pack(limits, sizes), size)):
            return False
        await self._compact()
        return True

    async def _compact(self) -> None:
        """Go over to a new generation that holds what is live, and nothing else."""
        self._poisoned = True
        await publish(self._log, self._ledger, self._limits)
        self._poisoned = False
        await retire(self._log, self._stats)
        self._stats.count("compactions")

    async def _append(self, kind: Kind, sequence: int, body: bytes) -> None:
        """One record, durable, and only then known."""
        self._poisoned = True
        log, event = self._log, self._ledger.events + 1
        size = control_size(len(body))
        if not log.takes(size, self._limits):
            number = len(log.segments) + 1
            fd = await CreateSegment(log.segment_path(number))
            log.segments.append(Segment(number, fd, 0))
            await FsyncQueueDir(self._directory)
        place = log.end()
        fd = log.segments[-1].fd
        await append_all(AppendEvent, fd, encode(kind, sequence, event, body, place))
        await FsyncSegment(fd)
        wrong = self._ledger.apply(Record(kind, sequence, event, body, place, size))
        assert wrong is None, "what is written can be read"
        log.segments[-1].size += size
        self._poisoned = False

    # --- looking ------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return max(0, int(self._facts.now() * 1000))

    def items(self) -> list[ItemView]:
        """Every item, in the order of their numbers."""
        self._sound()
        now = self._now_ms()
        return [view(item, now) for item in self._ledger.items.values()]

    def stats(self) -> dict[str, int]:
        """Counters and sizes; also of a poisoned queue (L11)."""
        log = self._log
        return {
            **self._stats.snapshot(),
            **self._ledger.counts(self._now_ms()),
            "sequence_high": self._ledger.high,
            "generation": log.generation,
            "segments": len(log.segments),
            "log_bytes": log.size,
            "disk_bytes_max": self._limits.disk_bytes_max,
            "poisoned": int(self._poisoned and not self._closed),
        }
