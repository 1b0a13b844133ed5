"""Measuring for `lychgate bench`: two things in turn, medians, and where they were measured.

Rules
  * A ratio comes from one run on one machine: both sides take turns in rounds, and the ratio is the
    median over the rounds, so that a load that comes and goes hits both. Nothing asserts a time.
  * A side is a function that gives the seconds it took. What it needs before is off the clock.
  * Peak memory is a child's: VmHWM where /proc has it, which starts anew at exec; else ru_maxrss.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

from lychgate_tools.mounts import mount_of
from lychgate_tools.ui import UserError

Side = Callable[[], float]

CHILD_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table: `value` beside `beside_value`, both in `unit` (seconds or bytes)."""

    bench: str
    what: str
    value: float
    beside: str
    beside_value: float
    ratio: float
    unit: str = "s"
    goal: float | None = None
    note: str = ""

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians of both sides in seconds, and the median ratio of the rounds."""

    first: float
    second: float
    ratio: float


def timed(action: Callable[[], object]) -> Side:
    """A side that is all on the clock."""

    def side() -> float:
        start = time.perf_counter()
        action()
        return time.perf_counter() - start

    return side


def compare(first: Side, second: Side, rounds: int, each: int = 1) -> Comparison:
    """Run both sides in turn, `each` times a round; every second round begins with the other."""
    assert rounds > 0 and each > 0
    times: tuple[list[float], list[float]] = ([], [])
    ratios: list[float] = []
    for number in range(rounds):
        taken: list[list[float]] = [[], []]
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            side = (first, second)[which]
            taken[which] = [side() for _ in range(each)]
        times[0].extend(taken[0])
        times[1].extend(taken[1])
        ratios.append(statistics.median(taken[0]) / statistics.median(taken[1]))
    return Comparison(
        statistics.median(times[0]), statistics.median(times[1]), statistics.median(ratios)
    )


# --- children ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ChildRun:
    """What a child says of its one job."""

    seconds: float
    peak_bytes: int


def in_child(job: str, *arguments: str) -> ChildRun:
    """Run one job of `bench_child` in a process of its own."""
    command = [sys.executable, "-m", "lychgate_tools.bench_child", job, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=CHILD_TIMEOUT_S)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise UserError(f"the measuring child for {job!r} failed: {last[0]}")
    said = json.loads(done.stdout)
    return ChildRun(float(said["seconds"]), int(said["peak_bytes"]))


def peak_bytes() -> int:
    """The most memory that this process has held at one time."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# --- where ------------------------------------------------------------------------------------


def surroundings(directory: str, arguments: Sequence[str]) -> dict[str, str]:
    """What a reader needs to judge the numbers."""
    mount = mount_of(directory)
    return {
        "machine": f"{_cpu()}, {os.cpu_count()} cores, {platform.machine()}",
        "kernel": f"{platform.system()} {platform.release()}",
        "file system": "unknown" if mount is None else f"{mount.kind} ({mount.options})",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "lychgate": version_of("lychgate") or "from a checkout",
        "command": " ".join(["lychgate", "bench", *arguments]),
    }


def version_of(package: str) -> str | None:
    """The installed version of a distribution, None without one."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown processor"
