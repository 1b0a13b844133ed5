"""Adapters under strace: started, asked, ended, and their output handed over as a recording.

Rules of this file
  * One strace per adapter: the recordings of several are merged by time, which is one clock. A call
    begins, as strace notes it, after everything that its process could know of has begun.
  * The adapter is the one that any other level runs, by the same command; strace stands in front.
  * An adapter's working directory is that of the suite.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lychgate_conformance._host import KillableHost, ProcessHost
from lychgate_conformance._nursery import python_path
from lychgate_conformance._pipes import Pipes, Process
from lychgate_conformance._stdio import StdioHost
from lychgate_conformance._target import Target
from lychgate_conformance._verdict import NotMeasured
from lychgate_conformance.blackbox import _strace
from lychgate_conformance.blackbox._calls import RAW, RECORDED
from lychgate_conformance.blackbox._record import read_trace
from lychgate_conformance.blackbox._strace import Event


class PrefixedHost(ProcessHost):
    """A process that loads a factory, with words in front of its command."""

    def __init__(self, spec: str, prefix: Sequence[str]) -> None:
        self.spec = spec
        self._pipes = Pipes(partial(_start, tuple(prefix), spec))
        self._asked = 0
        self._answered = 0
        self._greeted = False


class _Group(subprocess.Popen[bytes]):
    """A process and what it has started: strace would leave its child alone when it is killed."""

    def kill(self) -> None:
        if self.poll() is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):  # nobody is left
                super().kill()


def _start(prefix: tuple[str, ...], spec: str, stdin: int, stdout: int, stderr: int) -> Process:
    return _Group(
        [*prefix, sys.executable, "-m", "lychgate_conformance._child", spec],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        env=environment(),
        start_new_session=True,
    )


def environment() -> Mapping[str, str]:
    """What a process of ours needs to find the suite."""
    return {**os.environ, "PYTHONPATH": python_path()}


def new_host(target: Target, prefix: Sequence[str] = ()) -> KillableHost:
    """A process of the target's, with words in front of its command."""
    if target.command is not None:
        return StdioHost(replace(target.command, words=(*prefix, *target.command.words)))
    if target.spec is None:
        raise NotMeasured("no other process can import this factory: name it as module:factory")
    return PrefixedHost(target.spec, prefix)


def need_strace() -> None:
    """NotMeasured when no process can be traced here."""
    path = _strace.strace_path()
    if path is None:
        raise NotMeasured("strace is not installed: its package has the same name everywhere")
    tried = subprocess.run(
        [path, "-qq", "-e", "trace=none", "-o", os.devnull, "true"], capture_output=True, text=True
    )
    if tried.returncode:
        raise NotMeasured(f"strace cannot trace here: {tried.stderr.strip()[:200]}")


class Traced:
    """One adapter under strace."""

    def __init__(
        self,
        target: Target,
        output: Path,
        prefix: Sequence[str] = (),
        inject: Sequence[str] = (),
    ) -> None:
        """`prefix` are words in front of strace's own, `inject` what it injects."""
        self.output = output
        options = _strace.options(output, RECORDED, raw=RAW, quick=not inject, inject=inject)
        words = [*prefix, *options, "--"]
        self.host = new_host(target, words)
        self.stdout = self.host.output  # strace's own descriptor 1 is soon another one

    def finish(self, limit_s: float) -> list[Event]:
        """Let it end by itself; the events of its whole life."""
        self.host.exit(limit_s)
        return read_trace(self.output)

    def killed(self) -> list[Event]:
        """The events of a life that was cut short."""
        self.host.kill()
        return read_trace(self.output)

    def end(self) -> None:
        """Nothing of it is left."""
        self.host.end()
