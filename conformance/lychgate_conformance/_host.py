"""Hosts: how the suite talks to a server, beside it or in a process of its own.

Rules
  * Only processes that were started here are ended, by their own id, and every one of them is.
  * A request has a time limit. A host that let one pass is stuck: it is killed and never used
    again.
  * Requests may be sent ahead. Replies come in order, one written before the next request is
    looked at; so when a process is killed, the replies that can still be read are exactly its
    acknowledgements, and only the first request without one may have had an effect.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from typing import Protocol

from lychgate_conformance._nursery import Nursery, python_path
from lychgate_conformance._resolve import Factory
from lychgate_conformance._server import Server
from lychgate_conformance._verdict import AdapterFault, BackendDied, Inconclusive
from lychgate_conformance._wire import Json, dump_line, load_line

START_LIMIT_S = 60.0


class Host(Protocol):
    """A server that can be asked."""

    def ask(self, request: Json, limit_s: float) -> Json:
        """The reply to a request. BackendDied or Inconclusive when there is none."""

    def end(self) -> None:
        """Nothing of this host is left when this returns."""


class LocalHost:
    """A server in this process: a hanging call hangs us, and coverage sees the backend."""

    def __init__(self, factory: Factory) -> None:
        self._server = Server(factory)

    def ask(self, request: Json, limit_s: float) -> Json:
        return self._server.answer(request)

    def end(self) -> None:
        self._server.answer({"do": "reset"})


class Process(Protocol):
    """What a host needs of a process: `subprocess.Popen` has it, and `NurseryProcess`."""

    pid: int

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class ProcessHost:
    """A server in a process that was started for it: by a nursery, or as a program of its own."""

    def __init__(self, spec: str, nursery: Nursery | None = None) -> None:
        self.spec = spec
        self._errors = tempfile.TemporaryFile()
        requests, self._in = os.pipe()
        self._out, replies = os.pipe()
        try:
            if nursery is None:
                self._process: Process = _start(spec, requests, replies, self._errors.fileno())
            else:
                self._process = nursery.start(spec, requests, replies, self._errors.fileno())
        finally:
            os.close(requests)
            os.close(replies)
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._to_write = bytearray()
        self._buffer = bytearray()
        self._searched = 0
        self._asked = 0
        self._answered = 0
        self._greeted = False
        self._ended = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def unanswered(self) -> int:
        """Requests that were sent and have no reply yet."""
        return self._asked - self._answered

    def ask(self, request: Json, limit_s: float) -> Json:
        assert self.unanswered == 0, "a reply to an earlier request was not taken"
        self.send(request)
        return self.take(limit_s)

    def send(self, request: Json) -> None:
        """Queue a request; it is written as replies are waited for, and at once where it fits."""
        self._asked += 1
        self._to_write += dump_line({**request, "n": self._asked})
        self._write_some()

    def take(self, limit_s: float) -> Json:
        """The next reply."""
        deadline = time.monotonic() + limit_s
        if not self._greeted:
            self._greet(time.monotonic() + max(limit_s, START_LIMIT_S))
        reply = self._next(deadline)
        if reply is None:
            raise BackendDied(f"the process that held the backend ended: {self.last_words()}")
        return reply

    def has_reply(self) -> bool:
        """Whether the next reply has arrived already."""
        self._write_some()
        self._read_some()
        return b"\n" in self._buffer

    def drain(self, limit_s: float = 10.0) -> list[Json]:
        """After a kill: the replies that had been written."""
        self._to_write.clear()
        deadline = time.monotonic() + limit_s
        replies = []
        while (reply := self._next(deadline)) is not None:
            replies.append(reply)
        return replies

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone. What it had answered can still be taken."""
        self._process.kill()
        self._process.wait()

    def exit(self, limit_s: float) -> None:
        """End by the ordinary way of an interpreter, without closing a backend."""
        self.send({"do": "exit"})
        self._answered += 1  # by its end
        deadline = time.monotonic() + limit_s
        while self._next(deadline) is not None:
            continue
        self._process.wait()

    def end(self) -> None:
        if self._ended:
            return
        self._ended = True
        if self._process.poll() is None:
            self.kill()
        os.close(self._in)
        os.close(self._out)
        self._errors.close()

    def last_words(self) -> str:
        """How the process ended and the last line that it wrote to standard error."""
        try:
            code = self._process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "its output closed"
        if code < 0:
            how = f"signal {signal.Signals(-code).name}"
        else:
            how = f"exit code {code}"
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return f"{how}; {ascii(lines[-1])[:300]}" if lines else how

    # --- pipes --------------------------------------------------------------------------------

    def _greet(self, deadline: float) -> None:
        self._greeted = True
        line = self._next_line(deadline)
        if line is None:
            raise AdapterFault(f"no process can be started for {self.spec}: {self.last_words()}")
        hello = load_line(line)
        if "error" in hello:
            raise AdapterFault(hello["error"]["text"], hello["error"]["trace"])

    def _next(self, deadline: float) -> Json:
        """The next reply, None at the end of the output."""
        line = self._next_line(deadline)
        if line is None:
            return None
        reply = load_line(line)
        if reply["n"] != 0:  # the greeting is no answer to anything
            self._answered += 1
            return reply
        return self._next(deadline)

    def _next_line(self, deadline: float) -> bytes | None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            writing = False
            while True:
                end = self._buffer.find(b"\n", self._searched)
                if end >= 0:
                    line = bytes(self._buffer[:end])
                    del self._buffer[: end + 1]
                    self._searched = 0
                    return line
                self._searched = len(self._buffer)
                if bool(self._to_write) != writing:
                    writing = not writing
                    if writing:
                        selector.register(self._in, selectors.EVENT_WRITE)
                    else:
                        selector.unregister(self._in)
                left = deadline - time.monotonic()
                if left <= 0:
                    self.kill()
                    raise Inconclusive("no answer from the backend within the time")
                for key, _ in selector.select(left):
                    if key.fd == self._in:
                        self._write_some()
                    elif not self._read_some():
                        return None

    def _read_some(self) -> bool:
        try:
            chunk = os.read(self._out, 1 << 20)
        except BlockingIOError:
            return True
        self._buffer += chunk
        return bool(chunk)

    def _write_some(self) -> None:
        try:
            written = os.write(self._in, memoryview(self._to_write)[: 1 << 20])
        except BlockingIOError:
            return
        except OSError:  # it died; reading will say so
            self._to_write.clear()
            return
        del self._to_write[:written]


class Pool:
    """Processes for the cases of one run, some of them started ahead.

    Each is handed out once; what is left is ended with the run.
    """

    _AHEAD = 2

    def __init__(self, spec: str) -> None:
        self._spec = spec
        self._ready: list[ProcessHost] = []
        self._nursery: Nursery | None = None

    def take(self) -> ProcessHost:
        if self._nursery is None and sys.platform == "linux":
            self._nursery = Nursery()
        while len(self._ready) <= self._AHEAD:
            self._ready.append(ProcessHost(self._spec, self._nursery))
        return self._ready.pop(0)

    def end(self) -> None:
        while self._ready:
            self._ready.pop().end()
        if self._nursery is not None:
            self._nursery.end()
            self._nursery = None


def _start(spec: str, stdin: int, stdout: int, stderr: int) -> Process:
    return subprocess.Popen(
        [sys.executable, "-m", "lychgate_conformance._child", spec],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env={**os.environ, "PYTHONPATH": python_path()},
        start_new_session=True,  # a Ctrl-C at the terminal is ours to pass on
    )
