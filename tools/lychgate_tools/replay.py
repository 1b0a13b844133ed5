"""`lychgate replay`: the failures of a report once more, with its seed, claims and backend.

A plan of the crash lab, or `--mutant`, in the place of a report: `lab_replay.py` runs it again.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from lychgate_conformance import Options, Report, Target, UsageError, load_target, run as run_cases
from lychgate_conformance._report import as_text
from lychgate_conformance._session import Command
from lychgate_conformance._target import load_command
from lychgate_conformance._verify import read_report, same_suite
from lychgate_conformance.blackbox._explain import WATCHERS
from lychgate_conformance.blackbox._explore import Failure
from lychgate_tools import lab_replay, replay_image
from lychgate_tools.conform_target import faults_in_words, known_case, surroundings
from lychgate_tools.ui import ExitCode, Progress, Subparsers, UserError, add_command, print_json

_SUMMARY = "run again what failed: the cases of a report, or a plan of the crash lab"
_EXAMPLE = """lychgate replay reports/conform-disk.json
  lychgate replay reports/conform-disk.json --case L1-KILL-007
  lychgate replay reports/conform-my-adapter.json --image 3f2a90c1
  lychgate replay --mutant no-tail-repair

It runs the command that the report names, in the current directory: read it first where the report
is not your own (`--show` prints it).

exit codes:
  0 every case ends as in the report   1 one ends otherwise   3 fault of the adapter   4 usage"""

_TROUBLE = ("fail", "harness error", "inconclusive")


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "replay", _SUMMARY, _EXAMPLE)
    parser.add_argument(
        "report",
        nargs="?",
        help="a report of `lychgate conform` (a JSON file), or the text of a plan that `lychgate "
        "explore` printed",
    )
    parser.add_argument(
        "--mutant", metavar="NAME", help="the run that shows this mutant, or the plan on it"
    )
    parser.add_argument(
        "--case", metavar="ID", action="append", default=[], help="this case, however it ended"
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="of a case of level 5 every schedule, not only the one that failed",
    )
    parser.add_argument(
        "--page",
        metavar="FILE",
        help="write a plan's run, or the crash that fails a case, as one HTML file (or as *.json)",
    )
    parser.add_argument(
        "--image",
        metavar="DIGEST",
        help="put this failing image before the adapter again (the first digits are enough)",
    )
    parser.add_argument("--write", metavar="DIR", help="with --image: also put it there")
    parser.add_argument("--show", action="store_true", help="print what would be run, and end")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")


def run(args: argparse.Namespace) -> int:
    if args.report is None or args.mutant is not None or lab_replay.is_plan(args.report):
        return lab_replay.run(args.report, args.mutant, args.json, args.page)
    with faults_in_words(args.debug):
        said = read_report(Path(args.report))
        if args.image is not None:
            return replay_image.run(said, args.image, args.write, _target, args.json)
        ended = {it["id"]: it["verdict"] for it in said["results"]}
        ids = tuple(args.case) or tuple(it for it, how in ended.items() if how in _TROUBLE)
        for case_id in ids:
            if known_case(case_id) not in ended:
                raise UsageError(f"{case_id} is not in the report")
        if args.show:
            print(_words(said))
            return ExitCode.OK
        if not ids:
            raise UserError("no case of the report failed; name one with --case", ExitCode.USAGE)
        with surroundings(said["backend"]["name"]):
            if args.page is None:
                again = _again(said, ids, whole=args.whole)
            else:
                again = _shown(said, ids, args.whole, Path(args.page))
    after = {it.case.id: it.verdict.value for it in again.results}
    other = {it: (ended[it], after.get(it)) for it in ids if after.get(it) != ended[it]}
    if args.json:
        print_json({"same": not other, "cases": {it: after.get(it) for it in ids}})
    else:
        print(as_text(again, debug=args.debug))
        for case_id, (before, now) in other.items():
            print(f"{case_id} was {before!r} and is {now or 'not tried'!r}")
        if not same_suite(said):
            print("another version of the suite made the report")
        print("every case ended as in the report" if not other else f"{len(other)} ended otherwise")
    if not again.complete:
        raise KeyboardInterrupt
    return ExitCode.SHORT if other else ExitCode.OK


def _words(said: Any) -> str:
    """The backend as a person sees it."""
    command: list[str] = said["backend"]["command"]
    return shlex.join(command) if command else str(said["backend"]["name"])


def _again(said: Any, ids: tuple[str, ...], whole: bool) -> Report:
    """The cases once more; one that names its failed schedule plays that one alone."""
    target = _target(said)
    options = Options(case_ids=ids, seed=said["seed"], expected=said["expected"])
    schedules = {} if whole else {it: found for it in ids if (found := _schedule(said, it))}
    parts = [replace(options, case_ids=(it,), schedule=text) for it, text in schedules.items()]
    if rest := tuple(it for it in ids if it not in schedules):
        parts.append(replace(options, case_ids=rest))
    reports = []
    with Progress("replay", len(ids), "cases") as progress:
        for part in parts:
            reports.append(
                run_cases(target, part, lambda done, of, case: progress.update(done, case.id))
            )
    results = [it for one in reports for it in one.results]
    complete = all(it.complete for it in reports)
    results.sort(key=lambda it: it.case.id)
    return replace(reports[0], results=tuple(results), case_ids=ids, complete=complete)


def _schedule(said: Any, case_id: str) -> str:
    """The schedule of a failure of level 5; empty for any other case."""
    (words,) = (shlex.split(it["replay"]) for it in said["results"] if it["id"] == case_id)
    return words[words.index("--schedule") + 1] if "--schedule" in words else ""


def _shown(said: Any, ids: tuple[str, ...], whole: bool, path: Path) -> Report:
    """The same, with the last crash that failed a case written as a page."""
    from lychgate_tools.page import from_failure, output  # nobody else needs the lab

    found: list[Failure] = []
    WATCHERS.append(found.append)
    try:
        again = _again(said, ids, whole)
    finally:
        WATCHERS.remove(found.append)
    if not found:
        raise UserError(f"no case failed by a crash; {path} was not written", ExitCode.SHORT)
    failed = [it.case.id for it in again.results if it.verdict.value == "fail"]
    name = failed[-1] if failed else ids[-1]
    output.write(from_failure.document(found[-1], _words(said), name), path)
    return again


def _target(said: Any) -> Target:
    backend = said["backend"]
    if backend["command"]:
        return load_command(Command(tuple(backend["command"])), backend["claims"])
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    return load_target(str(backend["name"]), backend["claims"])
