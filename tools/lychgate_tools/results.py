"""`lychgate results`: the page docs/results.md, made and checked.

It has two parts, each between marks of its own, so that one can be made again without the other:
other people's stores under the suite, and the suite's own mutants. Apart from dates, times and
versions the same seed gives the same page.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lychgate_conformance.adapters.third_party import all_stores, spec
from lychgate_tools import mutants_suite, results_page
from lychgate_tools.pool import each
from lychgate_tools.results_run import Held, hold
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    print_json,
    unknown,
)

PARTS = ("stores", "mutants")
_SUMMARY = "hold other people's stores and the suite's mutants to the suite; write the page of it"
_EXAMPLE = """lychgate results --check docs/results.md
  lychgate results --write docs/results.md
  lychgate results --part stores --store litequeue_store:Full
  lychgate results --part mutants --write docs/results.md --jobs 2

`--write` replaces the parts that were made and keeps the rest of the page. A finding in a store
is no failure of this command.

exit codes:
  0 the page is whole   1 it is not, or a mutant survives   2 a store is missing   4 usage"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "results", _SUMMARY, _EXAMPLE)
    parser.add_argument("--write", metavar="FILE", help="put the parts into this page")
    parser.add_argument("--check", metavar="FILE", help="only see whether this page is whole")
    parser.add_argument("--part", choices=PARTS, action="append", default=[], help="only this part")
    parser.add_argument(
        "--store", metavar="MODULE:CLASS", action="append", default=[], help="only this store"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")


def run(args: argparse.Namespace) -> int:
    if args.check is not None:
        return _check(Path(args.check), args.json)
    if args.jobs < 1:
        raise UserError("--jobs is a number of processes, at least 1", ExitCode.USAGE)
    names = _names(args.store)
    if args.store and args.write:
        raise UserError("--store shows a store; the page is written of all", ExitCode.USAGE)
    parts = args.part or (["stores"] if args.store else PARTS)
    made: dict[str, str] = {}
    code = ExitCode.OK
    if "stores" in parts:
        held = _hold(names, args.jobs)
        made["stores"] = results_page.stores(held)
        if any(it.version is None for it in held):
            code = ExitCode.INCONCLUSIVE
    if "mutants" in parts:
        score = mutants_suite.plan((), (), quick=False)
        mutants_suite.measure(score, args.jobs, None, quick=False, alone=False)
        made["mutants"] = results_page.mutants(score)
        code = code or score.exit_code
    if args.write is not None:
        path = Path(args.write)
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(results_page.put(before, made), encoding="utf-8")
    if args.json:
        print_json({"exit_code": int(code), "parts": made})
    elif args.write is None:
        print("\n".join(made.values()))
    return code


def _names(wanted: list[str]) -> list[str]:
    known = [spec(it) for it in all_stores()]
    short = {it.rpartition(".")[2]: it for it in known}
    for name in wanted:
        if name not in short and name not in known:
            raise unknown("store", name, short)
    return [short.get(name, name) for name in wanted] or known


def _hold(names: list[str], jobs: int) -> list[Held]:
    found: dict[str, Held] = {}
    with Progress("results", len(names), "stores") as progress:
        for done, held in enumerate(each(names, hold, jobs, None)):
            found[held.spec] = held
            progress.update(done + 1, held.spec.rpartition(".")[2])
    return [found[name] for name in names]


def _check(path: Path, as_json: bool) -> int:
    try:
        problems = results_page.problems(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", ExitCode.FAULT) from error
    if as_json:
        print_json({"page": str(path), "problems": problems})
    else:
        print("\n".join(problems) or f"{path}: whole")
    return ExitCode.SHORT if problems else ExitCode.OK
