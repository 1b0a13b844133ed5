"""`Nil`: the backend that stores nothing (D4). Tasks run, and are gone with the process.

It accepts any options, so that one configuration can be switched to it as it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from lychgate._backend import Pending
from lychgate._records import DeadTask


class Nil:
    """A backend without a store. Ids are unique within the object."""

    def __init__(self, **options: object) -> None:
        self._ids = count(1)

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        return f"nil-{next(self._ids)}" if task_id is None else task_id

    def remove_task(self, task_id: str) -> None:
        pass

    def pending_tasks(self) -> list[Pending]:
        return []

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        pass

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadTask]:
        return []

    def find_dead_task(self, task_id: str) -> DeadTask | None:
        return None

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        return 0

    def tick(self, now: float) -> float | None:
        return None

    def sync(self) -> None:
        pass

    def stats(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        pass


class AioNil:
    """The same for `lychgate.aio`."""

    def __init__(self, **options: object) -> None:
        self._nil = Nil()

    async def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        return self._nil.add_task(task, publish_at, task_id)

    async def remove_task(self, task_id: str) -> None:
        pass

    async def pending_tasks(self) -> list[Pending]:
        return []

    async def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        pass

    async def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadTask]:
        return []

    async def find_dead_task(self, task_id: str) -> DeadTask | None:
        return None

    async def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        return 0

    async def tick(self, now: float) -> float | None:
        return None

    async def sync(self) -> None:
        pass

    async def stats(self) -> dict[str, int]:
        return {}

    async def close(self) -> None:
        pass
