"""`lychgate conform`: which promises does a backend keep?

The suite itself is `lychgate_conformance`; this module is its command line: what to run, where to,
and the words for what goes wrong before a case can run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from pathlib import Path

from lychgate_conformance import (
    AdapterFault,
    Case,
    Options,
    Report,
    Target,
    UsageError,
    all_cases,
    load_target,
    run as run_cases,
)
from lychgate_conformance._claims import parse as parse_claim
from lychgate_conformance._report import as_json, as_text
from lychgate_conformance._runner import select
from lychgate_conformance.mutants import all_mutants, find_mutant
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    nearest,
    print_json,
    table,
    unknown,
)

_SUMMARY = "try which promises a backend keeps, on real files and with real processes"
_EXAMPLE = """lychgate conform disk
  lychgate conform shop.storage:make_backend --level 0 --report reports
  lychgate conform disk --case L1-KILL-007 --seed 3
  lychgate conform --mutant first-wins

A factory is called with path, prefix and fsync_frequency, and gives an object with the seven
methods add_task, remove_task, pending_tasks, add_dead_task, list_dead_tasks, find_dead_task and
remove_dead_tasks. Its attribute `claims` says what it promises.

exit codes:
  0 conformant   1 not   2 inconclusive   3 fault of the adapter or of the suite   4 usage"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "conform", _SUMMARY, _EXAMPLE)
    parser.add_argument("backend", nargs="?", help="disk, nil, or package.module:factory")
    parser.add_argument(
        "--mutant", metavar="NAME", help="a backend of the suite with a planted fault"
    )
    parser.add_argument("--level", type=int, action="append", default=[], help="only this level")
    parser.add_argument("--case", metavar="ID", action="append", default=[], help="only this case")
    parser.add_argument(
        "--skip", metavar="ID=REASON", action="append", default=[], help="do not run this case"
    )
    parser.add_argument(
        "--claim", metavar="NAME=VALUE", action="append", default=[], help="set a claim"
    )
    parser.add_argument("--seed", type=int, default=0, help="for everything random (default: 0)")
    parser.add_argument("--path", metavar="DIR", help="where the files go (default: temporary)")
    parser.add_argument("--report", metavar="DIR", help="write the report there, as JSON and text")
    parser.add_argument("--list", action="store_true", help="show the cases and the mutants")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")


def run(args: argparse.Namespace) -> int:
    try:
        return _list(args) if args.list else _conform(args)
    except UsageError as error:
        raise UserError(str(error), ExitCode.USAGE) from error
    except AdapterFault as error:
        if args.debug and error.trace:
            print(error.trace, file=sys.stderr)
        raise UserError(str(error), ExitCode.FAULT) from error


def _conform(args: argparse.Namespace) -> int:
    spec, claims, options = _backend(args), _claims(args), _options(args)
    total = len(select(options))
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # where `package.module` of the user is
    target: Target = load_target(spec, claims, base=options.path)
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


def _backend(args: argparse.Namespace) -> str:
    if args.mutant is None:
        if args.backend is None:
            raise UsageError("name a backend: disk, nil or package.module:factory")
        return str(args.backend)
    if args.backend is not None:
        raise UsageError("name a backend or a mutant, not both")
    mutant = find_mutant(args.mutant)
    if mutant is None:
        raise unknown("mutant", args.mutant, [it.name for it in all_mutants()])
    return mutant.spec


def _claims(args: argparse.Namespace) -> dict[str, object]:
    return {name: value for text in args.claim for name, value in parse_claim(text).items()}


def _options(args: argparse.Namespace) -> Options:
    skip = {}
    for text in args.skip:
        case_id, equals, reason = text.partition("=")
        if not reason.strip():
            raise UsageError(f"--skip takes a case and the reason: --skip {case_id}=REASON")
        skip[case_id] = reason.strip()
    if args.path is not None:
        _make_writable(Path(args.path))
    known = [it.id for it in all_cases()]
    for case_id in [*args.case, *skip]:
        if case_id not in known:
            hint = nearest(case_id, known)
            raise UsageError(
                f"no case named {case_id!r}{hint} (lychgate conform --list shows them)"
            )
    path = None if args.path is None else os.path.abspath(args.path)
    replay = [word for text in args.claim for word in ("--claim", text)]
    replay += [] if path is None else ["--path", path]
    return Options(tuple(args.level), tuple(args.case), skip, args.seed, path, tuple(replay))


def _make_writable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        what = f"--path {path} cannot be written to ({error.strerror}): name another directory"
        raise UserError(what, ExitCode.FAULT) from error


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


def _list(args: argparse.Namespace) -> int:
    cases = select(Options(tuple(args.level), tuple(args.case)))
    mutants = all_mutants()
    if args.json:
        print_json(
            {
                "cases": [
                    {
                        "id": it.id,
                        "level": it.level,
                        "title": it.title,
                        "requires": list(it.requires),
                        "needs": list(it.needs),
                        "mutants": [other.name for other in mutants if it.id in other.kills],
                    }
                    for it in cases
                ],
                "mutants": [
                    {"name": it.name, "fault": it.fault, "kills": list(it.kills)} for it in mutants
                ],
            }
        )
        return ExitCode.OK
    rows = [(it.id, it.title, ", ".join(it.requires)) for it in cases]
    print(table(("case", "promise", "requires"), rows))
    print()
    print(table(("mutant", "fault"), [(it.name, it.fault) for it in mutants]))
    return ExitCode.OK
