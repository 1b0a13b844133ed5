"""What `lychgate litmus` prints: figures, and each state outside its model with what led to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lychgate_tools.litmus.blocklog import Bounds
from lychgate_tools.litmus.filesystems import FileSystem
from lychgate_tools.litmus.judge import Outside, Verdict
from lychgate_tools.litmus.real import variants
from lychgate_tools.ui import colour, seconds, table

SCHEMA = "lychgate-litmus-1"
_UNSEEN_MAX = 6


@dataclass(frozen=True, slots=True)
class Run:
    """All programs on one file system."""

    system: FileSystem
    verdicts: tuple[Verdict, ...]
    seconds: float

    @property
    def images(self) -> int:
        return sum(verdict.images for verdict in self.verdicts)

    @property
    def mounts(self) -> int:
        return sum(verdict.mounts for verdict in self.verdicts)

    @property
    def untried(self) -> int:
        return sum(verdict.untried for verdict in self.verdicts)

    @property
    def seen(self) -> int:
        return sum(len(verdict.seen) for verdict in self.verdicts)

    @property
    def modelled(self) -> int:
        return sum(len(verdict.modelled) for verdict in self.verdicts)

    @property
    def unseen(self) -> int:
        return sum(len(verdict.unseen) for verdict in self.verdicts)

    @property
    def outside(self) -> list[tuple[Verdict, Outside]]:
        return [(verdict, one) for verdict in self.verdicts for one in verdict.outside]


HEADERS = (
    "file system", "model", "programs", "images", "mounts", "mounts/s", "seen", "modelled",
    "never seen", "outside", "untried", "time",
)  # fmt: skip


def rows(runs: Sequence[Run]) -> list[tuple[object, ...]]:
    """The figures of each file system."""
    return [
        (
            run.system.name,
            run.system.model,
            len(run.verdicts),
            run.images,
            run.mounts,
            round(run.mounts / run.seconds) if run.seconds else 0,
            run.seen,
            run.modelled,
            run.unseen,
            len(run.outside),
            run.untried,
            seconds(run.seconds),
        )
        for run in runs
    ]


def bound(bounds: Bounds) -> str:
    """Which images are tried, in a sentence."""
    return (
        f"of the writes between two flushes: every subset of up to {bounds.exhaustive_max}; of "
        f"more, all prefixes, each one left out or alone, {bounds.sample} pairs left out or alone, "
        f"{bounds.sample} subsets by chance (seed {bounds.seed}); and {2 * bounds.sample} cuts "
        "inside long writes"
    )


def text(runs: Sequence[Run], bounds: Bounds) -> str:
    """The report for a person."""
    lines = [table(HEADERS, rows(runs)), "", f"Tried {bound(bounds)}."]
    for run in runs:
        if run.untried:
            lines.append(
                f"{run.system.name}: PARTIAL, no time for {run.untried:,} of these choices "
                "(--budget gives more)"
            )
    for run in runs:
        for verdict, one in run.outside:
            lines += ["", *_outside(run.system, verdict, one)]
    return "\n".join(lines)


def _outside(system: FileSystem, verdict: Verdict, one: Outside) -> list[str]:
    program = verdict.litmus
    headline = f"OUTSIDE {one.model}: {program.name} on {system.name}: {one.state or EMPTY}"
    return [
        colour(headline, "bad"),
        f"  start    {program.files or EMPTY}",
        f"  program  {program.steps}",
        f"  crash    after step {one.done} of {len(program.program())} had returned; {one.variant}",
        f"  kept     {one.kept}",
        f"  model    {' | '.join(state or EMPTY for state in one.allowed)}",
        *([f"  bounded  {one.partial}"] if one.partial else []),
    ]


EMPTY = "(empty)"


def details(verdict: Verdict) -> str:
    """Seen and unseen states of one program on one file system."""
    seen = " | ".join(sorted(state or EMPTY for state in verdict.seen))
    unseen = sorted(state or EMPTY for state in verdict.unseen)
    more = f" | and {len(unseen) - _UNSEEN_MAX} more" if len(unseen) > _UNSEEN_MAX else ""
    lines = [f"{verdict.litmus.name} on {verdict.system.name}: {seen}"]
    if unseen:
        lines.append(f"  never seen: {' | '.join(unseen[:_UNSEEN_MAX])}{more}")
    return "\n".join(lines)


def to_json(runs: Sequence[Run], bounds: Bounds, exit_code: int) -> dict[str, Any]:
    """The report for a program."""
    return {
        "schema": SCHEMA,
        "exit_code": exit_code,
        "bound": bound(bounds),
        "file_systems": [
            {
                "name": run.system.name,
                "model": run.system.model,
                "in_portable": run.system.in_portable,
                "variants": variants(run.system),
                "seconds": round(run.seconds, 1),
                "programs": [_verdict_to_json(verdict) for verdict in run.verdicts],
            }
            for run in runs
        ],
    }


def _verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "name": verdict.litmus.name,
        "files": verdict.litmus.files,
        "steps": verdict.litmus.steps,
        "images": verdict.images,
        "mounts": verdict.mounts,
        "untried": verdict.untried,
        "seen": sorted(verdict.seen),
        "modelled": len(verdict.modelled),
        "never_seen": sorted(verdict.unseen),
        "outside": [
            {
                "model": one.model,
                "variant": one.variant,
                "steps_done": one.done,
                "state": one.state,
                "writes_kept": one.kept,
                "allowed": list(one.allowed),
                "model_bounded": one.partial,
            }
            for one in verdict.outside
        ],
    }
