"""fsyncs of the WAL in batches: when they are due, and what a failed one costs (W3, W8, W9)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from engine.faults import Fault, FaultyFs, Store, no_leak
from engine.wal_runs import APPEND, CREATE, SETTLE

from lychgate import StorageError


class Clock(FaultyFs):
    """Time stands still until the test moves it."""

    time = 1_000_000.0

    def now(self) -> float:
        return self.time


def batching(path: Path, frequency: float = 10.0) -> tuple[Store, Clock]:
    store, clock = Store(path, frequency=frequency), Clock()
    store.fs = clock
    codec = store.programs._codec
    store.programs = type(store.programs)(path, "deferred-", frequency, codec, clock)
    return store.open(), clock


def test_fsyncs_are_batched(tmp_path: Path) -> None:
    """W3, D1: at most one in each period; the call past due does it, tick as well."""
    store, clock = batching(tmp_path)
    store.add(1)
    assert store.trace == [*CREATE, "AppendWal"]
    clock.time += 9
    store.add(2)
    assert store.trace == ["AppendWal"]
    assert store.do(store.programs.tick(clock.time)) == 1_000_010.0 and store.trace == []
    clock.time += 1
    store.add(3)
    assert store.trace == APPEND
    assert store.do(store.programs.tick(clock.time)) is None
    store.add(4)
    assert store.do(store.programs.tick(clock.time + 10)) is None
    assert store.trace == ["FsyncWal"]
    store.kill()


@pytest.mark.parametrize("call", ["remove unknown", "pending"])
def test_any_call_past_due_does_the_fsync(tmp_path: Path, call: str) -> None:
    """D1: without a queue; and a reader is not told when it fails."""
    store, clock = batching(tmp_path)
    task_id = store.add(1)
    calls: dict[str, Callable[[], object]] = {
        "remove unknown": lambda: store.remove("unknown"), "pending": store.pending,
    }
    calls[call]()
    assert "FsyncWal" not in store.trace
    clock.time += 10
    clock.arm(Fault(0, OSError(errno.EIO, "io"), only="fsync"))
    if call == "pending":
        assert store.pending() == [task_id]
    else:
        with pytest.raises(StorageError, match="may or may not"):
            store.remove("unknown")
    assert store.trace == ["FsyncWal"]
    store.remove("unknown")
    assert store.trace[: len(CREATE)] == CREATE and "FsyncWal" in store.trace
    calls[call]()
    assert "FsyncWal" not in store.trace and store.pending() == [task_id]
    store.kill()


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_clock_that_jumps_postpones_no_fsync(tmp_path: Path, jump: float) -> None:
    """D1, W3: backward: the period begins anew, or ends at once; forward: it is over."""
    store, clock = batching(tmp_path)
    store.add(1)
    clock.time += jump
    if jump < 0:
        store.add(2)
        due = store.do(store.programs.tick(clock.time))
        assert due == clock.time + 10
        assert store.do(store.programs.tick(clock.time - 1000)) is None
    else:
        assert store.do(store.programs.tick(clock.time)) is None
    assert store.trace == ["FsyncWal"]
    store.kill()


def test_sync_makes_everything_durable(tmp_path: Path) -> None:
    """D2: and does nothing when everything is."""
    store, _ = batching(tmp_path)
    store.do(store.programs.sync())
    assert store.trace == []
    one = store.add(1)
    store.do(store.programs.sync())
    assert store.trace == ["FsyncWal"]
    store.do(store.programs.sync())
    assert store.trace == []
    store.remove(one)
    store.do(store.programs.sync())
    assert store.trace == ["FsyncWal"]
    assert store.do(store.programs.tick(0.0)) is None
    store.kill()


def test_close_does_the_pending_fsync(tmp_path: Path) -> None:
    """D1."""
    store, _ = batching(tmp_path)
    store.add(1)
    store.close()
    assert store.trace == ["FsyncWal", "CloseWal", "CloseLock"]


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    """W3, W8: no fsync was made, and no byte waits in the process."""
    store, _ = batching(tmp_path)
    kept, gone = store.add("kept"), store.add("gone")
    store.remove(gone)
    store.kill()
    again = Store(tmp_path).open()
    assert again.pending() == [kept]
    again.kill()


def test_tasks_whose_fsync_failed_come_from_memory(tmp_path: Path) -> None:
    """W9: the cache may show what the disk lacks, and here the file shows nothing any more."""
    store, _ = batching(tmp_path)
    tasks = [store.add(n) for n in range(3)]
    store.fs.arm(Fault(0, OSError(errno.EIO, "io"), only="fsync"))
    with pytest.raises(StorageError):
        store.do(store.programs.sync())
    store.fs.arm(None)
    (path,) = store.wal_files()
    path.write_bytes(b"\0" * path.stat().st_size)
    assert store.pending() == tasks
    store.do(store.programs.sync())
    assert store.trace == [*CREATE, "CopyWal", "CopyWal", "CopyWal", "FsyncWal", *SETTLE]
    assert store.pending() == tasks
    store.kill()
    again = Store(tmp_path).open()
    assert again.pending() == tasks
    again.kill()


def test_closing_with_a_failing_fsync_lets_everything_go(tmp_path: Path) -> None:
    """F2: and says that it may not be durable; nothing is unlinked."""
    with no_leak():
        store, _ = batching(tmp_path)
        one = store.add(1)
        store.fs.arm(Fault(0, OSError(errno.EIO, "io"), only="fsync"))
        with pytest.raises(StorageError, match="may or may not"):
            store.close()
        assert not store.fs._fds
        again = Store(tmp_path).open()
        assert again.pending() == [one]
        again.close()
