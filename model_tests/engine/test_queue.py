"""Both queues over a store in memory: what is called, in which order, and what comes of it (U1-U9).

Every test runs with threads and with asyncio. Time is a fake clock's, except in the few tests where
a task really has to outlast something, and those wait for events, not for time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from engine.queue_doubles import CLAIMS_MAX, Broken, FakeClock, MemoryStore, Recorder, Rig

from lychgate._backend import ClaimLost
from lychgate._errors import ConfigError, Refused
from lychgate._nil import Nil
from lychgate._queue_errors import NotRetriable, QueueBusy, QueueClosed, QueueFull
from lychgate._records import Undecodable
from lychgate._task import Registry, Task, current

MakeRig = Callable[..., Rig]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Failures are made by the dozen here; their tracebacks say nothing."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def tasks() -> Registry:
    return Registry()


@pytest.fixture
def backend(clock: FakeClock) -> Recorder:
    return Recorder(MemoryStore(clock))


@pytest.fixture
def make_rig(
    loop: asyncio.Runner | None, backend: Recorder, tasks: Registry, clock: FakeClock
) -> MakeRig:
    """Makes a queue, by default over `backend`; a second one is the process after a restart."""

    def make(over: Any = None, **limits: Any) -> Rig:
        return Rig.over(loop, backend if over is None else over, tasks, clock, **limits)

    return make


def run_until_idle(rig: Rig) -> None:
    rig.run(until_idle=True, signals=False)


# --- enqueue (U1) ---------------------------------------------------------------------------------


def test_enqueue_stores_and_runs(make_rig: MakeRig, backend: Recorder, tasks: Registry) -> None:
    """U1: the store has the task when enqueue returns, and nothing is left of it after its run."""
    seen: list[object] = []

    @tasks.task
    def work(number: int, *, flag: bool) -> None:
        seen.append((number, flag))

    rig = make_rig()
    task_id = rig.enqueue(work, 7, flag=True)
    value, publish_at = backend.live()[task_id]
    assert (value["args"], value["kwargs"], publish_at) == ([7], {"flag": True}, None)
    assert seen == []
    run_until_idle(rig)
    assert seen == [(7, True)]
    assert backend.live() == {}
    assert backend.calls.count("add_task") == 2, "stored once, counted once"


@pytest.mark.parametrize(
    ("when", "due"),
    [
        ({"delay": 5}, 1005.0),
        ({"delay": timedelta(minutes=1)}, 1060.0),
        ({"delay_until": 1007.5}, 1007.5),
        ({"delay_until": datetime.fromtimestamp(1009, timezone.utc)}, 1009.0),
        ({"delay": 0}, None),
        ({"delay_until": 3.0}, None),
    ],
)
def test_delays_set_publish_at(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, when: dict[str, Any], due: float | None
) -> None:
    """U1: delay and delay_until set publish_at; a time that has passed is at once."""

    @tasks.task
    def work() -> None: ...

    task_id = make_rig().enqueue(work, **when)
    assert backend.live()[task_id][1] == due


def test_a_delayed_task_waits(make_rig: MakeRig, tasks: Registry, clock: FakeClock) -> None:
    """U1: not before its time, then without another call."""
    seen: list[float] = []

    @tasks.task
    def work() -> None:
        seen.append(clock.time)

    rig = make_rig()
    rig.enqueue(work, delay=50)
    run_until_idle(rig)
    assert seen == []
    clock.time += 50
    run_until_idle(rig)
    assert seen == [1050.0]


def test_wrong_enqueues_store_nothing(
    make_rig: MakeRig, backend: Recorder, tasks: Registry
) -> None:
    """U1, D25: what could never run, or never be read back, is refused before it is stored."""

    @tasks.task
    def work(number: int) -> None: ...

    rig = make_rig()
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(TypeError):
        rig.enqueue(work)
    with pytest.raises(ConfigError, match="@task"):
        rig.enqueue(print, 1)
    for bad in ({1: 2}, cycle):
        with pytest.raises(Refused):
            rig.enqueue(work, bad)
    with pytest.raises(Refused, match="not both"):
        rig.enqueue(work, 1, delay=1, delay_until=2)
    assert backend.live() == {}


def test_arguments_are_what_a_restart_would_read(make_rig: MakeRig, tasks: Registry) -> None:
    """U1: tuples are lists, and what a run does to its arguments is not stored by its retry."""
    seen: list[object] = []

    @tasks.task(retry_in={ValueError: 0.0})
    def work(values: list[int]) -> None:
        seen.append(list(values))
        values.append(3)
        if len(seen) == 1:
            raise ValueError

    rig = make_rig()
    mine = [1, 2]
    rig.enqueue(work, (mine, 1))
    mine.append(9)
    run_until_idle(rig)
    assert seen == [[[1, 2], 1], [[1, 2], 1]]


# --- retries (U2) ---------------------------------------------------------------------------------


def test_a_failure_is_stored_under_the_same_id(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U2: attempt**4 + 10 + draw * attempt seconds later, same id, attempts counted."""
    runs: list[object] = []

    @tasks.task
    def work() -> None:
        runs.append(current())
        raise OSError("no")

    rig = make_rig()
    task_id = rig.enqueue(work)
    run_until_idle(rig)
    value, due = backend.live()[task_id]
    assert (due, value["attempts"], value["running"]) == (1011.0, 1, False)
    clock.time = due
    run_until_idle(rig)
    value, due = backend.live()[task_id]
    assert (due, value["attempts"]) == (1011.0 + 16 + 10, 2)
    assert [getattr(run, "attempt") for run in runs] == [1, 2]


