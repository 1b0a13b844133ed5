"""Mutants of the backend that stores nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from lychgate import Nil
from lychgate_conformance.mutants._base import mutant


@mutant("nil-knows-its-options", "L0-NIL-001")
class NilKnowsItsOptions(Nil):
    """Refuses options that it does not know."""

    def __init__(self, path: str, prefix: str, fsync_frequency: float) -> None:
        super().__init__(path=path, prefix=prefix, fsync_frequency=fsync_frequency)


@mutant("nil-remembers-tasks", "L0-NIL-002")
class NilRemembersTasks(Nil):
    """Lists the task that was added last."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._last: list[Any] = []

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        key = super().add_task(task, publish_at, task_id)
        self._last = [(key, task, publish_at)]
        return key

    def pending_tasks(self) -> list[Any]:
        return self._last


@mutant("nil-finds-the-dead", "L0-NIL-003")
class NilFindsTheDead(Nil):
    """Finds a dead task that it never stored."""

    def find_dead_task(self, task_id: str) -> Any:
        return {
            "task_id": task_id,
            "task_class": "",
            "attempts": 0,
            "context": None,
            "error_class": "",
            "error_message": "",
            "failed_at": 0.0,
            "enqueued_at": None,
        }


@mutant("nil-counts-removals", "L0-NIL-004")
class NilCountsRemovals(Nil):
    """Says that it removed what it never had."""

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        return len(list(task_ids))


@mutant("nil-makes-a-directory", "L0-NIL-005")
class NilMakesADirectory(Nil):
    """Makes the directory that it does not need."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        os.makedirs(options["path"], exist_ok=True)


@mutant("nil-cannot-close", "L0-NIL-006")
class NilCannotClose(Nil):
    """Raises when it is closed, for it was never open."""

    def close(self) -> None:
        raise RuntimeError("not open")
