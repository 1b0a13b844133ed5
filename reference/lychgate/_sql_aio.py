"""`lychgate.aio.Sql`: the SQL backend as coroutines.

Drivers block, so each call runs in a thread of the loop's default executor; the pool gives each its
own connection (Q8). A cancelled call goes on in its thread to its end, and keeps its promise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from lychgate._backend import Pending
from lychgate._records import DeadTask
from lychgate._sql import Sql as _Sql


class Sql:
    """`lychgate.Sql` as coroutines; see there for what each method does and raises."""

    pending_scope = _Sql.pending_scope

    def __init__(self, inner: _Sql) -> None:
        self._inner = inner
        self.claim_interval = inner.claim_interval

    @classmethod
    async def open(cls, url: str, **options: Any) -> Self:
        """Open the database; `options` are those of `lychgate.Sql`."""
        return cls(await asyncio.to_thread(_Sql, url, **options))

    async def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        return await asyncio.to_thread(self._inner.add_task, task, publish_at, task_id)

    async def remove_task(self, task_id: str) -> None:
        await asyncio.to_thread(self._inner.remove_task, task_id)

    async def pending_tasks(self) -> list[Pending]:
        return await asyncio.to_thread(self._inner.pending_tasks)

    async def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        await asyncio.to_thread(
            self._inner.add_dead_task, task_id, context, exception, task_class, attempts
        )

    async def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadTask]:
        return await asyncio.to_thread(self._inner.list_dead_tasks, limit, offset)

    async def find_dead_task(self, task_id: str) -> DeadTask | None:
        return await asyncio.to_thread(self._inner.find_dead_task, task_id)

    async def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        return await asyncio.to_thread(self._inner.remove_dead_tasks, task_ids)

    async def tick(self, now: float) -> float | None:
        return await asyncio.to_thread(self._inner.tick, now)

    async def sync(self) -> None:
        await asyncio.to_thread(self._inner.sync)

    async def stats(self) -> dict[str, int]:
        return self._inner.stats()

    async def close(self) -> None:
        await asyncio.to_thread(self._inner.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
