"""What may be seen: the meaning of the abstract spec, kept beside a run.

    acknowledged   must hold from then on, through any crash that the promise covers
    in flight      may or may not have happened
    failed         definite: has not happened; indefinite: may have happened
    all else       must not have changed

Rules of this file
  * A record is (id, serial): every write of a run has a serial of its own.
  * An interval rule decides what a read must or must not show, so that concurrent operations give
    no false alarm: a read that overlaps a change may show either.
  * A record whose add failed or was cut off by a crash, and which a later read did not show, must
    never appear again (D29). What a read did show is promised only if it was acknowledged (D34).
  * The WAL is durable at the ack with frequency 0, else at the next sync that is acknowledged;
    the end of a process loses nothing acknowledged in either case (W3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
        )


class Oracle:
    """The state of one run. `clone` before going on in two directions."""

    def __init__(self, dead: Sequence[Record], tasks: Sequence[Record], frequency: float) -> None:
        self.time = 0
        self.frequency = frequency
        self.adds: dict[Record, Change] = {
            record: Change(-len(dead) + n, -len(dead) + n, ACKED) for n, record in enumerate(dead)
        }
        self.removals: dict[str, list[Change]] = {}
        self.tasks: dict[str, list[Change]] = {
            key: [Change(-1, -1, ACKED, serial, durable=True)] for key, serial in tasks
        }
        self.gone: set[Record] = set()
        self.moved: dict[str, str] = {}  # a dead task's id to the id it is retried under

    def clone(self) -> Oracle:
        other = Oracle((), (), self.frequency)
        other.time = self.time
        other.adds = {record: change.copy() for record, change in self.adds.items()}
        other.removals = {k: [c.copy() for c in found] for k, found in self.removals.items()}
        other.tasks = {k: [c.copy() for c in found] for k, found in self.tasks.items()}
        other.gone = set(self.gone)
        other.moved = dict(self.moved)
        return other

    # --- events -----------------------------------------------------------------------------------

    def _now(self) -> int:
        self.time += 1
        return self.time

    def start_add(self, record: Record) -> Change:
        change = self.adds[record] = Change(self._now(), serial=record[1])
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
        has made it durable before it returned (W3)."""
        change.clock = clock
        mine = [
            other
            for changes in self.tasks.values()
            for other in changes
            if other.status == ACKED and other.worker == change.worker and not other.durable
        ]
        if any(other.clock + self.frequency <= clock for other in mine if other.end < change.start):
            for other in mine:
                other.durable = True

    def crash(self) -> None:
        """Everything in flight is cut off."""
        now = self._now()
        for change in self._changes():
            if change.status == FLIGHT:
                change.end, change.status = now, MAYBE

    def signature(self) -> tuple[object, ...]:
        """Equal for equal pasts: who did what, and in which order."""
        return (
            tuple((c.start, c.end, c.status, c.durable, c.clock) for c in self._changes()),
            frozenset(self.gone),
        )

    def _changes(self) -> Iterable[Change]:
        yield from self.adds.values()
        for found in (*self.removals.values(), *self.tasks.values()):
            yield from found

    # --- the dead-task store ----------------------------------------------------------------------

    def must_show(self, record: Record, since: int, until: int, handoffs: bool = True) -> bool:
        """Whether a read in this interval must show a record."""
        add = self.adds[record]
        if add.status != ACKED or add.end >= since:
            return False
        for removal in self.removals.get(record[0], ()):
            if removal.status == NO or removal.start > until or removal.end < add.start:
                continue
            if handoffs or not removal.handoff:
                return False
        return True

    def must_hide(self, record: Record, since: int, until: int) -> str:
        """Why a read in this interval must not show a record; empty when it may."""
        add = self.adds.get(record)
        if add is None:
            return "alien-record"
        if add.start > until:
            return "record-before-its-add"
        if add.status == NO and add.end < since:
            return "definite-failure-visible"
        if record in self.gone:
            return "absent-came-back"
        for removal in self.removals.get(record[0], ()):
            if removal.status == ACKED and removal.start > add.end and removal.end < since:
                return "removed-came-back"
        return ""

    def check_list(self, shown: Sequence[Record], since: int, until: int) -> str:
        """A list of the whole store: what is wrong with it, empty when nothing is."""
        if len(set(shown)) != len(shown):
            return f"duplicate-record: {_twice(shown)}"
        for record in shown:
            if why := self.must_hide(record, since, until):
                return f"{why}: {record}"
        present = set(shown)
        for record in self.adds:
            if record not in present and self.must_show(record, since, until):
                return f"acknowledged-add-lost: {record}"
        for earlier, later in zip(shown, shown[1:], strict=False):
            if self.adds[later].status == ACKED and self.adds[later].end < self.adds[earlier].start:
                return f"order-changed: {later} was acknowledged before {earlier} began"
        return ""

    def note_list(self, shown: Sequence[Record], since: int) -> None:
        """Remember what a read did not show although it might have (D29)."""
        present = set(shown)
        for record, add in self.adds.items():
            if add.status == MAYBE and add.end < since and record not in present:
                self.gone.add(record)

    def check_find(self, key: str, found: Record | None, since: int, until: int) -> str:
        """The newest record of an id."""
        must = [
            record
            for record in self.adds
            if record[0] == key and self.must_show(record, since, until)
        ]
        if found is None:
            return f"acknowledged-add-lost: find gave nothing for {must[0]}" if must else ""
        if found[0] != key:
            return f"wrong-record-found: {found} for {key}"
        if why := self.must_hide(found, since, until):
            return f"{why}: {found} (find)"
        for record in must:
            if self.adds[record].start > self.adds[found].end:
                return f"older-record-found: {found} although {record} is newer"
        return ""

    def note_find(self, key: str, found: Record | None, since: int) -> None:
        """A find that gave nothing says that every record of the id is absent."""
        if found is None:
            for record, add in self.adds.items():
                if record[0] == key and add.status == MAYBE and add.end < since:
                    self.gone.add(record)

    def check_removed(self, key: str, count: int, change: Change) -> str:
        """What a remove of one id returned, before it is noted as finished."""
        others = [c for c in self.removals.get(key, ()) if c is not change]
        alone = all(c.end < change.start for c in others)
        records = [record for record in self.adds if record[0] == key]
        before = change.start
        must = [
            record
            for record in records
            if self.adds[record].status == ACKED
            and self.adds[record].end < before
            and all(c.status == NO or c.end < self.adds[record].start for c in others)
        ]
        if count not in (0, 1):
            return f"wrong-count: {count} for one id"
        if count == 0 and must and alone:
            return f"wrong-count: 0 although {must[0]} was acknowledged"
        may = any(not self.must_hide(r, before, OPEN_END) for r in records)
        if count == 1 and not may:
            return f"wrong-count: 1 although no record of {key} could be there"
        return ""

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
        now = self.time
        for old, fresh in self.moved.items():
            records = [record for record in self.adds if record[0] == old]
            held = any(self.must_show(r, now, now, handoffs=False) for r in records)
            if held and not self._is_kept(old, places):
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
