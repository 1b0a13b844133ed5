"""The drivers: steps in order, errors in place, interrupts and cancellation (D10, D31, F2)."""

from __future__ import annotations

import asyncio
import errno
import gc
import inspect
import pickle
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from engine.faults import FaultyFs, Fault, Store, is_free

from lychgate import StorageError
from lychgate._drive import drive, run
from lychgate._fs import OpenMode
from lychgate._op import Op, Program, StepError, with_release, with_undo
from lychgate._ops import FsyncDir, MakeDir, Sleep, UnlinkWal


def test_steps_are_observed_in_order_with_results_and_errors(tmp_path: Path) -> None:
    """D10: the trace is what happened."""
    seen: list[tuple[str, bool]] = []

    async def program() -> str:
        await MakeDir(f"{tmp_path}/a")
        try:
            await MakeDir(f"{tmp_path}/a")
        except StepError as error:
            assert error.action == "MakeDir" and error.cause.errno == errno.EEXIST
        return "end"

    def observe(op: Op[Any], result: object, error: BaseException | None) -> None:
        seen.append((op.action, error is None))

    assert run(program(), FaultyFs(), observe) == "end"
    assert seen == [("MakeDir", True), ("MakeDir", False)]


async def fails() -> None:
    raise ZeroDivisionError


def test_the_error_of_the_body_goes_before_that_of_its_undoing(tmp_path: Path) -> None:
    """F2: the caller learns what went wrong first."""

    async def undo() -> None:
        await UnlinkWal(f"{tmp_path}/none")

    with pytest.raises(ZeroDivisionError):
        run(with_undo(fails(), undo), FaultyFs())
    with pytest.raises(ZeroDivisionError):
        run(with_release(fails(), undo), FaultyFs())

    async def fine() -> None:
        pass

    run(with_undo(fine(), undo), FaultyFs())
    with pytest.raises(StepError):
        run(with_release(fine(), undo), FaultyFs())


def test_a_crash_takes_no_step() -> None:
    """D10: closing a suspended program is a crash; its clean-up belongs to no crash."""
    steps: list[str] = []

    async def body() -> None:
        await Sleep(0)

    async def undo() -> None:
        steps.append("undo")
        await Sleep(0)

    program = with_release(with_undo(body(), undo), undo)
    program.send(None)
    program.close()
    assert steps == []


def test_an_interrupt_between_two_steps_runs_the_clean_up(tmp_path: Path) -> None:
    """F2: Ctrl-C need not come within a call."""
    store = Store(tmp_path).open()

    def interrupt(op: Op[Any], result: object, error: BaseException | None) -> None:
        if op.action == "AppendRecord":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(store.programs.add_dead_task("a", None, None, "Job", 1), store.fs, interrupt)
    store.check_clean()
    store.bury("b")
    assert store.dead()[-1] == "b"
    store.kill()


class Alarm(BaseException):
    """What a signal handler raises, at any instruction."""


def _signals_come_in(frame: FrameType, event: str) -> bool:
    """CPython looks for signals when a function of Python begins, when a generator goes on, and
    when one of C has returned; not when a coroutine goes on."""
    goes_on = frame.f_lineno != frame.f_code.co_firstlineno
    coroutine = frame.f_code.co_flags & inspect.CO_COROUTINE
    return event == "c_return" or (event == "call" and not (coroutine and goes_on))


CALLS: dict[str, Callable[[Store, str], object]] = {
    "bury": lambda store, key: store.bury(key),
    "unbury": lambda store, key: store.unbury("a"),
    "dead": lambda store, key: store.dead(),
    "add": lambda store, key: store.add(1, key),
    "remove": lambda store, key: store.remove("a"),
    "pending": lambda store, key: store.pending(),
}


def _begin_anew(store: Store) -> None:
    """One dead task and one task, both called a, and a file for each."""
    if store.dead() != ["a"]:
        store.unbury(*store.dead())
        store.bury("a")
    if store.pending() != ["a"]:
        for task_id in store.pending():
            store.remove(task_id)
        store.add(1, "a")


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("call", CALLS)
def test_interrupts_at_any_instruction_leave_no_lock(tmp_path: Path, call: str) -> None:
    """F2, D10: a profiler's hook stands for the signal, so that each instruction's turn comes."""
    store = Store(tmp_path).open()
    for place in range(1000):
        _begin_anew(store)
        seen = 0

        def interrupt(frame: FrameType, event: str, arg: object) -> None:
            nonlocal seen
            here = _signals_come_in(frame, event) and "lychgate" in frame.f_code.co_filename
            seen += here
            if here and seen == place + 1:
                sys.setprofile(None)
                raise Alarm

        try:
            sys.setprofile(interrupt)
            CALLS[call](store, f"b{place}")
            break
        except Alarm:
            pass
        finally:
            sys.setprofile(None)
        own = store.programs._wal._by_process[store.fs.pid()]
        assert is_free(store.lock_file()) and not store.programs._dead._lock._mine().flag.locked()
        assert not own.flag.locked()
    assert 20 < place < 999
    assert "a" in store.dead() or call == "unbury"
    assert "a" in store.pending() or call == "remove"
    store.kill()


