"""`python -m lychgate_conformance.lab`: explore the engine, replay a plan.

    explore                 all parts of the campaign, sharing a budget in seconds
    explore --part kills    one part
    workload 'two;0;add:a'  one workload
    replay PLAN             one run again, step by step
    rate                    images judged per second and core

Exit codes: 0 nothing found, 1 a broken promise, 4 usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace

from lychgate_conformance.lab._campaign import PARTS, Part, PartResult, find_part, run_part
from lychgate_conformance.lab._explore import Bounds, Explorer, Finding
from lychgate_conformance.lab._faults import Fault
from lychgate_conformance.lab._models import find_model
from lychgate_conformance.lab._plan import parse_plan
from lychgate_conformance.lab._rate import measure
from lychgate_conformance.lab._shrink import command, replay, shrink
from lychgate_conformance.lab._sweep import faults_of
from lychgate_conformance.lab._target import ATTEMPTS, ROTATE_NEVER, Target
from lychgate_conformance.lab._workload import parse_workload


def _target(options: argparse.Namespace) -> Target:
    return Target(options.lock_attempts, options.rotate_bytes)


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m lychgate_conformance.lab", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    explore = commands.add_parser("explore", help="explore the engine")
    explore.add_argument("--part", action="append", help="only this part (repeatable)")
    explore.add_argument("--budget", type=float, default=60.0, help="seconds for all parts")
    explore.add_argument("--model", default="portable")
    explore.add_argument("--seed", type=int, default=1)
    explore.add_argument(
        "--distinct", type=int, default=0, help="count images that differ, up to so many per part"
    )
    explore.add_argument("--json", action="store_true")
    one = commands.add_parser("workload", help="explore one workload")
    one.add_argument("workload")
    again = commands.add_parser("replay", help="replay a plan")
    again.add_argument("plan")
    for sub in (one, again):
        sub.add_argument("--model", default="portable")
        sub.add_argument("--preemptions", type=int, default=2)
        sub.add_argument("--kills", type=int, default=0)
        sub.add_argument("--depth", type=int, default=1)
        sub.add_argument("--faults", action="store_true")
        sub.add_argument("--lock-attempts", type=int, default=ATTEMPTS)
        sub.add_argument("--rotate-bytes", type=int, default=ROTATE_NEVER)
        sub.add_argument("--revive", default="", help="steps of a new process after a kill")
    commands.add_parser("rate", help="images judged per second and core")
    options = parser.parse_args(arguments)
    try:
        if options.command == "explore":
            return _explore(options)
        if options.command == "rate":
            return _rate()
        return _one(options) if options.command == "workload" else _replay(options)
    except (ValueError, LookupError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 4


def _explore(options: argparse.Namespace) -> int:
    parts = [find_part(name) for name in options.part] if options.part else list(PARTS)
    model = find_model(options.model)
    worst = 0
    for part in parts:
        seconds = options.budget / len(parts)
        result = run_part(
            part, Target, seconds, model=model, seed=options.seed, distinct_max=options.distinct
        )
        print(_json(result) if options.json else _line(result), flush=True)
        for finding in result.totals.findings:
            worst = 1
            _show(finding, part.bounds, Target(part.lock_attempts, part.rotate_bytes), part)
    return worst


def _line(result: PartResult) -> str:
    totals = result.totals
    words = (
        f"{result.name:22} {totals.workloads:6} workloads {totals.runs:8} runs "
        f"{totals.states:9} states {totals.images:10} images {totals.recoveries:8} recoveries "
        f"{len(totals.findings):3} findings {result.seconds:7.1f} s"
    )
    if totals.distinct:
        words += f"\n    {totals.distinct} images differ in content"
    return words + ("".join(f"\n    PARTIAL: {text}" for text in result.partial))


def _json(result: PartResult) -> str:
    totals = result.totals
    fields = {
        "part": result.name,
        "workloads": totals.workloads,
        "runs": totals.runs,
        "steps": totals.steps,
        "states": totals.states,
        "choices": totals.choices,
        "images": totals.images,
        "distinct": totals.distinct,
        "recoveries": totals.recoveries,
        "seconds": round(result.seconds, 3),
        "partial": result.partial,
        "findings": [
            {"text": finding.text, "plan": str(finding.plan)} for finding in totals.findings
        ],
    }
    return json.dumps(fields)


def _show(finding: Finding, bounds: Bounds, target: Target, part: Part | None = None) -> None:
    if part is not None:
        finding = shrink(finding, target, replace(bounds, seconds=60.0))
    print(f"BROKEN {finding.text}\n  workload {finding.plan.workload}")
    if finding.plan.fault is not None:
        print(f"  fault {finding.plan.fault}")
    replay(finding.plan, target, bounds, print)
    extra = f" --kills {bounds.kills}" if bounds.kills else ""
    if bounds.revival:
        extra += f" --revive {','.join(map(str, bounds.revival))}"
    if target.lock_attempts != ATTEMPTS:
        extra += f" --lock-attempts {target.lock_attempts}"
    if target.rotate_bytes != ROTATE_NEVER:
        extra += f" --rotate-bytes {target.rotate_bytes}"
    print(f"replay: {command(finding.plan)}{extra}")


def _bounds(options: argparse.Namespace) -> Bounds:
    revival = parse_workload(f"new;0;{options.revive}").workers[0][0]
    return Bounds(options.preemptions, options.kills, options.depth, revival=revival)


def _one(options: argparse.Namespace) -> int:
    target, bounds = _target(options), _bounds(options)
    explorer = Explorer(target, find_model(options.model), bounds)
    workload = parse_workload(options.workload)
    faults: list[Fault | None] = [None]
    if options.faults:
        faults += faults_of(target, workload)
    explorer.explore(workload, faults)
    totals = explorer.totals
    print(
        f"{totals.runs} runs, {totals.states} states, {totals.choices} choices, "
        f"{totals.images} images, {totals.recoveries} recoveries, {len(totals.findings)} findings"
    )
    for text in sorted(totals.partial):
        print(f"PARTIAL: {text}")
    for finding in totals.findings:
        _show(finding, bounds, target)
    return 1 if totals.findings else 0


def _replay(options: argparse.Namespace) -> int:
    plan = parse_plan(options.plan)
    text = replay(plan, _target(options), _bounds(options), print)
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
