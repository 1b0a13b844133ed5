"""`Queue`: the queue of threads.

    queue = Queue(configure("disk", path="storage"))
    queue.enqueue(send, "a@b.example", delay=60)
    queue.run()                      # until SIGTERM, SIGINT or stop()

Rules of this file
  * How to run and wait, nothing else: decisions are in `_queue_core.py`, calls in `_queue_flow.py`.
  * Threads: `run` keeps the calling thread for ticks, claims and due times; `concurrency` workers
    help themselves to tasks. They are daemons: one that outstays its grace keeps no process.
  * Conditions over the core's lock: `_work` for workers, `_room` for producers, `_turn` for `run`.
  * Nothing of a queue survives a fork: the child starts with empty memory, and what the parent has
    in its memory is the parent's to run (W13).
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import FrameType, TracebackType
from typing import Self, TypeVar

from lychgate import _queue_flow as flow
from lychgate._backend import CHANGES, Backend, probe
from lychgate._clock import Clock, SystemClock
from lychgate._queue_core import Core, Item, Limits, Wakeups
from lychgate._queue_drive import Effect, Program, Run, drive, run_here
from lychgate._queue_errors import QueueBusy, QueueClosed
from lychgate._task import Registry, registry

R = TypeVar("R")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_log = logging.getLogger("lychgate.queue")


class Queue:
    """Runs deferred tasks from a backend, which it owns from now on and closes.

    Any thread may enqueue; one at a time may `run`. What happens when is said in `Limits`.
    """

    def __init__(
        self,
        backend: Backend,
        limits: Limits = Limits(),
        *,
        registry: Registry = registry,
        clock: Clock = SystemClock(),
    ) -> None:
        self._backend = backend
        self._abilities = probe(backend)
        self._limits = limits
        self._registry = registry
        self._clock = clock
        self._start()

    def _start(self) -> None:
        """Empty memory: at the beginning, and in a forked child."""
        self._pid = self._clock.pid()
        lock = threading.RLock()
        self._work = threading.Condition(lock)
        self._room = threading.Condition(lock)
        self._turn = threading.Condition(lock)
        wakeups = Wakeups(self._work.notify, self._room.notify_all, self._turn.notify)
        self._core = Core(
            self._abilities, self._registry, self._limits, self._clock, lock, wakeups
        )
        self._loading = threading.Lock()
        self._is_run = threading.Lock()

    def _mine(self) -> Core:
        if self._pid != self._clock.pid():
            self._start()
        return self._core

    # --- for producers ------------------------------------------------------------------------

    def enqueue(
        self,
        task: object,
        /,
        *args: object,
        delay: float | timedelta | None = None,
        delay_until: float | datetime | None = None,
        **kwargs: object,
    ) -> str:
        """Store a task to be run with these arguments, at once or later; its id (U1).

        `delay` counts from now; `delay_until` is seconds since the epoch or an aware datetime.
        Raises TypeError (arguments that do not fit the task), Refused (that cannot be stored),
        QueueFull (U5), or what the backend raises.
        """
        core = self._mine()
        spec, job, publish_at = flow.entry(core, task, args, kwargs, delay, delay_until)
        self._admit(core)
        if core.loaded:
            return self._drive(flow.enqueue(core, spec, job, publish_at))
        with self._loading:  # else the start could read the task and run it before it is scheduled
            return self._drive(flow.enqueue(core, spec, job, publish_at))

    def _admit(self, core: Core) -> None:
        deadline = self._clock.elapsed() + core.limits.enqueue_timeout
        with core.lock:
            while not core.admit():
                left = deadline - self._clock.elapsed()
                if left <= 0 or core.stopping:
                    raise core.full()
                self._clock.wait(self._room, left)

    def retry_dead(self, task_id: str) -> str:
        """Bring a dead task back to life: the id of the fresh task that does its work (U4, U8)."""
        return self._drive(flow.retry_dead(self._mine(), task_id))

    def retry_all_dead(self) -> dict[str, str]:
        """Bring back all dead tasks of this moment: old ids to fresh ones (U8)."""
        return self._drive(flow.retry_all_dead(self._mine()))

    def stats(self) -> dict[str, int]:
        """Counters and sizes of the queue, and the backend's counters beside them (D33)."""
        own = self._mine().snapshot()
        stored = getattr(self._backend, "stats")() if self._abilities.stats else {}
        return {**stored, **own}

    # --- the run loop -------------------------------------------------------------------------

    def run(self, *, until_idle: bool = False, signals: bool = True) -> None:
        """Run tasks until `stop` (U9), or until nothing is due and nothing runs.

        With `signals`, and in the main thread, SIGTERM and SIGINT stop it gracefully; a second
        SIGINT cuts the grace short.
        """
        core = self._mine()
        if core.closed or core.stopping:
            raise QueueClosed("the queue has stopped; make a new one over a new backend")
        if not self._is_run.acquire(blocking=False):
            raise QueueBusy("the queue is running already")
        try:
            if not core.loaded:
                with self._loading:
                    self._drive(flow.load(core))
            with self._handled(signals):
                self._run(core, until_idle)
        finally:
            self._is_run.release()
        if core.interrupted:
            raise KeyboardInterrupt

    def _run(self, core: Core, until_idle: bool) -> None:
        threads = [
            threading.Thread(target=self._help, args=(core,), name=f"lychgate-{n}", daemon=True)
            for n in range(core.limits.concurrency)
        ]
        try:
            with core.lock:
                core.taking = not core.stopping
            for thread in threads:
                thread.start()
            while self._take_turn(core, until_idle):
                pass
            if core.stopping:
                self._give_grace(core)
        except KeyboardInterrupt:
            core.interrupt()
        with core.lock:
            core.taking = False
            self._work.notify_all()
        if core.stopping:
            self._drive(flow.leave(core))
        else:
            for thread in threads:
                thread.join()

    def _take_turn(self, core: Core, until_idle: bool) -> bool:
        """Ticks, claims, removals owed; then wait. False when there is no next turn."""
        self._drive(flow.turn(core))
        with core.lock:  # nothing changes between the look and the wait
            if core.stopping or (until_idle and core.idle()):
                return False
            if (seconds := core.seconds_to_turn()) > 0:
                self._clock.wait(self._turn, seconds)
        return True

    def _give_grace(self, core: Core) -> None:
        """Let running tasks end; ticks go on, for a worker that is heard of keeps its tasks."""
        deadline = self._clock.elapsed() + core.limits.grace
        while core.running() and self._clock.elapsed() < deadline:
            self._drive(flow.turn(core))
            with core.lock:
                left = min(deadline - self._clock.elapsed(), core.seconds_to_turn())
                if left > 0 and core.running():
                    self._clock.wait(self._turn, left)

    def _help(self, core: Core) -> None:
        """A worker: take a task, run it, again."""
        while (item := self._next(core)) is not None:
            try:
                self._drive(flow.attempt(core, item))
            except Exception:  # a fault of the queue itself must not cost a worker
                _log.exception("task %s was left to the next start", item.task_id)
                core.forget(item)

    def _next(self, core: Core) -> Item | None:
        with core.lock:
            while (item := core.take()) is None:
                if not core.taking:
                    return None
                self._work.wait()
            return item

    def stop(self) -> None:
        """Take no more work; `run` returns when running tasks have ended or grace has (U9)."""
        self._mine().stop()

    def close(self) -> None:
        """Stop, wait for `run` to return, and close the backend. May be called again."""
        core = self._mine()
        core.stop()
        with self._is_run, core.lock:
            if core.closed:
                return
            core.closed = True
        if self._abilities.close:
            getattr(self._backend, "close")()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- driver and signals -------------------------------------------------------------------

    def _drive(self, program: Program[R]) -> R:
        return drive(program, self._perform)

    def _perform(self, effect: Effect) -> object:
        if isinstance(effect, Run):
            return run_here(effect.item)
        try:
            result: object = getattr(self._backend, effect.method)(*effect.args)
            return result
        finally:
            if effect.method in CHANGES:
                self._core.touched()

    @contextmanager
    def _handled(self, wanted: bool) -> Iterator[None]:
        """SIGTERM and SIGINT stop the run, once each; the handlers before it come back then."""
        if not wanted or threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(number: int, frame: FrameType | None) -> None:
            signal.signal(number, before[number])
            self.stop()

        before = {int(number): signal.getsignal(number) for number in _SIGNALS}
        try:
            for number in before:
                signal.signal(number, stop)
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
