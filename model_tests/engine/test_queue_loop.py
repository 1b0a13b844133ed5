"""The run loop: what it survives, when it ends, what it drives (U9, D1, D2, D4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from engine.queue_doubles import Broken, FakeClock, MemoryStore, Recorder
from engine.queue_rig import MakeRig, backend, clock, make_rig, quiet, run_until_idle, tasks

from lychgate._errors import ConfigError
from lychgate._nil import Nil
from lychgate._queue_errors import QueueBusy, QueueClosed
from lychgate._task import Registry


class Odd(BaseException):
    """No Exception, and nobody's friend."""


@pytest.mark.parametrize("kind", [SystemExit, Odd, GeneratorExit, StopIteration, RecursionError])
def test_any_exception_is_a_failure_and_no_more(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, kind: type[BaseException]
) -> None:
    """U9: the loop survives it, plain function or coroutine."""
    done: list[int] = []

    @tasks.task(max_retries=0)
    def plain() -> None:
        raise kind

    @tasks.task(max_retries=0)
    async def coroutine() -> None:
        await asyncio.sleep(0)
        raise kind

    @tasks.task
    def good() -> None:
        done.append(1)

    rig = make_rig(concurrency=1)
    rig.enqueue(plain)
    if kind is not GeneratorExit:  # thrown into a coroutine, it means that the loop is gone
        rig.enqueue(coroutine)
    rig.enqueue(good)
    run_until_idle(rig)
    assert done == [1] and backend.live() == {}
    assert len(backend.list_dead_tasks()) == (1 if kind is GeneratorExit else 2)


def test_keyboard_interrupt_stops_and_does_not_count(
    make_rig: MakeRig, backend: Recorder, tasks: Registry
) -> None:
    """U9, U7: the queue stops, the task is as if it had not run, and run raises it."""

    @tasks.task
    def work() -> None:
        raise KeyboardInterrupt

    rig = make_rig(concurrency=1)
    rig.enqueue(work)
    rig.enqueue(work)
    with pytest.raises(KeyboardInterrupt):
        rig.run(signals=False)
    counts = [(value["attempts"], value["running"]) for value, _ in backend.live().values()]
    assert counts == [(0, False), (0, False)]


def test_stop_leaves_the_rest_to_the_next_start(
    make_rig: MakeRig, backend: Recorder, tasks: Registry
) -> None:
    """U9: no more work is taken, what runs may end, everything is synced."""
    seen: list[int] = []

    @tasks.task
    async def work(number: int) -> None:
        rig.stop()
        seen.append(number)

    rig = make_rig(concurrency=1)
    for number in range(3):
        rig.enqueue(work, number)
    rig.run(signals=False)
    assert seen == [0] and len(backend.live()) == 2 and backend.inner.log == []
    with pytest.raises(QueueClosed):
        rig.run()
    rig = make_rig(concurrency=1)
    rig.run(signals=False)
    assert seen == [0, 1]


def test_concurrency_is_bounded_and_used(make_rig: MakeRig, tasks: Registry) -> None:
    """U9: three at a time, and all three at once."""
    now: set[int] = set()
    most: list[int] = []
    gate = asyncio.Event()

    @tasks.task
    async def work(number: int) -> None:
        now.add(number)
        most.append(len(now))
        for _ in range(200):
            if len(now) == 3:
                gate.set()
            if gate.is_set():
                break
            await asyncio.sleep(0.01)
        now.discard(number)

    rig = make_rig(concurrency=3)
    for number in range(9):
        rig.enqueue(work, number)
    run_until_idle(rig)
    assert len(most) == 9 and max(most) == 3


@dataclass
class Ticking(MemoryStore):
    """Wants a tick half a second after its first change."""

    due: float | None = None
    ticks: list[float] = field(default_factory=list)  # those that had something to do
    meanwhile: Callable[[], object] = lambda: None

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        if self.due is None:
            self.due = self.clock.now() + 0.5
        return super().add_task(task, publish_at, task_id)

    def tick(self, now: float) -> float | None:
        if self.due is None or now < self.due:
            return self.due
        self.due = None
        self.ticks.append(now)
        self.sync()
        self.meanwhile()  # another thread's change, too late to be in the answer
        return None


