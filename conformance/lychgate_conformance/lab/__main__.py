"""`python -m lychgate_conformance.lab`: explore the engine, replay a plan.

    explore                 all parts of the campaign, sharing a budget in seconds
    explore --part kills    one part
    workload 'two;0;add:a'  one workload
    replay PLAN             one run again, step by step
    rate                    images judged per second and core

Exit codes: 0 nothing found, 1 a broken promise, 4 usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace

from lychgate_conformance.lab._campaign import PARTS, Part, PartResult, Search, find_part, run_parts
from lychgate_conformance.lab._explore import Bounds, Explorer
from lychgate_conformance.lab._faults import Fault
from lychgate_conformance.lab._hunt import ENGINE, target_named
from lychgate_conformance.lab._models import find_model
from lychgate_conformance.lab._plan import Setting, parse_plan
from lychgate_conformance.lab._rate import measure
from lychgate_conformance.lab._replay import replay
from lychgate_conformance.lab._summary import fields, line, smaller, tell
from lychgate_conformance.lab._sweep import faults_of
from lychgate_conformance.lab._target import ATTEMPTS, ROTATE_NEVER, Target
from lychgate_conformance.lab._workload import parse_workload, steps_of


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit code."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "explore":
            return _explore(options)
        if options.command == "rate":
            return _rate()
        return _one(options) if options.command == "workload" else _replay(options)
    except (ValueError, LookupError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 4


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lychgate_conformance.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    explore = commands.add_parser("explore", help="explore the engine")
    explore.add_argument("--part", action="append", help="only this part (repeatable)")
    explore.add_argument("--budget", type=float, default=60.0, help="seconds for all parts")
    explore.add_argument("--seed", type=int, default=1)
    explore.add_argument("--distinct", action="store_true", help="count images that differ")
    explore.add_argument("--json", action="store_true", help="one JSON value per part and line")
    one = commands.add_parser("workload", help="explore one workload")
    one.add_argument("workload")
    one.add_argument("--preemptions", type=int, default=2)
    one.add_argument("--kills", type=int, default=0)
    one.add_argument("--depth", type=int, default=1)
    one.add_argument("--faults", action="store_true")
    one.add_argument("--lock-attempts", type=int, default=ATTEMPTS)
    one.add_argument("--rotate-bytes", type=int, default=ROTATE_NEVER)
    one.add_argument("--revive", default="", help="steps of a new process after a kill")
    for sub in (explore, one):
        sub.add_argument("--model", default="portable")
    again = commands.add_parser("replay", help="replay a plan")
    again.add_argument("plan")
    for sub in (one, again):
        sub.add_argument("--mutant", default="", help="this mutant in the place of the engine")
    commands.add_parser("rate", help="images judged per second and core")
    return parser


def _explore(options: argparse.Namespace) -> int:
    parts = [find_part(name) for name in options.part] if options.part else list(PARTS)
    distinct: set[int] | None = set() if options.distinct else None
    search = Search(find_model(options.model), options.seed, distinct=distinct)
    results: list[PartResult] = []
    for result in run_parts(parts, search, options.budget):
        results.append(result)
        target = Target(result.part.lock_attempts, result.part.rotate_bytes)
        smaller(result, target)
        print(json.dumps(fields(result)) if options.json else line(result), flush=True)
        for finding in result.totals.findings:
            tell(finding, target, lambda text: print(text, file=sys.stderr))
    if any(result.interrupted for result in results):
        return 130
    return 1 if any(result.totals.findings for result in results) else 0


def _one(options: argparse.Namespace) -> int:
    setting = Setting(attempts=options.lock_attempts, rotate=options.rotate_bytes)
    target = target_named(options.mutant or ENGINE, setting)
    revival = steps_of(options.revive)
    bounds = Bounds(options.preemptions, options.kills, options.depth, revival=revival)
    explorer = Explorer(target, find_model(options.model), bounds)
    workload = parse_workload(options.workload)
    faults: list[Fault | None] = [None]
    if options.faults:
        faults += faults_of(target, workload)
    explorer.explore(workload, faults)
    totals = explorer.totals
    result = PartResult(
        Part(str(workload), (), (), bounds=replace(bounds, seconds=60.0), length_max=0),
        totals=totals,
    )
    print(
        f"{totals.runs} runs, {totals.states} states, {totals.choices} choices, "
        f"{totals.images} images, {totals.recoveries} recoveries, {len(totals.findings)} findings"
    )
    for text in result.partial:
        print(f"PARTIAL: {text}")
    smaller(result, target)
    for finding in totals.findings:
        tell(finding, target, print)
    return 1 if totals.findings else 0


def _replay(options: argparse.Namespace) -> int:
    plan = parse_plan(options.plan)
    text = replay(plan, target_named(options.mutant or plan.target, plan.setting), print)
    print(f"BROKEN {text}" if text else "nothing is broken")
    return 1 if text else 0


def _rate() -> int:
    rates = measure()
    print(
        f"{rates.images} images, {rates.recoveries} recoveries: {rates.first_pass:.0f}/s on the "
        f"first pass, {rates.remembered:.0f}/s remembered, {rates.cold:.0f}/s without memory "
        f"(CPU seconds; empty loop {rates.loops:.1f} M/s)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
