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
import subprocess
import sys
import time
from functools import partial
from typing import Protocol

from lychgate_conformance._nursery import Nursery, python_path
from lychgate_conformance._pipes import Pipes, Process
from lychgate_conformance._resolve import Factory
from lychgate_conformance._server import Server
from lychgate_conformance._verdict import AdapterFault, BackendDied
from lychgate_conformance._wire import Json, dump_line, load_line

START_LIMIT_S = 60.0


class Host(Protocol):
    """A server that can be asked."""

    def ask(self, request: Json, limit_s: float) -> Json:
        """The reply to a request. BackendDied or Inconclusive when there is none."""

    def end(self) -> None:
        """Nothing of this host is left when this returns."""

    def errors(self) -> str:
        """The end of what its process has written to standard error."""


class LocalHost:
    """A server in this process: a hanging call hangs us, and coverage sees the backend."""

    def __init__(self, factory: Factory) -> None:
        self._server = Server(factory)

    def ask(self, request: Json, limit_s: float) -> Json:
        return self._server.answer(request)

    def end(self) -> None:
        self._server.answer({"do": "reset"})

    def errors(self) -> str:
        return ""


class KillableHost(Host, Protocol):
    """A server in a process of its own, which may be killed, and asked ahead of its answers."""

    @property
    def pid(self) -> int: ...

    @property
    def output(self) -> str:
        """The pipe of its standard output, as Linux names it."""

    def send(self, request: Json) -> None:
        """Queue a request; it is written as replies are waited for, and at once where it fits."""

    def take(self, limit_s: float) -> Json:
        """The next reply."""

    def has_reply(self) -> bool:
        """Whether the next reply has arrived already."""

    def drain(self, limit_s: float = 10.0) -> list[Json]:
        """After a kill: the replies that had been written."""

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone. What it had answered can still be taken."""

    def exit(self, limit_s: float) -> None:
        """End by the ordinary way of a program, without closing a backend."""


class ProcessHost:
    """A server in a process that was started for it: by a nursery, or as a program of its own."""

    def __init__(self, spec: str, nursery: Nursery | None = None) -> None:
        self.spec = spec
        self._pipes = Pipes(partial(_start if nursery is None else nursery.start, spec))
        self._asked = 0
        self._answered = 0
        self._greeted = False

    @property
    def pid(self) -> int:
        return self._pipes.process.pid

    @property
    def output(self) -> str:
        return self._pipes.output

    @property
    def unanswered(self) -> int:
        """Requests that were sent and have no reply yet."""
        return self._asked - self._answered

    def ask(self, request: Json, limit_s: float) -> Json:
        assert self.unanswered == 0, "a reply to an earlier request was not taken"
        self.send(request)
        return self.take(limit_s)

    def send(self, request: Json) -> None:
        self._asked += 1
        self._pipes.write(dump_line({**request, "n": self._asked}))

    def take(self, limit_s: float) -> Json:
        deadline = time.monotonic() + limit_s
        if not self._greeted:
            self._greet(time.monotonic() + max(limit_s, START_LIMIT_S))
        reply = self._next(deadline)
        if reply is None:
            words = self._pipes.last_words()
            raise BackendDied(f"the process that held the backend ended: {words}")
        return reply

    def has_reply(self) -> bool:
        return self._pipes.has_line()

    def drain(self, limit_s: float = 10.0) -> list[Json]:
        self._pipes.forget_unwritten()
        deadline = time.monotonic() + limit_s
        replies = []
        while (reply := self._next(deadline)) is not None:
            replies.append(reply)
        return replies

    def kill(self) -> None:
        self._pipes.kill()

    def exit(self, limit_s: float) -> None:
        self.send({"do": "exit"})
        self._answered += 1  # by its end
        deadline = time.monotonic() + limit_s
        while self._next(deadline) is not None:
            continue
        self._pipes.process.wait()

    def end(self) -> None:
        self._pipes.close()

    def errors(self) -> str:
        return self._pipes.errors()

    def _greet(self, deadline: float) -> None:
        self._greeted = True
        line = self._pipes.next_line(deadline)
        if line is None:
            words = self._pipes.last_words()
            raise AdapterFault(f"no process can be started for {self.spec}: {words}")
        hello = load_line(line)
        if "error" in hello:
            raise AdapterFault(hello["error"]["text"], hello["error"]["trace"])

    def _next(self, deadline: float) -> Json:
        """The next reply, None at the end of the output."""
        line = self._pipes.next_line(deadline)
        if line is None:
            return None
        reply = load_line(line)
        if reply["n"] != 0:  # the greeting is no answer to anything
            self._answered += 1
            return reply
        return self._next(deadline)


class Hosts(Protocol):
    """Gives out processes for the cases of one run."""

    def take(self) -> KillableHost:
        """A process that nobody has used yet."""

    def end(self) -> None:
        """Nothing that was started ahead is left."""


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
