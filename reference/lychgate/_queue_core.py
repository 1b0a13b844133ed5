"""The queue's memory: what waits, what runs, what is owed, and who may go on.

Rules of this file
  * No backend call, no waiting, no chance: bookkeeping and decisions that the thread queue and the
    asyncio queue share. What happens to a task at the facade is in `_queue_flow.py`.
  * Memory holds nothing that the store has not: losing all of it loses no task.
  * `lock` guards everything here. Threads wait on conditions over it; asyncio finds it free always.
  * An id is known once: a task that waits or runs is never taken in a second time.

    take -> RUNNING --conclude--> CONCLUDING -> forget, or WAITING again after a retry
                    --release---> RELEASED: grace ran out; the stored count was given back
"""

from __future__ import annotations

import enum
import heapq
import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from lychgate._backend import Abilities
from lychgate._clock import Clock
from lychgate._errors import ConfigError
from lychgate._policy import under_pressure
from lychgate._queue_errors import QueueClosed, QueueFull
from lychgate._queue_job import Job, begun
from lychgate._stats import Stats
from lychgate._task import Registry, TaskSpec, current

STORE_RETRY_S = 5.0
"""Seconds until a call that failed for the backend's own reasons is made again."""

_TICK_S_MIN = 0.01  # a backend that names a time already past must not make the loop spin


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a queue.

    concurrency      runs at one time
    high_water       tasks due or running from which on `enqueue` waits (U5)
    low_water        until so few are left; 80 % of high_water if not given
    enqueue_timeout  seconds that it waits before QueueFull
    grace            seconds that running tasks get after `stop` (U9)
    crashes_max      workers in a row that one task may take with it (U7)
    """

    concurrency: int = 8
    high_water: int = 10_000
    low_water: int | None = None
    enqueue_timeout: float = 30.0
    grace: float = 25.0
    crashes_max: int = 3

    def __post_init__(self) -> None:
        if self.concurrency < 1 or self.high_water < 1 or self.crashes_max < 1:
            raise ConfigError("concurrency, high_water and crashes_max are at least 1")
        if not 0 <= self.low < self.high_water:
            raise ConfigError("low_water is at least 0 and lower than high_water")
        if not (0 <= self.enqueue_timeout < math.inf and 0 <= self.grace < math.inf):
            raise ConfigError("enqueue_timeout and grace are seconds, from 0 on, finite")

    @property
    def low(self) -> int:
        """The low-water mark, given or not."""
        return self.high_water * 4 // 5 if self.low_water is None else self.low_water


class Phase(enum.Enum):
    """Where a task in memory is."""

    WAITING = "waiting"
    RUNNING = "running"
    CONCLUDING = "concluding"
    RELEASED = "released"


@dataclass(slots=True, eq=False)
class Item:
    """A task in memory. `publish_at` is as stored, None for at once."""

    task_id: str
    spec: TaskSpec
    job: Job
    publish_at: float | None
    phase: Phase = Phase.WAITING


@dataclass(frozen=True, slots=True)
class Wakeups:
    """How the core tells its queue that somebody may go on. Called with the lock held."""

    work: Callable[[], None]  # a task is due and a run may start
    room: Callable[[], None]  # producers need not wait any longer
    loop: Callable[[], None]  # the run loop's next turn comes earlier than it thinks


class Core:
    """One queue's memory."""

    def __init__(
        self,
        abilities: Abilities,
        registry: Registry,
        limits: Limits,
        clock: Clock,
        lock: threading.RLock,
        wakeups: Wakeups,
    ) -> None:
        self.abilities = abilities
        self.registry = registry
        self.limits = limits
        self.clock = clock
        self.lock = lock
        self._stats = Stats()
        self.loaded = False
        self.taking = False  # a run loop is active and no stop was asked for
        self.stopping = False
        self.closed = False
        self.interrupted = False  # a task raised KeyboardInterrupt
        self.owed: dict[str, None] = {}  # ids to remove again: the first removal failed
        self.changes = 0  # calls since the start after which a tick may be wanted
        self.tick_at: float | None = 0.0 if abilities.tick else None
        self.claim_at = 0.0 if abilities.claims else math.inf
        self.owed_at = math.inf
        self._wakeups = wakeups
        self._items: dict[str, Item] = {}
        self._delayed: list[tuple[float, int, Item]] = []
        self._order = count()
        self._ready: deque[Item] = deque()
        self._suspects: deque[Item] = deque()
        self._running: dict[str, Item] = {}
        self._admitted = 0  # producers between `admit` and the end of their enqueue
        self._pressure = False

    # --- producers ----------------------------------------------------------------------------

    def admit(self) -> bool:
        """Whether a producer may enqueue now; True reserves a place until `admitted` (U5).

        A running task never waits for its own queue: if all of them did, nothing would move.
        """
        with self.lock:
            if self.closed:
                raise QueueClosed("the queue was closed; nothing was enqueued")
            self._promote()
            if self._pressure and current() is None:
                return False
            self._admitted += 1
            self._weigh()
            return True

    def full(self) -> QueueFull:
        """What to raise at a producer that waited long enough, or waits in vain."""
        if self.stopping:
            return QueueFull("the queue is full and stopping; enqueue again after the next start")
        return QueueFull(
            f"{self.backlog()} tasks are due or running, and for {self.limits.enqueue_timeout:g} s "
            f"they did not fall to {self.limits.low}; run more workers, raise high_water, or "
            "enqueue again later"
        )

    def admitted(self) -> None:
        """The producer's enqueue has ended, well or not."""
        with self.lock:
            assert self._admitted > 0, "every admission ends once"
            self._admitted -= 1
            self._weigh()

    def backlog(self) -> int:
        """Tasks that are due, run, or are owed a removal. Those that wait for a later time do not
        count: a mark that they held up would hold up every producer for years."""
        return (
            len(self._ready)
            + len(self._suspects)
            + len(self._running)
            + len(self.owed)
            + self._admitted
        )

    def _weigh(self) -> None:
        limits, before = self.limits, self._pressure
        self._pressure = under_pressure(before, self.backlog(), limits.high_water, limits.low)
        if before and not self._pressure:
            self._wakeups.room()

    # --- waiting tasks ------------------------------------------------------------------------

    def knows(self, task_id: str) -> bool:
        """Whether a task is in memory already."""
        return task_id in self._items

    def schedule(self, task_id: str, spec: TaskSpec, job: Job, publish_at: float | None) -> None:
        """Take in a task that the store holds."""
        with self.lock:
            assert task_id not in self._items, "a store gives an id once, and a start asks `knows`"
            item = self._items[task_id] = Item(task_id, spec, job, publish_at)
            self._wait(item, publish_at)

    def reschedule(self, item: Item, job: Job, publish_at: float | None, due: float) -> None:
        """Put a task back that ran or could not run; due by then."""
        with self.lock:
            self._running.pop(item.task_id, None)
            item.job, item.publish_at, item.phase = job, publish_at, Phase.WAITING
            self._wait(item, due)
            self._after_run()

    def _wait(self, item: Item, due: float | None) -> None:
        if due is None or due <= self.clock.now():
            self._make_ready(item)
            return
        heapq.heappush(self._delayed, (due, next(self._order), item))
        if self._delayed[0][2] is item:
            self._wakeups.loop()

    def _make_ready(self, item: Item) -> None:
        (self._suspects if item.job.crashes else self._ready).append(item)
        self._weigh()
        self._wakeups.work()

    def _promote(self) -> None:
        now = self.clock.now()
        while self._delayed and self._delayed[0][0] <= now:
            self._make_ready(heapq.heappop(self._delayed)[2])

    # --- running tasks ------------------------------------------------------------------------

    def take(self) -> Item | None:
        """The next task to run, None when none may start now.

        A suspect is a task that was under way when its worker died, guilty or not. One suspect runs
        at a time, so that the next death counts against one of them and not against them all (U7).
        """
        with self.lock:
            self._promote()
            if not self.taking or len(self._running) >= self.limits.concurrency:
                return None
            if self._suspects and not any(item.job.crashes for item in self._running.values()):
                item = self._suspects.popleft()
            elif self._ready:
                item = self._ready.popleft()
            else:
                return None
            assert item.phase is Phase.WAITING, "a task runs once at a time"
            item.phase, item.job = Phase.RUNNING, begun(item.job)
            self._running[item.task_id] = item
            return item

    def conclude(self, item: Item) -> bool:
        """The run has ended. False when its count was given back in the meantime."""
        with self.lock:
            if item.phase is Phase.RELEASED:
                return False
            item.phase = Phase.CONCLUDING
            return True

    def release(self, item: Item) -> bool:
        """Grace ran out. False when the run has ended after all."""
        with self.lock:
            if item.phase is not Phase.RUNNING:
                return False
            item.phase = Phase.RELEASED
            return True

    def forget(self, item: Item) -> None:
        """The task is removed, dead, lost to another worker, or left for the next start."""
        with self.lock:
            self._running.pop(item.task_id, None)
            if self._items.get(item.task_id) is item:
                del self._items[item.task_id]
            self._after_run()

    def _after_run(self) -> None:
        self._weigh()
        if self._ready or self._suspects:
            self._wakeups.work()
        if self.stopping or self.hungry() or self.idle():
            self._wakeups.loop()

    def running(self) -> list[Item]:
        """What is between `take` and its end."""
        with self.lock:
            return list(self._running.values())

    # --- the run loop -------------------------------------------------------------------------

    def stop(self) -> None:
        """Take no more work (U9)."""
        with self.lock:
            self.stopping, self.taking = True, False
            self._wakeups.room()
            self._wakeups.loop()

    def interrupt(self) -> None:
        """A task raised KeyboardInterrupt: stop, and let the run loop raise it."""
        self.interrupted = True
        self.stop()

    def owe(self, task_id: str) -> None:
        """A removal failed: the task is done and must go from the store (U3)."""
        with self.lock:
            self.owed[task_id] = None
            self.owed_at = self.clock.now() + STORE_RETRY_S
            self._weigh()
            self._wakeups.loop()

    def paid(self, task_id: str) -> None:
        """The removal was made after all."""
        with self.lock:
            self.owed.pop(task_id, None)
            if not self.owed:
                self.owed_at = math.inf
            self._weigh()

    def ticked(self, changes: int, due: float | None) -> None:
        """A tick, begun when `changes` calls had been made, wants to be called again when due."""
        with self.lock:
            now = self.clock.now()
            if due is not None:
                self.tick_at = max(due, now + _TICK_S_MIN)
            else:
                self.tick_at = None if self.changes == changes else now

    def touched(self) -> None:
        """A call changed the store: the backend may want a tick that it did not ask for (D1)."""
        with self.lock:
            self.changes += 1
            if self.abilities.tick and self.tick_at is None:
                self.tick_at = self.clock.now()
                self._wakeups.loop()

    def hungry(self) -> bool:
        """Whether a claim is wanted: there is room, and the last one may have left some (Q5)."""
        has_room = len(self._ready) < self.limits.concurrency and not self._pressure
        return self.taking and has_room and self.clock.now() >= self.claim_at

    def idle(self) -> bool:
        """Nothing is due and nothing runs; tasks may wait for a later time."""
        with self.lock:
            self._promote()
            return not (self._ready or self._suspects or self._running or self.hungry())

    def seconds_to_turn(self) -> float:
        """How long the run loop may wait; infinite when only a wake-up can bring work."""
        with self.lock:
            self._promote()
            moments = [self.owed_at, math.inf if self.tick_at is None else self.tick_at]
            if self._delayed:
                moments.append(self._delayed[0][0])
            if self.taking and not self._pressure and len(self._ready) < self.limits.concurrency:
                moments.append(self.claim_at)
            return max(0.0, min(moments) - self.clock.now())

    def count(self, name: str) -> None:
        """One more of what `stats` tells (D33)."""
        with self.lock:
            self._stats.count(name)

    def snapshot(self) -> dict[str, int]:
        """The queue's counters and its sizes now."""
        with self.lock:
            self._promote()
            sizes = {
                "queue_backlog": self.backlog(),
                "queue_delayed": len(self._delayed),
                "queue_running": len(self._running),
            }
            return {**{f"queue_{k}": v for k, v in self._stats.snapshot().items()}, **sizes}
