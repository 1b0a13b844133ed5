"""Workers that can be stopped before any of their calls on the store, and seen to wait.

Rules of this file
  * A stop is one that `_tracer` reports; a worker that answers before it reached the call that was
    asked for was not stopped, and whoever asked is told so.
  * Whether another worker waits (for a lock that the stopped one holds) is read from the kernel:
    every thread of it sleeps, look after look. It need not be right: a worker that is taken for
    waiting too early makes its call beside the other's, which is a schedule as well. Who talks to a
    server sleeps until it answers, so there it has to have slept for longer.
  * The tracer is ended before the workers: with it gone, nothing is held any more.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lychgate_conformance._host import KillableHost
from lychgate_conformance._verdict import NotMeasured
from lychgate_conformance.blackbox import _syscalls
from lychgate_conformance.blackbox._tracer import tree

_PROGRAM = Path(__file__).with_name("_tracer.py")
_MESSAGE_BYTES = 1 << 20
_LOOK_S = 0.0005
_LOOKS = 3
"""So many looks in a row at which all of a worker sleeps: it waits."""
ANSWER = -1
"""The stop before the answer is written: everything is done, and nothing acknowledged."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a worker is held: the number of its next call on the store, and all up to it."""

    number: int
    calls: tuple[str, ...]
    """As text; the last one is the call that it stands before."""


class Tracer:
    """The process that stops workers, one at a time."""

    def __init__(self) -> None:
        self._calls = _syscalls.numbers()
        if not self._calls:
            raise NotMeasured(f"the calls of this machine ({os.uname().machine}) have no numbers")
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-S", "-E", str(_PROGRAM), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.holds = False
        """Whether a worker stands and waits for `go` or `kill`."""
        self._traces = False

    def attach(
        self,
        host: KillableHost,
        base: Path | None,
        limit_s: float,
        only: Container[str] | None = None,
    ) -> None:
        """Take a worker that has started. NotMeasured when that is not allowed.

        `only`: the names of the calls that count; None: all that are about a file below `base`.
        Without a base all calls on connections count.
        """
        if base is None:
            only = _syscalls.ON_CONNECTIONS
        calls = {nr: it for nr, it in self._calls.items() if only is None or it[0] in only}
        while self._traces:  # the end of the one before
            self._traces = self._take(limit_s)["at"] != "gone"
        self.holds = False
        below = "" if base is None else f"{base}/"
        self._send(do="attach", pid=host.pid, base=below, output=host.output, calls=calls)
        said = self._take(limit_s)
        if said["at"] == "failed":
            raise NotMeasured(
                f"a running process cannot be traced here ({said['why']}): run as root, or set "
                "kernel.yama.ptrace_scope to 0"
            )
        assert said["at"] == "attached", said
        self._traces = True

    def arm(self, stops: Sequence[int]) -> None:
        """Stop the worker before these calls of its next request, counted from 1."""
        self._send(do="arm", stops=stops)

    def wait(self, host: KillableHost, limit_s: float) -> Stop | None:
        """The worker's next stop; None when it has answered, or died, without one."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end:
            if select.select([self._socket], [], [], _LOOK_S)[0]:
                said = self._take(1.0)
                if said["at"] == "gone":
                    self._traces = False
                    return None
                self.holds = True
                return Stop(said["number"], tuple(said["calls"]))
            if host.has_reply():
                return None
        return None

    def go(self) -> None:
        """Let the held worker go on."""
        assert self.holds, "nobody is held"
        self.holds = False
        self._send(do="go")

    def kill(self, host: KillableHost, limit_s: float) -> None:
        """Kill the held worker, before the call that it stands before."""
        assert self.holds, "nobody is held"
        self.holds = False
        self._send(do="kill")
        while self._traces:
            self._traces = self._take(limit_s)["at"] != "gone"
        host.kill()

    def end(self) -> None:
        """Nobody is held or traced any more; whoever was is killed."""
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def _send(self, **message: object) -> None:
        try:
            self._socket.send(json.dumps(message).encode())
        except OSError as error:
            raise NotMeasured(f"the process that stops workers has ended: {error}") from error

    def _take(self, limit_s: float) -> Mapping[str, Any]:
        self._socket.settimeout(limit_s)
        try:
            data = self._socket.recv(_MESSAGE_BYTES)
        except TimeoutError:
            raise NotMeasured("the process that stops workers does not answer") from None
        if not data:
            raise NotMeasured("the process that stops workers has ended")
        found: Mapping[str, Any] = json.loads(data)
        return found


def waits(host: KillableHost, patience_s: float, still_s: float = 0.0) -> bool:
    """False as soon as a worker has answered; true when it sleeps, or after the patience.

    `still_s`: so long it has to have slept without a break.
    """
    end = time.monotonic() + patience_s
    asleep, since, before = 0, time.monotonic(), ""
    while not host.has_reply():
        if time.monotonic() > end:
            return True
        now = _asleep(host.pid)
        if not now or now != before:
            asleep, since, before = 0, time.monotonic(), now
        asleep += bool(now)
        if asleep >= _LOOKS and time.monotonic() - since >= still_s:
            return not host.has_reply()
        time.sleep(_LOOK_S)
    return False


def _asleep(pid: int) -> str:
    """How often each thread of a worker and of its children has gone to sleep, if all of them are
    in an interruptible wait; else nothing."""
    found = []
    try:
        for tid in tree(pid):
            status = Path(f"/proc/{tid}/status").read_text(encoding="ascii", errors="replace")
            fields = dict(it.split(":\t", 1) for it in status.splitlines() if ":\t" in it)
            if fields["State"][0] not in ("S", "Z"):
                return ""
            found.append(f"{tid}:{fields.get('voluntary_ctxt_switches')}")
    except (OSError, KeyError):  # it ended; its answer, or the end of its output, tells the rest
        return ""
    return " ".join(found)
