"""The dead-task lock and its mark: who holds it, waits, heals (D13–D15, D19, D23, D24, D32)."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from engine.faults import Fault, Store, is_free, no_leak

from lychgate import ClosedError, DeadTasksLockTimeout, Disk, StorageError, _lock, aio
from lychgate._fs import OpenMode
from lychgate._osfs import OsFs


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock is given up after three attempts."""
    monkeypatch.setattr(_lock, "LOCK_ATTEMPTS_MAX", 3)
    monkeypatch.setattr(_lock, "LOCK_SLEEP_S", 0.001)


@contextmanager
def held_by_another(path: Path) -> Iterator[None]:
    """The lock, held by another description as by another process."""
    rival = OsFs()
    fd = rival.open(str(path), OpenMode.LOCK)
    assert rival.try_lock(fd)
    try:
        yield
    finally:
        rival.close_all()


# --- waiting ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
def test_a_time_out_changes_nothing(store: Store) -> None:
    """D14: add, remove, list and find give up after the same number of attempts."""
    store.bury("a")
    before = {path.name: path.read_bytes() for path in store.path.iterdir()}
    calls: list[Callable[[], object]] = [
        lambda: store.bury("b"), store.dead, lambda: store.unbury("a"),
        lambda: store.do(store.programs.find_dead_task("a")),
    ]
    with held_by_another(store.lock_file()):
        for call in calls:
            with pytest.raises(DeadTasksLockTimeout) as raised:
                call()
            assert store.trace == ["LockTry", "Sleep"] * 3
            assert raised.value.definite
    store.check_clean()
    assert before == {path.name: path.read_bytes() for path in store.path.iterdir()}
    assert store.stats()["lock_timeouts"] == 4
    store.bury("b")
    assert store.dead() == ["a", "b"]


def test_cap_and_sleep_have_their_stated_values() -> None:
    """D14: five seconds."""
    assert (_lock.LOCK_ATTEMPTS_MAX, _lock.LOCK_SLEEP_S) == (500, 0.01)


@pytest.mark.usefixtures("impatient")
def test_opening_a_store_whose_lock_is_held(store: Store) -> None:
    """D9, D14: whoever holds it prepares it; the tasks are there all the same."""
    store.add("task")
    store.close()
    with held_by_another(store.lock_file()):
        again = Store(store.path).open()
        assert len(again.pending()) == 1
    again.bury("a")
    assert again.dead() == ["a"]
    again.kill()


def test_a_lock_that_is_freed_in_time_is_taken(store: Store) -> None:
    """D14."""
    rival = OsFs()
    fd = rival.open(str(store.lock_file()), OpenMode.LOCK)
    assert rival.try_lock(fd)
    timer = threading.Timer(0.05, rival.close, [fd])
    timer.start()
    store.bury("a")
    assert "Sleep" in store.trace
    timer.join()


# --- fibers -------------------------------------------------------------------------------------


def test_threads_share_one_object(tmp_path: Path) -> None:
    """D15, D31: nobody is lost, and nobody frees another's lock."""
    with no_leak(), Disk(tmp_path) as store:
        failures: list[BaseException] = []

        def work(worker: int) -> None:
            try:
                for n in range(5):
                    store.add_dead_task(f"{worker}-{n}", None, None, "Job", 1)
                    store.list_dead_tasks()
                    if n % 2:
                        assert store.remove_dead_tasks([f"{worker}-{n}"]) == 1
            except BaseException as error:
                failures.append(error)

        _in_threads(work, 4)
        assert not failures
        assert sorted(dead.task_id for dead in store.list_dead_tasks()) == sorted(
            f"{worker}-{n}" for worker in range(4) for n in (0, 2, 4)
        )


def _in_threads(work: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=work, args=[worker]) for worker in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_several_objects_of_one_process(tmp_path: Path) -> None:
    """D15, D31: each has a description of its own; in threads and in turns."""
    stores = [Disk(tmp_path) for _ in range(3)]

    def work(worker: int) -> None:
        for n in range(4):
            stores[worker].add_dead_task(f"{worker}-{n}", None, None, "Job", 1)

    _in_threads(work, 3)
    for store in stores:
        assert len(store.list_dead_tasks()) == 12
    assert stores[0].remove_dead_tasks([f"1-{n}" for n in range(4)]) == 4
    assert stores[1].remove_dead_tasks(["1-0"]) == 0
    for store in stores:
        store.close()


def test_tasks_of_one_loop_share_one_object(tmp_path: Path) -> None:
    """D15, D31."""

    async def main() -> None:
        async with await aio.Disk.open(tmp_path) as store:
            await asyncio.gather(
                *(store.add_dead_task(str(n), None, None, "Job", 1) for n in range(10)),
                *(store.add_task(n) for n in range(10)),
                store.list_dead_tasks(), store.remove_dead_tasks(["x"]), store.pending_tasks(),
            )
            dead = await store.list_dead_tasks()
            assert sorted(found.task_id for found in dead) == sorted(map(str, range(10)))
            assert len(await store.pending_tasks()) == 10

    with no_leak():
        asyncio.run(main())


def test_cancelled_tasks_leave_the_store_to_the_others(tmp_path: Path) -> None:
    """D10, D15: whoever is cancelled, wherever, frees only what is his."""

    async def main() -> None:
        async with await aio.Disk.open(tmp_path) as store:
            async def bury(name: str) -> str:
                await store.add_dead_task(name, None, None, "Job", 1)
                return name

            tasks = [asyncio.create_task(bury(str(n))) for n in range(20)]
            for n, task in enumerate(tasks):
                await asyncio.sleep(0)
                if n % 2:
                    task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            acknowledged = {name for name in done if isinstance(name, str)}
            assert len(acknowledged) >= 10
            dead = {found.task_id for found in await store.list_dead_tasks()}
            assert acknowledged <= dead

    with no_leak():
        asyncio.run(main())


