"""Recomputing a verdict from a report: is what it says at the top what its cases say?

A report is a file that anybody may edit, so nothing but its list of cases is believed; counts,
executed ids, stale expectations, verdict and exit code follow from that list. What was to be run
follows from the selection, if this is the suite that the report names.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from lychgate_conformance._case import all_cases, suite_digest
from lychgate_conformance._report import EXECUTED, run_code, stale, verdict_word
from lychgate_conformance._runner import Options, select
from lychgate_conformance._schema import load
from lychgate_conformance._verdict import UsageError, Verdict


def read_report(path: Path) -> Any:
    """A report from a file. UsageError when it is none."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    problem = load("report-1").problem(report)
    if problem is not None:
        raise UsageError(f"{path} is no report of this suite: {problem}")
    return report


def faults(report: Any) -> list[str]:
    """What does not agree; nothing when the verdict stands."""
    results = [(it["id"], Verdict(it["verdict"])) for it in report["results"]]
    expected = report["expected"]
    counted = Counter(verdict for _, verdict in results)
    code = run_code(results, expected, report["complete"])
    recomputed = {
        "counts": {verdict.value: counted[verdict] for verdict in Verdict},
        "executed": [case_id for case_id, verdict in results if verdict in EXECUTED],
        "stale": stale(results, expected),
        "exit_code": int(code),
        "verdict": verdict_word(code),
    }
    found = [
        f"{name} is {report[name]!r}; its cases say {value!r}"
        for name, value in recomputed.items()
        if report[name] != value
    ]
    ids = Counter(case_id for case_id, _ in results)
    found += [f"{case_id} stands {count} times" for case_id, count in ids.items() if count > 1]
    for result in report["results"]:
        if result["expected"] != expected.get(result["id"]):
            found.append(f"{result['id']}: its expectation is not the one of the run")
    return found + _missing(report, set(ids))


def same_suite(report: Any) -> bool:
    """Whether the report is by the suite that is installed here."""
    return bool(report["suite"]["digest"] == suite_digest())


def _missing(report: Any, present: set[str]) -> list[str]:
    """Cases that a complete run of this suite has, and the report has not."""
    if not same_suite(report):
        return []
    selection = report["selection"]
    profile = report["backend"]["claims"].get("profile", "tasks")
    chosen = Options(
        levels=tuple(selection["levels"]), case_ids=tuple(selection["cases"]), profile=profile
    )
    try:
        wanted = {it.id for it in select(chosen)}
    except UsageError as error:
        return [f"its selection: {error}"]
    found = [f"{it} is no case of this suite" for it in sorted(present - known_ids())]
    if report["complete"] and wanted - present:
        left = sorted(wanted - present)
        found.append(f"it says that it is complete; {len(left)} cases are missing, {left[0]} …")
    return found


def known_ids() -> set[str]:
    return {it.id for it in all_cases()}
