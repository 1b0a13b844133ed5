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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from lychgate_conformance._case import LEVELS, Case, all_cases, suite_digest
from lychgate_conformance._claims import Claims, as_mapping
from lychgate_conformance._verdict import ExitCode, Verdict, exit_code
from lychgate_conformance._wire import Json

SCHEMA = "lychgate-conformance/1"

_TROUBLE = (Verdict.FAIL, Verdict.HARNESS_ERROR, Verdict.INCONCLUSIVE, Verdict.NOT_MEASURED)


@dataclass(frozen=True, slots=True)
class Result:
    """How one case ended, and the command that does it again."""

    case: Case
    verdict: Verdict
    message: str
    trace: str
    stderr: str
    seconds: float
    replay: tuple[str, ...]
    expected: str | None = None
    """Why it was known to fail."""
    image: Json = None
    """The image that failed, if it was one (`blackbox._evidence`)."""

    @property
    def untried(self) -> bool:
        """It was never begun."""
        return self.verdict is Verdict.INCONCLUSIVE and self.message.startswith("not tried: ")

    @property
    def known(self) -> bool:
        """It failed, and that was expected."""
        return self.verdict is Verdict.FAIL and self.expected is not None


@dataclass(frozen=True, slots=True)
class Understated:
    """A claim that is lower than what the backend does, and the cases that say so."""

    claim: str
    value: object
    case_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is said about one run."""

    backend: str
    type_name: str
    command: tuple[str, ...]
    """An adapter's; empty for a backend in Python."""
    claims: Claims
    declared: bool
    seed: int
    levels: tuple[int, ...]
    case_ids: tuple[str, ...]
    expected: Mapping[str, str]
    understated: tuple[Understated, ...]
    results: tuple[Result, ...]
    complete: bool
    seconds: float

    @property
    def exit_code(self) -> ExitCode:
        """A run that was cut short is never conformant, nor is one with a stale expectation."""
        return run_code(
            [(it.case.id, it.verdict) for it in self.results], self.expected, self.complete
        )

    @property
    def stale(self) -> dict[str, str]:
        """Expected failures that did not fail, and how their cases ended."""
        return stale([(it.case.id, it.verdict) for it in self.results], self.expected)

    def counts(self, level: int | None = None) -> dict[Verdict, int]:
        """How many cases ended how; of one level or of all."""
        chosen = [it for it in self.results if level in (None, it.case.level)]
        counted = Counter(it.verdict for it in chosen)
        return {verdict: counted[verdict] for verdict in Verdict}

    @property
    def sentence(self) -> str:
        """The verdict in one sentence."""
        tried = [it for it in self.results if it.verdict is Verdict.PASS]
        known = sum(it.known for it in self.results)
        failed = self.counts()[Verdict.FAIL]
        if not self.complete:
            return f"{self.backend}: interrupted after {len(self.results)} cases"
        match self.exit_code:
            case ExitCode.CONFORMANT if known:
                return (
                    f"{self.backend} breaks a promise in {known} cases, all of them expected, "
                    f"and keeps the others that were tried ({len(tried)} cases)"
                )
            case ExitCode.CONFORMANT:
                return f"{self.backend} keeps every promise that was tried ({len(tried)} cases)"
            case ExitCode.NOT_CONFORMANT if self.stale and failed == known:
                return f"{self.backend}: {len(self.stale)} expected failures did not fail"
            case ExitCode.NOT_CONFORMANT:
                also = f", {known} of them expected" if known else ""
                total = len(self.results)
                return f"{self.backend} breaks a promise in {failed} of {total} cases{also}"
            case ExitCode.FAULT:
                return f"{self.backend}: the adapter or the suite failed; see the harness errors"
            case _:
                return f"{self.backend}: not everything that is claimed could be tried"


def run_code(
    verdicts: Sequence[tuple[str, Verdict]], expected: Mapping[str, str], complete: bool
) -> ExitCode:
    """What a run amounts to: its cases with their verdicts, and what was expected to fail."""
    counted = [
        Verdict.PASS if verdict is Verdict.FAIL and case_id in expected else verdict
        for case_id, verdict in verdicts
    ]
    code = exit_code(counted)
    if code is not ExitCode.NOT_CONFORMANT and stale(verdicts, expected):
        return ExitCode.NOT_CONFORMANT
    if code is ExitCode.CONFORMANT and not complete:
        return ExitCode.INCONCLUSIVE
    return code


