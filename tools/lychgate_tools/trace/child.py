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

from lychgate import DeadTasksLockTimeout, StorageError, _lock
from lychgate._disk import DiskPrograms
from lychgate._drive import run
from lychgate._fs import Fs
from lychgate._osfs import OsFs
from lychgate._records import JSON

from lychgate_tools.trace.dead_eyes import DeadEyes, cells_of_lines, reader_of
from lychgate_tools.trace.fibers import PREFIX, TRIES, choose, program_of
from lychgate_tools.trace.format import Seen
from lychgate_tools.trace.recorder import Recorder, outcome_of

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


def main(directory: str, worker: str, seed: int, calls: int, records: int) -> None:
    _lock.LOCK_ATTEMPTS_MAX = TRIES
    pipe, real, chance = Pipe(), OsFs(), Random(seed)
    fs = cast(Fs, TurnFs(real, pipe.turn))
    eyes = DeadEyes(reader_of(directory, PREFIX), cells_of_lines, real.boot)
    recorder = Recorder(pipe, eyes)
    programs = DiskPrograms(directory, PREFIX, 0.5, JSON, fs)
    for number in range(calls):
        op, record = choose(chance, records) if number else ("prepare", "")
        pipe.turn()
        recorder.call(worker, _FIBER, op, record)
        error: BaseException | None = None
        try:
            run(program_of(programs, op, record), fs, recorder.observer(worker, _FIBER))
        except (StorageError, DeadTasksLockTimeout) as raised:
            error = raised
        recorder.returned(worker, _FIBER, op, record, outcome_of(error))
    pipe.done()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
