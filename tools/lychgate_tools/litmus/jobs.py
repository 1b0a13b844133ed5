"""The driver from outside: what it needs, its results as they come, its end in any case."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lychgate_conformance.lab._image import Image
from lychgate_tools.litmus.filesystems import FileSystem, mkfs_of
from lychgate_tools.litmus.wire import image_from_json
from lychgate_tools.ui import ExitCode, UserError

_END_S = 30
_CAP_SYS_ADMIN = 21


@dataclass(frozen=True, slots=True)
class State:
    """Something that a crash image showed."""

    image: Image | None
    """None where the file system could make nothing of it."""
    trouble: str
    moments: dict[int, str]
    """After how many steps of the program, and which writes were kept."""


@dataclass(frozen=True, slots=True)
class Result:
    """One program in one variant."""

    program: str
    variant: str
    images: int
    """Different images of which the state is known."""
    mounts: int
    """Those of them that were mounted; for the others an earlier one tells."""
    untried: int
    """Choices of writes for which there was no time."""
    states: tuple[State, ...]


def missing(system: FileSystem) -> str:
    """What this machine lacks for a file system; empty when nothing that can be seen beforehand."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    if not _may_mount():
        return "needs root (CAP_SYS_ADMIN): nothing can be mounted"
    for node, what in (("/dev/fuse", "FUSE"), ("/dev/loop-control", "loop devices")):
        if not os.access(node, os.R_OK | os.W_OK):
            return f"needs {what}: there is no {node} that can be opened"
    if mkfs_of(system) is None:
        return f"needs {system.mkfs[0]} (Debian package {system.package})"
    return ""


def _may_mount() -> bool:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    lines = [line.split() for line in status.splitlines() if line.startswith("CapEff:")]
    return bool(lines) and bool(int(lines[0][1], 16) >> _CAP_SYS_ADMIN & 1)


@dataclass(frozen=True, slots=True)
class Ended:
    """A file system's driver has ended."""

    seconds: float
    error: UserError | None
    """Why it ended early: code 2 when it is not possible here, 3 when the driver failed."""


class _Driver:
    """One driver's process: started, read from, ended."""

    def __init__(
        self, system: FileSystem, programs: list[str], budget_s: float, seed: int
    ) -> None:
        self.system = system
        self._began = time.monotonic()
        self._rest = b""
        self._complete = False
        self._error: UserError | None = None
        self._place = tempfile.mkdtemp(prefix="lychgate-litmus-")
        self._said = tempfile.TemporaryFile()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "lychgate_tools.litmus.driver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,  # Ctrl-C is for us; the driver is told by SIGTERM
        )
        assert self._child.stdin is not None and self._child.stdout is not None
        self.output = self._child.stdout.fileno()
        job = {
            "fs": system.name,
            "place": self._place,
            "programs": programs,
            "budget_s": budget_s,
            "seed": seed,
        }
        self._child.stdin.write(json.dumps(job).encode())
        self._child.stdin.close()

    def read(self) -> list[Result] | None:
        """The results that have come; None at the end of them."""
        data = os.read(self.output, 1 << 16)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        found = []
        for line in lines:
            value = json.loads(line)
            if "program" in value:
                found.append(_result(value))
            elif "error" in value:
                code = ExitCode.INCONCLUSIVE if value["impossible"] else ExitCode.FAULT
                self._error = UserError(f"litmus on {self.system.name}: {value['error']}", code)
            self._complete = "end" in value
        return found

    def ended(self) -> Ended:
        """How it went, after the end of the results."""
        self._child.wait()
        if not self._complete and self._error is None:
            self._said.seek(0)
            last = self._said.read().decode(errors="replace").strip().splitlines()[-1:]
            text = f"litmus on {self.system.name}: the driver ended early: {''.join(last)}"
            self._error = UserError(text)
        return Ended(time.monotonic() - self._began, self._error)

    def close(self) -> None:
        """End it if it still runs: it cleans up on SIGTERM, the kernel does on SIGKILL."""
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(_END_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        assert self._child.stdout is not None
        self._child.stdout.close()
        self._said.close()
        with suppress(FileNotFoundError):  # the driver has removed it, unless it was killed
            os.rmdir(self._place)


def run(
    systems: list[FileSystem], programs: list[str], budget_s: float, seed: int
) -> Generator[tuple[FileSystem, Result | Ended], None, None]:
    """Run programs in every variant, on all file systems at once: a driver waits more than it
    works. Closing the iterator ends everything."""
    with ExitStack() as ends, selectors.DefaultSelector() as outputs:
        for system in systems:
            driver = _Driver(system, programs, budget_s, seed)
            ends.callback(driver.close)
            outputs.register(driver.output, selectors.EVENT_READ, driver)
        while outputs.get_map():
            for key, _ in outputs.select():
                driver = key.data
                results = driver.read()
                if results is None:
                    outputs.unregister(key.fd)
                    yield driver.system, driver.ended()
                    continue
                for result in results:
                    yield driver.system, result


def _result(value: dict[str, Any]) -> Result:
    states = tuple(
        State(
            None if state["image"] is None else image_from_json(state["image"]),
            state["trouble"],
            {int(moment): kept for moment, kept in state["moments"].items()},
        )
        for state in value["states"]
    )
    return Result(
        value["program"],
        value["variant"],
        value["images"],
        value["mounts"],
        value["untried"],
        states,
    )