def verdict_word(code: ExitCode) -> str:
    """An exit code as a report names it: `not conformant`."""
    return code.name.lower().replace("_", " ")


def stale(
    verdicts: Sequence[tuple[str, Verdict]], expected: Mapping[str, str]
) -> dict[str, str]:
    """Expectations of failure whose case passed, or is not even claimed any more."""
    over = (Verdict.PASS, Verdict.NOT_CLAIMED)
    return {
        case_id: verdict.value
        for case_id, verdict in verdicts
        if case_id in expected and verdict in over
    }


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
            "command": list(report.command),
            "claims": as_mapping(report.claims),
            "understated": [
                {"claim": it.claim, "value": it.value, "cases": list(it.case_ids)}
                for it in report.understated
            ],
        },
        "selection": {"levels": list(report.levels), "cases": list(report.case_ids)},
        "expected": dict(report.expected),
        "stale": report.stale,
        "seed": report.seed,
        "complete": report.complete,
        "exit_code": int(report.exit_code),
        "verdict": verdict_word(report.exit_code),
        "counts": {verdict.value: count for verdict, count in report.counts().items()},
        "executed": [it.case.id for it in report.results if it.verdict in EXECUTED],
        "results": [_result_json(it) for it in report.results],
        "seconds": round(report.seconds, 3),
    }


EXECUTED = (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.HARNESS_ERROR)


def _result_json(result: Result) -> dict[str, Any]:
    return {
        "id": result.case.id,
        "level": result.case.level,
        "title": result.case.title,
        "requires": list(result.case.requires),
        "needs": list(result.case.needs),
        "verdict": result.verdict.value,
        "message": result.message,
        "expected": result.expected,
        "stderr": result.stderr[-4000:],
        "replay": shlex.join(result.replay),
        "seconds": round(result.seconds, 4),
        **({"image": result.image} if result.image is not None else {}),
    }


def _version() -> str:
    try:
        return metadata.version("lychgate")
    except metadata.PackageNotFoundError:
        return "not installed"


def as_text(report: Report, debug: bool = False) -> str:
    """The report for a person: trouble in full, the rest in a table, the verdict last."""
    lines: list[str] = []
    lines += _untried(report)
    for result in report.results:
        if result.verdict in _TROUBLE and not result.untried:
            lines += _trouble(result, debug)
    for case_id, how in report.stale.items():
        lines += [f"STALE  {case_id}  expected to fail ({report.expected[case_id]}): {how}", ""]
    if skipped := [it for it in report.results if it.verdict is Verdict.SKIPPED]:
        lines += ["skipped by user:", *(f"  {it.case.id}  {it.message}" for it in skipped), ""]
    lines += _not_claimed(report)
    lines += _partial(report)
    lines += _table(report)
    for it in report.understated:
        value = "yes" if it.value is True else it.value
        lines.append(f"It claims less than it does: {it.claim}={value} ({', '.join(it.case_ids)})")
    if not report.declared:
        lines.append("The backend declares no claims, so it was held to the plain contract.")
    lines.append(f"{report.sentence}; seed {report.seed}, {report.seconds:.1f} s")
    return "\n".join(lines)


def _partial(report: Report) -> list[str]:
    """Passes of which not everything was looked at, with the bounds that cut something."""
    cut = [
        f"  {it.case.id}  {it.message}"
        for it in report.results
        if it.verdict is Verdict.PASS and "PARTIAL" in it.message
    ]
    return ["PARTIAL, passed as far as they were looked at:", *cut, ""] if cut else []


def replay(result: Result) -> str:
    """The line that tells how to do a case again."""
    return f"replay: {shlex.join(result.replay)}"


def _trouble(result: Result, debug: bool) -> list[str]:
    word = "KNOWN FAIL" if result.known else result.verdict.value.upper()
    lines = [
        f"{word}  {result.case.id}  {result.case.title}  [{', '.join(result.case.requires)}]",
        *(f"  {line}" for line in result.message.splitlines() or [""]),
        *([f"  expected: {result.expected}"] if result.known else []),
        *(f"  stderr | {ascii(it)[1:-1][:300]}" for it in result.stderr.splitlines()[-3:]),
        f"  {replay(result)}",
    ]
    if debug and result.trace:
        lines += [f"  | {line}" for line in result.trace.rstrip().splitlines()]
    return [*lines, ""]


def _untried(report: Report) -> list[str]:
    left = [it for it in report.results if it.untried]
    return [f"{left[0].message}: {len(left)} cases, {left[0].case.id} …", ""] if left else []


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
