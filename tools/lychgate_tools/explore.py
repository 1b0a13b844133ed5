"""`lychgate explore`: every schedule, crash, image and fault of the engine, up to stated bounds.

The front of the crash lab (`lychgate_conformance.lab`). Parts of the campaign share a budget; what
one of them leaves goes to the next. An interrupt ends the part under way, and what was done up to
then is printed as it would have been at the end.
"""

from __future__ import annotations

import argparse
import time

from lychgate_conformance.lab._campaign import PARTS, Part, PartResult, Search, find_part, run_parts
from lychgate_conformance.lab._explore import Bounds, Finding
from lychgate_conformance.lab._models import KNOBS, MODELS, find_model
from lychgate_conformance.lab._summary import fields, line, smaller, tell
from lychgate_conformance.lab._target import Target
from lychgate_conformance.lab._workload import Workload, parse_workload
from lychgate_conformance.lab._starts import find_start
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    colour,
    print_json,
)

_EXAMPLE = """lychgate explore --budget 600
  lychgate explore --part kills --part rotation --model ext4-ordered --json
  lychgate explore --workload two;0;add:a/remove:p --preemptions 2

exit codes:
  0 nothing found   1 a broken promise   4 usage   130 interrupted (the summary is whole)"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "explore", "crash the engine everywhere on a simulated disk", _EXAMPLE
    )
    parser.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="NAME",
        help=f"only this part (repeatable): {', '.join(part.name for part in PARTS)}",
    )
    parser.add_argument(
        "--workload",
        action="append",
        default=[],
        metavar="TEXT",
        help="this workload in the place of parts (repeatable): start;frequency;steps",
    )
    parser.add_argument(
        "--model",
        default="portable",
        metavar="NAME",
        help=f"one of {', '.join(MODELS)}; knobs behind it: {', '.join(f'+{k}' for k in KNOBS)}",
    )
    parser.add_argument(
        "--budget", type=float, default=60.0, metavar="SECONDS", help="for all of it (default: 60)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order of workloads")
    parser.add_argument(
        "--distinct", action="store_true", help="count images that differ in content (memory!)"
    )
    only = "with --workload only: "
    parser.add_argument("--preemptions", type=int, default=2, help=f"{only}at most (default: 2)")
    parser.add_argument("--kills", type=int, default=0, help=f"{only}processes killed, at most")
    parser.add_argument("--depth", type=int, default=1, help=f"{only}crashes in a row")
    parser.add_argument("--faults", action="store_true", help=f"{only}every fault of every call")


def run(args: argparse.Namespace) -> int:
    try:
        parts = _parts(args)
        model = find_model(args.model)
    except ValueError as error:
        raise UserError(str(error), ExitCode.USAGE) from error
    if args.budget <= 0:
        raise UserError("--budget is a number of seconds above 0", ExitCode.USAGE)
    results: list[PartResult] = []
    began = time.monotonic()
    with Progress("exploring", 0, "images") as progress:

        def watch(result: PartResult) -> None:
            done = sum(earlier.totals.images for earlier in results) + result.totals.images
            share = min(0.99, (time.monotonic() - began) / args.budget)
            progress.update(done, result.part.name, share)

        search = Search(model, args.seed, distinct=set() if args.distinct else None, watch=watch)
        try:
            for result in run_parts(parts, search, args.budget):
                results.append(result)
                if result.totals.findings and not result.interrupted:
                    progress.message(f"{result.part.name}: looking for the smallest run")
                    smaller(result, _target(result.part))
                if not args.json:
                    progress.clear()
                    print(line(result), flush=True)
        except KeyboardInterrupt:  # between two parts, or while a run is being made smaller
            return _report(args, results, len(parts), True)
    interrupted = any(result.interrupted for result in results)
    return _report(args, results, len(parts), interrupted)


def _parts(args: argparse.Namespace) -> list[Part]:
    if not args.workload:
        return [find_part(name) for name in args.part] or list(PARTS)
    bounds = Bounds(args.preemptions, args.kills, args.depth)
    faults = None if args.faults else ()
    return [_part(parse_workload(text), bounds, faults) for text in args.workload]


def _part(workload: Workload, bounds: Bounds, faults: tuple[int, ...] | None) -> Part:
    """A part with one workload in it."""
    find_start(workload.start)
    return Part(str(workload), (), (), bounds=bounds, faults=faults, length_max=1, only=workload)


def _target(part: Part) -> Target:
    return Target(part.lock_attempts, part.rotate_bytes)


def _report(
    args: argparse.Namespace, results: list[PartResult], planned: int, interrupted: bool
) -> int:
    found: list[tuple[Finding, Part]] = [
        (finding, result.part) for result in results for finding in result.totals.findings
    ]
    totals = {
        name: sum(getattr(result.totals, name) for result in results)
        for name in ("workloads", "runs", "states", "images", "distinct", "recoveries")
    }
    if args.json:
        print_json(
            {
                "model": args.model,
                "seed": args.seed,
                "budget": args.budget,
                "interrupted": interrupted,
                "parts": [fields(result) for result in results],
                "parts_left": planned - len(results),
                "totals": totals,
            }
        )
    else:
        for finding, part in found:
            tell(finding, _target(part), print)
        words = f"{totals['images']:,} images, {totals['states']:,} states, {len(results)} parts"
        if args.distinct:
            words += f", {totals['distinct']:,} of them different"
        verdict = f"{len(found)} broken promises" if found else "nothing is broken"
        print(f"{words}: {colour(verdict, 'bad' if found else 'good')}")
        if interrupted:
            print(f"interrupted; {planned - len(results)} parts were not begun")
    if interrupted:
        return ExitCode.INTERRUPTED
    return ExitCode.SHORT if found else ExitCode.OK