def test_max_retries_and_give_up(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U2, U3: after max_retries retries the task is dead, with its error and its arguments."""

    @tasks.task(max_retries=2, retry_in={OSError: 1.0})
    def work(number: int) -> None:
        raise OSError("no")

    rig = make_rig()
    task_id = rig.enqueue(work, 5)
    for _ in range(5):
        run_until_idle(rig)
        clock.time += 1
    assert backend.calls[-2:] == ["add_dead_task", "remove_task"]
    (dead,) = backend.list_dead_tasks()
    assert (dead.task_id, dead.attempts, dead.error_class) == (task_id, 3, "OSError")
    assert dead.context["args"] == [5]
    assert backend.live() == {}


def test_a_class_may_stop_retries(make_rig: MakeRig, backend: Recorder, tasks: Registry) -> None:
    """U2, U9: a class with its policy; None for an exception means dead at once."""

    class Work(Task, registry=tasks):
        retry_in = {LookupError: None}

        def run(self, key: str) -> None:
            raise KeyError(key)

    rig = make_rig()
    rig.enqueue(Work, "k")
    run_until_idle(rig)
    (dead,) = backend.list_dead_tasks()
    assert (dead.error_class, dead.attempts) == ("KeyError", 1)


def test_a_retry_that_cannot_be_stored_is_kept_in_memory(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U2, F2: the store keeps the task as counted, memory keeps the retry."""
    runs: list[int] = []

    @tasks.task(retry_in={ValueError: 5.0})
    def work() -> None:
        runs.append(1)
        backend.faults["add_task"].append(Broken())
        if len(runs) == 1:
            raise ValueError

    rig = make_rig()
    rig.enqueue(work)
    run_until_idle(rig)
    assert len(runs) == 1 and len(backend.live()) == 1
    backend.faults.clear()
    clock.time += 5
    run_until_idle(rig)
    assert len(runs) == 2 and backend.live() == {}


# --- give-up (U3) ---------------------------------------------------------------------------------


def test_a_failed_give_up_leaves_the_task_to_the_next_start(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U3, D14: the add raised, so the live task stays, and the next start runs it again."""
    runs: list[int] = []

    @tasks.task(max_retries=0)
    def work() -> None:
        runs.append(1)
        raise ValueError

    rig = make_rig()
    rig.enqueue(work)
    backend.faults["add_dead_task"].append(Broken())
    run_until_idle(rig)
    clock.time += 1e6
    run_until_idle(rig)
    assert len(runs) == 1 and len(backend.live()) == 1 and backend.list_dead_tasks() == []
    run_until_idle(make_rig())
    assert len(runs) == 2 and backend.live() == {} and len(backend.list_dead_tasks()) == 1


def test_a_failed_removal_is_owed(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U3: what is done is removed later in the same process, and not run again."""
    runs: list[int] = []

    @tasks.task
    def work() -> None:
        runs.append(1)

    rig = make_rig()
    rig.enqueue(work)
    backend.faults["remove_task"] += [Broken(), Broken()]
    run_until_idle(rig)
    assert len(backend.live()) == 1 and rig.queue._core.backlog() == 1
    for _ in range(2):
        clock.time += 5
        run_until_idle(rig)
    assert runs == [1] and backend.live() == {} and rig.queue._core.backlog() == 0


# --- tasks that cannot be loaded, tasks that kill (U6, U7) ----------------------------------------

JOB = {"task": "?", "args": [], "kwargs": {}, "enqueued_at": 0, "attempts": 0, "crashes": 0}


@pytest.mark.parametrize(
    "value",
    [
        JOB,
        Undecodable("json", b"\xff{"),
        None,
        [],
        {**JOB, "task": 1},
        {**JOB, "args": {}},
        {**JOB, "attempts": -1},
        {**JOB, "enqueued_at": 10**400},
        {**JOB, "running": True},
        {**JOB, "retry_of": 3},
    ],
    ids=repr,
)
def test_what_cannot_be_loaded_is_dead_as_it_was(
    make_rig: MakeRig, backend: Recorder, value: object
) -> None:
    """U6: unknown class or payload of any shape: kept raw, and gone from the live tasks."""
    task_id = backend.add_task(value)
    rig = make_rig()
    run_until_idle(rig)
    (dead,) = backend.list_dead_tasks()
    assert (dead.task_id, dead.context, dead.error_class) == (task_id, value, "Unloadable")
    assert backend.live() == {}
    with pytest.raises(NotRetriable, match="cannot be run"):
        rig.retry_dead(task_id)
    assert rig.retry_all_dead() == {} and len(backend.list_dead_tasks()) == 1


def test_a_run_is_counted_before_it_starts(
    make_rig: MakeRig, backend: Recorder, tasks: Registry
) -> None:
    """U7: the store says that the task runs while it does."""
    seen: list[Any] = []

    @tasks.task
    def work() -> None:
        ((value, _),) = backend.live().values()
        seen.append((value["attempts"], value["running"]))

    rig = make_rig()
    rig.enqueue(work)
    run_until_idle(rig)
    assert seen == [(1, True)]


def test_a_run_that_cannot_be_counted_waits(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U7, F2: no run without its count; the task comes again when the store may have recovered."""
    runs: list[int] = []

    @tasks.task
    def work() -> None:
        runs.append(1)

    rig = make_rig()
    rig.enqueue(work)
    backend.faults["add_task"].append(Broken())
    run_until_idle(rig)
    assert runs == []
    clock.time += 5
    run_until_idle(rig)
    assert runs == [1] and backend.live() == {}


def test_a_task_that_kills_its_workers_is_dead_after_the_limit(
    make_rig: MakeRig, backend: Recorder, tasks: Registry
) -> None:
    """U7: found running at start, so its worker died; past the limit it is not run again."""

    @tasks.task(name="killer")
    def work() -> None:
        raise AssertionError("never run here")

    job = {**JOB, "task": "killer", "attempts": 3, "crashes": 2, "running": True}
    task_id = backend.add_task(job)
    run_until_idle(make_rig(crashes_max=3))
    (dead,) = backend.list_dead_tasks()
    assert (dead.task_id, dead.error_class, dead.attempts) == (task_id, "WorkerDied", 3)
    assert backend.live() == {}


def test_suspects_run_one_at_a_time(make_rig: MakeRig, backend: Recorder, tasks: Registry) -> None:
    """U7: the next death must count against one task, not against all that were under way."""
    together: list[int] = []
    now = [0]

    @tasks.task(name="suspect")
    async def work() -> None:
        now[0] += 1
        together.append(now[0])
        await asyncio.sleep(0.001)
        now[0] -= 1

    for _ in range(4):
        backend.add_task({**JOB, "task": "suspect", "attempts": 1, "running": True})
    run_until_idle(make_rig(crashes_max=3, concurrency=4))
    assert together == [1, 1, 1, 1] and backend.live() == {}


# --- dead tasks come back (U4, U8) ----------------------------------------------------------------


def test_retry_of_a_dead_task(make_rig: MakeRig, backend: Recorder, tasks: Registry) -> None:
    """U4, U8: live, then synced, then no longer dead; fresh id, link, attempts from nought."""
    runs: list[Any] = []

    @tasks.task(max_retries=0)
    def work(number: int) -> None:
        runs.append(current())
        if len(runs) == 1:
            raise ValueError

    rig = make_rig()
    dead_id = rig.enqueue(work, 4)
    run_until_idle(rig)
    backend.calls.clear()
    fresh = rig.retry_dead(dead_id)
    assert backend.calls == ["find_dead_task", "add_task", "sync", "remove_dead_tasks"]
    value, due = backend.live()[fresh]
    assert fresh != dead_id and (value["retry_of"], value["attempts"], due) == (dead_id, 0, None)
    assert backend.list_dead_tasks() == []
    run_until_idle(rig)
    assert (runs[1].task_id, runs[1].attempt, runs[1].retry_of) == (fresh, 1, dead_id)
    with pytest.raises(NotRetriable, match="no dead task"):
        rig.retry_dead(dead_id)


def test_retry_of_all_takes_a_snapshot(
    make_rig: MakeRig, backend: Recorder, tasks: Registry
) -> None:
    """U8: tasks that die again while all are retried are not met a second time."""

    @tasks.task(max_retries=0)
    def work() -> None:
        raise ValueError

    rig = make_rig()
    old = {rig.enqueue(work) for _ in range(250)}
    run_until_idle(rig)

    def die_again() -> None:
        number = len(backend.inner.dead)
        context = {**JOB, "task": tasks.declared(work).name}
        backend.inner.add_dead_task(f"later{number}", context, ValueError(), "", 1)

    backend.before["remove_dead_tasks"] = die_again
    backend.calls.clear()
    fresh = rig.retry_all_dead()
    assert set(fresh) == old and len(set(fresh.values())) == 250
    assert backend.calls.count("sync") == backend.calls.count("remove_dead_tasks") == 3
    assert len(backend.list_dead_tasks()) == 3, "those that died in the meantime"


def test_no_sync_no_removal(make_rig: MakeRig, backend: Recorder, tasks: Registry) -> None:
    """U4: when the fresh task cannot be made durable, the dead one stays."""

    @tasks.task(max_retries=0)
    def work() -> None:
        raise ValueError

    rig = make_rig()
    dead_id = rig.enqueue(work)
    run_until_idle(rig)
    backend.faults["sync"].append(Broken())
    with pytest.raises(Broken):
        rig.retry_dead(dead_id)
    assert backend.find_dead_task(dead_id) is not None


# --- backpressure (U5) ----------------------------------------------------------------------------


def test_a_full_queue_refuses_after_the_timeout(
    make_rig: MakeRig, backend: Recorder, tasks: Registry, clock: FakeClock
) -> None:
    """U5: exactly high_water tasks fit; the next waits, then raises, and is not stored."""

    @tasks.task
    def work() -> None: ...

    rig = make_rig(high_water=3, low_water=1, enqueue_timeout=30.0)
    for _ in range(3):
        rig.enqueue(work)
    with pytest.raises(QueueFull, match="high_water") as raised:
        rig.enqueue(work)
    assert raised.value.definite and clock.time == 1030.0 and len(backend.live()) == 3
    run_until_idle(rig)
    rig.enqueue(work)


def test_delayed_tasks_press_nobody(make_rig: MakeRig, tasks: Registry) -> None:
    """U5: what waits for a later time is no backlog, else it could hold producers up for years."""

    @tasks.task
    def work() -> None: ...

    rig = make_rig(high_water=2, enqueue_timeout=0)
    for _ in range(5):
        rig.enqueue(work, delay=1000)
    rig.enqueue(work)


def test_a_running_task_never_waits_for_its_queue(make_rig: MakeRig, tasks: Registry) -> None:
    """U5: else all workers could wait for each other."""
    rig = make_rig(high_water=1, low_water=0, enqueue_timeout=0, concurrency=1)
    depth: list[int] = []

    @tasks.task
    async def work(left: int) -> None:
        depth.append(left)
        for _ in range(2 if left else 0):
            result = rig.queue.enqueue(work, left - 1)
            if asyncio.iscoroutine(result):
                await result

    rig.enqueue(work, 2)
    run_until_idle(rig)
    assert sorted(depth) == [0, 0, 0, 0, 1, 1, 2]


# --- the run loop (U9, D1) ------------------------------------------------------------------------


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


# --- stores that hand out claims (Q4, Q11) --------------------------------------------------------


@pytest.fixture
def claiming(clock: FakeClock) -> Recorder:
    return Recorder(MemoryStore(clock, "due_unclaimed"))


def test_claims(make_rig: MakeRig, tasks: Registry, claiming: Recorder, clock: FakeClock) -> None:
    """Q4, Q11, U7: immediate tasks are ours, delayed ones and retries wait in the store."""
    seen: list[Any] = []

    @tasks.task(retry_in={ValueError: 20.0})
    def work(name: str) -> None:
        seen.append((name, clock.time >= 1010.0))
        if name == "fails" and len(seen) == 1:
            raise ValueError

    rig = make_rig(over=claiming)
    rig.enqueue(work, "fails")
    rig.enqueue(work, "late", delay=10)
    run_until_idle(rig)
    assert seen == [("fails", False)]
    assert rig.stats()["queue_delayed"] == 0, "the store has them, not memory"
    assert claiming.calls.count("add_task") == 3, "two tasks and a retry, no counts"
    assert all(task_id not in claiming.inner.owned for task_id in claiming.live())
    clock.time += 30
    run_until_idle(rig)
    assert sorted(seen[1:]) == [("fails", True), ("late", True)] and claiming.live() == {}
    assert CLAIMS_MAX > 1


def test_a_claiming_loop_asks_again(
    make_rig: MakeRig, tasks: Registry, claiming: Recorder, clock: FakeClock
) -> None:
    """Q11, D1: every interval, also when nothing happens and when a claim fails."""

    @tasks.task
    def work() -> None:
        rig.stop()

    rig = make_rig(over=claiming)
    rig.enqueue(work, delay=23)
    times: set[float] = set()

    def claim() -> None:
        times.add(clock.time)
        if clock.time == 1005.0:
            claiming.faults["pending_tasks"].append(Broken())

    claiming.before["pending_tasks"] = claim
    rig.run(signals=False)
    assert claiming.live() == {} and times == {1000.0, 1005.0, 1010.0, 1015.0, 1020.0, 1025.0}


def test_claims_are_made_for_free_hands_only(
    make_rig: MakeRig, tasks: Registry, claiming: Recorder
) -> None:
    """Q5, U5: what this worker cannot run yet is left to others; a full batch asks for the next."""
    most: list[int] = []

    @tasks.task(name="work")
    def work() -> None:
        most.append(len(claiming.inner.owned & set(claiming.live())))

    claiming.inner.batch = 3
    for _ in range(20):
        claiming.inner.owned.discard(claiming.add_task({**JOB, "task": "work"}))
    run_until_idle(make_rig(over=claiming, concurrency=2))
    assert claiming.live() == {} and len(most) == 20
    assert max(most) <= 2 + 1 + 3, "running, waiting, and one batch for a free hand"


def test_a_lost_claim_is_seen(make_rig: MakeRig, tasks: Registry, claiming: Recorder) -> None:
    """Q6: finishing, retrying and burying what another owns changes nothing and is counted."""

    @tasks.task(name="work", max_retries=1, retry_in={KeyError: None, ValueError: 1.0})
    def work(kind: str) -> None:
        claiming.inner.owned.clear()  # a sweep thought this worker dead
        if kind != "ok":
            raise {"retry": ValueError, "bury": KeyError}[kind]

    for kind in ("ok", "retry", "bury"):
        rig = make_rig(over=claiming, concurrency=1)
        task_id = rig.enqueue(work, kind)
        core = rig.queue._core
        core.loaded = True  # no claim that would bring it back at once
        core.claim_at = 1e9
        run_until_idle(rig)
        assert rig.stats()["queue_claims_lost"] == 1
        assert task_id in claiming.live() and claiming.inner.dead == []
        claiming.inner.log.append((task_id, None))
    assert issubclass(ClaimLost, Exception)
