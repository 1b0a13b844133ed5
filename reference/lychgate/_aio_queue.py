"""`aio.Queue`: the queue of one event loop.

Rules of this file
  * The twin of `_queue.py`: how to run and wait under asyncio, nothing else. Every method belongs
    to the loop that runs the queue, and `stop` too.
  * A task that is an `async def` runs in the loop; any other runs in a thread of its own, a daemon,
    so that one which outstays its grace does not keep the process.
  * No await in `finally`: a cancelled `run` gives back what it ran in an explicit step.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self, TypeVar

from lychgate import _queue_flow as flow
from lychgate._backend import CHANGES, AsyncBackend, probe
from lychgate._clock import Clock, SystemClock
from lychgate._queue_core import Core, Item, Limits, Phase, Wakeups
from lychgate._queue_drive import Effect, Program, Run, drive_async, run_here
from lychgate._queue_errors import QueueBusy, QueueClosed
from lychgate._queue_job import arguments
from lychgate._task import Current, Registry, registry, running_as

R = TypeVar("R")

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_CUT_S = 1.0
"""Seconds that a cancelled task gets for its own clean-up."""

_log = logging.getLogger("lychgate.queue")


class Queue:
    """`lychgate.Queue` under asyncio; see there for what each method does and raises."""

    def __init__(
        self,
        backend: AsyncBackend,
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
        self._room = asyncio.Event()
        self._turn = asyncio.Event()
        self._loading = asyncio.Lock()
        self._is_run = asyncio.Lock()
        self._runs: dict[asyncio.Task[None], Item] = {}
        wakeups = Wakeups(self._turn.set, self._room.set, self._turn.set)
        self._core = Core(
            self._abilities, self._registry, self._limits, self._clock, threading.RLock(), wakeups
        )

    def _mine(self) -> Core:
        if self._pid != self._clock.pid():
            self._start()
        return self._core

    # --- for producers ------------------------------------------------------------------------

    async def enqueue(
        self,
        task: object,
        /,
        *args: object,
        delay: float | timedelta | None = None,
        delay_until: float | datetime | None = None,
        **kwargs: object,
    ) -> str:
        """Store a task to be run with these arguments, at once or later; its id (U1)."""
        core = self._mine()
        spec, job, publish_at = flow.entry(core, task, args, kwargs, delay, delay_until)
        await self._admit(core)
        if core.loaded:
            return await self._drive(flow.enqueue(core, spec, job, publish_at))
        try:
            await self._loading.acquire()
        except asyncio.CancelledError:
            core.admitted()
            raise
        try:
            return await self._drive(flow.enqueue(core, spec, job, publish_at))
        finally:
            self._loading.release()

    async def _admit(self, core: Core) -> None:
        deadline = self._clock.elapsed() + core.limits.enqueue_timeout
        while not core.admit():
            left = deadline - self._clock.elapsed()
            if left <= 0 or core.stopping:
                raise core.full()
            self._room.clear()
            await self._clock.pause(self._room, left)

    async def retry_dead(self, task_id: str) -> str:
        """Bring a dead task back to life: the id of the fresh task that does its work (U4, U8)."""
        return await self._drive(flow.retry_dead(self._mine(), task_id))

    async def retry_all_dead(self) -> dict[str, str]:
        """Bring back all dead tasks of this moment: old ids to fresh ones (U8)."""
        return await self._drive(flow.retry_all_dead(self._mine()))

    async def stats(self) -> dict[str, int]:
        """Counters and sizes of the queue, and the backend's counters beside them (D33)."""
        own = self._mine().snapshot()
        stored = getattr(self._backend, "stats")() if self._abilities.stats else {}
        if inspect.isawaitable(stored):
            stored = await stored
        return {**stored, **own}

    # --- the run loop -------------------------------------------------------------------------

    async def run(self, *, until_idle: bool = False, signals: bool = True) -> None:
        """Run tasks until `stop` (U9), or until nothing is due and nothing runs.

        With `signals`, and in the main thread, SIGTERM and SIGINT stop it gracefully. Cancelling
        `run` cuts the grace short.
        """
        core = self._mine()
        if core.closed or core.stopping:
            raise QueueClosed("the queue has stopped; make a new one over a new backend")
        if self._is_run.locked():
            raise QueueBusy("the queue is running already")
        async with self._is_run:
            if not core.loaded:
                async with self._loading:
                    await self._drive(flow.load(core))
            with self._handled(signals):
                await self._run(core, until_idle)
        if core.interrupted:
            raise KeyboardInterrupt

    async def _run(self, core: Core, until_idle: bool) -> None:
        core.taking = not core.stopping
        try:
            while await self._take_turn(core, until_idle):
                pass
            core.taking = False
            if core.stopping:
                await self._give_grace(core)
                await self._leave(core)
        except asyncio.CancelledError:
            core.stop()
            await self._leave(core)
            raise

    async def _take_turn(self, core: Core, until_idle: bool) -> bool:
        """Ticks, claims, removals owed, new runs; then wait for the next one or a wake-up."""
        self._turn.clear()  # before the look: what changes from here on is seen by the wait
        await self._drive(flow.turn(core))
        while (item := core.take()) is not None:
            run = asyncio.create_task(self._attempt(core, item))
            self._runs[run] = item
            run.add_done_callback(self._runs.pop)
        if core.stopping or (until_idle and core.idle()):
            return False
        if (seconds := core.seconds_to_turn()) > 0:
            await self._clock.pause(self._turn, seconds)
        return True

    async def _give_grace(self, core: Core) -> None:
        """Let running tasks end; ticks go on, for a worker that is heard of keeps its tasks."""
        deadline = self._clock.elapsed() + core.limits.grace
        while core.running() and self._clock.elapsed() < deadline:
            self._turn.clear()
            await self._drive(flow.turn(core))
            left = min(deadline - self._clock.elapsed(), core.seconds_to_turn())
            if left > 0 and core.running():
                await self._clock.pause(self._turn, left)

    async def _leave(self, core: Core) -> None:
        """Store that the cut runs do not count, then cut them."""
        await self._drive(flow.leave(core))
        for run, item in self._runs.items():
            if item.phase is Phase.RELEASED:
                run.cancel()
        if self._runs:
            await asyncio.wait(self._runs, timeout=_CUT_S)

    async def _attempt(self, core: Core, item: Item) -> None:
        try:
            await self._drive(flow.attempt(core, item))
        except Exception:  # a fault of the queue itself must not stop its loop
            _log.exception("task %s was left to the next start", item.task_id)
            core.forget(item)
        except asyncio.CancelledError:  # by `_leave`, or by a loop that ends with tasks under way
            await self._drive(flow.give_back(core, item))
            core.forget(item)
            raise

    def stop(self) -> None:
        """Take no more work; `run` returns when running tasks have ended or grace has (U9)."""
        self._mine().stop()

    async def close(self) -> None:
        """Stop, wait for `run` to return, and close the backend. May be called again."""
        core = self._mine()
        core.stop()
        async with self._is_run:
            if core.closed:
                return
            core.closed = True
        if self._abilities.close:
            await getattr(self._backend, "close")()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # --- driver and signals -------------------------------------------------------------------

    async def _drive(self, program: Program[R]) -> R:
        return await drive_async(program, self._perform)

    async def _perform(self, effect: Effect) -> object:
        if isinstance(effect, Run):
            item = effect.item
            return await (_in_loop(item) if item.spec.is_async else _in_thread(item))
        try:
            result: object = await getattr(self._backend, effect.method)(*effect.args)
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
        loop = asyncio.get_running_loop()
        before = {int(number): signal.getsignal(number) for number in _SIGNALS}

        def restore(number: int) -> None:
            if loop.remove_signal_handler(number):
                signal.signal(number, before[number])

        def stop(number: int) -> None:
            restore(number)
            self.stop()

        for number in before:
            loop.add_signal_handler(number, stop, number)
        try:
            yield
        finally:
            for number in before:
                restore(number)


async def _in_loop(item: Item) -> BaseException | None:
    """Run an `async def` task: what it raised. A cut is no outcome and goes through."""
    with running_as(Current(item.task_id, item.job.attempts, item.job.retry_of)):
        try:
            args, kwargs = arguments(item.job)
            result = item.spec.call(*args, **kwargs)
            assert inspect.isawaitable(result), "an async def gives an awaitable"
            await result
        except GeneratorExit:
            raise
        except asyncio.CancelledError as error:
            this = asyncio.current_task()
            if this is not None and this.cancelling():
                raise
            return error  # the task's own doing
        except BaseException as error:
            return error
    return None


async def _in_thread(item: Item) -> BaseException | None:
    """Run a plain function in a thread: what it raised. A cut leaves the thread behind."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[BaseException | None] = loop.create_future()

    def settle(raised: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result(raised)

    def work() -> None:
        raised = run_here(item)
        with suppress(RuntimeError):  # the loop has closed in the meantime
            loop.call_soon_threadsafe(settle, raised)

    context = copy_context()
    threading.Thread(target=context.run, args=(work,), name=item.task_id, daemon=True).start()
    return await outcome
