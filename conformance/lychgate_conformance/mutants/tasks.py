"""Mutants of the control: waiting tasks."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any
from urllib.parse import unquote

from lychgate_conformance._control import Control
from lychgate_conformance.mutants._base import mutant

Tasks = list[tuple[str, object, float | None]]


@mutant("forgets-tasks", "L0-ADD-001 L0-PEND-002 L0-REM-001 L0-SEQ-001 L1-OPEN-001 L1-RACE-006")
class ForgetsTasks(Control):
    """Gives a task an id and stores it nowhere."""

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        return task_id or self.new_id()


@mutant("own-ids-only", "L0-ADD-002 L0-REM-004")
class OwnIdsOnly(Control):
    """Ignores the caller's id and gives its own."""

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        return super().add_task(task, publish_at)


@mutant("ids-by-count", "L0-ADD-003 L1-RACE-006 L1-ID-001")
class IdsByCount(Control):
    """Numbers a task by how many wait."""

    def new_id(self) -> str:
        return f"task-{len(self.pending_tasks())}"


@mutant("ids-by-clock", "L0-ADD-003 L1-THR-003")
class IdsByClock(Control):
    """Numbers tasks by the tenth of a second."""

    def new_id(self) -> str:
        return f"task-{time.time():.1f}"


@mutant("ids-from-one", "L0-ADD-004 L1-ID-001 L1-FORK-003")
class IdsFromOne(Control):
    """Counts its ids from one in every object."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._count = itertools.count(1)

    def new_id(self) -> str:
        return f"task-{next(self._count)}"


@mutant("first-wins", "L0-ADD-005 L0-ADD-006 L0-SEQ-001 L0-SEQ-002 L1-OPEN-006 L1-OPEN-008")
class FirstWins(Control):
    """Keeps the first task of an id when it is added again."""

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        if task_id is not None and any(it[0] == task_id for it in self.pending_tasks()):
            return task_id
        return super().add_task(task, publish_at, task_id)


@mutant("sticky-delay", "L0-ADD-006")
class StickyDelay(Control):
    """Keeps the delay of a task that is added again without one."""

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        old = {it[0]: it[2] for it in self.pending_tasks()}
        return super().add_task(
            task, old.get(task_id or "") if publish_at is None else publish_at, task_id
        )


@mutant("all-floats", "L0-ADD-007")
class AllFloats(Control):
    """Reads every number as a float."""

    def pending_tasks(self) -> Tasks:
        return [
            (key, json.loads(json.dumps(task), parse_int=float), at)
            for key, task, at in super().pending_tasks()
        ]


@mutant("stores-then-refuses", "L0-ADD-008")
class StoresThenRefuses(Control):
    """Takes a place for a task before it finds out that it cannot be encoded."""

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        key = super().add_task(None, publish_at, task_id)
        return super().add_task(task, publish_at, key)


@mutant("keeps-references", "L0-ADD-009 L0-PEND-005")
class KeepsReferences(Control):
    """Answers from objects that its callers hold too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._listed: Tasks = []

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        key = super().add_task(task, publish_at, task_id)
        self._listed.append((key, task, publish_at))
        return key

    def pending_tasks(self) -> Tasks:
        return self._listed


@mutant("phantom-task", "L0-PEND-001")
class PhantomTask(Control):
    """Lists a task in a store that has none."""

    def pending_tasks(self) -> Tasks:
        return super().pending_tasks() or [("", None, None)]


@mutant("first-page-only", "L0-PEND-002")
class FirstPageOnly(Control):
    """Lists no more than twenty waiting tasks."""

    def pending_tasks(self) -> Tasks:
        return super().pending_tasks()[:20]


@mutant("whole-seconds", "L0-PEND-003")
class WholeSeconds(Control):
    """Cuts times to whole seconds."""

    def pending_tasks(self) -> Tasks:
        return [(key, task, at and float(int(at))) for key, task, at in super().pending_tasks()]


@mutant("a-year-at-most", "L0-PEND-003 L0-ADD-005 L1-OPEN-001")
class AYearAtMost(Control):
    """Takes no delay beyond a year."""

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        latest = time.time() + 366 * 86_400
        return super().add_task(task, publish_at and min(publish_at, latest), task_id)