def test_a_call_that_waits_while_the_store_is_closed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2: it neither opens the closed store again nor waits for ever."""
    monkeypatch.setattr("lychgate._wal._TURN_S", 0.0)
    with no_leak():
        store = Store(tmp_path).open()
        store.add("x")
        first = store.programs.add_task("late", None, None)
        other = store.programs.add_dead_task("late", None, None, "Job", 1)
        held, own = store.programs._dead._lock._mine(), next(iter(
            store.programs._wal._by_process.values()
        ))
        for flag in (held.flag, own.flag):
            assert flag.take("another fiber")
        assert first.send(None).action == other.send(None).action == "Sleep"
        for flag in (held.flag, own.flag):
            flag.remove("another fiber")
        store.close()
        for program in (first, other):
            with pytest.raises(ClosedError):
                program.send(None)
        assert not store.fs._fds


def test_closing_twice_and_from_two_threads(tmp_path: Path) -> None:
    """F2: safe to repeat; every other call is refused."""
    with no_leak():
        store = Disk(tmp_path)
        store.add_task(1)
        _in_threads(lambda worker: store.close(), 3)
        store.close()
        calls: list[Callable[[], object]] = [
            lambda: store.add_task(1), lambda: store.remove_task("a"), store.pending_tasks,
            lambda: store.add_dead_task("a", None, None, "Job", 1), store.list_dead_tasks,
            lambda: store.find_dead_task("a"), lambda: store.remove_dead_tasks(["a"]),
            store.sync, lambda: store.tick(0.0),
        ]
        for call in calls:
            with pytest.raises(ClosedError):
                call()
        assert store.stats() == {"dead_files_republished": 1}


# --- the lock file ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_lock_file_that_is_gone_is_noticed(store: Store, how: str) -> None:
    """D24: the next attempt is made on the new one, and the store is healed: nobody knows."""
    store.bury("a")
    if how == "deleted":
        store.lock_file().unlink()
    else:
        (store.path / "new").write_bytes(store.lock_file().read_bytes())
        (store.path / "new").rename(store.lock_file())
    store.bury("b")
    assert store.trace[:6] == [
        "LockTry", "CheckLock", "CloseLock", "OpenLock", "LockTry", "CheckLock",
    ]
    assert ("RenameStaging" in store.trace) == (how == "deleted")
    assert store.dead() == ["a", "b"] and store.stats()["lock_files_replaced"] == 1
    store.check_clean()


@pytest.mark.usefixtures("impatient")
def test_a_lock_file_that_is_replaced_for_ever(store: Store) -> None:
    """D24, D14: even then a call ends."""
    store.fs.is_named = lambda fd, path: False  # type: ignore[method-assign]
    with pytest.raises(DeadTasksLockTimeout):
        store.bury("a")
    store.check_clean()


def test_a_link_in_place_of_the_lock_file_is_a_clear_error(store: Store) -> None:
    """F3, D24: it is not followed."""
    store.bury("a")
    store.lock_file().rename(store.path / "moved")
    store.lock_file().symlink_to("moved")
    with pytest.raises(StorageError, match="symlink stands where a file belongs"):
        store.bury("b")
    assert is_free(store.path / "moved")
    store.lock_file().unlink()
    store.bury("b")
    assert store.dead() == ["a", "b"]


def test_a_directory_that_went_and_came_back(store: Store) -> None:
    """F3: a clear error while it is away, a fresh store after."""
    store.bury("a")
    store.path.rename(store.path.parent / "away")
    with pytest.raises(StorageError, match="make the directory again"):
        store.bury("b")
    store.check_clean()
    store.path.mkdir()
    store.bury("c")
    assert store.dead() == ["c"]


# --- interrupts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "late"),
    [("try_lock", False), ("is_named", False), ("is_named", True), ("unlock", False),
     ("unlock", True)],
)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "io")], ids=repr)
def test_a_lock_is_free_after_a_failure_at_its_own_steps(
    store: Store, step: str, late: bool, error: BaseException
) -> None:
    """D10, F2: taking, checking and freeing may fail, or be interrupted when done.

    `try_lock` itself undoes a lock that it raises about (test_osfs).
    """
    store.bury("a")
    store.fs.arm(Fault(0, error, only=step, late=late))
    if step == "unlock" and isinstance(error, OSError):
        store.bury("b")
        assert store.trace[-2:] == ["Unlock", "CloseLock"]
    else:
        with pytest.raises((KeyboardInterrupt, StorageError)):
            store.bury("b")
        last = "LockTry" if isinstance(error, OSError) else "Unlock"  # nobody knows: to be sure
        assert store.trace[-1] == (last if step == "try_lock" else "CloseLock")
    store.fs.arm(None)
    store.check_clean()
    store.bury("c")
    assert store.dead()[-1] == "c"


def test_a_handler_that_raises_while_waiting(store: Store) -> None:
    """D14, F2: a time-out of the caller's own, say."""
    with held_by_another(store.lock_file()):
        store.fs.arm(Fault(0, TimeoutError("the caller's"), only="sleep"))
        with pytest.raises((TimeoutError, StorageError)):
            store.bury("a")
        store.fs.arm(None)
    store.check_clean()
    store.bury("b")
    assert store.dead() == ["b"]


def test_the_lock_descriptor_is_opened_once(store: Store) -> None:
    """D23: kept between calls, by one process."""
    for name in "abc":
        store.bury(name)
        assert "OpenLock" not in store.trace
    assert len({os.fstat(fd).st_ino for fd in store.fs._fds}) == len(store.fs._fds)
