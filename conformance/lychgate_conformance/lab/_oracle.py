"""What was done in a run and what is known of it, kept beside it; what may be seen of the WAL.

    acknowledged   must hold from then on, through any crash that the promise covers
    in flight      may or may not have happened
    failed         definite: has not happened; indefinite: may have happened
    all else       must not have changed

Rules of this file
  * A record is (id, serial): every write of a run has a serial of its own.
  * On the dead tasks the suite's oracle decides (`_dead_history`); what is kept here is what was
    done, and when.
  * On the tasks of the WAL an interval rule decides, for several processes may hold one id (W12):
    a read that overlaps a change may show either.
  * The WAL is durable at the ack with frequency 0, else at the next sync that is acknowledged;
    the end of a process loses nothing acknowledged in either case (W3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lychgate_conformance._oracle import Did

Record = tuple[str, int]
"""Task id and serial."""

FLIGHT, ACKED, MAYBE, NO = "in flight", "acknowledged", "indefinite", "definite failure"

OPEN_END = 1 << 60


@dataclass(slots=True)
class Change:
    """One operation and what is known of it. Times count events."""

    start: int
    end: int = OPEN_END
    status: str = FLIGHT
    serial: int = 0
    worker: int = 0
    clock: float = 0.0
    removes: bool = False
    durable: bool = False
    handoff: bool = False
    """A removal that is the second half of moving a task elsewhere (U3, U4)."""
    beside: bool = False
    """A task written by a worker that may not own what was there under its id: anything goes."""
    count: int | None = None
    """What a removal of dead tasks returned."""

    def copy(self) -> Change:
        """The same, three times as fast as `dataclasses.replace`: a run makes millions of them."""
        return Change(
            self.start,
            self.end,
            self.status,
            self.serial,
            self.worker,
            self.clock,
            self.removes,
            self.durable,
            self.handoff,
            self.beside,
            self.count,
        )


class Oracle:
    """The state of one run. `clone` before going on in two directions."""

    def __init__(self, dead: Sequence[Record], tasks: Sequence[Record], frequency: float) -> None:
        self.time = 0
        self.frequency = frequency
        self.first = tuple(dead)
        self.adds: list[tuple[Record, Change]] = [
            (record, Change(-len(dead) + n, -len(dead) + n, ACKED)) for n, record in enumerate(dead)
        ]
        self.removals: dict[str, list[Change]] = {}
        self.tasks: dict[str, list[Change]] = {
            key: [Change(-1, -1, ACKED, serial, durable=True)] for key, serial in tasks
        }
        self.reads: list[Did] = []
        """Lists and finds of dead tasks that have returned."""
        self.host_crash = 0
        """When the host crashed last."""
        self.moved: dict[str, str] = {}  # a dead task's id to the id it is retried under
        self.possible: dict[bool, frozenset[tuple[Record, ...]]] = {}
        """Remembered until the next event: what the store may hold, with binding reads or not."""

    def clone(self) -> Oracle:
        other = Oracle((), (), self.frequency)
        other.time = self.time
        other.first = self.first
        other.adds = [(record, change.copy()) for record, change in self.adds]
        other.removals = {k: [c.copy() for c in found] for k, found in self.removals.items()}
        other.tasks = {k: [c.copy() for c in found] for k, found in self.tasks.items()}
        other.reads = list(self.reads)
        other.host_crash = self.host_crash
        other.moved = dict(self.moved)
        return other

    # --- events -----------------------------------------------------------------------------------

    def _now(self) -> int:
        self.time += 1
        self.possible.clear()
        return self.time

    def start_add(self, record: Record) -> Change:
        change = Change(self._now(), serial=record[1])
        self.adds.append((record, change))
        return change

    def start_remove(self, key: str, handoff: bool) -> Change:
        change = Change(self._now(), removes=True, handoff=handoff)
        if handoff:
            self.moved[key] = f"{key}-again"
        self.removals.setdefault(key, []).append(change)
        return change

    def start_task(self, key: str, serial: int, worker: int = 0, beside: bool = False) -> Change:
        change = Change(self._now(), serial=serial, worker=worker, beside=beside)
        self.tasks.setdefault(key, []).append(change)
        return change

    def start_done(self, key: str, worker: int = 0, handoff: bool = False) -> Change:
        change = Change(self._now(), worker=worker, removes=True, handoff=handoff)
        self.tasks.setdefault(key, []).append(change)
        return change

    def start_read(self) -> Change:
        return Change(self._now())

    def finish(self, change: Change, status: str) -> None:
        """An operation returned or raised."""
        change.end, change.status = self._now(), status
        if status == ACKED and self.frequency == 0:
            change.durable = True

    def synced(self, sync: Change, worker: int = 0, since: int = 0) -> None:
        """A sync (or close) of a worker was acknowledged: what that worker was told before it began
        (and since some time) is durable."""
        for changes in self.tasks.values():
            for change in changes:
                if change.status == ACKED and since <= change.end < sync.start:
                    change.durable = change.durable or change.worker == worker

    def written(self, change: Change, clock: float) -> None:
        """A change of the WAL was acknowledged at this time. When the batch was past due, the call
        has made it durable before it returned (W3). It says nothing of the change itself: a
        rotation may have made the batch durable before, and this change begins the next one."""
        change.clock = clock
        batch = [
            other
            for changes in self.tasks.values()
            for other in changes
            if other.status == ACKED and other.worker == change.worker and not other.durable
            if other.end < change.start
        ]
        if any(other.clock + self.frequency <= clock for other in batch):
            for other in batch:
                other.durable = True

    def crash(self) -> None:
        """Everything in flight is cut off."""
        now = self._now()
        for change in self._changes():
            if change.status == FLIGHT:
                change.end, change.status = now, MAYBE

    def rebooted(self) -> None:
        """What follows runs after a crash of the host: earlier reads bind no more (D34)."""
        self.host_crash = self._now()

    def signature(self) -> tuple[object, ...]:
        """Equal for equal pasts: who did what, and in which order."""
        return (
            tuple((c.start, c.end, c.status, c.durable, c.clock) for c in self._changes()),
            tuple((read.begun, read.ended) for read in self.reads),
        )

    def _changes(self) -> Iterable[Change]:
        yield from (change for _, change in self.adds)
        for found in (*self.removals.values(), *self.tasks.values()):
            yield from found

    # --- the dead-task store ----------------------------------------------------------------------

    def must_hold(self, key: str) -> bool:
        """Whether a record of an id is there for sure, or has been handed on."""
        for (task_id, _), add in self.adds:
            if task_id == key and add.status == ACKED and not self._may_be_removed(key, add):
                return True
        return False

    def _may_be_removed(self, key: str, add: Change) -> bool:
        return any(
            removal.status != NO and removal.end >= add.start and not removal.handoff
            for removal in self.removals.get(key, ())
        )

    # --- the WAL ----------------------------------------------------------------------------------

    def check_tasks(
        self,
        shown: Sequence[Record],
        host_crashed: bool,
        owned: frozenset[str] | None = None,
        since: int = OPEN_END,
    ) -> str:
        """The live tasks (of all ids, or of the ids that the reader owns), read since some time."""
        keys = [key for key, _ in shown]
        if len(set(keys)) != len(keys):
            return f"duplicate-task: {_twice(keys)}"
        for key, serial in shown:
            if serial not in self._task_states(key, host_crashed, since):
                known = any(change.serial == serial for change in self.tasks.get(key, ()))
                return f"{'task-came-back' if known else 'alien-task'}: {(key, serial)}"
        for key in self.tasks:
            if key in keys or (owned is not None and key not in owned):
                continue
            if None not in self._task_states(key, host_crashed, since):
                return f"acknowledged-task-lost: {key}"
        return ""

    def _task_states(
        self, key: str, host_crashed: bool, since: int = OPEN_END, handoffs: bool = True
    ) -> set[int | None]:
        """The serials that a task may have, None for absent."""
        changes = [
            change
            for change in self.tasks.get(key, ())
            if change.status != NO and (handoffs or not change.handoff)
        ]
        if any(change.beside for change in changes):
            return {None, *(change.serial for change in changes if not change.removes)}
        sure = [
            position
            for position, change in enumerate(changes)
            if change.status == ACKED
            and change.end < since
            and (change.durable or not host_crashed)
        ]
        first = sure[-1] if sure else 0
        states: set[int | None] = set() if sure else {None}
        for change in changes[first:]:
            states.add(None if change.removes else change.serial)
        return states

    # --- both -------------------------------------------------------------------------------------

    def check_custody(
        self, dead: Sequence[Record], tasks: Sequence[Record], host_crashed: bool
    ) -> str:
        """A task on its way from one store to the other is in one of them (U3, U4)."""
        places = {key for key, _ in tasks} | {key for key, _ in dead}
        for key in self.tasks:
            handed = any(change.handoff for change in self.tasks[key])
            if handed and not self._is_kept(key, places):
                if None not in self._task_states(key, host_crashed, handoffs=False):
                    return f"custody-lost: {key} is neither a task nor dead"
        for old, fresh in self.moved.items():
            if self.must_hold(old) and not self._is_kept(old, places):
                return f"custody-lost: {old} is neither dead nor back as {fresh}"
        return ""

    def _is_kept(self, key: str, places: set[str]) -> bool:
        """Whether an id is in a store, or was taken out for good, or its successor is or was."""
        if key in places:
            return True
        ends = [c for c in self.tasks.get(key, ()) if c.removes] + self.removals.get(key, [])
        if any(not change.handoff and change.status != NO for change in ends):
            return True
        fresh = self.moved.get(key)
        return fresh is not None and self._is_kept(fresh, places)


def _twice(items: Sequence[object]) -> object:
    return next(item for position, item in enumerate(items) if item in items[:position])
