"""What exploration found, as words and as JSON; one place for every front."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lychgate_conformance.lab._campaign import PartResult
from lychgate_conformance.lab._explore import Finding
from lychgate_conformance.lab._replay import command, replay
from lychgate_conformance.lab._shrink import shrink
from lychgate_conformance.lab._target import Target

_SHRINK_S = 60.0


def line(result: PartResult) -> str:
    """One part in one line, and a line for everything that was left out."""
    totals = result.totals
    words = (
        f"{result.part.name:22} {totals.workloads:6} workloads {totals.runs:8} runs "
        f"{totals.states:9} states {totals.images:10} images {totals.recoveries:8} recoveries "
        f"{len(totals.findings):3} findings {result.seconds:7.1f} s"
    )
    if totals.distinct:
        words += f"\n    {totals.distinct} images differ in content from all before"
    return words + "".join(f"\n    PARTIAL: {text}" for text in result.partial)


def fields(result: PartResult) -> dict[str, object]:
    """One part as a JSON value."""
    totals = result.totals
    return {
        "part": result.part.name,
        "workloads": totals.workloads,
        "runs": totals.runs,
        "steps": totals.steps,
        "states": totals.states,
        "choices": totals.choices,
        "images": totals.images,
        "distinct": totals.distinct,
        "recoveries": totals.recoveries,
        "seconds": round(result.seconds, 3),
        "partial": result.partial,
        "findings": [
            {"text": found.text, "plan": str(found.plan), "replay": command(found.plan)}
            for found in totals.findings
        ],
    }


def smaller(result: PartResult, target: Target, seconds: float = _SHRINK_S) -> None:
    """Put the smallest run in the place of every finding of a part."""
    bounds = replace(result.part.bounds, seconds=seconds)
    found = result.totals.findings
    found[:] = [shrink(finding, target, bounds) for finding in found]


def tell(finding: Finding, target: Target, say: Callable[[str], None]) -> None:
    """A finding: what is broken, every step of the run, the image, and the command for it."""
    say(f"BROKEN {finding.text}\n  workload {finding.plan.workload}")
    if finding.plan.fault is not None:
        say(f"  fault {finding.plan.fault}")
    replay(finding.plan, target, say)
    say(f"replay: {command(finding.plan)}")
