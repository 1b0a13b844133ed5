"""Several processes on one store: forks, kills, races (W2, W3, W13, D10, D23, D24, D31, D32)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from engine.faults import is_free, no_leak

from lychgate import Disk
from lychgate._disk import DiskPrograms
from lychgate._fs import OpenMode
from lychgate._op import Program
from lychgate._osfs import OsFs
from lychgate._records import JSON

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

WAIT_S_MAX = 30.0


def child(body: Callable[[], None]) -> int:
    """A forked process that runs `body` and ends: 7 when all was well."""
    pid = os.fork()
    if pid:
        return pid
    code = 3
    try:
        body()
        code = 7
    finally:
        os._exit(code)


def succeeded(*pids: int) -> bool:
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    return codes == [7] * len(pids)


def bury(store: Disk, task_id: str) -> None:
    store.add_dead_task(task_id, None, ValueError("no"), "Job", 1)


def dead(store: Disk) -> list[str]:
    return [found.task_id for found in store.list_dead_tasks()]


@contextmanager
def killed_at(
    path: Path, make: Callable[[DiskPrograms], Program[object]], last: str
) -> Iterator[int]:
    """A process that has taken the step `last` of a call, and then does nothing but wait."""
    reading, writing = os.pipe()

    def body() -> None:
        fs = OsFs()
        programs = DiskPrograms(path, "deferred-", 0.0, JSON, fs)
        program = make(programs)
        op = program.send(None)
        while True:
            result = op.perform(fs)
            if op.action == last:
                break
            op = program.send(result)
        os.write(writing, b".")
        time.sleep(WAIT_S_MAX)

    pid = child(body)
    os.close(writing)
    assert os.read(reading, 1) == b"."
    os.close(reading)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


# --- kills --------------------------------------------------------------------------------------

STEPS = ["LockTry", "SetMark", "OpenData", "AppendRecord", "FsyncData", "ClearMark"]


@pytest.mark.parametrize("last", STEPS)
def test_a_killed_holder_frees_the_lock_and_the_store_is_healed(tmp_path: Path, last: str) -> None:
    """D10, D32: the kernel frees it; a time-out meanwhile changes nothing."""
    with Disk(tmp_path) as store:
        bury(store, "a")
        with killed_at(
            tmp_path, lambda programs: programs.add_dead_task("b", None, None, "Job", 1), last
        ):
            assert not is_free(tmp_path / "deferred-dead_tasks.lock")
        bury(store, "c")
        written = STEPS.index(last) >= STEPS.index("AppendRecord")
        assert dead(store) == (["a", "b", "c"] if written else ["a", "c"])
        healed = store.stats().get("dead_files_republished", 0)
        assert healed == (1 if last in ("LockTry", "ClearMark") else 2)


@pytest.mark.parametrize("last", ["CreateStaging", "WriteStaging", "FsyncStaging", "RenameStaging"])
def test_a_killed_compaction_loses_nothing(tmp_path: Path, last: str) -> None:
    """D12, D18: the old file or the new one; the orphan is removed."""
    with Disk(tmp_path) as store:
        for name in "abc":
            bury(store, name)
        with killed_at(
            tmp_path, lambda programs: programs.remove_dead_tasks(["a"]), last
        ):
            pass
        assert dead(store) == (["b", "c"] if last == "RenameStaging" else ["a", "b", "c"])
        assert store.remove_dead_tasks(["a"]) == (0 if last == "RenameStaging" else 1)
        assert dead(store) == ["b", "c"]
        assert not (tmp_path / "deferred-dead_tasks-0.tmp").exists()


def test_a_killed_process_leaves_its_tasks_to_the_next(tmp_path: Path) -> None:
    """W2, W3: acknowledged, never fsynced, and there."""
    reading, writing = os.pipe()

    def body() -> None:
        store = Disk(tmp_path, fsync_frequency=1000)
        for n in range(100):
            task_id = store.add_task(n)
            if n % 3:
                store.remove_task(task_id)
        os.write(writing, b".")
        time.sleep(WAIT_S_MAX)

    pid = child(body)
    assert os.read(reading, 1) == b"."
    with Disk(tmp_path) as store:
        assert store.pending_tasks() == []  # their owner lives
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reading)
    os.close(writing)
    with Disk(tmp_path) as store:
        assert [task for _, task, _ in store.pending_tasks()] == list(range(0, 100, 3))


# --- forks --------------------------------------------------------------------------------------


def test_a_lock_held_at_fork_is_freed_by_the_parents_death(tmp_path: Path) -> None:
    """D23: while the child lives on, and uses the same object."""
    with Disk(tmp_path) as store:
        bury(store, "a")
    told, telling = os.pipe()
    go, going = os.pipe()

    def parent() -> None:
        fs = OsFs()
        programs = DiskPrograms(tmp_path, "deferred-", 0.0, JSON, fs)
        program = programs.add_dead_task("b", None, None, "Job", 1)
        op = program.send(None)
        while op.action != "SetMark":
            op = program.send(op.perform(fs))
        if os.fork() == 0:
            os.write(telling, b".")
            os.read(go, 1)
            os._exit(0)
        os._exit(7)

    pid = child(parent)
    assert succeeded(pid)
    assert os.read(told, 1) == b"."
    assert is_free(tmp_path / "deferred-dead_tasks.lock")
    os.write(going, b".")
    for fd in (told, telling, go, going):
        os.close(fd)


def test_a_child_uses_the_object_of_its_parent(tmp_path: Path) -> None:
    """W13, D23: no shared file, lock, flag or buffer; and the parent goes on."""
    with no_leak(), Disk(tmp_path) as store:
        mine = store.add_task("parent's")
        bury(store, "a")
        own = [path for path in tmp_path.glob("deferred-0-*")]

        def body() -> None:
            assert store.pending_tasks() == []
            theirs = store.add_task("child's")
            bury(store, "b")
            store.remove_task(mine)  # unknown here
            assert [found[0] for found in store.pending_tasks()] == [theirs]
            assert dead(store) == ["a", "b"]
            store.close()

        before = own[0].read_bytes()
        assert succeeded(child(body), child(lambda: None))
        assert own[0].read_bytes() == before
        assert [found[0] for found in store.pending_tasks()] == [mine]
        bury(store, "c")
        assert dead(store) == ["a", "b", "c"]
    with Disk(tmp_path) as store:
        assert sorted(str(task) for _, task, _ in store.pending_tasks()) == ["child's", "parent's"]


def test_a_child_that_leaves_by_the_with_block_does_the_parent_no_harm(tmp_path: Path) -> None:
    """W13: its close is its own."""
    with Disk(tmp_path) as store:
        task_id = store.add_task(1)
        pid = os.fork()
        if pid == 0:
            store.close()
            os._exit(7)
        assert succeeded(pid)
        assert not is_free(next(tmp_path.glob("deferred-0-*")))
        assert [found[0] for found in store.pending_tasks()] == [task_id]


def test_a_flag_that_another_thread_holds_at_fork_does_not_stop_the_child(tmp_path: Path) -> None:
    """W13, D15: the flag is the parent's; the thread that held it is not there."""
    with Disk(tmp_path) as store:
        programs = store._programs
        store.add_task(1)
        flags = [programs._dead._lock._mine().flag, programs._wal._by_process[os.getpid()].flag]
        assert all(flag.take("another fiber") for flag in flags)

        def body() -> None:
            store.add_task(2)
            bury(store, "a")

        assert succeeded(child(body))
        for flag in flags:
            flag.remove("another fiber")
        assert dead(store) == ["a"]


