"""One worker of a multi-process trace: `python -m lychgate_tools.trace.child`, for `processes`.

It makes its calls with the engine's synchronous driver on the real file system, and asks for a turn
before each step. Lines of JSON go to stdout: `"ready"` asks for a turn, an object is an event,
`"done"` is the end. A line on stdin grants a turn, which lasts until the next `"ready"`: what the
program does in memory after a step belongs to the step, as it does in the spec.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, cast

from lychgate import DeadTasksLockTimeout, StorageError
from lychgate._drive import run
from lychgate._fs import Fs
from lychgate._osfs import OsFs

from lychgate_tools.trace.format import Seen
from lychgate_tools.trace.recorder import Recorder, outcome_of
from lychgate_tools.trace.subjects import SUBJECTS, settings
from lychgate_tools.trace.wal_eyes import Names

_FACTS = frozenset(("resolve", "now", "random", "pid", "boot"))
_FIBER = "f1"


class TurnFs:
    """The port on the real system, where every step waits for its turn and a sleep only waits."""

    def __init__(self, fs: OsFs, turn: Callable[[], None]) -> None:
        self._fs = fs
        self._turn = turn

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._fs, name)
        if name in _FACTS:
            return method

        def call(*arguments: Any) -> Any:
            self._turn()
            return None if name == "sleep" else method(*arguments)

        return call


class Pipe:
    """The other end of `processes`."""

    def turn(self) -> None:
        self._say("ready")
        if not sys.stdin.readline():
            sys.exit(0)  # whoever granted turns is gone

    def event(
        self,
        action: str,
        worker: str,
        fiber: str,
        args: Mapping[str, Any],
        result: Any,
        error: str,
        seen: Seen,
    ) -> None:
        self._say([action, worker, fiber, dict(args), result, error, dict(seen)])

    def done(self) -> None:
        self._say("done")

    def _say(self, message: object) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def main(directory: str, subject: str, worker: str, seed: int, calls: int) -> None:
    """Make the calls. Files go by their names: the controller has the labels."""
    what, pipe, real = SUBJECTS[subject], Pipe(), OsFs()
    caller = what.caller(Random(seed), worker)
    fs = cast(Fs, TurnFs(real, pipe.turn))
    recorder = Recorder(pipe, what.eyes(directory, real.boot, Names()))
    programs = what.programs(directory, fs)

    def one(op: str, record: str) -> None:
        pipe.turn()
        recorder.call(worker, _FIBER, op, record)
        error: BaseException | None = None
        try:
            run(what.program(programs, op, record), fs, recorder.observer(worker, _FIBER))
        except (StorageError, DeadTasksLockTimeout) as raised:
            error = raised
        outcome = outcome_of(error)
        recorder.returned(worker, _FIBER, op, record, outcome)
        caller.ended(op, record, outcome)

    with settings():
        one(what.first, "")
        for _ in range(calls):
            one(*caller.next())
        if what.last:
            one(what.last, "")
    pipe.done()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], *map(int, sys.argv[4:6]))
