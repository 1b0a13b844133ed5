"""The report of a run: one object, from which every form is made.

The JSON form is for machines and for keeping: it names its schema, the digest of the suite that
said so, the seed, the versions and every case with its verdict, so that a verdict can be recomputed
from it. Times stand in fields of their own; everything else is the same for the same seed and the
same versions.
"""

from __future__ import annotations

import platform
import shlex
import sys
from collections import Counter
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from lychgate_conformance._case import LEVELS, Case, all_cases, suite_digest
from lychgate_conformance._claims import Claims, as_mapping
from lychgate_conformance._verdict import ExitCode, Verdict, exit_code

SCHEMA = "lychgate-conformance/1"

_TROUBLE = (Verdict.FAIL, Verdict.HARNESS_ERROR, Verdict.INCONCLUSIVE, Verdict.NOT_MEASURED)


@dataclass(frozen=True, slots=True)
class Result:
    """How one case ended, and the command that does it again."""

    case: Case
    verdict: Verdict
    message: str
    trace: str
    seconds: float
    replay: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is said about one run."""

    backend: str
    type_name: str
    claims: Claims
    declared: bool
    seed: int
    results: tuple[Result, ...]
    complete: bool
    seconds: float

    @property
    def exit_code(self) -> ExitCode:
        """A run that was cut short is never conformant."""
        code = exit_code(result.verdict for result in self.results)
        if code is ExitCode.CONFORMANT and not self.complete:
            return ExitCode.INCONCLUSIVE
        return code

    def counts(self, level: int | None = None) -> dict[Verdict, int]:
        """How many cases ended how; of one level or of all."""
        chosen = [it for it in self.results if level in (None, it.case.level)]
        counted = Counter(it.verdict for it in chosen)
        return {verdict: counted[verdict] for verdict in Verdict}

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        tried = [it for it in self.results if it.verdict is Verdict.PASS]
        if not self.complete:
            return f"{self.backend}: interrupted after {len(self.results)} cases"
        match self.exit_code:
            case ExitCode.CONFORMANT:
                return f"{self.backend} keeps every promise that was tried ({len(tried)} cases)"
            case ExitCode.NOT_CONFORMANT:
                failed = self.counts()[Verdict.FAIL]
                return f"{self.backend} breaks a promise in {failed} of {len(self.results)} cases"
            case ExitCode.FAULT:
                return f"{self.backend}: the suite itself failed; see the harness errors"
            case _:
                return f"{self.backend}: not everything that is claimed could be tried"


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain values."""
    return {
        "schema": SCHEMA,
        "suite": {"version": _version(), "digest": suite_digest(), "cases": len(all_cases())},
        "versions": {
            "python": platform.python_version(),
            "implementation": sys.implementation.name,
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        },
        "backend": {
            "name": report.backend,
            "type": report.type_name,
            "claims_declared": report.declared,
            "claims": as_mapping(report.claims),
        },
        "seed": report.seed,
        "complete": report.complete,
        "exit_code": int(report.exit_code),
        "verdict": report.exit_code.name.lower().replace("_", " "),
        "counts": {verdict.value: count for verdict, count in report.counts().items()},
        "executed": [it.case.id for it in report.results if it.verdict in _EXECUTED],
        "results": [_result_json(it) for it in report.results],
        "seconds": round(report.seconds, 3),
    }


_EXECUTED = (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.HARNESS_ERROR)


def _result_json(result: Result) -> dict[str, Any]:
    return {
        "id": result.case.id,
        "level": result.case.level,
        "title": result.case.title,
        "requires": list(result.case.requires),
        "needs": list(result.case.needs),
        "verdict": result.verdict.value,
        "message": result.message,
        "replay": shlex.join(result.replay),
        "seconds": round(result.seconds, 4),
    }


def _version() -> str:
    try:
        return metadata.version("lychgate")
    except metadata.PackageNotFoundError:
        return "not installed"


def as_text(report: Report, debug: bool = False) -> str:
    """The report for a person: trouble in full, the rest in a table, the verdict last."""
    lines: list[str] = []
    for result in report.results:
        if result.verdict in _TROUBLE:
            lines += _trouble(result, debug)
    if skipped := [it for it in report.results if it.verdict is Verdict.SKIPPED]:
        lines += ["skipped by user:", *(f"  {it.case.id}  {it.message}" for it in skipped), ""]
    lines += _not_claimed(report)
    lines += _table(report)
    if not report.declared:
        lines.append("The backend declares no claims, so it was held to the plain contract.")
    lines.append(f"{report.sentence}; seed {report.seed}, {report.seconds:.1f} s")
    return "\n".join(lines)


def replay(result: Result) -> str:
    """The line that tells how to do a case again."""
    return f"replay: {shlex.join(result.replay)}"


def _trouble(result: Result, debug: bool) -> list[str]:
    lines = [
        f"{result.verdict.value.upper()}  {result.case.id}  {result.case.title}"
        f"  [{', '.join(result.case.requires)}]",
        f"  {result.message}",
        f"  {replay(result)}",
    ]
    if debug and result.trace:
        lines += [f"  | {line}" for line in result.trace.rstrip().splitlines()]
    return [*lines, ""]


def _not_claimed(report: Report) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for result in report.results:
        if result.verdict is Verdict.NOT_CLAIMED:
            by_reason.setdefault(result.message, []).append(result.case.id)
    lines = [f"{reason}: {len(ids)} cases, {ids[0]} …" for reason, ids in by_reason.items()]
    return [*lines, ""] if lines else []


def _table(report: Report) -> list[str]:
    rows = [("level", *(verdict.value for verdict in Verdict))]
    for level, name in LEVELS.items():
        counts = report.counts(level)
        if any(counts.values()):
            rows.append((f"{level} {name}", *(str(counts[verdict] or "-") for verdict in Verdict)))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ] + [""]