class Slow(FaultyFs):
    """fsync waits until the test lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go = threading.Event(), threading.Event()

    def fsync_dir(self, path: str) -> None:
        self.begun.set()
        self.go.wait(10)
        super().fsync_dir(path)


async def _sync(path: Path, steps: list[str]) -> None:
    async def release() -> None:
        steps.append("released")

    await with_release(_fsync(path, steps), release)


async def _fsync(path: Path, steps: list[str]) -> None:
    await FsyncDir(str(path))
    steps.append("synced")


def test_a_call_in_a_thread_is_waited_for_before_cancellation_enters(tmp_path: Path) -> None:
    """D10, D31: nobody closes a descriptor under a running fsync, nor does a second cancel."""
    fs, steps = Slow(), list[str]()

    async def main() -> None:
        task = asyncio.create_task(drive(_sync(tmp_path, steps), fs))
        await asyncio.to_thread(fs.begun.wait, 10)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
            assert not task.done() and not steps
        fs.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert steps == ["released"]


def test_a_failed_call_of_a_cancelled_task_is_no_stray_error(tmp_path: Path) -> None:
    """D31: the cancellation goes first, and asyncio has nothing to report later."""
    fs, steps = Slow(), list[str]()
    fs.arm(Fault(0, OSError(errno.EIO, "io")))
    stray: list[object] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, seen: stray.append(seen))
        task = asyncio.create_task(drive(_sync(tmp_path, steps), fs))
        await asyncio.to_thread(fs.begun.wait, 10)
        task.cancel()
        fs.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        gc.collect()

    asyncio.run(main())
    assert steps == ["released"] and not stray


def test_other_tasks_run_while_a_disk_is_waited_for(tmp_path: Path) -> None:
    """D31: an fsync does not block the loop."""
    fs, steps = Slow(), list[str]()

    async def main() -> None:
        task = asyncio.create_task(drive(_sync(tmp_path, steps), fs))
        await asyncio.to_thread(fs.begun.wait, 10)
        fs.go.set()
        await task

    asyncio.run(main())
    assert steps == ["synced", "released"]


@pytest.mark.parametrize("waiting", ["sleep", "disk"])
def test_a_task_that_is_thrown_away_leaves_no_lock(tmp_path: Path, waiting: str) -> None:
    """F2: a loop that is closed over an unfinished call must not keep the store locked."""
    store = Store(tmp_path / "storage").open()
    slow = Slow()
    store.fs.fsync = lambda fd: slow.fsync_dir(str(tmp_path))  # type: ignore[method-assign]
    rival = FaultyFs()
    loop = asyncio.new_event_loop()
    call = drive(store.programs.add_dead_task("a", None, None, "Job", 1), store.fs)
    if waiting == "disk":
        task = loop.create_task(call)
        loop.run_until_complete(asyncio.to_thread(slow.begun.wait, 10))
        assert not is_free(store.lock_file())
    else:
        held = rival.open(str(store.lock_file()), OpenMode.LOCK)
        assert rival.try_lock(held)
        task = loop.create_task(call)
        loop.run_until_complete(asyncio.sleep(0))
        rival.close(held)
    loop.set_exception_handler(lambda loop, seen: None)  # "Task was destroyed but it is pending"
    slow.go.set()
    task.get_coro().close()  # as the collector does with such a task
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    store.check_clean()
    store.kill()


def test_an_error_travels_between_processes() -> None:
    """F2: with everything that its reader needs."""
    error = StorageError("FsyncData", OSError(errno.EIO, "I/O error"), "/x", False)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is StorageError and str(copy) == str(error)
    assert (copy.action, copy.errno, copy.filename, copy.definite) == (
        "FsyncData", errno.EIO, "/x", False,
    )


def finished(program: Program[None]) -> bool:
    try:
        program.send(None)
    except StopIteration:
        return True
    return False


def test_an_op_is_one_suspension() -> None:
    """D10: a program that was given one answer is at its next step."""

    async def program() -> None:
        await Sleep(0)

    made = program()
    assert not finished(made) and finished(made)
