"""`lychgate mutants engine`: plant faults in the engine, and see the crash lab find every one.

A mutant is led by default: its entry names the part, the workload and the steps that are known to
show it. With `--search` it gets no hint and all parts are gone through. The finding is shrunk, and
`lychgate replay --mutant NAME` shows it step by step. A mutant that survives is exit code 1, and so
is an engine that fails in one of the same runs. `lychgate mutants suite`, in `mutants_suite`, does
the same to the conformance suite.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import partial

from lychgate_conformance.lab._hunt import MUTANTS, Kill, control, find_mutant, free, led, shrunk
from lychgate_conformance.lab._plan import Plan
from lychgate_conformance.lab._replay import command
from lychgate_tools import mutants_suite
from lychgate_tools.pool import each
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    colour,
    print_json,
    table,
    unknown,
)

_SUMMARY = "plant faults in the engine, or in backends for the suite; every one is found"
_EXAMPLE = """lychgate mutants engine
  lychgate mutants engine no-tail-repair ghost-inode --json
  lychgate mutants engine --search 60 --jobs 2
  lychgate mutants suite --level 0 --level 1 --jobs 2
  lychgate mutants suite --quick --json

`suite`: backends with one planted fault each, in Python and over stdio in other languages, on the
cases that they name; then backends in which nothing is planted. A case that no mutant fails and
that has no reason to stay counts as a survivor.

exit codes:
  0 every mutant is killed, no control is   1 a survivor, or a false alarm
  2 some could not be tried here, or the budget ended first   4 usage"""

_REQUIREMENT = re.compile(r"\b[DWUF]\d+\b")


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "mutants", _SUMMARY, _EXAMPLE)
    parser.add_argument("what", choices=["engine", "suite"], help="whose mutants")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    parser.add_argument(
        "--budget", type=float, metavar="SECONDS", help="begin no mutant after so long"
    )
    parser.add_argument(
        "--search",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="engine: no hints, search all parts for so long per mutant",
    )
    parser.add_argument("--seed", type=int, default=1, help="of a search")
    parser.add_argument(
        "--level", type=int, action="append", default=[], help="suite: only this level"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="engine: runs as they are found, not the smallest; suite: one case for each mutant",
    )


def run(args: argparse.Namespace) -> int:
    if args.jobs < 1:
        raise UserError("--jobs is a number of processes, at least 1", ExitCode.USAGE)
    if args.what == "suite":
        return mutants_suite.run(args)
    known = [mutant.name for mutant in MUTANTS]
    for name in args.names:
        if name not in known:
            raise unknown("mutant", name, known)
    names = args.names or known
    done: dict[str, tuple[Kill, list[str]]] = {}
    interrupted = False
    with Progress("mutants", len(names)) as progress:
        try:
            for kill, alarms in _killed(args, names):
                done[kill.mutant.name] = kill, alarms
                progress.update(len(done), kill.mutant.name)
        except KeyboardInterrupt:
            interrupted = True
    kills = [done[name] for name in names if name in done]
    left = len(names) - len(kills)
    survivors = [kill for kill, _ in kills if kill.finding is None]
    alarms = [f"{kill.mutant.name}: {text}" for kill, texts in kills for text in texts]
    if args.json:
        rows = [_fields(kill, texts) for kill, texts in kills]
        print_json({"mutants": rows, "survivors": len(survivors), "not_tried": left})
    else:
        print(table(_HEADERS, [_row(kill) for kill, _ in kills]))
        _tell(kills, survivors, alarms, left)
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.SHORT if survivors or alarms or left else ExitCode.OK


def _killed(args: argparse.Namespace, names: list[str]) -> Iterator[tuple[Kill, list[str]]]:
    work = partial(_try, search=args.search, seed=args.seed, quick=args.quick)
    return each(names, work, args.jobs, args.budget)


def _try(name: str, search: float, seed: int, quick: bool) -> tuple[Kill, list[str]]:
    """One mutant, and what the engine without it shows in the same run."""
    mutant = find_mutant(name)
    kill = free(mutant, search, seed) if search else led(mutant)
    alarms = [] if search else [finding.text for finding in control(mutant)]
    return kill if quick else shrunk(kill), alarms


_HEADERS = ("mutant", "breaks", "killed by", "part", "images", "seconds", "shortest schedule")


def _row(kill: Kill) -> tuple[object, ...]:
    how = "SURVIVES" if kill.finding is None else f"{kill.tool}: {kill.finding.kind}"
    shown = "-" if kill.finding is None else _schedule(kill.finding.plan)
    part = kill.part if kill.led else f"{kill.part} (search)"
    return (
        kill.mutant.name,
        " ".join(_breaks(kill)),
        how,
        part,
        kill.images,
        f"{kill.seconds:.2f}",
        shown,
    )


def _breaks(kill: Kill) -> list[str]:
    return _REQUIREMENT.findall(kill.mutant.about)


def _schedule(plan: Plan) -> str:
    steps = sum(len(phase.choices) for phase in plan.phases)
    fault = f", {plan.fault}" if plan.fault is not None else ""
    return f"{plan.workload} ({steps} steps{fault})"


def _fields(kill: Kill, alarms: list[str]) -> dict[str, object]:
    plan = None if kill.finding is None else kill.finding.plan
    return {
        "mutant": kill.mutant.name,
        "about": kill.mutant.about,
        "breaks": _breaks(kill),
        "like": kill.mutant.like or None,
        "killed": kill.finding is not None,
        "tool": kill.tool or None,
        "finding": None if kill.finding is None else kill.finding.text,
        "part": kill.part,
        "led": kill.led,
        "images": kill.images,
        "runs": kill.runs,
        "seconds": round(kill.seconds, 3),
        "schedule": None if plan is None else _schedule(plan),
        "replay": None if plan is None else command(plan),
        "false_alarms": alarms,
    }


def _tell(
    kills: list[tuple[Kill, list[str]]], survivors: list[Kill], alarms: list[str], left: int
) -> None:
    for text in alarms:
        print(colour(f"FALSE ALARM: the engine itself, led like {text}", "bad"))
    for kill in survivors:
        print(colour(f"SURVIVES: {kill.mutant.name}: {kill.mutant.about}", "bad"))
    dead = len(kills) - len(survivors)
    images = sum(kill.images for kill, _ in kills)
    print(f"{dead} of {len(kills)} mutants killed, after {images:,} images in all")
    if left:
        print(f"{left} were not tried")
    print("step by step: lychgate replay --mutant NAME; all plans: --json")
