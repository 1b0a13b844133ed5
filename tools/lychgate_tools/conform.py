"""`lychgate conform`: which promises does a backend keep?

The suite itself is `lychgate_conformance`; this module is its command line: what to run, where to,
and the words for what goes wrong before a case can run.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from lychgate_conformance import Case, Options, Report, UsageError, run as run_cases
from lychgate_conformance._report import as_json, as_text
from lychgate_conformance._runner import select
from lychgate_tools import listing
from lychgate_tools.conform_target import (
    CODES,
    add_target_arguments,
    claims_of,
    faults_in_words,
    known_case,
    load,
    replay_words,
    writable_path,
)
from lychgate_tools.ui import ExitCode, Progress, Subparsers, UserError, add_command, print_json

_SUMMARY = "try which promises a backend keeps, on real files and with real processes"
_EXAMPLE = f"""lychgate conform disk
  lychgate conform shop.storage:make_backend --level 0 --report reports
  lychgate conform disk --case L1-KILL-007 --seed 3
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
    parser.add_argument("--report", metavar="DIR", help="write the report there, as JSON and text")
    parser.add_argument("--list", action="store_true", help="show the cases and the mutants")


def run(args: argparse.Namespace) -> int:
    if args.list:
        return listing.run(args)
    with faults_in_words(args.debug):
        return _conform(args)


def _conform(args: argparse.Namespace) -> int:
    claims, options = claims_of(args.claim), _options(args)
    total = len(select(options))
    target = load(args, claims)
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


def _options(args: argparse.Namespace) -> Options:
    skip = {}
    for text in args.skip:
        case_id, equals, reason = text.partition("=")
        if not reason.strip():
            raise UsageError(f"--skip takes a case and the reason: --skip {case_id}=REASON")
        skip[known_case(case_id)] = reason.strip()
    return Options(
        levels=tuple(args.level),
        case_ids=tuple(map(known_case, args.case)),
        skip=skip,
        seed=args.seed,
        path=writable_path(args.path),
        replay_options=replay_words(args),
    )


def _write(report: Report, directory: Path) -> None:
    """Two files, named after the backend; replaced as wholes."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"conform-{report.backend}")
    contents = {
        ".json": json.dumps(as_json(report), indent=2) + "\n",
        ".txt": as_text(report) + "\n",
    }
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for suffix, content in contents.items():
            (directory / f"{name}{suffix}").write_text(content, encoding="utf-8")
    except OSError as error:
        raise UserError(f"the report cannot be written: {error}", ExitCode.FAULT) from error
    print(f"report: {directory / name}.json", file=sys.stderr)
