"""Processes that start at once: forked from one that has the interpreter and this suite ready.

    suite ── socket ── nursery (`python -m lychgate_conformance._nursery`)
                          ├─ process of a case: loads the backend after the fork, by its name
                          └─ …

A run needs a hundred processes and starting an interpreter is most of what one costs. The nursery
has imported the standard library and the suite, and nothing of any backend: what a backend does at
import happens anew in every process, as it does when a program starts.

The nursery is the parent of the processes, so it is the nursery that kills and reaps them, by ids
that are still its own. When the suite goes away, however, so do all of them.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from importlib import import_module

from lychgate_conformance import _child

_REQUEST_BYTES_MAX = 65536
_PRELOADED = ("asyncio", "random", "sqlite3", "tempfile", "uuid")
"""Modules of the standard library that forked processes find loaded."""


class Nursery:
    """The suite's side."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lychgate_conformance._nursery", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": python_path()},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket = ours

    def start(self, spec: str, stdin: int, stdout: int, stderr: int) -> NurseryProcess:
        """A process that serves `spec` on these descriptors."""
        pid = self._ask({"do": "start", "spec": spec}, [stdin, stdout, stderr])
        assert isinstance(pid, int)
        return NurseryProcess(self, pid)

    def ask(self, verb: str, pid: int) -> int | None:
        """`kill` (gives the exit status) or `poll` (gives it, or None while it runs)."""
        return self._ask({"do": verb, "pid": pid}, [])

    def _ask(self, request: dict[str, object], fds: list[int]) -> int | None:
        socket.send_fds(self._socket, [json.dumps(request).encode()], fds)
        answer = self._socket.recv(_REQUEST_BYTES_MAX)
        if not answer:
            raise OSError("the process that starts processes has ended")
        result: int | None = json.loads(answer)
        return result

    def end(self) -> None:
        self._socket.close()
        self._process.wait()


class NurseryProcess:
    """A process of the nursery, with the part of `subprocess.Popen` that a host needs."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._nursery.ask("poll", self.pid)
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            self.returncode = self._nursery.ask("kill", self.pid)

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(0.002)
        return code


def python_path() -> str:
    """Where this process finds modules, for one that it starts."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)


# --- the nursery's side -----------------------------------------------------------------------


def serve(channel: socket.socket) -> int:
    """Serve until the suite goes away. In a forked process: serve its backend, give its code."""
    running: set[int] = set()
    while True:
        data, fds, _, _ = socket.recv_fds(channel, _REQUEST_BYTES_MAX, 3)
        if not data:
            break
        request = json.loads(data)
        if request["do"] == "start":
            pid = os.fork()
            if pid == 0:
                channel.close()
                return _begin(request["spec"], fds)
            for fd in fds:
                os.close(fd)
            running.add(pid)
            answer: int | None = pid
        else:
            answer = _status(request["pid"], kill=request["do"] == "kill")
            if answer is not None:
                running.discard(request["pid"])
        channel.send(json.dumps(answer).encode())
    for pid in running:
        _status(pid, kill=True)
    return 0


def _begin(spec: str, fds: list[int]) -> int:
    """In the forked process: take the descriptors of a program and become one."""
    os.setsid()
    for target, fd in enumerate(fds):
        os.dup2(fd, target)
        os.close(fd)
    return _child.main(spec)


def _status(pid: int, kill: bool) -> int | None:
    """A child's exit code as `subprocess` has it; None while it runs."""
    if kill:
        os.kill(pid, signal.SIGKILL)
    found, status = os.waitpid(pid, 0 if kill else os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if found else None


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in _PRELOADED:
        import_module(name)
    sys.exit(serve(socket.socket(fileno=int(sys.argv[1]))))
