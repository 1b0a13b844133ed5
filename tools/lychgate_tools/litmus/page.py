"""docs/litmus.md: what real file systems left, when, on which kernel. A test reads it again."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence

from lychgate_conformance.lab._litmus import Litmus
from lychgate_tools.litmus.blocklog import Bounds
from lychgate_tools.litmus.filesystems import mkfs_version
from lychgate_tools.litmus.report import EMPTY, HEADERS, Run, bound, rows

_INTRODUCTION = """# Litmus programs on real file systems

Written by `lychgate litmus --write docs/litmus.md`; do not edit. A test reads this page and holds
every state in it against the models again. The [guide](guide.md) says how to repeat it.

Each program runs on a real file system whose block device logs every write and every flush; then
images that a crash may leave are built from the log, mounted and read. `seen` are the distinct
states after the last step; `1000a+500.` is a thousand `a` and five hundred NULs, `g=f` a second
name of f, `z` an old block of somebody else's. The models are those of the crash lab. A state
outside its model is an error of the model; a state of a model that was never seen is not: the
search is bounded. `portable`, the model of the verdict, must hold what ext4, xfs and btrfs leave as
well; not what ext4 leaves with `data=writeback` ([decision 14](decisions.md)). An image is mounted
only if no earlier one has the same content in all blocks that were read then.
"""

_ROW = re.compile(r"^\| (?P<system>[\w-]+) \| (?P<states>`.*`) \| \d+ of \d+ \|$")
_HEADING = re.compile(r"^### (?P<name>[\w-]+)$")


def page(runs: Sequence[Run], bounds: Bounds) -> str:
    """The page of these runs."""
    tools = dict.fromkeys(mkfs_version(run.system) for run in runs)
    kernel = os.uname()
    lines = [
        _INTRODUCTION,
        f"Measured on {time.strftime('%Y-%m-%d')}: {kernel.sysname} {_plain(kernel.release)}, "
        f"{kernel.machine}; {', '.join(tools)}.",
        "",
        f"Tried {bound(bounds)}. The table counts images that differ; `untried` are choices for",
        "which there was no time.",
        "",
        _row(HEADERS),
        _row(["---"] * len(HEADERS)),
        *(_row([_number(cell) for cell in row]) for row in rows(runs)),
        "",
        "## States",
        "",
    ]
    for litmus in _programs(runs):
        lines += _section(litmus, runs)
    return "\n".join(lines)


def _plain(release: str) -> str:
    """A kernel's version without what its builder called it."""
    found = re.match(r"\d+(\.\d+)*", release)
    return found[0] if found else release


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _programs(runs: Sequence[Run]) -> list[Litmus]:
    every = [verdict.litmus for run in runs for verdict in run.verdicts]
    return list({litmus.name: litmus for litmus in every}.values())


def _section(litmus: Litmus, runs: Sequence[Run]) -> Iterator[str]:
    yield f"### {litmus.name}"
    yield ""
    yield f"`{litmus.files or EMPTY}` → `{litmus.steps}`"
    yield ""
    yield "| file system | seen | of the model's |"
    yield "| --- | --- | --- |"
    for run in runs:
        for verdict in run.verdicts:
            if verdict.litmus.name == litmus.name:
                states = " · ".join(f"`{state or EMPTY}`" for state in sorted(verdict.seen))
                every = len(verdict.modelled)
                yield f"| {run.system.name} | {states} | {every - len(verdict.unseen)} of {every} |"
    yield ""


def read_page(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Program, file system and the states seen, for each row of a page."""
    name = ""
    for line in text.splitlines():
        heading, row = _HEADING.match(line), _ROW.match(line)
        if heading:
            name = heading["name"]
        elif row:
            states = re.findall(r"`([^`]*)`", row["states"])
            yield name, row["system"], ["" if state == EMPTY else state for state in states]
