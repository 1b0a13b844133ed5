"""The document of a trace for people: `lychgate-steps`, version 1 (docs/formats.md).

    meta        title, verdict in a sentence, source, the command that makes it again
    lesson      question, rule and guards, where it is a lesson
    workers     lanes of the page;  objects: files and directories by inode, never by name
    invariants  what is judged at every step
    sources     excerpts of spec and engine
    steps       who, which step, what changed in which lane of which object, verdicts, crash

Rules of this file
  * An empty list of disk contents means that they are not known.
  * Every object has three lanes: `memory` (what processes hold and have not written yet, and their
    descriptors), `cache` (what every process sees, and locks), `disk` (every content that a host
    crash may leave: one when it is durable). A lane holds pieces; null is "there is nothing".
  * A step holds what changed; the state at a step is the sum of the changes before it.
  * A crash point lists every legal outcome that differs to the eye, with the number of images that
    look like it, and its verdict; `taken` is the one that the trace goes on with.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from lychgate_conformance._schema import Schema
from lychgate_tools.ui import ExitCode, UserError

FORMAT = "lychgate-steps"
VERSION = 1
SCHEMA = Path(__file__).with_name("steps-1.json")

Document: TypeAlias = dict[str, Any]
Piece: TypeAlias = dict[str, str]
"""`kind` and `text`, and `raw` where the text is short for something."""
Pieces: TypeAlias = "list[Piece] | None"

HOLDS, BROKEN, UNKNOWN = "holds", "broken", "unknown"
LANES = ("memory", "cache", "disk")
SHOWN_MAX = 24
"""Contents that the disk lane lists; further ones are counted."""


@dataclass(frozen=True)
class Lanes:
    """One object at one moment. `more` counts disk contents that are not listed."""

    memory: tuple[Piece, ...] = ()
    cache: Pieces = None
    disk: tuple[Pieces, ...] = (None,)
    more: int = 0

    def as_json(self) -> dict[str, Any]:
        disk: dict[str, Any] = {"may": list(self.disk)}
        if self.more:
            disk["more"] = self.more
        return {"memory": list(self.memory), "cache": self.cache, "disk": disk}


@dataclass(frozen=True)
class Outcome:
    """One thing that a crash may leave: names and what they hold."""

    label: str
    files: tuple[tuple[str, Pieces], ...]
    holds: bool | None
    """None where nothing judges it."""
    verdict: str = ""
    images: int = 1
    taken: bool = False

    def as_json(self) -> dict[str, Any]:
        files = [{"name": name, "pieces": pieces} for name, pieces in self.files]
        found: dict[str, Any] = {"label": self.label, "files": files, "holds": self.holds}
        found |= {"verdict": self.verdict, "images": self.images, "taken": self.taken}
        return found


@dataclass(frozen=True)
class Crash:
    """Every legal outcome of a crash after a step. `happens` when it is the step itself."""

    outcomes: tuple[Outcome, ...]
    images: int
    happens: bool = False
    partial: str = ""

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"outcomes": [it.as_json() for it in self.outcomes]}
        found |= {"images": self.images, "happens": self.happens, "partial": self.partial}
        return found


@dataclass
class Step:
    """One step as a source tells it."""

    action: str
    kind: str
    worker: str = ""
    """Empty for the world."""
    call: str = ""
    says: str = ""
    variant: str = ""
    """The definition that stands in the place of the step, where a design is broken on purpose."""
    next: Sequence[tuple[str, str]] = ()
    """Who can go on, with which step."""
    verdicts: Sequence[str] = ()
    crash: Crash | None = None
    links: Mapping[str, str] = field(default_factory=dict)
    """`spec` and `engine`: ids of sources."""


class Builder:
    """Makes a document step by step."""

    def __init__(self, **meta: Any) -> None:
        self.meta = meta
        self.invariants: list[dict[str, str]] = []
        self.workers: dict[str, str] = {}
        self.objects: dict[str, dict[str, str]] = {}
        self.steps: list[dict[str, Any]] = []
        self.lesson: dict[str, Any] | None = None
        self._now: dict[str, Lanes] = {}

    def worker(self, name: str, label: str = "") -> str:
        self.workers.setdefault(name, label or name)
        return name

    def object(self, name: str, kind: str, label: str) -> str:
        self.objects.setdefault(name, {"id": name, "kind": kind, "label": label})
        return name

    def invariant(self, name: str, about: str, source: str = "") -> None:
        self.invariants.append({"name": name, "about": about, "source": source})

    def add(self, step: Step, lanes: Mapping[str, Lanes]) -> None:
        """A step and the state after it; objects that are not named are gone."""
        changes, moves = self._compared(step, lanes)
        found: dict[str, Any] = {"action": step.action, "kind": step.kind}
        optional: dict[str, Any] = {
            "worker": step.worker, "call": step.call, "says": step.says, "variant": step.variant,
            "next": [{"worker": who, "action": what} for who, what in step.next],
            "changes": changes, "moves": moves, "verdicts": list(step.verdicts),
            "links": dict(step.links),
        }  # fmt: skip
        found |= {name: value for name, value in optional.items() if value}
        if step.crash is not None:
            found["crash"] = step.crash.as_json()
        self.steps.append(found)

    def _compared(
        self, step: Step, lanes: Mapping[str, Lanes]
    ) -> tuple[list[dict[str, Any]], list[list[str]]]:
        changes: list[dict[str, Any]] = []
        moves: list[list[str]] = []
        gone = {name: Lanes() for name in self._now if name not in lanes}
        for name, now in {**lanes, **gone}.items():
            assert name in self.objects, f"{name} was not introduced"
            before = self._now.get(name, Lanes())
            then, after = before.as_json(), now.as_json()
            changed = [lane for lane in LANES if then[lane] != after[lane]]
            changes += [{"object": name, "lane": lane, "now": after[lane]} for lane in changed]
            self._now[name] = now
            move = _move(step.kind, before, now) if self.steps and name not in gone else None
            if move is not None:
                moves.append([name, *move])
        return changes, moves

    def document(self, sources: Iterable[Mapping[str, Any]] = ()) -> Document:
        """The whole, checked by its schema."""
        found: Document = {
            "format": FORMAT,
            "version": VERSION,
            "meta": self.meta,
            "workers": [{"id": name, "label": label} for name, label in self.workers.items()],
            "objects": list(self.objects.values()),
            "invariants": self.invariants,
            "sources": [dict(it) for it in sources],
            "steps": self.steps,
        }
        if self.lesson is not None:
            found["lesson"] = self.lesson
        problem = schema().problem(found)
        assert problem is None, f"a document of ours is not by its schema: {problem}"
        return found


def _move(kind: str, before: Lanes, now: Lanes) -> tuple[str, str] | None:
    """From where to where something moved; None when it only became possible."""
    if kind == "crash":
        return ("disk", "cache") if visible(before.cache) != visible(now.cache) else None
    if visible(before.cache) != visible(now.cache):
        return "memory", "cache"
    if kind == "sync" and before.disk != now.disk:
        return "cache", "disk"
    return None


def visible(pieces: Pieces) -> Pieces:
    """Without what the kernel keeps in memory only."""
    return None if pieces is None else [it for it in pieces if it["kind"] != "lock"]


def piece(kind: str, text: str, raw: str = "") -> Piece:
    """A piece; `raw` only where it says more than the text."""
    return {"kind": kind, "text": text, "raw": raw} if raw and raw != text else {
        "kind": kind, "text": text
    }  # fmt: skip


# --- reading ----------------------------------------------------------------------------------


@functools.cache
def schema() -> Schema:
    return Schema(json.loads(SCHEMA.read_text(encoding="utf-8")))


def read(path: Path) -> Document:
    """The document in a file; `UserError` in one line for anything else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", ExitCode.USAGE) from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is no trace: not JSON in UTF-8", ExitCode.USAGE) from error
    return checked(found, str(path))


