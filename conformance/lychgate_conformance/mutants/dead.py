"""Mutants of the control: dead tasks."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from lychgate_conformance._control import Control
from lychgate_conformance.mutants._base import mutant


@mutant("no-context", "L0-DEAD-001 L0-DEAD-020 L0-SEQ-001 L1-OPEN-008 L1-KILL-009")
class NoContext(Control):
    """Keeps no context."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        super().add_dead_task(task_id, None, exception, task_class, attempts)


@mutant("shallow-find", "L0-DEAD-002")
class ShallowFind(Control):
    """Finds a dead task without its error text."""

    def find_dead_task(self, task_id: str) -> Any:
        found = super().find_dead_task(task_id)
        return found and replace(found, error_message="")


@mutant("finds-by-prefix", "L0-DEAD-003")
class FindsByPrefix(Control):
    """Finds a dead task whose id begins like the one asked for."""

    def find_dead_task(self, task_id: str) -> Any:
        found = [it for it in self.list_dead_tasks() if it.task_id.startswith(task_id)]
        return found[-1] if found else None


@mutant("empty-is-an-error", "L0-DEAD-004 L0-DEAD-026")
class EmptyIsAnError(Control):
    """Raises when there is no dead task to list."""

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        if not super().list_dead_tasks():
            raise LookupError("no dead tasks")
        return super().list_dead_tasks(limit, offset)


@mutant("newest-first", "L0-DEAD-005 L0-DEAD-014 L0-SEQ-001 L1-RACE-003")
class NewestFirst(Control):
    """Lists dead tasks from the newest to the oldest."""

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        newest = super().list_dead_tasks()[::-1]
        return newest[offset:] if limit is None else newest[offset : offset + limit]


@mutant("page-off-by-one", "L0-DEAD-006 L0-DEAD-007 L0-SEQ-001")
class PageOffByOne(Control):
    """Begins every page but the first one record late."""

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        return super().list_dead_tasks(limit, offset + 1 if offset else 0)


@mutant("zero-means-all", "L0-DEAD-007")
class ZeroMeansAll(Control):
    """Takes the limit 0 for no limit."""

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        return super().list_dead_tasks(limit or None, offset)


@mutant("counts-requests", "L0-DEAD-008 L0-DEAD-010 L1-RACE-004")
class CountsRequests(Control):
    """Counts the ids that it was asked to remove."""

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        ids = list(task_ids)
        super().remove_dead_tasks(ids)
        return len(ids)


@mutant("nothing-means-all", "L0-DEAD-009")
class NothingMeansAll(Control):
    """Removes every dead task when asked to remove none."""

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        ids = list(task_ids) or [it.task_id for it in self.list_dead_tasks()]
        return super().remove_dead_tasks(ids)


@mutant("removal-reorders", "L0-DEAD-011 L0-SEQ-001 L1-RACE-002")
class RemovalReorders(Control):
    """Writes the survivors of a removal back in another order."""

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        count = super().remove_dead_tasks(task_ids)
        with self.transaction() as db:
            rows = db.execute("SELECT id, record FROM dead ORDER BY place DESC").fetchall()
            db.execute("DELETE FROM dead")
            db.executemany("INSERT INTO dead (id, record) VALUES (?, ?)", rows)
        return count


@mutant("removes-one-record", "L0-DEAD-012")
class RemovesOneRecord(Control):
    """Removes one of several records of an id."""

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        found = 0
        with self.transaction() as db:
            for task_id in set(task_ids):
                which = "SELECT min(place) FROM dead WHERE id = ?"
                gone = db.execute(
                    f"DELETE FROM dead WHERE place = ({which})", (json.dumps(task_id),)
                )
                found += bool(gone.rowcount)
        return found


@mutant("finds-the-oldest", "L0-DEAD-013")
class FindsTheOldest(Control):
    """Finds the oldest of several records of an id."""

    def find_dead_task(self, task_id: str) -> Any:
        found = [it for it in self.list_dead_tasks() if it.task_id == task_id]
        return found[0] if found else None


@mutant("one-record-per-id", "L0-DEAD-014 L0-SEQ-001")
class OneRecordPerId(Control):
    """Replaces an older record of the same id."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        self.remove_dead_tasks([task_id])
        super().add_dead_task(task_id, context, exception, task_class, attempts)


@mutant("dies-once", "L0-DEAD-015 L0-SEQ-001")
class DiesOnce(Control):
    """Takes no dead task whose id was removed before."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._removed: set[str] = set()

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        ids = list(task_ids)
        self._removed.update(ids)
        return super().remove_dead_tasks(ids)

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        if task_id not in self._removed:
            super().add_dead_task(task_id, context, exception, task_class, attempts)


