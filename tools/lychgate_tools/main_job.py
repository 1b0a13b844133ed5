"""`lychgate all`: the main job, which `./run` is a doorstep to.

Model-check every quick model, walk the engine along their edges, then hold the disk and the nil
backend to their promises on real files; one table, one report each. Each part is the command that a
person would type, run as a child so that none can spoil another; the worst exit code is ours.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lychgate_tools.spec_dir import reports_dir
from lychgate_tools.ui import (
    ExitCode,
    Subparsers,
    UserError,
    add_command,
    colour,
    print_json,
    seconds,
    table,
)

_WORST_FIRST = (
    ExitCode.INTERRUPTED,
    ExitCode.SHORT,
    ExitCode.FAULT,
    ExitCode.USAGE,
    ExitCode.INCONCLUSIVE,
)
_WORDS = {
    ExitCode.OK: "good",
    ExitCode.SHORT: "FELL SHORT",
    ExitCode.INCONCLUSIVE: "INCONCLUSIVE",
    ExitCode.FAULT: "FAULT",
    ExitCode.USAGE: "USAGE",
    ExitCode.INTERRUPTED: "INTERRUPTED",
}


SMALL_STATES = 4500
"""States of the largest model that the quick form walks; the others take a minute or two."""


@dataclass(frozen=True)
class Part:
    name: str
    command: tuple[str, ...]
    report: str  # the file's name


@dataclass(frozen=True)
class Outcome:
    part: Part
    code: int
    summary: str
    seconds: float


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "all",
        "the main job: model-check the spec, walk the engine beside it, try the backends",
        "lychgate all --reports reports /mnt/disk-under-test",
    )
    parser.add_argument(
        "directory", nargs="?", metavar="DIR", help="where the backends keep their files"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="conformance levels 0 and 1 only, as continuous integration does",
    )
    parser.add_argument("--reports", metavar="DIR", help="where the reports go")


def run(args: argparse.Namespace) -> int:
    reports = reports_dir(args.reports)
    with tempfile.TemporaryDirectory(prefix="lychgate-run-") as temporary:
        directory = _writable(Path(args.directory) if args.directory else Path(temporary))
        outcomes = [_run(part, reports) for part in parts(directory, reports, args.quick)]
    code = worst([outcome.code for outcome in outcomes])
    if args.json:
        print_json(
            {
                "schema": "lychgate-all-1",
                "exit_code": code,
                "parts": [
                    {
                        "name": outcome.part.name,
                        "exit_code": outcome.code,
                        "summary": outcome.summary,
                        "report": str(reports / outcome.part.report),
                        "seconds": round(outcome.seconds, 1),
                    }
                    for outcome in outcomes
                ],
            }
        )
        return code
    rows = [
        (o.part.name, _WORDS.get(ExitCode(o.code), "FAULT"), o.summary, seconds(o.seconds))
        for o in outcomes
    ]
    print(table(("part", "verdict", "what", "time"), rows))
    print()
    for outcome in outcomes:
        if outcome.code != ExitCode.OK:
            print(colour(f"{outcome.part.name}: lychgate {' '.join(outcome.part.command)}", "bad"))
    print("reports: " + ", ".join(str(reports / outcome.part.report) for outcome in outcomes))
    return code


def parts(directory: Path, reports: Path, quick: bool) -> list[Part]:
    """What is run, in order."""
    found = [Part("spec", ("check", "--class", "quick", "--reports", str(reports)), "check.json")]
    small = ("--states-max", str(SMALL_STATES)) if quick else ()
    found.append(Part("engine beside spec", ("walk", *small), "walk.json"))
    for backend in ("disk", "nil"):
        command = ("conform", backend, "--path", str(directory / backend))
        levels = ("--level", "0", "--level", "1") if quick else ()
        found.append(Part(f"{backend} backend", command + levels, f"{backend}.json"))
    return found


def worst(codes: Sequence[int]) -> int:
    """The exit code of the whole: what fell short outweighs what failed to run."""
    return next((int(code) for code in _WORST_FIRST if code in codes), max(codes, default=0))


def _writable(directory: Path) -> Path:
    directory = directory.absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UserError(
            f"cannot write in {directory} ({error.strerror}): name another directory"
        ) from error
    return directory


def _run(part: Part, reports: Path) -> Outcome:
    """Run one part; its JSON goes to its report, its progress to our stderr."""
    print(f"== {part.name}", file=sys.stderr, flush=True)
    start = time.monotonic()
    child = subprocess.Popen(
        [sys.executable, "-m", "lychgate_tools.cli", *part.command, "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    try:
        said, _ = child.communicate()
    except BaseException:  # let it end its own children before we go
        child.terminate()
        child.wait()
        raise
    if child.returncode == ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    took = time.monotonic() - start
    (reports / part.report).write_text(said, encoding="utf-8")
    try:
        summary = summarise(json.loads(said))
    except json.JSONDecodeError:
        summary = "no report: see the line above"
    code = child.returncode if child.returncode >= 0 else int(ExitCode.FAULT)
    return Outcome(part, code, summary, took)


def summarise(report: dict[str, Any]) -> str:
    """One phrase of numbers for a report of `check`, `walk` or `conform`."""
    if "not_walked" in report:
        edges = sum(model["edges"] for model in report["models"])
        walked = sum(model["walked"] for model in report["models"])
        return f"{len(report['models'])} models, {walked:,} of {edges:,} edges walked"
    if "models" in report:
        wrong = sum(bool(model["problems"]) for model in report["models"])
        states = sum(model["distinct"] or 0 for model in report["models"])
        dead = len(report["dead_actions"])
        trouble = f", {wrong} drifted, {dead} dead actions" if wrong or dead else ""
        return f"{len(report['models'])} models, {states:,} states{trouble}"
    counts = {word: count for word, count in report.get("counts", {}).items() if count}
    return ", ".join(f"{count} {word}" for word, count in counts.items())
