"""What threads and asyncio each do in their own way: waiting, waking, cutting (U5, U9, D31)."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any, cast

import pytest
from engine.queue_doubles import AsyncBackendOf, MemoryStore, Recorder
from engine.queue_rig import quiet, tasks

from lychgate._aio_queue import Queue as AioQueue
from lychgate._clock import SystemClock
from lychgate._nil import Nil
from lychgate._queue import Queue
from lychgate._queue_core import Limits
from lychgate._queue_errors import QueueFull
from lychgate._task import Registry

PATIENCE_S = 60.0  # how long a test waits for what must come; reached only when it fails


@pytest.fixture
def backend() -> Recorder:
    return Recorder(MemoryStore(cast(Any, SystemClock())))


def aio_queue(backend: Recorder, tasks: Registry, **limits: Any) -> AioQueue:
    return AioQueue(cast(Any, AsyncBackendOf(backend)), Limits(**limits), registry=tasks)


# --- threads --------------------------------------------------------------------------------------


def test_producers_wait_for_room(tasks: Registry) -> None:
    """U5, D31: many producers, never more than the mark in the queue, every task once."""
    high, number = 5, 400
    seen: Counter[int] = Counter()
    backlogs: list[int] = []

    @tasks.task
    def work(label: int) -> None:
        backlogs.append(queue.stats()["queue_backlog"])
        seen[label] += 1

    limits = Limits(concurrency=3, high_water=high, low_water=2, enqueue_timeout=PATIENCE_S)
    queue = Queue(Nil(), limits, registry=tasks)

    def produce(start: int) -> None:
        for label in range(start, number, 4):
            queue.enqueue(work, label)

    producers = [threading.Thread(target=produce, args=(start,)) for start in range(4)]
    runner = threading.Thread(target=queue.run)
    for thread in (*producers, runner):
        thread.start()
    for thread in producers:
        thread.join()
    queue.stop()
    runner.join()
    left = queue.stats()["queue_backlog"]
    assert max(seen.values()) == 1 and sum(seen.values()) + left == number
    assert max(backlogs) <= high


def test_stop_wakes_waiting_producers(tasks: Registry) -> None:
    """U5, U9: there will be no room any more, so nobody waits for it."""
    waiting = threading.Event()
    woken: list[bool] = []

    class Clock(SystemClock):
        def wait(self, condition: threading.Condition, seconds: float) -> None:
            waiting.set()
            woken.append(condition.wait(PATIENCE_S))

    @tasks.task
    def work() -> None: ...

    limits = Limits(high_water=1, enqueue_timeout=PATIENCE_S)
    queue = Queue(Nil(), limits, registry=tasks, clock=Clock())
    queue.enqueue(work)
    raised: list[BaseException] = []

    def produce() -> None:
        try:
            queue.enqueue(work)
        except QueueFull as error:
            raised.append(error)

    producer = threading.Thread(target=produce)
    producer.start()
    assert waiting.wait(PATIENCE_S)
    queue.stop()
    producer.join()
    assert "stopping" in str(raised[0]) and woken == [True]


def test_an_enqueue_during_the_start_runs_once(backend: Recorder, tasks: Registry) -> None:
    """U1: the start may read a task whose enqueue has not ended yet."""
    seen: list[int] = []
    stored, may_go_on = threading.Event(), threading.Event()

    @tasks.task
    def work() -> None:
        seen.append(1)

    class Slow(MemoryStore):
        def add_task(
            self, task: object, publish_at: float | None = None, task_id: str | None = None
        ) -> str:
            key = super().add_task(task, publish_at, task_id)
            if task_id is None:
                stored.set()
                assert may_go_on.wait(PATIENCE_S)
            return key

    queue = Queue(Slow(cast(Any, SystemClock())), registry=tasks)
    producer = threading.Thread(target=queue.enqueue, args=(work,))
    producer.start()
    assert stored.wait(PATIENCE_S)
    runner = threading.Thread(target=queue.run, kwargs={"until_idle": True})
    runner.start()
    runner.join(0.05)
    may_go_on.set()
    producer.join()
    runner.join()
    queue.run(until_idle=True)
    assert seen == [1]


@pytest.mark.parametrize("ends_well", [True, False])
def test_a_thread_that_ends_after_its_grace(
    backend: Recorder, tasks: Registry, ends_well: bool
) -> None:
    """U9: given back; if it ends well after all it is done, if not it is as if it had not run."""
    begun, may_end = threading.Event(), threading.Event()

    @tasks.task
    def work() -> None:
        begun.set()
        may_end.wait(PATIENCE_S)
        if not ends_well:
            raise ValueError

    queue = Queue(cast(Any, backend), Limits(grace=0), registry=tasks)
    queue.enqueue(work)
    runner = threading.Thread(target=queue.run)
    runner.start()
    assert begun.wait(PATIENCE_S)
    queue.stop()
    runner.join()
    given_back = backend.live()
    ((value, _),) = given_back.values()
    assert (value["attempts"], value["running"]) == (0, False)
    may_end.set()
    for thread in threading.enumerate():
        if thread.name.startswith("lychgate-"):
            thread.join(PATIENCE_S)
    assert backend.live() == ({} if ends_well else given_back)


# --- asyncio --------------------------------------------------------------------------------------


def test_cancelling_run_gives_back_what_runs(backend: Recorder, tasks: Registry) -> None:
    """U9, U7: no grace then; a task may still clean up after itself."""
    cleaned: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        @tasks.task
        async def work() -> None:
            begun.set()
            try:
                await asyncio.sleep(PATIENCE_S)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                cleaned.append("yes")
                raise

        queue = aio_queue(backend, tasks, grace=PATIENCE_S)
        await queue.enqueue(work)
        run = asyncio.create_task(queue.run())
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(main())
    ((value, _),) = backend.live().values()
    assert (value["attempts"], value["running"], cleaned) == (0, False, ["yes"])


def test_a_loop_that_ends_gives_back_what_runs(backend: Recorder, tasks: Registry) -> None:
    """U7: asyncio cancels everything at once, in any order; none of it is a failure."""

    async def main() -> None:
        begun = asyncio.Semaphore(0)

        @tasks.task
        async def work() -> None:
            begun.release()
            await asyncio.sleep(PATIENCE_S)

        queue = aio_queue(backend, tasks)
        for _ in range(8):
            await queue.enqueue(work)
        tasks_of_main.append(asyncio.create_task(queue.run()))
        for _ in range(8):
            await begun.acquire()

    tasks_of_main: list[asyncio.Task[None]] = []
    asyncio.run(main())
    stored = [value for value, _ in backend.live().values()]
    assert [(value["attempts"], value["running"]) for value in stored] == [(0, False)] * 8
    assert tasks_of_main[0].cancelled()


def test_a_task_that_cancels_itself_has_failed(backend: Recorder, tasks: Registry) -> None:
    """U9: CancelledError out of a task that nobody cut is its own failure."""

    @tasks.task(max_retries=0)
    async def work() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        queue = aio_queue(backend, tasks)
        await queue.enqueue(work)
        await queue.run(until_idle=True)

    asyncio.run(main())
    assert [task.error_class for task in backend.list_dead_tasks()] == ["CancelledError"]


def test_a_plain_function_does_not_block_the_loop(backend: Recorder, tasks: Registry) -> None:
    """D31: it runs in a thread, and knows which run it is."""
    gate = threading.Event()

    @tasks.task
    def waits() -> None:
        assert gate.wait(PATIENCE_S)

    @tasks.task
    async def opens() -> None:
        gate.set()

    async def main() -> None:
        queue = aio_queue(backend, tasks, concurrency=2)
        await queue.enqueue(waits)
        await queue.enqueue(opens)
        await queue.run(until_idle=True)

    asyncio.run(main())
    assert backend.live() == {} and backend.list_dead_tasks() == []


def test_a_cancelled_enqueue_gives_its_place_back(backend: Recorder, tasks: Registry) -> None:
    """U5: cancelled while it waits for room, or inside the store."""

    @tasks.task
    async def work() -> None: ...

    async def main() -> None:
        queue = aio_queue(backend, tasks, high_water=1, low_water=0, enqueue_timeout=PATIENCE_S)
        first = asyncio.create_task(queue.enqueue(work))
        await asyncio.sleep(0)
        first.cancel()  # inside add_task
        await asyncio.wait([first])
        await queue.enqueue(work)
        second = asyncio.create_task(queue.enqueue(work))
        await asyncio.sleep(0)
        second.cancel()  # waits for room
        await asyncio.wait([second])
        assert first.cancelled() and second.cancelled()
        assert (await queue.stats())["queue_backlog"] == 1
        await queue.run(until_idle=True)
        assert (await queue.stats())["queue_backlog"] == 0

    asyncio.run(main())


def test_waiting_producers_get_room(backend: Recorder, tasks: Registry) -> None:
    """U5: many coroutines over a small mark; all get through, none overshoots."""
    backlogs: list[int] = []
    seen: Counter[int] = Counter()

    async def main() -> None:
        queue = aio_queue(
            backend, tasks, concurrency=2, high_water=4, low_water=1, enqueue_timeout=PATIENCE_S
        )

        @tasks.task
        async def work(label: int) -> None:
            backlogs.append((await queue.stats())["queue_backlog"])
            seen[label] += 1

        run = asyncio.create_task(queue.run())
        await asyncio.gather(*(queue.enqueue(work, label) for label in range(100)))
        queue.stop()
        await run
        left = (await queue.stats())["queue_backlog"]
        assert sum(seen.values()) + left == 100

    asyncio.run(main())
    assert max(backlogs) <= 4 and max(seen.values()) == 1
