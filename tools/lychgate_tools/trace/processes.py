"""Traces on real files: several processes, killed now and then.

Every worker is a process of its own with real descriptors and real flocks on the same files. Before
each step it asks for a turn (`child`), and this controller grants one turn at a time, to a worker
that a seeded generator chooses. So the order in which events arrive is the order of the steps: no
two steps overlap, whoever holds which lock. That leaves out what only overlapping system calls
could show, and the spec has none of that either: one step is one action.

A worker is killed by SIGKILL while it waits for a turn inside a call, and started again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from random import Random
from typing import IO, Any, TextIO

from lychgate._osfs import OsFs

from lychgate_tools.trace.format import Writer
from lychgate_tools.trace.recorder import Recorder
from lychgate_tools.trace.subjects import SUBJECTS
from lychgate_tools.trace.wal_eyes import Labels
from lychgate_tools.ui import UserError

_KILL_SHARE = 0.01


def record(
    out: TextIO, seed: int, calls: int, subject: str = "dead", workers: int = 3, kills: int = 2
) -> int:
    """Let the workers make `calls` calls each and write the trace; how many steps it has."""
    what = SUBJECTS[subject]
    source = f"{workers} processes on real files, seed {seed}, {calls} calls each, {kills} kills"
    with tempfile.TemporaryDirectory(prefix="lychgate-trace-") as directory:
        labels = Labels()
        eyes = what.eyes(directory, OsFs().boot, labels)
        writer = Writer(out, what.module, source, what.constants, eyes.seen())
        control = _Control(directory, subject, Recorder(writer, eyes), writer, labels, seed)
        try:
            control.run([f"w{number}" for number in range(1, workers + 1)], calls, kills)
        finally:
            control.end()
        return control.steps


class _Worker:
    def __init__(self, child: subprocess.Popen[str]) -> None:
        assert child.stdin is not None and child.stdout is not None
        self.child = child
        self.stdin: IO[str] = child.stdin
        self.stdout: IO[str] = child.stdout
        self.last = "Return"  # its last step

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()
        self.stdin.close()
        self.stdout.close()


class _Control:
    def __init__(
        self,
        directory: str,
        subject: str,
        recorder: Recorder,
        writer: Writer,
        labels: Labels,
        seed: int,
    ) -> None:
        self._directory = directory
        self._subject = subject
        self._recorder = recorder
        self._writer = writer
        self._labels = labels
        self._chance = Random(seed)
        self._live: dict[str, _Worker] = {}
        self.steps = 0

    def run(self, names: list[str], calls: int, kills: int) -> None:
        """Grant turns until every worker has done its calls."""
        for name in names:
            self._start(name, calls)
        while self._live:
            name = self._chance.choice(sorted(self._live))
            worker = self._live[name]
            spared = worker.last in SUBJECTS[self._subject].spared
            if kills and not spared and self._chance.random() < _KILL_SHARE:
                kills -= 1
                worker.kill()
                self._recorder.world("Kill", name)
                del self._live[name]
                self._start(name, calls)
                continue
            try:
                worker.stdin.write("go\n")
                worker.stdin.flush()
            except BrokenPipeError:
                pass  # it has ended: there is nothing more to hear, which is said below
            self._hear(name, worker)

    def _start(self, name: str, calls: int) -> None:
        command = [sys.executable, "-m", "lychgate_tools.trace.child", self._directory]
        command += [self._subject, name, str(self._chance.randrange(1 << 30)), str(calls)]
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._live[name] = worker = _Worker(child)
        self._hear(name, worker)
        if SUBJECTS[self._subject].restarts:
            self._recorder.world("Restart", name)

    def _hear(self, name: str, worker: _Worker) -> None:
        """Take what a worker says until it waits for its next turn."""
        for line in worker.stdout:
            message: Any = json.loads(line)
            if message == "ready":
                return
            if message == "done":
                del self._live[name]
                worker.stdin.close()
                worker.stdout.close()
                worker.child.wait()
                return
            worker.last = message[0]
            self.steps += worker.last not in ("Call", "Return")
            self._write(*message)
        raise UserError(f"worker {name} of the recording ended before its time")

    def _write(
        self,
        action: str,
        worker: str,
        fiber: str,
        args: dict[str, Any],
        result: Any,
        error: str,
        seen: dict[str, list[str] | None],
    ) -> None:
        """Files by their labels: the workers know them by their names."""
        label = self._labels.of if self._subject == "wal" else str
        if "file" in args:
            args["file"] = label(args["file"])
        if action == "ListWals" and result is not None:
            result = [label(name) for name in result]
        cells = {
            label(name): None if value is None else tuple(value) for name, value in seen.items()
        }
        self._writer.event(action, worker, fiber, args, result, error, cells)

    def end(self) -> None:
        """Leave no process behind."""
        for worker in self._live.values():
            worker.kill()
