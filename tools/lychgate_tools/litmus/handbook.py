"""The tables of docs/crash-handbook.md: what people expect of calls, and who keeps it.

Each line is an expectation, a litmus program and the states that meet the expectation. What real
file systems left is read from docs/litmus.md; what may be relied on everywhere is asked of the
model `portable`. `lychgate litmus --handbook FILE` writes the tables between the two marks of the
page, a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._litmus import Litmus, shown, simulate
from lychgate_conformance.lab._litmus_programs import LITMUS
from lychgate_conformance.lab._models import find_model
from lychgate_tools.litmus.filesystems import FILE_SYSTEMS
from lychgate_tools.litmus.page import read_page

BEGIN = "<!-- made by lychgate litmus --handbook: begin -->"
END = "<!-- made by lychgate litmus --handbook: end -->"
_SHOWN = 2


@dataclass(frozen=True)
class Expectation:
    """What one would like to be true after a crash, and the states in which it is."""

    text: str
    program: str
    states: tuple[str, ...]

    def broken_by(self, seen: Iterable[str]) -> list[str]:
        """The states that do not meet it."""
        return [state for state in seen if state not in self.states]


def _expect(text: str, program: str, *states: str) -> Expectation:
    return Expectation(text, program, states)


GROUPS: tuple[tuple[str, tuple[Expectation, ...]], ...] = (
    ("The content of a file", (
        _expect("an append without fsync is there whole, or not at all",
                "append-in-block", "f=1000a", "f=1000a+500b"),
        _expect("of two appends the second is there only with the first",
                "two-appends", "f=1000a", "f=1000a+500b", "f=1000a+500b+500c"),
        _expect("overwriting inside a block is done whole, or not at all",
                "overwrite-in-block", "f=1000a", "f=500b+500a"),
        _expect("of two files the one changed first is changed first",
                "overwrite-two-files", "f=1000a g=1000a", "f=10b+990a g=1000a",
                "f=10b+990a g=10c+990a"),
        _expect("after fsync the append is there", "append-fsync", "f=1000a+500b"),
        _expect("after fdatasync as well: the size counts as data",
                "append-fdatasync", "f=1000a+500b"),
        _expect("fsync of one file covers an earlier write to another",
                "append-two-files-fsync-second", "f=1000a+100b g=1000a+100c"),
        _expect("a torn tail that is cut, and an append behind it: old, cut or new",
                "tail-repair", "f=1300a", "f=1000a", "f=1000a+100b"),
        _expect("the same with one fsync at the end: new",
                "tail-repair-one-fsync", "f=1000a+100b"),
    )),
    ("Names", (
        _expect("after fsync of a new file its name is there",
                "create-write-fsync", "f=100b"),
        _expect("and so is the name of another that was created before",
                "sibling-created-before", "f=100b x="),
        _expect("and so is the directory that it is in",
                "mkdir-create-fsync-file", "d d/f=100b"),
        _expect("after fsync of the directory the content is there",
                "fsyncdir-only", "f=100b"),
        _expect("after fsync of both, name and content are there",
                "create-write-fsync-fsyncdir", "f=100b"),
        _expect("names go in the order in which they were removed",
                "unlink-no-fsync", "f=1a g=1b", "g=1b", ""),
        _expect("after fsync of the directory a removed name stays away",
                "unlink-fsyncdir", ""),
        _expect("after fdatasync of the file a new link to it is there",
                "link-fdatasync", "f=1a g=f"),
    )),
    ("Replacing a file", (
        _expect("cut to nothing and written anew: old or new",
                "truncate-to-zero-rewrite", "f=1000a", "f=100b"),
        _expect("written aside and renamed, no fsync: old or new",
                "replace-no-fsync", "f=10a", "f=10a t=", "f=10a t=100b", "f=100b"),
        _expect("fsynced before the rename: old or new",
                "replace-fsync-first", "f=10a", "f=10a t=100b", "f=100b"),
        _expect("then fsync of the directory: new", "replace-fsyncdir", "f=100b"),
        _expect("or fsync of the renamed file: new", "replace-fsync-renamed", "f=100b"),
        _expect("or fdatasync of it, after an overwrite: new",
                "fdatasync-after-rename", "f=100c"),
        _expect("moved to another directory, which is fsynced: one name",
                "move-fsyncdir-target", "d d/g=1a"),
    )),
    ("From one file to another", (
        _expect("append to the second, unlink the first: a record is in one of them",
                "dlq-append-unlink-wal", "dlq=1000a wal=1w", "dlq=1000a+100. wal=1w",
                "dlq=1000a+100b wal=1w", "dlq=1000a+100b"),
        _expect("fsync of the second in between",
                "dlq-append-fsync-unlink-wal", "dlq=1000a+100b wal=1w", "dlq=1000a+100b"),
        _expect("where the second was just created",
                "dlq-created-unlink-wal", "dlq=100b wal=1w", "dlq=100b"),
        _expect("and its directory is fsynced, too",
                "dlq-created-fsyncdir-unlink-wal", "dlq=100b wal=1w", "dlq=100b"),
    )),
)  # fmt: skip

_PROGRAMS = {litmus.name: litmus for litmus in LITMUS}


def portable(litmus: Litmus) -> list[str]:
    """The states that any file system of the model `portable` may leave."""
    run = simulate(litmus)
    judge = Enumerator(find_model("portable"))
    images = run.allowed_after(len(run.ends) - 1, judge).images()
    return sorted(shown(image) for image in images)


def tables(page: str) -> str:
    """The tables, from the text of docs/litmus.md."""
    seen = {(name, system): states for name, system, states in read_page(page)}
    systems = list(FILE_SYSTEMS)
    lines = []
    for title, expectations in GROUPS:
        lines += [f"### {title}", ""]
        lines.append(f"| one would like | steps | {' | '.join(systems)} | everywhere |")
        lines.append("| --- " * (len(systems) + 3) + "|")
        for it in expectations:
            litmus = _PROGRAMS[it.program]
            steps = " ".join(litmus.steps.split())
            cells = [_cell(it.broken_by(seen[it.program, system])) for system in systems]
            cells.append("no" if it.broken_by(portable(litmus)) else "yes")
            link = f"[`{steps}`](litmus.md#{it.program})"
            lines.append(f"| {it.text} | {link} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _cell(bad: list[str]) -> str:
    return "kept" if not bad else "<br>".join(f"`{state or '(empty)'}`" for state in bad[:_SHOWN])


def rewritten(handbook: str, page: str) -> str:
    """The handbook with its tables made anew. Raises ValueError where it has no marks."""
    found = re.search(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", handbook, re.DOTALL)
    if found is None:
        raise ValueError(f"no {BEGIN} … {END}")
    return handbook[: found.start(1)] + "\n" + tables(page) + "\n" + handbook[found.end(1) :]