@mutant("listed-once", "L0-PEND-004 L0-SEQ-001 L0-OPT-001")
class ListedOnce(Control):
    """Lists a waiting task the first time only."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._given: set[str] = set()

    def tick(self, now: float) -> float | None:
        self.pending_tasks()
        return None

    def pending_tasks(self) -> Tasks:
        fresh = [it for it in super().pending_tasks() if it[0] not in self._given]
        self._given |= {it[0] for it in fresh}
        return fresh


@mutant("one-list", "L0-PEND-006")
class OneList(Control):
    """Lists the dead among the waiting."""

    def pending_tasks(self) -> Tasks:
        dead: Tasks = [(it.task_id, it.context, None) for it in self.list_dead_tasks()]
        return [*super().pending_tasks(), *dead]


@mutant("removes-nothing", "L0-REM-001 L0-REM-003 L0-SEQ-001 L1-OPEN-003 L1-KILL-003")
class RemovesNothing(Control):
    """Keeps a waiting task that was removed."""

    def remove_task(self, task_id: str) -> None:
        return


@mutant("unknown-is-an-error", "L0-REM-002 L0-REM-003 L0-REM-006")
class UnknownIsAnError(Control):
    """Raises when the task to be removed does not wait."""

    def remove_task(self, task_id: str) -> None:
        if all(it[0] != task_id for it in self.pending_tasks()):
            raise KeyError(task_id)
        super().remove_task(task_id)


@mutant("unknown-takes-another", "L0-REM-002 L0-REM-003")
class UnknownTakesAnother(Control):
    """Removes the last task when the one asked for does not wait."""

    def remove_task(self, task_id: str) -> None:
        ids = [it[0] for it in self.pending_tasks()]
        super().remove_task(task_id if task_id in ids or not ids else ids[-1])


@mutant("unquotes-ids", "L0-REM-004")
class UnquotesIds(Control):
    """Decodes percent signs in the id of a task to be removed."""

    def remove_task(self, task_id: str) -> None:
        super().remove_task(unquote(task_id))


@mutant("tombstones", "L0-REM-005 L0-SEQ-001")
class Tombstones(Control):
    """Takes no task again whose id was removed once."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._removed: set[str] = set()

    def remove_task(self, task_id: str) -> None:
        self._removed.add(task_id)
        super().remove_task(task_id)

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        if task_id in self._removed:
            return str(task_id)
        return super().add_task(task, publish_at, task_id)


@mutant("counts-unknown-removals", "L0-REM-006")
class CountsUnknownRemovals(Control):
    """Starts over once it has counted more removals than tasks, and takes nothing along."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._removals = 0

    def remove_task(self, task_id: str) -> None:
        super().remove_task(task_id)
        self._removals += 1
        if self._removals > 1000:
            with self.transaction() as db:
                db.execute("DELETE FROM tasks")


@mutant("rotation-drops-delayed", "L0-ROT-001 L0-ROT-002")
class RotationDropsDelayed(Control):
    """Starts a new file after 20 MB and copies no delayed task into it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._bytes = 0

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        self._bytes += len(json.dumps(task))
        if self._bytes > 20_000_000:
            self._bytes = 0
            with self.transaction() as db:
                db.execute("DELETE FROM tasks WHERE publish_at IS NOT NULL")
        return super().add_task(task, publish_at, task_id)


@mutant("tick-gives-text", "L0-OPT-001")
class TickGivesText(Control):
    """Answers a tick in words."""

    def tick(self, now: float) -> Any:
        return "soon"


@mutant("sync-clears", "L0-OPT-002 L1-KILL-008")
class SyncClears(Control):
    """Takes a sync for the end of all work."""

    def sync(self) -> None:
        with self.transaction() as db:
            db.execute("DELETE FROM tasks")


@mutant("stats-count-themselves", "L0-OPT-003")
class StatsCountThemselves(Control):
    """Counts how often it was asked for its counts."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._asked = 0

    def stats(self) -> dict[str, int]:
        self._asked += 1
        return {**super().stats(), "asked": self._asked}


@mutant("close-drops", "L0-OPT-004 L0-SEQ-002 L0-SEQ-003")
class CloseDrops(Control):
    """Throws the waiting tasks away when it is closed."""

    def close(self) -> None:
        with self.transaction() as db:
            db.execute("DELETE FROM tasks")


@mutant("whole-frequencies", "L0-OPT-005")
class WholeFrequencies(Control):
    """Takes no frequency of fsync but one of at least a second."""

    def __init__(self, **options: Any) -> None:
        if options.get("fsync_frequency", 1) not in (0.5, 1, 3600.0):
            raise ValueError("fsync_frequency must be whole seconds")
        super().__init__(**options)
