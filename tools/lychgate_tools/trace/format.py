"""Trace files: newline-delimited JSON, a header and then one event per line (docs/formats.md).

The header says format, version, module of the spec, source, constants and what could be seen at the
beginning. An event says who (worker, fiber), what (action), with what (args), what came of it
(result or error) and what changed in what can be seen. Nothing that TLC is asked to find is in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from lychgate_tools.ui import ExitCode, UserError

FORMAT = "lychgate-trace"
VERSION = 1

Seen = Mapping[str, tuple[str, ...] | None]
"""What can be seen: by name the cells of a content, None where the name is not there."""


@dataclass(frozen=True)
class Event:
    """One step of the engine, one call or return of a caller, or one fault of the world.

    `line` is its line in the file. `seen` is all that can be seen after it, not only the changes.
    """

    line: int
    action: str
    worker: str = ""
    fiber: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)
    result: Any = None
    error: str = ""
    seen: Seen = field(default_factory=dict)

    @property
    def tokens(self) -> tuple[str, ...]:
        """Arguments and result as a flat sequence of words, for comparison with the spec."""
        return tuple(_words([*self.args.values(), self.result]))

    @property
    def how(self) -> str:
        return {"": "ok", "short": "short"}.get(self.error, "fail")

    @property
    def who(self) -> str:
        return ".".join(part for part in (self.worker, self.fiber) if part) or "the world"


@dataclass(frozen=True)
class Trace:
    """A trace as it was read. `name` is its file, or what stands for one."""

    name: str
    module: str
    source: str
    constants: Mapping[str, Any]
    seen: Seen
    events: tuple[Event, ...]


def _words(value: object) -> Iterable[str]:
    if value is None:
        return
    if isinstance(value, bool):
        yield "TRUE" if value else "FALSE"
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _words(item)
    else:
        yield str(value)


# --- writing ----------------------------------------------------------------------------------


class Writer:
    """Writes a trace line by line, so that what a killed recorder has written can be read."""

    def __init__(
        self, out: TextIO, module: str, source: str, constants: Mapping[str, Any], seen: Seen
    ) -> None:
        self._out = out
        self._seen = dict(seen)
        self.lines = 1
        self._line(
            {
                "format": FORMAT,
                "version": VERSION,
                "module": module,
                "source": source,
                "constants": dict(constants),
                "seen": self._seen,
            }
        )

    def event(
        self,
        action: str,
        worker: str,
        fiber: str,
        args: Mapping[str, Any],
        result: Any,
        error: str,
        seen: Seen,
    ) -> None:
        data: dict[str, Any] = {"action": action}
        pairs = (("worker", worker), ("fiber", fiber), ("args", dict(args)), ("error", error))
        data.update({key: value for key, value in pairs if value})
        if result is not None:
            data["result"] = result
        changed = {name: cells for name, cells in seen.items() if cells != self._seen.get(name)}
        changed.update({name: None for name in self._seen if name not in seen})
        if changed:
            data["seen"] = changed
            self._seen = dict(seen)
        self.lines += 1
        self._line(data)

    def _line(self, data: Mapping[str, Any]) -> None:
        self._out.write(json.dumps(data, separators=(",", ":")) + "\n")


# --- reading ----------------------------------------------------------------------------------


def read(path: Path) -> Trace:
    """The trace in a file; `UserError` in one line for anything else."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", ExitCode.USAGE) from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no trace: not UTF-8", ExitCode.USAGE) from error
    return parse(str(path), lines)


def parse(name: str, lines: list[str]) -> Trace:
    header = _json(name, 1, lines[0] if lines else "")
    if header.get("format") != FORMAT:
        raise UserError(f"{name} is no trace: its first line lacks the format", ExitCode.USAGE)
    if header.get("version") != VERSION:
        raise UserError(
            f"{name} has version {header.get('version')} of the trace format, this program reads "
            f"{VERSION}: record it again",
            ExitCode.USAGE,
        )
    constants, begin = header.get("constants"), _seen(header.get("seen", {}))
    if not isinstance(header.get("module"), str) or not isinstance(constants, dict):
        raise UserError(f"{name}:1: module and constants are missing", ExitCode.USAGE)
    if begin is None:
        raise UserError(f"{name}:1: seen is not a table of contents", ExitCode.USAGE)
    events: list[Event] = []
    seen: Seen = begin
    for number, text in enumerate(lines[1:], start=2):
        event = _event(name, number, text, seen)
        seen = event.seen
        events.append(event)
    source = str(header.get("source", ""))
    return Trace(name, header["module"], source, constants, begin, tuple(events))


def _event(name: str, number: int, text: str, before: Seen) -> Event:
    data = _json(name, number, text)
    words = [data.get(key, "") for key in ("action", "worker", "fiber", "error")]
    changed, args = _seen(data.get("seen", {})), data.get("args", {})
    if not all(isinstance(word, str) for word in words) or not words[0]:
        raise UserError(f"{name}:{number}: no event: action, worker, fiber, error", ExitCode.USAGE)
    if changed is None or not isinstance(args, dict):
        raise UserError(f"{name}:{number}: no event: args, seen", ExitCode.USAGE)
    seen = before if not changed else {**before, **changed}
    action, worker, fiber, error = words
    return Event(number, action, worker, fiber, args, data.get("result"), error, seen)


def _seen(value: object) -> dict[str, tuple[str, ...] | None] | None:
    if not isinstance(value, dict):
        return None
    found: dict[str, tuple[str, ...] | None] = {}
    for name, cells in value.items():
        if cells is not None and not (
            isinstance(cells, list) and all(isinstance(cell, str) for cell in cells)
        ):
            return None
        found[name] = None if cells is None else tuple(cells)
    return found


def _json(name: str, number: int, text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UserError(f"{name}:{number}: not JSON", ExitCode.USAGE) from error
    if not isinstance(data, dict):
        raise UserError(f"{name}:{number}: not a JSON object", ExitCode.USAGE)
    return data