def test_forking_while_threads_work(tmp_path: Path) -> None:
    """W13, D23: at any moment; the child works, the parent's threads notice nothing."""
    with Disk(tmp_path, fsync_frequency=1000) as store:
        stop, failures = threading.Event(), list[BaseException]()

        def work() -> None:
            try:
                while not stop.is_set():
                    store.remove_task(store.add_task(1))
                    store.list_dead_tasks()
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()

        def body() -> None:
            store.add_task("child's")
            bury(store, str(os.getpid()))

        try:
            assert all(succeeded(child(body)) for _ in range(8))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not failures and len(dead(store)) == 8
    with Disk(tmp_path) as store:
        assert [task for _, task, _ in store.pending_tasks()] == ["child's"] * 8


# --- races --------------------------------------------------------------------------------------


def test_processes_share_one_dead_task_store(tmp_path: Path) -> None:
    """D13, D17, D31: every acknowledged change is there, and nothing else."""
    Disk(tmp_path).close()

    def worker(number: int) -> Callable[[], None]:
        def body() -> None:
            with Disk(tmp_path) as store:
                for n in range(6):
                    bury(store, f"{number}-{n}")
                    if n % 2:
                        assert store.remove_dead_tasks([f"{number}-{n}", "unknown"]) == 1
                    assert f"{number}-0" in dead(store)
        return body

    assert succeeded(*[child(worker(number)) for number in range(3)])
    with Disk(tmp_path) as store:
        assert sorted(dead(store)) == [f"{w}-{n}" for w in range(3) for n in (0, 2, 4)]