def checked(found: Any, name: str) -> Document:
    """A document by its schema; `UserError` for another format or version, or for a defect."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UserError(f"{name} is no trace for a page: its format is not {FORMAT}",
                        ExitCode.USAGE)  # fmt: skip
    if found.get("version") != VERSION:
        raise UserError(
            f"{name} has version {found.get('version')!r} of {FORMAT}, this program reads "
            f"{VERSION}: make it again with the program that is installed here",
            ExitCode.USAGE,
        )
    problem = schema().problem(found)
    if problem is not None:
        raise UserError(f"{name}: {problem}", ExitCode.USAGE)
    _cross_checked(found, name)
    return found


def _cross_checked(found: Document, name: str) -> None:
    """What a schema cannot say: everything that is referred to is there."""
    objects = {it["id"] for it in found["objects"]}
    workers = {it["id"] for it in found["workers"]} | {""}
    sources = {it["id"] for it in found["sources"]}
    for number, step in enumerate(found["steps"]):
        used = {it["object"] for it in step.get("changes", ())} - objects
        used |= {step.get("worker", "")} - workers
        used |= set(step.get("links", {}).values()) - sources
        if used:
            what = min(used)
            raise UserError(f"{name}: step {number} speaks of {what!r}, which is not listed",
                            ExitCode.USAGE)  # fmt: skip


def first_broken(found: Document) -> int | None:
    """The first step at which something that is judged is broken."""
    for number, step in enumerate(found["steps"]):
        if BROKEN in step.get("verdicts", ()):
            return number
    return None


def apply(state: dict[str, dict[str, Any]], step: Mapping[str, Any]) -> None:
    """Carry a state (object, lane, content) over one step."""
    for change in step.get("changes", ()):
        state.setdefault(change["object"], {})[change["lane"]] = change["now"]
