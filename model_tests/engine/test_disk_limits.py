"""Large, deep, hostile, concurrent: what the backend takes and refuses (D25, D30, D31, F3)."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import resource
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from engine.faults import Store, no_leak

from lychgate import ClosedError, ConfigError, Disk, LychgateError, Refused, StorageError, aio

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def test_sixteen_megabytes_are_stored(store: Store) -> None:
    """D25: as a task, as a context, in an id, and through restart and compaction."""
    big = "\n\0é" + "x" * 16 * 1024 * 1024
    store.add(big, "task")
    store.bury("first")
    store.bury("big", {"payload": big})
    store.bury("x" * 100_000)
    assert store.unbury("first") == 1
    store.kill()
    again = Store(store.path).open()
    ((_, task, _),) = again.do(again.programs.pending_tasks())
    assert task == big
    found = again.do(again.programs.find_dead_task("big"))
    assert found is not None and found.context == {"payload": big}
    assert again.dead() == ["big", "x" * 100_000]
    again.kill()


def test_what_is_too_large_is_refused_before_anything_happens(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D25."""
    monkeypatch.setattr("lychgate._records.LINE_BYTES_MAX", 1000)
    for call in (lambda: store.add("x" * 1000), lambda: store.bury("a", "x" * 1000)):
        with pytest.raises(Refused, match="the limit is 1000"):
            call()
        assert store.trace == []
    store.add("x" * 900)


def test_a_context_too_deep_for_its_reader_is_given_as_bytes(store: Store) -> None:
    """D25, D30, W7: written near the top of the stack, read far down it."""
    deep: object = "core"
    for _ in range(600):
        deep = [deep]
    store.bury("deep", deep)
    store.bury("flat")
    store.add(deep, "task")

    def read(depth: int) -> tuple[object, object]:
        if depth:
            return read(depth - 1)
        found = store.do(store.programs.find_dead_task("deep"))
        assert found is not None and len(store.dead()) == 2
        ((_, task, _),) = store.do(store.programs.pending_tasks())
        return found.context, task

    assert read(0) == (deep, deep)
    text = json.dumps(deep).encode()
    for value in read(450):
        assert value == deep or getattr(value, "data") == text


def test_ids_of_every_kind_in_both_stores(store: Store) -> None:
    """D25: and the stores agree about which is which."""
    ids = [":", "\n", "\0", "%3A", "a:b", "\ud800", "\udfff", "é", "e\u0301", "\u2028", "😀", '"',
           "\\", '\\"', "a" * 300, " ", "rem", "\x7f", "{}", "'", "\r\n", "add:x:0:1"]
    for name in ids:
        store.add(name, name)
        store.bury(name, name)
    assert store.pending() == ids and store.dead() == ids
    for name in ids:
        found = store.do(store.programs.find_dead_task(name))
        assert found is not None and found.context == name
    for name in ids[::2]:
        store.remove(name)
        assert store.unbury(name) == 1
    store.kill()
    again = Store(store.path).open()
    assert again.pending() == ids[1::2] and again.dead() == ids[1::2]
    again.kill()


def test_ids_to_remove_may_come_from_anywhere(store: Store) -> None:
    """D12: a generator, a set, an iterator that fails before the lock is taken."""
    for name in "abc":
        store.bury(name)

    def broken() -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.do(store.programs.remove_dead_tasks(broken()))
    for ids in ("abc", [1], [""], [None], 3):
        with pytest.raises((Refused, TypeError)):
            store.do(store.programs.remove_dead_tasks(ids))  # type: ignore[arg-type]  # the test
        assert store.trace == []
    assert store.do(store.programs.remove_dead_tasks(name for name in "ax")) == 1
    assert store.do(store.programs.remove_dead_tasks({"b", "c"})) == 2
    assert store.do(store.programs.remove_dead_tasks(iter(()))) == 0 and store.trace == []


def test_numbers_that_cannot_be_meant(store: Store) -> None:
    """D2, D25: attempts, limits, offsets."""
    programs = store.programs
    wrong: list[Any] = [-1, 1.5, True, "3", None, -(10**5000)]  # past the type checker on purpose
    for number in wrong:
        with pytest.raises(Refused):
            store.do(programs.add_dead_task("a", None, None, "Job", number))
        with pytest.raises(Refused):
            store.do(programs.list_dead_tasks(0, number))
        if number is not None:
            with pytest.raises(Refused):
                store.do(programs.list_dead_tasks(number))
    with pytest.raises(Refused):
        store.do(store.programs.add_dead_task("a", None, None, "Job", 10**5000))
    assert store.trace == []


