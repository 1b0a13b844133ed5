"""`DeliveryQueue`: the leased delivery queue for one thread at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from lychgate._delivery import DELAY_MS, LEASE_MS, DeliveryPrograms
from lychgate._delivery_answers import Claim, Claimed, Enqueued, ItemView, Payload
from lychgate._delivery_errors import Result
from lychgate._delivery_layout import Limits
from lychgate._delivery_recover import Truncation
from lychgate._drive import Observer, run
from lychgate._op import Program
from lychgate._osfs import OsFs

R = TypeVar("R")

_DEFAULTS = Limits()


class Delivery(NamedTuple):
    """A claim with the payload that is to be sent."""

    claim: Claim
    payload: bytes


class DeliveryQueue:
    """A durable queue in a directory of its own: one process, one consumer.

    path               the directory; made if missing
    items_max          items that are not acked, quarantined ones included
    payload_bytes_max  bytes of one payload
    segment_bytes      bytes of one log file
    segments_max       log files of one generation; the disk holds at most twice as many (L12)
    clock              tells seconds since the epoch, for leases and delays; the system's if None

    Every change is durable when its call returns. Items are delivered at least once: a consumer
    that died leaves a claim, and its item can be claimed again when the lease has run out. Calls of
    one object must take turns; a second one at a time raises DeliveryBusy.
    """

    def __init__(
        self,
        path: str | PurePath,
        *,
        items_max: int = _DEFAULTS.items_max,
        payload_bytes_max: int = _DEFAULTS.payload_bytes_max,
        segment_bytes: int = _DEFAULTS.segment_bytes,
        segments_max: int = _DEFAULTS.segments_max,
        clock: Callable[[], float] | None = None,
        observe: Observer | None = None,
    ) -> None:
        """Raises ConfigError, DeliveryLocked, DeliveryCorrupt, DeliveryLimits, StorageError."""
        self._fs = OsFs(clock)
        self._observe = observe
        limits = Limits(items_max, payload_bytes_max, segment_bytes, segments_max)
        self._programs = DeliveryPrograms(path, limits, self._fs)
        try:
            self._run(self._programs.open())
        except BaseException:
            self._fs.close_all()  # with the descriptors goes the lock
            raise

    def _run(self, program: Program[R]) -> R:
        return run(program, self._fs, self._observe)

    def enqueue(self, payload: bytes) -> Enqueued:
        """Accept a payload: OK with its number, or FULL, or TOO_LARGE.

        Raises StorageError, after which the queue is poisoned and the item may be there.
        """
        return self._run(self._programs.enqueue(payload))

    def claim(self, lease_ms: int = LEASE_MS) -> Claimed:
        """Claim the oldest item that can be claimed for `lease_ms` milliseconds, or EMPTY."""
        return self._run(self._programs.claim(lease_ms))

    def read(self, sequence: int) -> Payload:
        """The payload of an item: OK, NOT_FOUND, or ALREADY_DONE once it is acked.

        Raises DeliveryCorrupt when the bytes on the disk are no longer those that were written.
        """
        return self._run(self._programs.read(sequence))

    def ack(self, sequence: int, receipt: int | None = None) -> Result:
        """The receiver has it: the item is done. With the claim's receipt a late consumer gets
        CLAIM_LOST; without it, whoever is first finishes the item."""
        return self._run(self._programs.ack(sequence, receipt))

    def retry(
        self, sequence: int, delay_ms: int = DELAY_MS, receipt: int | None = None
    ) -> Result:
        """Give the item back, to be claimed again after `delay_ms` milliseconds."""
        return self._run(self._programs.retry(sequence, delay_ms, receipt))

    def quarantine(
        self, sequence: int, reason: str | bytes, receipt: int | None = None
    ) -> Result:
        """Set the item aside for good, its payload and this reason kept. A reason over
        min(4096, payload_bytes_max) bytes is cut. A second time: ALREADY_DONE, and the first
        reason stays."""
        return self._run(self._programs.quarantine(sequence, reason, receipt))

    def deliveries(self, lease_ms: int = LEASE_MS) -> Iterator[Delivery]:
        """Claim and read one item after the other until none can be claimed."""
        while (claim := self.claim(lease_ms).claim) is not None:
            payload = self.read(claim.sequence).payload
            assert payload is not None, "a claimed item has its payload"
            yield Delivery(claim, payload)

    def items(self) -> list[ItemView]:
        """Every item that is not acked, in the order of their numbers."""
        return self._programs.items()

    def stats(self) -> dict[str, int]:
        """Counters and sizes (bytes); also of a poisoned queue (L11)."""
        return self._programs.stats()

    @property
    def truncation(self) -> Truncation | None:
        """The torn record that opening, or the last recovery, found and dropped (L4)."""
        return self._programs.truncation

    def recover(self) -> None:
        """After a StorageError: read everything anew, write it to a new generation, go on (L11)."""
        self._run(self._programs.recover())

    def close(self) -> None:
        """Give files and lock back; safe to repeat."""
        self._run(self._programs.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
