"""`lychgate replay` for plans of the crash lab: one run again, step by step.

A plan is the JSON text that `lychgate explore` and `lychgate mutants engine --json` print. With
`--mutant NAME` and no plan, the run that is known to show that mutant is found, shrunk and shown;
with both, the plan is run on that mutant (`engine` is the engine as it is).
"""

from __future__ import annotations

from pathlib import Path

from lychgate_conformance.lab._hunt import ENGINE, MUTANTS, find_mutant, led, shrunk, target_named
from lychgate_conformance.lab._plan import Plan, parse_plan
from lychgate_conformance.lab._replay import replay
from lychgate_tools.page import from_lab, output
from lychgate_tools.ui import ExitCode, UserError, print_json, unknown


def is_plan(text: str | None) -> bool:
    """Whether an argument of `lychgate replay` is a plan, and not the path of a report."""
    return text is not None and text.lstrip().startswith("{")


def run(plan_text: str | None, mutant: str | None, as_json: bool, page: str | None = None) -> int:
    """Replay a plan, a mutant's own run, or a plan on a mutant; `page` is where to show it."""
    known = [ENGINE, *(one.name for one in MUTANTS)]
    if mutant is not None and mutant not in known:
        raise unknown("mutant", mutant, known)
    try:
        plan = _plan(plan_text, mutant)
        target = target_named(mutant or plan.target, plan.setting)
    except ValueError as error:
        raise UserError(str(error), ExitCode.USAGE) from error
    said: list[str] = []
    try:
        if page is not None:
            output.write(from_lab.document(plan, target), Path(page))
        text = replay(plan, target, said.append if as_json else print)
    except (LookupError, IndexError) as error:
        what = error.args[0] if isinstance(error, LookupError) and error.args else "other steps"
        raise UserError(
            f"this run goes another way than its plan says: {what}", ExitCode.SHORT
        ) from error
    if as_json:
        print_json({"plan": str(plan), "target": target.name, "broken": text or None, "run": said})
    else:
        print(f"BROKEN {text}" if text else "nothing is broken")
    return ExitCode.SHORT if text else ExitCode.OK


def _plan(text: str | None, mutant: str | None) -> Plan:
    if text is not None:
        return parse_plan(text)
    if mutant is None or mutant == ENGINE:
        raise ValueError("name a report, a plan, or a mutant with --mutant")
    kill = shrunk(led(find_mutant(mutant)))
    if kill.finding is None:
        raise ValueError(f"no run is known that shows {mutant}")
    return kill.finding.plan
