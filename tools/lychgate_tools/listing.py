"""`lychgate list`: the cases, the mutants and the claims of the conformance suite."""

from __future__ import annotations

import argparse
from typing import Any

from lychgate_conformance import Options, UsageError
from lychgate_conformance._case import LEVELS, suite_digest
from lychgate_conformance._claims import PROFILES, as_mapping
from lychgate_conformance._runner import select
from lychgate_conformance.mutants import all_mutants
from lychgate_tools.ui import ExitCode, Subparsers, UserError, add_command, print_json, table

_SUMMARY = "list the cases of the conformance suite, and its mutants"
_EXAMPLE = """lychgate list --level 1
  lychgate list --profile delivery --json"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "list", _SUMMARY, _EXAMPLE)
    parser.add_argument("--level", type=int, action="append", default=[], help="only this level")
    parser.add_argument("--case", metavar="ID", action="append", default=[], help="only this case")
    parser.add_argument(
        "--profile", choices=sorted(PROFILES), help="only cases for task stores, or for queues"
    )


def run(args: argparse.Namespace) -> int:
    try:
        profile = getattr(args, "profile", None)
        listed = as_json(Options(tuple(args.level), tuple(args.case), profile))
    except UsageError as error:
        raise UserError(str(error), ExitCode.USAGE) from error
    if args.json:
        print_json(listed)
        return ExitCode.OK
    rows = [(it["id"], it["title"], ", ".join(it["requires"])) for it in listed["cases"]]
    print(table(("case", "promise", "requires"), rows))
    print()
    print(table(("mutant", "fault"), [(it["name"], it["fault"]) for it in listed["mutants"]]))
    return ExitCode.OK


def as_json(options: Options) -> dict[str, Any]:
    """Everything that can be listed, as plain values."""
    cases = select(options)
    ids = {it.id for it in cases}
    mutants = [it for it in all_mutants() if not options.profile or ids & {*it.kills}]
    return {
        "suite": {"digest": suite_digest()},
        "levels": [{"level": level, "name": name} for level, name in LEVELS.items()],
        "claims": as_mapping(PROFILES[options.profile or "tasks"]),
        "cases": [
            {
                "id": it.id,
                "level": it.level,
                "profile": it.profile,
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
