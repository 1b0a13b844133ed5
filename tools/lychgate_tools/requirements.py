"""`lychgate requirements`: from each requirement to what states, keeps, tests and attacks it.

The table is gathered from what the files of the checkout say (`traceability.py`). `--write` makes
docs/traceability.md of it, a few names for each; an id shows all of them. `--check` finds gaps, and
what the page says that is not so; names that it does not have yet are no fault.

Exit codes: 0 no gap; 1 a gap, or a page that is not true; 2 there is no checkout here; 4 usage.
"""

from __future__ import annotations

import argparse
import re

from lychgate_tools.spec_dir import checkout
from lychgate_tools.traceability import (
    COLUMNS,
    Cited,
    Requirements,
    gaps,
    gather,
    read_requirements,
    stale,
)
from lychgate_tools.ui import (
    ExitCode,
    Subparsers,
    UserError,
    add_command,
    print_json,
    table,
    unknown,
)

_SUMMARY = "from each requirement to its spec, engine function, test, case and mutant"
_EXAMPLE = """lychgate requirements D17
  lychgate requirements --check
  lychgate requirements --write"""

PAGE = "docs/traceability.md"
_SHOWN = 3

_HEAD = f"""# Traceability

From each [requirement](requirements.md) to what states it, keeps it, tests it and attacks it. Made
by `lychgate requirements --write` from what the files say of themselves: comments of the spec,
docstrings of engine and tests, the registry of the cases, the promises of the mutants. At most
{_SHOWN} names each, those first that speak of little else; `lychgate requirements D17` shows all. A
test fails where a column is empty without a
[reason](requirements.md#what-is-not-everywhere), and where this page says what is not so.

"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "requirements", _SUMMARY, _EXAMPLE)
    parser.add_argument("ids", metavar="ID", nargs="*", help="show everything about these")
    parser.add_argument("--check", action="store_true", help="fail on a gap")
    parser.add_argument("--write", action="store_true", help=f"make {PAGE}")


def run(args: argparse.Namespace) -> int:
    root = checkout()
    if root is None:
        raise UserError(
            "this needs the checkout, with its tests and docs: run it from there",
            ExitCode.INCONCLUSIVE,
        )
    known = read_requirements(root / "docs" / "requirements.md")
    cited = gather(root)
    for one in args.ids:
        if one not in known.text:
            raise unknown("requirement", one, known.text)
    if args.write:
        (root / PAGE).write_text(page(known, cited), encoding="utf-8")
    problems = gaps(known, cited) if args.check or not args.ids else []
    if args.check:
        problems += stale(known, cited)
        problems += untrue((root / PAGE).read_text(encoding="utf-8"), known, cited)
    _show(args, known, cited, problems)
    return ExitCode.SHORT if problems else ExitCode.OK


def _show(
    args: argparse.Namespace, known: Requirements, cited: dict[str, Cited], problems: list[str]
) -> None:
    ids = args.ids or list(known.text)
    if args.json:
        rows = {
            one: {
                "text": known.text[one],
                **{column: cited[column].get(one, []) for column in COLUMNS},
                "lacks": {at: why for (it, at), why in known.lacks.items() if it == one},
            }
            for one in ids
        }
        print_json({"requirements": rows, "problems": problems})
        return
    if args.ids:
        print("\n".join(line for one in ids for line in _everything(one, known, cited)))
    elif not args.check:
        counts = ([one, *(len(cited[at].get(one, [])) for at in COLUMNS)] for one in ids)
        print(table(("requirement", *COLUMNS), counts))
    for problem in problems:
        print(problem)
    if not args.ids:
        print(f"{len(ids)} requirements, {len(problems)} problems")


def _everything(one: str, known: Requirements, cited: dict[str, Cited]) -> list[str]:
    lines = [f"{one}: {known.text[one]}"]
    for column in COLUMNS:
        lines.append(f"  {column}")
        names = cited[column].get(one, [])
        why = known.lacks.get((one, column), "")
        lines += [f"    {name}" for name in names] or [f"    - {why}"]
    return lines


# --- the page ---------------------------------------------------------------------------------


def page(known: Requirements, cited: dict[str, Cited]) -> str:
    """docs/traceability.md."""
    lines = [f"| | {' | '.join(COLUMNS)} |", "| --- " * (len(COLUMNS) + 1) + "|"]
    for one in known.text:
        cells = [_cell(cited[column].get(one, [])) for column in COLUMNS]
        lines.append(f"| {one} | {' | '.join(cells)} |")
    return _HEAD + "\n".join(lines) + "\n"


def _cell(names: list[str]) -> str:
    shown = [f"`{name}`" for name in names[:_SHOWN]]
    return "<br>".join([*shown, *(["…"] if len(names) > _SHOWN else [])]) or "–"


def untrue(text: str, known: Requirements, cited: dict[str, Cited]) -> list[str]:
    """What the page says and the files do not."""
    rows = dict(re.findall(r"(?m)^\| ([A-Z]\d+) \| (.+) \|$", text))
    problems = [f"{PAGE} lacks {one}: --write" for one in known.text if one not in rows]
    for one, row in rows.items():
        for column, cell in zip(COLUMNS, row.split(" | "), strict=True):
            names = cited[column].get(one, [])
            for name in re.findall(r"`([^`]+)`", cell):
                if name not in names:
                    problems.append(f"{PAGE}: {one} is not cited by {name} ({column}): --write")
            if cell == "–" and names:
                problems.append(f"{PAGE}: {one} has a {column} by now: --write")
    return problems
