"""One file system, in a process and a mount namespace of its own. Run by `jobs`, not by hand.

stdin has one JSON object, the job. stdout gets one JSON line per program and variant, then a last
one; an error is a line too. Everything it mounts, attaches and starts goes with it.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from lychgate_conformance.lab._litmus import Litmus
from lychgate_conformance.lab._litmus_programs import LITMUS
from lychgate_tools.litmus import kernel, real
from lychgate_tools.litmus.blocklog import Bounds
from lychgate_tools.litmus.explore import Exploration
from lychgate_tools.litmus.filesystems import FILE_SYSTEMS, FileSystem
from lychgate_tools.litmus.machine import Machine

Send = Callable[[dict[str, Any]], None]


def run(job: dict[str, Any], send: Send) -> None:
    """Every program of a job, an equal share of the remaining time for each."""
    machine = _machine(FILE_SYSTEMS[job["fs"]], Path(job["place"]))
    try:
        by_name = {litmus.name: litmus for litmus in LITMUS}
        deadline = time.monotonic() + job["budget_s"]
        for position, name in enumerate(job["programs"]):
            now = time.monotonic()
            share = max(0.0, deadline - now) / (len(job["programs"]) - position)
            _run_program(machine, by_name[name], job["seed"], now + share, send)
    finally:
        machine.close()


class Impossible(Exception):
    """This machine does not let us make and mount this file system."""


def _machine(system: FileSystem, place: Path) -> Machine:
    """A machine with a fresh file system that can be mounted."""
    try:
        machine = Machine(system, place)
    except OSError as error:
        raise Impossible(str(error)) from error
    try:
        machine.make()
        with machine.mounted():
            return machine
    except BaseException as error:
        machine.close()
        if isinstance(error, OSError):
            raise Impossible(str(error)) from error
        raise


def _run_program(
    machine: Machine, litmus: Litmus, seed: int, deadline: float, send: Send
) -> None:
    """Record and explore every variant; time that is left goes to those that had too little."""
    machine.device.use("made")
    with machine.mounted() as root:
        real.set_up(real.Directory(root), litmus.start())
    machine.device.keep(litmus.name)
    kinds = real.variants(machine.system)
    unfinished: list[tuple[str, Exploration]] = []
    for position, variant in enumerate(kinds):
        log = machine.record(litmus, variant, seed)
        machine.device.use(litmus.name)
        exploration = Exploration(machine, log, Bounds(seed=seed))
        now = time.monotonic()
        if exploration.go(now + (deadline - now) / (len(kinds) - position)):
            send(_result(litmus, variant, exploration))
        else:
            unfinished.append((variant, exploration))
    for position, (variant, exploration) in enumerate(unfinished):
        now = time.monotonic()
        machine.device.use(litmus.name)
        exploration.go(now + (deadline - now) / (len(unfinished) - position))
        send(_result(litmus, variant, exploration))


def _result(litmus: Litmus, variant: str, exploration: Exploration) -> dict[str, Any]:
    found = exploration.stop()
    return {
        "program": litmus.name,
        "variant": variant,
        "images": found.images,
        "mounts": found.mounts,
        "untried": found.untried,
        "states": found.to_json(),
    }


def _terminate(signum: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + signum)


def main() -> int:
    signal.signal(signal.SIGTERM, _terminate)
    kernel.die_with_parent(signal.SIGTERM)
    job = json.loads(sys.stdin.read())
    out = sys.stdout

    def send(line: dict[str, Any]) -> None:
        out.write(json.dumps(line) + "\n")
        out.flush()

    try:
        run(job, send)
    except (Impossible, OSError, RuntimeError) as error:
        send({"error": str(error), "impossible": isinstance(error, Impossible)})
        return 1
    send({"end": True})
    return 0


if __name__ == "__main__":
    sys.exit(main())
