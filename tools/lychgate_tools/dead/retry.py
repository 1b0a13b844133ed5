"""Bringing dead tasks back to life from the command line (U4, U8).

    add the task under a fresh id, with a link to the old one   for each of a batch
    sync                                                        once
    remove the dead records                                     once

Rules of this file
  * The snapshot is taken once: a task that dies again meanwhile is not met a second time, and a
    record that was added later is not removed.
  * A batch is short, so that little is in both places at any time. An interrupt or an error ends
    the batch in hand the same way before it goes on: what was added is synced, and its dead records
    are removed. Killed in between, a task is in both places and may run twice; it is never in none.
  * Whether a task's class is known is for the worker to say that loads it; one that is not known
    comes back to the dead tasks (U6).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from lychgate import DeadTask, Unloadable
from lychgate._queue_job import again, from_json, to_json
from lychgate_tools.dead.records import Filter, Json, Record, Ref, Store

BATCH_MAX = 500
"""Tasks between two syncs, each of which costs a compaction on disk."""

BATCH_S = 2.0
"""Seconds that a batch takes where a rate makes it slow."""


@dataclass(slots=True)
class Group:
    """One dead task: its newest record, which is the one that counts (D26), and all of them."""

    newest: Ref
    task_id: str
    chosen: bool
    refs: list[Ref] = field(default_factory=list)


def groups(store: Store, wanted: Filter, ids: frozenset[str]) -> list[Group]:
    """The dead tasks of this moment whose newest record is wanted, oldest first."""
    found: dict[str, Group] = {}
    for record in store.records():
        dead = record.dead
        chosen = dead.task_id in ids if ids else wanted(dead)
        group = found.pop(dead.task_id, None) or Group(record.ref, dead.task_id, chosen)
        group.newest, group.chosen = record.ref, chosen
        group.refs.append(record.ref)
        found[dead.task_id] = group
    return [group for group in found.values() if group.chosen]


@dataclass(slots=True)
class Tally:
    """What became of the dead tasks that were to be brought back."""

    revived: int = 0
    not_retriable: int = 0
    gone: int = 0  # somebody else removed them first
    twice: int = 0  # the same, after they were added: they may run twice
    left: int = 0  # added, and not removed from the dead ones, because that failed


def job_of(dead: DeadTask, now: float) -> dict[str, object]:
    """The task that does a dead one's work. Raises Unloadable."""
    context = dead.context
    value = context.value() if isinstance(context, Json) else context
    return to_json(again(from_json(value), dead.task_id, now))


class Retry:
    """One run over a snapshot. `told` is called with each id and its fresh one, or the reason."""

    def __init__(
        self, store: Store, rate: float | None, told: Callable[[str, str | None, str], None]
    ) -> None:
        self._store = store
        self._rate = rate
        self._told = told
        self._batch: list[Group] = []
        self._batch_max = BATCH_MAX if rate is None else min(BATCH_MAX, max(1, int(rate * BATCH_S)))
        self.tally = Tally()

    def run(self, chosen: list[Group]) -> Iterator[int]:
        """Bring them back, one after the other; after each, how many are done with."""
        start = time.monotonic()
        try:
            for number, group in enumerate(chosen):
                if self._rate is not None:
                    time.sleep(max(0.0, start + number / self._rate - time.monotonic()))
                self._one(group)
                if len(self._batch) >= self._batch_max:
                    self._settle()
                yield number + 1
        finally:  # an interrupt, an error and the end alike
            self._settle()

    def _one(self, group: Group) -> None:
        record: Record | None = self._store.load(group.newest)
        if record is None:
            self.tally.gone += 1
            self._told(group.task_id, None, "somebody else has removed it")
            return
        try:
            job = job_of(record.dead, time.time())
        except Unloadable as error:
            self.tally.not_retriable += 1
            self._told(group.task_id, None, str(error))
            return
        fresh = self._store.revive(job)
        self._batch.append(group)
        self._told(group.task_id, fresh, "")

    def _settle(self) -> None:
        """Only what is durable as a live task may go from the dead ones (U4)."""
        batch, self._batch = self._batch, []
        if not batch:
            return
        self.tally.left += len(batch)
        self._store.sync()
        refs = [ref for group in batch for ref in group.refs]
        removed = self._store.remove(refs)
        self.tally.left -= len(batch)
        self.tally.revived += len(batch)
        self.tally.twice += max(0, len(refs) - removed)
