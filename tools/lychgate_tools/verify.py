"""`lychgate verify`: does the verdict of a report follow from its own cases?"""

from __future__ import annotations

import argparse
from pathlib import Path

from lychgate_conformance._verify import faults, read_report, same_suite
from lychgate_tools.conform_target import faults_in_words
from lychgate_tools.ui import ExitCode, Subparsers, add_command, print_json

_SUMMARY = "recompute the verdict of a conformance report from its cases"
_EXAMPLE = """lychgate verify reports/conform-disk.json

It shows that the report agrees with itself and, where this is the suite that it names, that no
case is missing. That it was run at all only a second run can show: `lychgate replay`.

exit codes:
  0 the verdict stands   1 it does not   4 usage"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "verify", _SUMMARY, _EXAMPLE)
    parser.add_argument("report", help="a report of `lychgate conform`, as JSON")


def run(args: argparse.Namespace) -> int:
    with faults_in_words(debug=False):
        report = read_report(Path(args.report))
        wrong = faults(report)
    same = same_suite(report)
    if args.json:
        print_json({"stands": not wrong, "same_suite": same, "faults": wrong})
    else:
        for what in wrong:
            print(f"wrong  {what}")
        if not same:
            print("note   another version of the suite made it: missing cases cannot be seen")
        backend, verdict = report["backend"]["name"], report["verdict"]
        stands = "stands" if not wrong else "does not stand"
        print(f"{backend}: the verdict {verdict!r} {stands}")
    return ExitCode.SHORT if wrong else ExitCode.OK