def test_processes_that_start_together_share_the_files(tmp_path: Path) -> None:
    """W2, W11: each file goes to one of them, and each task is in one place."""
    for n in range(5):
        def leave(n: int = n) -> None:
            store = Disk(tmp_path, fsync_frequency=1000)
            for k in range(4):
                store.add_task(f"{n}-{k}")

        assert succeeded(child(leave))
    reading, writing = os.pipe()
    go, going = os.pipe()

    def body() -> None:
        os.close(going)
        os.read(go, 1)
        store = Disk(tmp_path)
        found = " ".join(str(task) for _, task, _ in store.pending_tasks())
        os.write(writing, f"{found}\n".encode())
        os._exit(7)

    pids = [child(body) for _ in range(4)]
    os.close(going)
    assert succeeded(*pids)
    os.close(writing)
    os.close(go)
    with os.fdopen(reading) as lines:
        seen = [word for line in lines for word in line.split()]
    with Disk(tmp_path) as store:
        left = [str(task) for _, task, _ in store.pending_tasks()]
    assert set(left) == {f"{n}-{k}" for n in range(5) for k in range(4)}
    assert len(left) == 20 and set(seen) <= set(left)


def test_an_unrelated_child_inherits_no_lock(tmp_path: Path) -> None:
    """D23: exec closes what a fork in C code has not."""
    with Disk(tmp_path) as store:
        store.add_task(1)
        bury(store, "a")
        pid = os.posix_spawn("/bin/sleep", ["sleep", str(WAIT_S_MAX)], dict(os.environ))
    try:
        time.sleep(0)
        deadline = time.monotonic() + WAIT_S_MAX
        while _has_open(pid, tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)  # until it has reached its exec
        assert not _has_open(pid, tmp_path)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _has_open(pid: int, path: Path) -> bool:
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            if os.readlink(f"/proc/{pid}/fd/{name}").startswith(str(path)):
                return True
        except OSError:
            continue
    return False


def test_a_held_lock_is_waited_for_across_processes(tmp_path: Path) -> None:
    """D14."""
    Disk(tmp_path).close()
    rival = OsFs()
    fd = rival.open(str(tmp_path / "deferred-dead_tasks.lock"), OpenMode.LOCK)
    assert rival.try_lock(fd)

    def body() -> None:
        with Disk(tmp_path) as store:
            bury(store, "a")

    pid = child(body)
    time.sleep(0.05)
    rival.close_all()
    assert succeeded(pid)
    with Disk(tmp_path) as store:
        assert dead(store) == ["a"]