@mutant("builtin-errors-only", "L0-DEAD-016 L0-SEQ-001")
class BuiltinErrorsOnly(Control):
    """Keeps the class of an exception only where it is a built-in one."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        if type(exception).__module__ != "builtins":
            exception = Exception(str(exception))
        super().add_dead_task(task_id, context, exception, task_class, attempts)


@mutant("trusts-error-text", "L0-DEAD-017")
class TrustsErrorText(Control):
    """Fails with an exception whose text cannot be made."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        super().add_dead_task(task_id, context, ValueError(str(exception)), task_class, attempts)


@mutant("error-text-limit", "L0-DEAD-018")
class ErrorTextLimit(Control):
    """Refuses a dead task whose error text is long."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        if isinstance(exception, ValueError) and len(str(exception)) > 1_000_000:
            raise ValueError("the error text is too long")
        super().add_dead_task(task_id, context, exception, task_class, attempts)


@mutant("one-line-errors", "L0-DEAD-019")
class OneLineErrors(Control):
    """Keeps the first line of an error text."""

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        found = super().list_dead_tasks(limit, offset)
        return [replace(it, error_message=it.error_message.partition("\n")[0]) for it in found]


@mutant("context-of-text", "L0-DEAD-020 L0-DEAD-001")
class ContextOfText(Control):
    """Keeps a context as text."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        super().add_dead_task(task_id, json.dumps(context), exception, task_class, attempts)


@mutant("record-then-refuses", "L0-DEAD-021")
class RecordThenRefuses(Control):
    """Writes a record before it finds out that the context cannot be encoded."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        try:
            json.dumps(context)
        except TypeError:
            super().add_dead_task(task_id, None, exception, task_class, attempts)
        super().add_dead_task(task_id, context, exception, task_class, attempts)


@mutant("one-id-space", "L0-DEAD-022")
class OneIdSpace(Control):
    """Removes the dead task of an id along with the waiting one."""

    def remove_task(self, task_id: str) -> None:
        super().remove_task(task_id)
        self.remove_dead_tasks([task_id])


@mutant("caps-attempts", "L0-DEAD-023 L0-DEAD-001")
class CapsAttempts(Control):
    """Counts no more than twenty attempts."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        super().add_dead_task(task_id, context, exception, task_class, min(attempts, 20))


@mutant("find-consumes", "L0-DEAD-024")
class FindConsumes(Control):
    """Removes a dead task when it is found."""

    def find_dead_task(self, task_id: str) -> Any:
        found = super().find_dead_task(task_id)
        self.remove_dead_tasks([task_id])
        return found


@mutant("hundred-at-most", "L0-DEAD-025")
class HundredAtMost(Control):
    """Keeps the last hundred dead tasks."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        super().add_dead_task(task_id, context, exception, task_class, attempts)
        with self.transaction() as db:
            db.execute("DELETE FROM dead WHERE place <= (SELECT max(place) FROM dead) - 100")


@mutant("never-empty", "L0-DEAD-026")
class NeverEmpty(Control):
    """Leaves the last dead task where it is."""

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        last = self.list_dead_tasks()[-1:]
        count = super().remove_dead_tasks(task_ids)
        if last and not self.list_dead_tasks():
            it = last[0]
            self.add_dead_task(
                it.task_id, it.context, ValueError("kept"), it.task_class, it.attempts
            )
        return count


@mutant("normalises-dead-ids", "L0-TEXT-005")
class NormalisesDeadIds(Control):
    """Brings the ids of dead tasks into Unicode's composed form."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        key = unicodedata.normalize("NFC", task_id)
        super().add_dead_task(key, context, exception, task_class, attempts)


@mutant("valid-unicode-only", "L0-TEXT-006 L1-OPEN-007")
class ValidUnicodeOnly(Control):
    """Puts question marks for lone surrogates."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        key = task_id.encode("utf-8", "replace").decode()
        super().add_dead_task(key, context, exception, task_class, attempts)


@mutant("strips-dead-ids", "L0-TEXT-004")
class StripsDeadIds(Control):
    """Strips white space and NUL from the ids of dead tasks."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        key = task_id.strip(" \n\r\t\0") or "empty"
        super().add_dead_task(key, context, exception, task_class, attempts)


@mutant("small-contexts", "L0-TEXT-009")
class SmallContexts(Control):
    """Refuses a context of more than a million characters."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        if isinstance(context, dict) and len(json.dumps(context)) > 1_000_000:
            raise ValueError("the context is too large")
        super().add_dead_task(task_id, context, exception, task_class, attempts)
