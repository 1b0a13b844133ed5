"""The same names for asyncio; every method is a coroutine.

    from lychgate import aio

    async with aio.Queue(await aio.configure("disk", path="storage")) as queue:
        await queue.enqueue(send, "ada@example.org")
        await queue.run()

What blocks the event loop (D31): every call but the fsyncs, for as long as the page cache takes;
the fsyncs run in the loop's default executor, and so do the calls of `Sql`. Tasks of one loop,
threads and processes may share a store. A cancelled call of `Disk` frees what it holds and leaves
the store as after a failure (D10).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath
from types import TracebackType
from typing import Any, Self, TypeVar

from lychgate._aio_delivery import DeliveryQueue
from lychgate._aio_queue import Queue
from lychgate._config import checked
from lychgate._disk import FSYNC_FREQUENCY_S, PATH, PREFIX, DiskPrograms, PendingTask
from lychgate._drive import Observer, drive
from lychgate._nil import AioNil as Nil
from lychgate._op import Program
from lychgate._osfs import OsFs
from lychgate._records import JSON, Codec, DeadTask
from lychgate._sql_aio import Sql

__all__ = ["DeliveryQueue", "Disk", "Nil", "Queue", "Sql", "configure"]

R = TypeVar("R")


class Disk:
    """`lychgate.Disk` as coroutines; see there for what each method does and raises."""

    def __init__(self, programs: DiskPrograms, fs: OsFs, observe: Observer | None) -> None:
        self._programs = programs
        self._fs = fs
        self._observe = observe

    @classmethod
    async def open(
        cls,
        path: str | PurePath = PATH,
        prefix: str = PREFIX,
        fsync_frequency: float = FSYNC_FREQUENCY_S,
        *,
        codec: Codec = JSON,
        dead_tasks_retention_period: float | None = None,
        observe: Observer | None = None,
    ) -> Self:
        """Open or make the store in a directory."""
        fs = OsFs()
        programs = DiskPrograms(
            path, prefix, fsync_frequency, codec, fs, dead_tasks_retention_period
        )
        try:
            await drive(programs.open(), fs, observe)
        except BaseException:
            fs.close_all()  # with the descriptors go the locks
            raise
        return cls(programs, fs, observe)

    async def _drive(self, program: Program[R]) -> R:
        return await drive(program, self._fs, self._observe)

    async def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        return await self._drive(self._programs.add_task(task, publish_at, task_id))

    async def remove_task(self, task_id: str) -> None:
        await self._drive(self._programs.remove_task(task_id))

    async def pending_tasks(self) -> list[PendingTask]:
        return await self._drive(self._programs.pending_tasks())

    async def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        await self._drive(
            self._programs.add_dead_task(task_id, context, exception, task_class, attempts)
        )

    async def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadTask]:
        return await self._drive(self._programs.list_dead_tasks(limit, offset))

    async def find_dead_task(self, task_id: str) -> DeadTask | None:
        return await self._drive(self._programs.find_dead_task(task_id))

    async def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        return await self._drive(self._programs.remove_dead_tasks(task_ids))

    async def tick(self, now: float) -> float | None:
        return await self._drive(self._programs.tick(now))

    async def sync(self) -> None:
        await self._drive(self._programs.sync())

    async def stats(self) -> dict[str, int]:
        return self._programs.stats()

    async def close(self) -> None:
        """Make everything durable and give the files back; safe to repeat."""
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


async def configure(backend: str | None = "disk", **options: Any) -> Disk | Sql | Nil:
    """Open the backend of that name. Raises ConfigError, StorageError, SqlError, SchemaError."""
    checked(backend, options)
    if backend == "sql":
        return await Sql.open(**options)
    return Nil() if backend is None else await Disk.open(**options)