@pytest.mark.parametrize("path", ["", "a\0b", 3, None, b"bytes"])
def test_a_path_that_cannot_be_meant(path: object) -> None:
    """D5."""
    with pytest.raises(ConfigError):
        Disk(path)  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("frequency", [-1, "1", None, True, float("nan"), float("inf"), 10**400])
def test_a_frequency_that_cannot_be_meant(tmp_path: Path, frequency: object) -> None:
    """D5, W9."""
    with pytest.raises(ConfigError):
        Disk(tmp_path / "storage", fsync_frequency=frequency)  # type: ignore[arg-type]  # the test
    assert not (tmp_path / "storage").exists()


def test_threads_that_race_with_a_close(tmp_path: Path) -> None:
    """F2: each call succeeds or is told that the backend is closed; nothing stays open."""
    for _ in range(5):
        with no_leak():
            store = Disk(tmp_path, fsync_frequency=1000)
            added: list[str] = []
            failures: list[BaseException] = []

            def work() -> None:
                try:
                    while True:
                        added.append(store.add_task(1))
                        store.list_dead_tasks()
                        store.remove_dead_tasks(["x"])
                except ClosedError:
                    pass
                except BaseException as error:
                    failures.append(error)

            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            while len(added) < 10 and not failures:
                pass
            store.close()
            for thread in threads:
                thread.join()
            assert not failures and not store._fs._fds
            with Disk(tmp_path) as store:
                found = [task_id for task_id, _, _ in store.pending_tasks()]
                assert sorted(found) == sorted(added)
                for task_id in found:
                    store.remove_task(task_id)


def test_an_open_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    """F2, D31: wherever it is, and then it works."""

    async def main() -> None:
        for yields in range(60):
            task = asyncio.create_task(aio.Disk.open(tmp_path))
            for _ in range(yields):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await (await task).close()
            except asyncio.CancelledError:
                pass
        async with await aio.Disk.open(tmp_path) as store:
            await store.add_dead_task("a", None, None, "Job", 1)
            assert len(await store.list_dead_tasks()) == 1
            assert await store.stats() in ({}, {"dead_files_republished": 1})

    with no_leak():
        asyncio.run(main())


# --- real limits of the system ------------------------------------------------------------------


def _in_child(limit: int, soft: int, path: Path) -> bool:
    """Fill a store under a limit, then lift it; whether every promise was kept."""
    pid = os.fork()
    if pid == 0:
        try:
            _fill(limit, soft, path)
            os._exit(7)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(3)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def _fill(limit: int, soft: int, path: Path) -> None:
    store = Disk(path)
    store.add_dead_task("first", None, None, "Job", 1)
    tasks, dead, failed = [store.add_task("first")], ["first"], 0
    hard = resource.getrlimit(limit)[1]
    if limit == resource.RLIMIT_NOFILE:  # a limit on the number: count from the first free one
        free = os.dup(0)
        os.close(free)
        soft += free
    resource.setrlimit(limit, (soft, hard))
    for n in range(60):
        try:
            tasks.append(store.add_task("x" * 100))
        except StorageError as error:
            assert error.errno in (errno.EFBIG, errno.EMFILE)
            failed += 1
        try:
            store.add_dead_task(f"d{n}", "x" * 100, None, "Job", 1)
            dead.append(f"d{n}")
        except StorageError as error:
            assert error.errno in (errno.EFBIG, errno.EMFILE) and error.definite
            failed += 1
        try:
            store.remove_dead_tasks(["unknown"])
        except LychgateError:
            failed += 1
    assert failed
    resource.setrlimit(limit, (hard, hard))
    tasks.append(store.add_task("last"))
    store.add_dead_task("last", None, None, "Job", 1)
    assert [found[0] for found in store.pending_tasks()] == tasks
    assert [found.task_id for found in store.list_dead_tasks()] == [*dead, "last"]
    store.close()
    with Disk(path) as again:
        assert [found[0] for found in again.pending_tasks()] == tasks
        assert "wal_lines_skipped" not in again.stats()


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """F2: real short writes, and then errors, from the kernel."""
    assert _in_child(resource.RLIMIT_FSIZE, 3001, tmp_path)


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    """F2: EMFILE, wherever a file is opened."""
    for spare in (0, 1):
        assert _in_child(resource.RLIMIT_NOFILE, spare, tmp_path / str(spare))
