"""A worker process that takes its steps on command, for machines that kill it between two of them.

    worker = Worker(path)
    worker.begin("add_dead_task", "k:1", None, None, "Job", 1)
    worker.step(3)          # ... and where it stands now
    worker.kill()           # SIGKILL: what it has written stays, what it has not is gone

Rules of this file
  * The process runs the engine's own programs on the real file system. It makes no call that it was
    not told to make, so a machine decides how the steps of several processes are mixed.
  * Nothing waits: after a `Sleep` the worker stops and says so, and fsync is left out, for a killed
    process loses nothing that the kernel has.
  * A worker that is never heard of again ends by itself after LIFE_S seconds.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lychgate import DeadTasksLockTimeout, LychgateError, _lock, _wal
from lychgate._disk import DiskPrograms
from lychgate._op import Op, Program
from lychgate._ops import Sleep
from lychgate._osfs import OsFs
from lychgate._records import JSON

LIFE_S = 120
LOCK_ATTEMPTS = 4  # so that time-outs are met as well (D14)
ROTATE_BYTES = 700  # so that rotations are
TIMED_OUT = "DeadTasksLockTimeout"


class NoSync(OsFs):
    """The real file system, but for what only a power cut could tell from it."""

    def fsync(self, fd: int) -> None:
        os.fstat(fd)

    def fsync_dir(self, path: str) -> None:
        os.stat(path)


@dataclass(frozen=True)
class Answer:
    """Where a worker stands: before the step `at`, or at the end of its call."""

    at: str | None
    result: Any = None
    error: str | None = None

    @property
    def done(self) -> bool:
        return self.at is None


class Worker:
    """One process with a disk backend of its own."""

    def __init__(self, path: Path, frequency: float = 1000.0) -> None:
        self._link, theirs = socket.socketpair()
        self._pid = os.fork()
        if self._pid == 0:
            code = 1
            try:
                self._link.close()
                _serve(theirs, path, frequency)
                code = 0
            finally:
                os._exit(code)
        theirs.close()
        self._lines = self._link.makefile("r", encoding="utf-8")

    def begin(self, method: str, *arguments: object) -> Answer:
        """Begin a call; no step is taken yet."""
        return self._ask(["begin", method, *arguments])

    def step(self, count: int) -> Answer:
        """Take up to `count` steps; fewer when the call ends or the worker would sleep."""
        return self._ask(["step", count])

    def _ask(self, order: list[object]) -> Answer:
        self._link.sendall(json.dumps(order).encode() + b"\n")
        return Answer(*json.loads(self._lines.readline()))

    def kill(self) -> None:
        """SIGKILL, and wait until the kernel has let go of all that it had."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._lines.close()
        self._link.close()


class _Call:
    """A program under way, in the worker's process."""

    def __init__(self, program: Program[Any], fs: OsFs) -> None:
        self._program, self._fs = program, fs
        self._op: Op[Any] | None = None
        self._answer = Answer(None)
        self._resume(None, None)

    def _resume(self, value: object, error: BaseException | None) -> None:
        try:
            op = self._program.send(value) if error is None else self._program.throw(error)
        except StopIteration as stop:
            self._op, self._answer = None, Answer(None, _plain(stop.value))
        except DeadTasksLockTimeout:
            self._op, self._answer = None, Answer(None, None, TIMED_OUT)
        except LychgateError as raised:
            self._op, self._answer = None, Answer(None, None, repr(raised))
        else:
            self._op, self._answer = op, Answer(op.action)

    def step(self, count: int) -> Answer:
        for _ in range(count):
            op = self._op
            if op is None:
                break
            if isinstance(op, Sleep):
                self._resume(None, None)
                break
            try:
                value = op.perform(self._fs)
            except OSError as error:
                self._resume(None, error)
            else:
                self._resume(value, None)
        return self._answer


def _plain(result: Any) -> Any:
    """Lists of tasks as their ids, everything else as it is."""
    if not isinstance(result, list):
        return result
    return [found[0] if isinstance(found, tuple) else found.task_id for found in result]


def _serve(link: socket.socket, path: Path, frequency: float) -> None:
    signal.alarm(LIFE_S)
    setattr(_lock, "LOCK_ATTEMPTS_MAX", LOCK_ATTEMPTS)
    setattr(_wal, "ROTATE_BYTES", ROTATE_BYTES)
    fs = NoSync()
    programs = DiskPrograms(path, "deferred-", frequency, JSON, fs)
    call: _Call | None = None
    with link.makefile("rw", encoding="utf-8") as lines:
        for line in lines:
            order, *arguments = json.loads(line)
            if order == "begin":
                method, *rest = arguments
                call = _Call(getattr(programs, method)(*rest), fs)
            assert call is not None
            answer = call.step(arguments[0] if order == "step" else 0)
            lines.write(json.dumps([answer.at, answer.result, answer.error]) + "\n")
            lines.flush()
