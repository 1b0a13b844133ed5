"""Mutants whose store lies behind a connection: what clients of a server get wrong when it is lost,
or when others work beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from lychgate_conformance.mutants._base import mutant
from lychgate_conformance.mutants._shelf import Shelf, ShelfError, State

R = TypeVar("R")


@mutant("commits-twice", "L4-DEAD-001")
class CommitsTwice(Shelf):
    """Does a whole transaction again when the answer to its commit was lost."""

    def transact(self, change: Callable[[State], R]) -> R:
        try:
            return super().transact(change)
        except ShelfError as error:
            if error.definite:
                raise
            return super().transact(change)


@mutant("sent-is-done", "L4-DEAD-001 L4-TASK-001")
class SentIsDone(Shelf):
    """Takes a commit for done when it was sent, and does not wait for what the server says."""

    waiting = False

    def begin(self) -> State:
        if self.waiting:
            self.waiting = False
            try:
                self.answer()
            except OSError:
                self.drop()
        return super().begin()

    def commit(self, state: State) -> None:
        try:
            self.say("commit", state)
        except OSError as error:
            self.drop()
            raise ShelfError(error, False) from error
        self.waiting = True


@mutant("commits-later", "L2-KILL-001 L2-KILL-002")
class CommitsLater(Shelf):
    """Keeps what was added until something else is done, and commits both at once."""

    kept: Callable[[State], object] | None = None

    def transact(self, change: Callable[[State], R]) -> R:
        kept, self.kept = self.kept, None

        def both(state: State) -> R:
            if kept is not None:
                kept(state)
            return change(state)

        return super().transact(both)

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        if self.kept is not None or task_id is None:
            return super().add_task(task, publish_at, task_id)
        self.kept = lambda state: state["tasks"].update({task_id: [task, publish_at]})
        return task_id

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        gone = set(task_ids)
        found = {it.task_id for it in self.list_dead_tasks()} & gone

        def change(state: State) -> None:
            state["dead"] = [it for it in state["dead"] if it["task_id"] not in gone]

        self.kept = change
        return len(found)


@mutant("counts-before-it-deletes", "L5-REM-002")
class CountsBeforeItDeletes(Shelf):
    """Counts in one transaction and deletes in another."""

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        gone = set(task_ids)
        count = len({it.task_id for it in self.list_dead_tasks()} & gone)
        super().remove_dead_tasks(gone)
        return count


@mutant("reads-before-it-writes", "L5-ADD-001")
class ReadsBeforeItWrites(Shelf):
    """Reads the store in one transaction and writes what it makes of it in another."""

    def transact(self, change: Callable[[State], R]) -> R:
        state = self.begin()
        self.commit(state)
        result = change(state)
        self.begin()
        self.commit(state)
        return result


@mutant("lost-is-undone", "L4-DEAD-001 L4-STAY-002")
class LostIsUndone(Shelf):
    """Says that nothing happened when the answer to a commit was lost."""

    def commit(self, state: State) -> None:
        try:
            super().commit(state)
        except ShelfError as error:
            error.definite = True
            raise


@mutant("keeps-a-lost-connection", "L4-DEAD-001 L4-DEAD-003")
class KeepsALostConnection(Shelf):
    """Goes on with a connection that has failed, and never makes another."""

    def drop(self) -> None:
        if self.connection is None or self.connection.fileno() < 0:
            super().drop()

    def begin(self) -> State:
        try:
            found: State = self.ask("begin", self.name)
        except OSError as error:
            raise ShelfError(error, True) from error
        return found

    def close(self) -> None:
        super().drop()