def test_the_loop_drives_ticks(make_rig: MakeRig, tasks: Registry, clock: FakeClock) -> None:
    """D1, W3: when the backend asked for it, and after a change when it had not asked for any."""
    store = Ticking(clock)
    rig = make_rig(over=store)

    @tasks.task
    async def work() -> None:
        if clock.time >= 1300:
            rig.stop()
            return
        result = rig.queue.enqueue(work, delay=100)
        if asyncio.iscoroutine(result):
            await result

    rig.enqueue(work)
    rig.run(signals=False)
    assert store.ticks == [1000.5, 1100.5, 1200.5]


def test_a_change_during_a_tick(make_rig: MakeRig, tasks: Registry, clock: FakeClock) -> None:
    """D1: a tick that says "not before the next change" may have missed it."""
    store = Ticking(clock)
    rig = make_rig(over=store)

    @tasks.task
    def work() -> None:
        rig.stop()

    def change() -> None:
        if len(store.ticks) == 1:
            store.add_task(None, 5000.0)
            rig.queue._core.touched()

    store.meanwhile = change
    rig.enqueue(work, delay=60)
    rig.run(signals=False)
    assert store.ticks == [1000.5, 1001.0]


def test_a_tick_that_fails_is_made_again(
    make_rig: MakeRig, tasks: Registry, clock: FakeClock
) -> None:
    """D1, F2."""
    store = Recorder(Ticking(clock))
    store.faults["tick"].append(Broken())

    @tasks.task
    def work() -> None:
        rig.stop()

    rig = make_rig(over=store)
    rig.enqueue(work, delay=60)
    rig.run(signals=False)
    assert store.calls.count("tick") >= 2 and store.inner.live() == {}


def test_a_start_that_cannot_read_the_store_says_so(make_rig: MakeRig, backend: Recorder) -> None:
    """F2: nothing would run, so nobody may think that it does; the same queue can try again."""
    backend.faults["pending_tasks"].append(Broken())
    rig = make_rig()
    with pytest.raises(Broken):
        run_until_idle(rig)
    run_until_idle(rig)


def test_one_run_at_a_time(make_rig: MakeRig, tasks: Registry) -> None:
    """U9."""
    raised: list[BaseException] = []

    @tasks.task
    async def work() -> None:
        try:
            result = rig.queue.run()
            if asyncio.iscoroutine(result):
                await result
        except QueueBusy as error:
            raised.append(error)

    rig = make_rig()
    rig.enqueue(work)
    run_until_idle(rig)
    assert len(raised) == 1


def test_close_closes_the_backend_once(make_rig: MakeRig, tasks: Registry) -> None:
    """D1: the queue owns its backend; afterwards nothing can be enqueued."""

    @tasks.task
    def work() -> None: ...

    closed: list[int] = []

    class Closing(Nil):
        def close(self) -> None:
            closed.append(1)

    rig = make_rig(over=Closing())
    rig.close()
    rig.close()
    assert closed == [1]
    with pytest.raises(QueueClosed):
        rig.enqueue(work)


def test_a_queue_over_nil(make_rig: MakeRig, tasks: Registry) -> None:
    """D4: tasks run, and nothing else."""
    seen: list[int] = []

    @tasks.task
    def work(number: int) -> None:
        seen.append(number)

    rig = make_rig(over=Nil(path="anything"))
    for number in range(5):
        rig.enqueue(work, number)
    run_until_idle(rig)
    assert sorted(seen) == [0, 1, 2, 3, 4]
    assert rig.stats()["queue_completed"] == 5


class OnlySeven:
    """No tick, no sync, no stats, no close."""

    def __init__(self, inner: MemoryStore) -> None:
        for name in (
            "add_task",
            "remove_task",
            "pending_tasks",
            "add_dead_task",
            "list_dead_tasks",
            "find_dead_task",
            "remove_dead_tasks",
        ):
            setattr(self, name, getattr(inner, name))


def test_seven_methods_are_enough(make_rig: MakeRig, tasks: Registry, clock: FakeClock) -> None:
    """D2: optional methods are looked for, not needed."""

    @tasks.task(max_retries=0)
    def work() -> None:
        raise ValueError

    store = MemoryStore(clock)
    rig = make_rig(over=OnlySeven(store))
    dead_id = rig.enqueue(work)
    run_until_idle(rig)
    rig.retry_dead(dead_id)
    assert store.dead == [] and len(store.live()) == 1
    rig.stats()
    rig.close()
    with pytest.raises(ConfigError, match="lacks .*add_dead_task"):
        make_rig(over=object())
