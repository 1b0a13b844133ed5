"""`aio.DeliveryQueue`: `lychgate.DeliveryQueue` as coroutines; see there for what each does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import PurePath
from types import TracebackType
from typing import Self, TypeVar

from lychgate._delivery import DELAY_MS, LEASE_MS, DeliveryPrograms
from lychgate._delivery_answers import Claimed, Enqueued, ItemView, Payload
from lychgate._delivery_errors import Result
from lychgate._delivery_layout import Limits
from lychgate._delivery_queue import Delivery
from lychgate._delivery_recover import Truncation
from lychgate._drive import Observer, drive
from lychgate._op import Program
from lychgate._osfs import OsFs

R = TypeVar("R")

_DEFAULTS = Limits()


class DeliveryQueue:
    """The queue for the tasks of one loop, which take turns with its calls."""

    def __init__(self, programs: DeliveryPrograms, fs: OsFs, observe: Observer | None) -> None:
        self._programs = programs
        self._fs = fs
        self._observe = observe

    @classmethod
    async def open(
        cls,
        path: str | PurePath,
        *,
        items_max: int = _DEFAULTS.items_max,
        payload_bytes_max: int = _DEFAULTS.payload_bytes_max,
        segment_bytes: int = _DEFAULTS.segment_bytes,
        segments_max: int = _DEFAULTS.segments_max,
        clock: Callable[[], float] | None = None,
        observe: Observer | None = None,
    ) -> Self:
        """Open or make the queue in a directory."""
        fs = OsFs(clock)
        limits = Limits(items_max, payload_bytes_max, segment_bytes, segments_max)
        programs = DeliveryPrograms(path, limits, fs)
        try:
            await drive(programs.open(), fs, observe)
        except BaseException:
            fs.close_all()  # with the descriptors goes the lock
            raise
        return cls(programs, fs, observe)

    async def _drive(self, program: Program[R]) -> R:
        return await drive(program, self._fs, self._observe)

    async def enqueue(self, payload: bytes) -> Enqueued:
        return await self._drive(self._programs.enqueue(payload))

    async def claim(self, lease_ms: int = LEASE_MS) -> Claimed:
        return await self._drive(self._programs.claim(lease_ms))

    async def read(self, sequence: int) -> Payload:
        return await self._drive(self._programs.read(sequence))

    async def ack(self, sequence: int, receipt: int | None = None) -> Result:
        return await self._drive(self._programs.ack(sequence, receipt))

    async def retry(
        self, sequence: int, delay_ms: int = DELAY_MS, receipt: int | None = None
    ) -> Result:
        return await self._drive(self._programs.retry(sequence, delay_ms, receipt))

    async def quarantine(
        self, sequence: int, reason: str | bytes, receipt: int | None = None
    ) -> Result:
        return await self._drive(self._programs.quarantine(sequence, reason, receipt))

    async def deliveries(self, lease_ms: int = LEASE_MS) -> AsyncIterator[Delivery]:
        """Claim and read one item after the other until none can be claimed."""
        while (claim := (await self.claim(lease_ms)).claim) is not None:
            payload = (await self.read(claim.sequence)).payload
            assert payload is not None, "a claimed item has its payload"
            yield Delivery(claim, payload)

    async def items(self) -> list[ItemView]:
        return self._programs.items()

    async def stats(self) -> dict[str, int]:
        return self._programs.stats()

    @property
    def truncation(self) -> Truncation | None:
        return self._programs.truncation

    async def recover(self) -> None:
        """After a StorageError: read everything anew, write it to a new generation, go on (L11)."""
        await self._drive(self._programs.recover())

    async def close(self) -> None:
        """Give files and lock back; safe to repeat."""
        await self._drive(self._programs.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
