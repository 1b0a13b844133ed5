"""Traces of the dead-task store on real files: several processes, killed now and then.

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

from lychgate_tools.trace.dead_eyes import DeadEyes, cells_of_lines, reader_of
from lychgate_tools.trace.fibers import PREFIX, TRIES
from lychgate_tools.trace.format import Writer
from lychgate_tools.trace.recorder import Recorder
from lychgate_tools.ui import UserError

_KILL_SHARE = 0.01


def record(
    out: TextIO, seed: int, calls: int, workers: int = 3, records: int = 8, kills: int = 2
) -> int:
    """Let the workers make `calls` calls each and write the trace; how many steps it has."""
    source = f"{workers} processes on real files, seed {seed}, {calls} calls each, {kills} kills"
    with tempfile.TemporaryDirectory(prefix="lychgate-trace-") as directory:
        eyes = DeadEyes(reader_of(directory, PREFIX), cells_of_lines, OsFs().boot)
        constants = {"MaxTries": TRIES, "CrashModel": False}
        writer = Writer(out, "DeadTasks", source, constants, eyes.seen())
        control = _Control(directory, Recorder(writer, eyes), writer, seed, calls, records, kills)
        try:
            control.run([f"w{number}" for number in range(1, workers + 1)])
        finally:
            control.end()
        return control.steps


class _Worker:
    def __init__(self, child: subprocess.Popen[str]) -> None:
        assert child.stdin is not None and child.stdout is not None
        self.child = child
        self.stdin: IO[str] = child.stdin
        self.stdout: IO[str] = child.stdout
        self.inside = False  # in a call

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()
        self.stdin.close()
        self.stdout.close()


class _Control:
    def __init__(
        self,
        directory: str,
        recorder: Recorder,
        writer: Writer,
        seed: int,
        calls: int,
        records: int,
        kills: int,
    ) -> None:
        self._directory = directory
        self._recorder = recorder
        self._writer = writer
        self._chance = Random(seed)
        self._calls = calls
        self._records = records
        self._kills = kills
        self._live: dict[str, _Worker] = {}
        self.steps = 0

    def run(self, names: list[str]) -> None:
        """Grant turns until every worker has done its calls."""
        for name in names:
            self._start(name)
        while self._live:
            name = self._chance.choice(sorted(self._live))
            worker = self._live[name]
            if self._kills and worker.inside and self._chance.random() < _KILL_SHARE:
                self._kills -= 1
                worker.kill()
                self._recorder.world("Kill", name)
                del self._live[name]
                self._start(name)
                continue
            worker.stdin.write("go\n")
            worker.stdin.flush()
            self._hear(name, worker)

    def _start(self, name: str) -> None:
        seed = self._chance.randrange(1 << 30)
        numbers = map(str, (seed, self._calls, self._records))
        child = subprocess.Popen(
            [sys.executable, "-m", "lychgate_tools.trace.child", self._directory, name, *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._live[name] = worker = _Worker(child)
        self._hear(name, worker)
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
            action, who, fiber, args, result, error, seen = message
            cells = {key: None if value is None else tuple(value) for key, value in seen.items()}
            worker.inside = action != "Return"
            self.steps += action not in ("Call", "Return")
            self._writer.event(action, who, fiber, args, result, error, cells)
        raise UserError(f"worker {name} of the recording ended before its time")

    def end(self) -> None:
        """Leave no process behind."""
        for worker in self._live.values():
            worker.kill()
