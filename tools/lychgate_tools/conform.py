"""`lychgate conform`: which promises does a backend keep?

The suite itself is `lychgate_conformance`; this module is its command line: what to run, where to,
and the words for what goes wrong before a case can run.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

from lychgate_conformance import (
    AdapterFault,
    Case,
    Options,
    Report,
    UsageError,
    run as run_cases,
)
from lychgate_conformance._expect import read_expected
from lychgate_conformance._html import as_html
from lychgate_conformance._junit import as_junit
from lychgate_conformance._report import as_json, as_text
from lychgate_conformance._runner import select
from lychgate_conformance._smoke import ADAPTER, smoke
from lychgate_conformance._stage import CALL_LIMIT_S
from lychgate_conformance.blackbox._schedule import Schedule
from lychgate_tools import listing
from lychgate_tools.conform_target import (
    CODES,
    adapter_command,
    add_target_arguments,
    claims_of,
    faults_in_words,
    known_case,
    load,
    replay_words,
    spec_of,
    surroundings,
    writable_path,
)
from lychgate_tools.ui import ExitCode, Progress, Subparsers, UserError, add_command, print_json

_SUMMARY = "try which promises a backend keeps, on real files and with real processes"
_EXAMPLE = f"""lychgate conform disk
  lychgate conform shop.storage:make_backend --level 0 --report reports
  lychgate conform disk --case L1-KILL-007 --seed 3
  lychgate conform delivery --level 3
  lychgate conform --mutant first-wins
  lychgate conform --level 0 -- node my_adapter.mjs

A factory is called with path, prefix and fsync_frequency, and gives an object with the seven
methods add_task, remove_task, pending_tasks, add_dead_task, list_dead_tasks, find_dead_task and
remove_dead_tasks. Its attribute `claims` says what it promises. An adapter is a program in any
language that speaks the protocol of docs/protocol.md; try `lychgate smoke` on it first.

{CODES}"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "conform", _SUMMARY, _EXAMPLE)
    add_target_arguments(parser)
    parser.add_argument("--level", type=int, action="append", default=[], help="only this level")
    parser.add_argument("--case", metavar="ID", action="append", default=[], help="only this case")
    parser.add_argument(
        "--skip", metavar="ID=REASON", action="append", default=[], help="do not run this case"
    )
    parser.add_argument(
        "--claim", metavar="NAME=VALUE", action="append", default=[], help="set a claim"
    )
    parser.add_argument("--seed", type=int, default=0, help="for everything random (default: 0)")
    parser.add_argument(
        "--call-limit",
        metavar="S",
        type=float,
        default=CALL_LIMIT_S,
        help="seconds for one call (default: %(default)g)",
    )
    parser.add_argument(
        "--budget", metavar="S", type=float, help="begin no case after so many seconds"
    )
    parser.add_argument(
        "--expect", metavar="FILE", help="known failures, as `lychgate expect` writes them"
    )
    parser.add_argument(
        "--report", metavar="DIR", help="write the report there: JSON, text, JUnit and HTML"
    )
    parser.add_argument(
        "--schedule",
        metavar="TEXT",
        default="",
        help="of one case of level 5, this schedule alone, as a failure shows it",
    )
    parser.add_argument("--list", action="store_true", help="show the cases and the mutants")


def run(args: argparse.Namespace) -> int:
    if args.list:
        return listing.run(args)
    with faults_in_words(args.debug):
        spec = "" if args.adapter is not None else spec_of(args)
        with surroundings(spec):
            return _conform(args)


def _conform(args: argparse.Namespace) -> int:
    claims, options = claims_of(args.claim), _options(args)
    select(options)  # what does not exist is said before anything is started
    if not args.case:
        _smoke(args, options)
    target = load(args, claims)
    total = len(select(replace(options, profile=target.claims.profile)))
    with Progress("conform", total, "cases") as progress:

        def show(done: int, of: int, case: Case) -> None:
            progress.update(done, case.id)

        report = run_cases(target, options, show)
    if args.report:
        _write(report, Path(args.report))
    if args.json:
        print_json(as_json(report))
    else:
        print(as_text(report, debug=args.debug))
    if not report.complete:
        raise KeyboardInterrupt
    return int(report.exit_code)


def _smoke(args: argparse.Namespace, options: Options) -> None:
    """An adapter's own faults end the run before any case blames its backend for them."""
    command = adapter_command(args)
    if command is None:
        return
    for it in smoke(command, options.call_limit_s, options.path).outcomes:
        if it.verdict == ADAPTER:
            raise AdapterFault(f"the adapter is at fault: {it.message}", it.stderr)


def _options(args: argparse.Namespace) -> Options:
    skip = {}
    for text in args.skip:
        case_id, equals, reason = text.partition("=")
        if not reason.strip():
            raise UsageError(f"--skip takes a case and the reason: --skip {case_id}=REASON")
        skip[known_case(case_id)] = reason.strip()
    if args.call_limit <= 0 or (args.budget is not None and args.budget <= 0):
        raise UsageError("a limit is more than 0")
    if args.schedule:
        _check_schedule(args)
    expected = {} if args.expect is None else read_expected(Path(args.expect))
    return Options(
        levels=tuple(args.level),
        case_ids=tuple(map(known_case, args.case)),
        skip=skip,
        seed=args.seed,
        path=writable_path(args.path),
        replay_options=replay_words(args),
        call_limit_s=args.call_limit,
        budget_s=args.budget,
        expected=expected,
        schedule=args.schedule,
        probe=not args.case and not args.level,
    )


def _check_schedule(args: argparse.Namespace) -> None:
    """UsageError when the text is no schedule, or is not one for the case."""
    if len(args.case) != 1 or not known_case(args.case[0]).startswith("L5-"):
        raise UsageError("--schedule goes with one --case of level 5")
    try:
        Schedule.of(args.schedule)
    except ValueError as error:
        raise UsageError(f"--schedule: {error}") from error


def _write(report: Report, directory: Path) -> None:
    """Four files, named after the backend; each replaced as a whole."""
    base = Path(report.command[-1]).name if report.command else report.backend
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"conform-{base}")
    contents = {
        ".json": json.dumps(as_json(report), indent=2) + "\n",
        ".txt": as_text(report) + "\n",
        ".xml": as_junit(report),
        ".html": as_html(report),
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for suffix, content in contents.items():
            data = content.encode("utf-8", "backslashreplace")
            (directory / f"{name}{suffix}").write_bytes(data)
    except OSError as error:
        raise UserError(f"the report cannot be written: {error}", ExitCode.FAULT) from error
    print(f"report: {directory / name}.json, .txt, .xml, .html", file=sys.stderr)
