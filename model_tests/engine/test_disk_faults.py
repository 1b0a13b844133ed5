"""Every call of the disk backend fails, in every way, at every step (F2, D10, D17, D19, W9).

For each call of the facade, each of its steps, each error and each driver: the caller gets a typed
error with the right `definite` (or none, where the failure is the engine's own business), no lock,
flag or descriptor is left, nothing acknowledged is lost, now and after a restart, and the call
works once the fault is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from engine.faults import ERRNOS, Fault, Store, no_leak

from lychgate import LychgateError, StorageError, _wal

Call = Callable[[Store], object]

CALLS: dict[str, Call] = {
    "add": lambda store: store.add("new", "t-new"),
    "replace": lambda store: store.add("new", "t0"),
    "remove": lambda store: store.remove("t0"),
    "remove unknown": lambda store: store.remove("unknown"),
    "pending": lambda store: store.pending(),
    "bury": lambda store: store.bury("d-new"),
    "dead": lambda store: store.dead(),
    "find": lambda store: store.do(store.programs.find_dead_task("d0")),
    "unbury": lambda store: store.unbury("d0"),
    "unbury unknown": lambda store: store.unbury("unknown"),
    "sync": lambda store: store.do(store.programs.sync()),
    "tick": lambda store: store.do(store.programs.tick(1e12)),
    "close": lambda store: store.close(),
}


@dataclass
class Expected:
    """What must be, may be, and must not be there."""

    tasks: set[str] = field(default_factory=lambda: {"t0", "t1", "t2"})
    dead: set[str] = field(default_factory=lambda: {"d0", "d1", "d2"})
    perhaps: set[str] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)

    def did(self, call: str, definite: bool | None) -> None:
        """Note a call that succeeded (None) or failed."""
        for name, ids, change in (
            ("add", self.tasks, "+t-new"), ("remove", self.tasks, "-t0"),
            ("bury", self.dead, "+d-new"), ("unbury", self.dead, "-d0"),
        ):
            if name != call:
                continue
            if definite is None:
                (ids.add if change[0] == "+" else ids.discard)(change[1:])
                self.perhaps.discard(change[1:])
            elif not definite:
                self.perhaps.add(change[1:])
                ids.discard(change[1:])

    def check(self, store: Store) -> None:
        for found, ids in ((store.pending(), self.tasks), (store.dead(), self.dead)):
            once = [name for name in found if name not in self.twice]
            assert len(once) == len(set(once)), "nothing is there twice"
            assert set(found) - self.perhaps == ids


def populate(path: Path, loop: asyncio.Runner | None, torn: bool) -> Store:
    """Three tasks, three dead tasks; one of each was there before a restart."""
    first = Store(path, loop=loop).open()
    first.add(0, "t0")
    first.bury("d0")
    first.close()
    store = Store(path, loop=loop).open()
    for n in (1, 2):
        store.add(n, f"t{n}")
        store.bury(f"d{n}")
    if torn:
        with open(store.data_file(), "ab") as file:
            file.write(b"torn")
    return store


def attempt(store: Store, call: str, expected: Expected) -> LychgateError | None:
    try:
        CALLS[call](store)
    except StorageError as error:
        expected.did(call, error.definite)
        return error
    expected.did(call, None)
    return None


def judge(store: Store, call: str, expected: Expected) -> None:
    """After a failure, with the fault gone."""
    store.fs.arm(None)
    store.check_clean()
    if call != "close":
        expected.check(store)
        if call == "bury" and "d-new" in store.dead():
            expected.twice.add("d-new")  # a repeated add is another record (D26)
        assert attempt(store, call, expected) is None
        expected.check(store)
        store.check_clean()
    store.kill()
    again = Store(store.path).open()
    expected.check(again)
    again.kill()


def steps_of(tmp_path: Path, call: str, torn: bool) -> int:
    store = populate(tmp_path / "count", None, torn)
    store.fs.arm(None)
    CALLS[call](store)
    count = len(store.fs.calls)
    store.kill()
    return count


@contextlib.contextmanager
def prepared(path: Path, loop: asyncio.Runner | None, torn: bool) -> Iterator[Store]:
    with no_leak():
        store = populate(path, loop, torn)
        yield store
        store.kill()
    shutil.rmtree(path)


@pytest.fixture(params=["plenty", "tight"])
def tight(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """With "tight", each change of the WAL rotates its file and the dead-task tail is torn."""
    if request.param == "tight":
        monkeypatch.setattr(_wal, "ROTATE_BYTES", 40)
    return bool(request.param == "tight")


@pytest.mark.parametrize("call", CALLS)
def test_one_step_fails(
    tmp_path: Path, call: str, loop: asyncio.Runner | None, tight: bool
) -> None:
    """F2: each step, each error of the list."""
    for step in range(steps_of(tmp_path, call, tight)):
        for code in ERRNOS if loop is None else ERRNOS[step % len(ERRNOS) :][:1]:
            with prepared(tmp_path / f"{step}-{code}", loop, tight) as store:
                expected = Expected()
                store.fs.arm(Fault(step, OSError(code, os.strerror(code))))
                error = attempt(store, call, expected)
                assert error is None or getattr(error, "errno") == code
                judge(store, call, expected)


@pytest.mark.parametrize("call", CALLS)
def test_everything_fails_from_a_step_on(
    tmp_path: Path, call: str, loop: asyncio.Runner | None, tight: bool
) -> None:
    """F2: the clean-up as well."""
    for step in range(steps_of(tmp_path, call, tight)):
        for code in ERRNOS[:2]:
            with prepared(tmp_path / f"{step}-{code}", loop, tight) as store:
                expected = Expected()
                store.fs.arm(Fault(step, OSError(code, os.strerror(code)), count=10_000))
                attempt(store, call, expected)
                judge(store, call, expected)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, asyncio.CancelledError])
@pytest.mark.parametrize("call", CALLS)
def test_a_step_is_interrupted(
    tmp_path: Path, call: str, interrupt: type[BaseException], late: bool, tight: bool
) -> None:
    """F2, D10: cancelled before a call, or when it is done. The change may have happened.

    Opening and locking undo what they raise about (test_osfs), so for them "after" is "before".
    """
    for step in range(steps_of(tmp_path, call, tight)):
        with prepared(tmp_path / str(step), None, tight) as store:
            expected = Expected()
            store.fs.arm(Fault(step, interrupt(), late=late))
            if late:
                _never_late(store)
            with contextlib.suppress(interrupt):
                CALLS[call](store)
                pytest.fail("an interrupt is never swallowed")
            expected.did(call, False)
            judge(store, call, expected)


@pytest.mark.parametrize("call", CALLS)
def test_an_asyncio_task_is_cancelled(tmp_path: Path, call: str, tight: bool) -> None:
    """D10, D31: for real, at each place where it waits for the disk."""
    for place in range(10):
        with asyncio.Runner() as loop, prepared(tmp_path / str(place), loop, tight) as store:
            expected, waits = Expected(), 0

            def cancel(result: object) -> None:
                nonlocal waits
                waits += 1
                if waits == place + 1:
                    (task,) = asyncio.all_tasks(loop.get_loop())
                    loop.get_loop().call_soon_threadsafe(task.cancel)

            setattr(store.fs, "fsync", cancel)
            setattr(store.fs, "fsync_dir", cancel)
            try:
                CALLS[call](store)
                expected.did(call, None)
            except asyncio.CancelledError:
                expected.did(call, False)
            if waits <= place:
                break
            delattr(store.fs, "fsync")
            delattr(store.fs, "fsync_dir")
            judge(store, call, expected)
    else:
        pytest.fail("no call waits that often")


def _never_late(store: Store) -> None:
    due = store.fs._due

    def chosen(name: str) -> Fault | None:
        fault = due(name)
        if fault is not None and name in ("open", "try_lock"):
            fault.late = False
        return fault

    store.fs._due = chosen  # type: ignore[method-assign]


@pytest.mark.parametrize("code", ERRNOS[:2])
@pytest.mark.parametrize("count", [1, 10_000])
def test_opening_fails(
    tmp_path: Path, loop: asyncio.Runner | None, count: int, code: int
) -> None:
    """F2: at each step of taking over a file and healing a store; nothing is lost."""
    step, finished = 0, False
    while not finished:
        path = tmp_path / str(step)
        with no_leak():
            old = populate(path, None, torn=True)
            old.kill()
            os.truncate(old.lock_file(), 0)
            store = Store(path, loop=loop)
            store.fs.arm(Fault(step, OSError(code, os.strerror(code)), count=count))
            try:
                store.open()
                finished = len(store.fs.calls) <= step
            except StorageError as error:
                assert error.errno == code
            store.kill()
            again = Store(path).open()
            Expected().check(again)
            again.kill()
        step += 1
    assert step > 30


def test_a_directory_that_is_not_durable_is_not_taken_for_one(tmp_path: Path) -> None:
    """D22, F2: the directory was made by the open that failed; to the next one it is there."""
    path = tmp_path / "storage"
    error = OSError(errno.EIO, os.strerror(errno.EIO))
    for _ in range(2):
        store = Store(path)
        store.fs.arm(Fault(0, error, only="fsync_dir"))
        with pytest.raises(StorageError, match="in FsyncParent"):
            store.open()
        store.kill()
    Store(path).open().close()
    elsewhere = Store(path)
    elsewhere.fs.arm(Fault(0, OSError(errno.EACCES, "not ours"), only="fsync_dir"))
    elsewhere.open().close()
