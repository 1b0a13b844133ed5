"""`lychgate doctor PATH`: can this directory keep the promises of the disk backend (F1)?

It tries each assumption that can be tried from here (doctor_probe.py), says what the file system is
(doctor_system.py) and what lies there already (doctor_files.py). It leaves nothing behind and takes
no lock on anybody's file.

Exit codes: 0 it can; 1 it cannot; 2 that could not be found out (a network file system, say).
What no program can find out: whether the device tells the truth about its write cache.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from lychgate_tools.ui import ExitCode, Subparsers, add_command, colour, print_json

OK, NOTE, WARNING, FAILS, UNKNOWN = "ok", "note", "warning", "FAILS", "unknown"
"""States of a check. A warning does not change the verdict."""


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, how it stands, and a sentence."""

    name: str
    state: str
    text: str


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "doctor",
        "say whether a directory can keep the promises of the disk backend",
        "lychgate doctor /srv/queue",
    )
    parser.add_argument("path", metavar="PATH", help="the directory; it need not exist yet")


def run(args: argparse.Namespace) -> int:
    checks = examine(args.path)
    code, verdict = judge(checks)
    if args.json:
        print_json(
            {
                "path": args.path,
                "exit_code": int(code),
                "verdict": verdict,
                "checks": [{"name": c.name, "state": c.state, "text": c.text} for c in checks],
            }
        )
        return code
    tones = {OK: "good", FAILS: "bad", WARNING: "note", UNKNOWN: "note"}
    for check in checks:
        state = f"{check.state:8}"
        print(f"{colour(state, tones[check.state]) if check.state in tones else state} "
              f"{check.name}: {check.text}")  # fmt: skip
    print(f"{args.path}: {verdict}")
    return code


def examine(path: str) -> list[Check]:
    """Every check that can be made here, in order."""
    if sys.platform == "win32":
        return [
            Check("system", FAILS, "Windows has no flock and cannot fsync a directory: use Linux, "
                  "macOS or a BSD (WSL 2 with its own ext4 disk is Linux)")
        ]  # fmt: skip
    from lychgate_tools import doctor_files, doctor_probe, doctor_system

    place, checks = doctor_system.find_place(path)
    if place is None:
        return checks
    checks += doctor_system.look(place)
    checks += doctor_probe.probe(place)
    if place.exists:
        checks += doctor_files.look(place.directory)
    return checks


def judge(checks: list[Check]) -> tuple[ExitCode, str]:
    """The exit code and the sentence of the last line."""
    failed = [check.name for check in checks if check.state == FAILS]
    if failed:
        return ExitCode.SHORT, f"cannot keep the promises: {', '.join(failed)}"
    unknown = [check.name for check in checks if check.state == UNKNOWN]
    if unknown:
        return ExitCode.INCONCLUSIVE, f"could not find out: {', '.join(unknown)}"
    warned = [check.name for check in checks if check.state == WARNING]
    but = f"; look at: {', '.join(warned)}" if warned else ""
    return ExitCode.OK, f"can keep the promises, as far as a program can tell{but}"
