"""`lychgate expect`: known failures from a report, each with its reason."""

from __future__ import annotations

import argparse
from pathlib import Path

from lychgate_conformance._expect import expected_of, read_expected, write_expected
from lychgate_conformance._verify import faults, read_report
from lychgate_tools.conform_target import faults_in_words
from lychgate_tools.ui import ExitCode, Subparsers, UserError, add_command, print_json

_SUMMARY = "make or update the list of failures that are known, from a report"
_EXAMPLE = """lychgate expect reports/conform-disk.json --write known.json --reason issue-12
  lychgate expect reports/conform-disk.json --old known.json

The report is one of `lychgate conform … --report DIR`; `lychgate conform … --expect known.json`
then counts these failures as known. Old reasons are kept, cases that pass by now are taken out.
Without --write it shows what would change, and ends with 1 when something would.

exit codes:
  0 nothing to change, or written   1 the list and the report differ   4 usage"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "expect", _SUMMARY, _EXAMPLE)
    parser.add_argument("report", help="a report of `lychgate conform`, as JSON")
    parser.add_argument("--write", metavar="FILE", help="write the list there")
    parser.add_argument("--old", metavar="FILE", help="the list so far (default: --write's file)")
    parser.add_argument("--reason", metavar="TEXT", help="why failures that are new are known")


def run(args: argparse.Namespace) -> int:
    with faults_in_words(debug=False):
        report = read_report(Path(args.report))
        if wrong := faults(report):
            raise UserError(f"{args.report} does not stand: {wrong[0]}", ExitCode.FAULT)
        source = args.old or args.write
        old = read_expected(Path(source)) if source and Path(source).exists() else {}
        reason = args.reason if args.write else args.reason or "(no reason given)"
        reasons, new, gone = expected_of(report, old, reason)
    if args.write:
        try:
            write_expected(Path(args.write), report["backend"]["name"], reasons)
        except OSError as error:
            what = f"{args.write} cannot be written: {error.strerror}"
            raise UserError(what, ExitCode.FAULT) from error
    if args.json:
        print_json({"failures": reasons, "new": new, "gone": gone})
    else:
        for case_id, why in reasons.items():
            print(f"{'new ' if case_id in new else 'kept'}  {case_id}  {why}")
        for case_id in gone:
            print(f"gone  {case_id}  {old[case_id]}")
        print(f"{len(reasons)} known failures, {len(new)} new, {len(gone)} gone")
    changed = bool(new or gone) and not args.write
    return ExitCode.SHORT if changed else ExitCode.OK
