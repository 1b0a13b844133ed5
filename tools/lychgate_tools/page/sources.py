"""Excerpts of spec and engine that a step links to, so that a page needs nothing but itself.

A step of the engine is linked to the place where its program awaits it: in a run that is known
exactly, elsewhere it is the first place that names the step. A step of the spec is linked to its
definition, with the comment above it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lychgate
from lychgate_tools.spec_text import read_module

_AROUND = 7
_LINES_MAX = 40
_HOMES = ("Lock", "DeadTasks", "Wal", "Journal", "Queue", "Store", "Delivery", "FileSystem")
_ENGINE = Path(lychgate.__file__).parent


@dataclass(frozen=True)
class Excerpt:
    """Some lines of a file; `line` is the one that is meant, `first` the first that is shown."""

    kind: str
    path: str
    line: int
    first: int
    text: str

    @property
    def id(self) -> str:
        return f"{self.kind}:{self.path}:{self.line}"

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"id": self.id, "kind": self.kind, "path": self.path}
        return found | {"line": self.line, "first": self.first, "text": self.text}


class Sources:
    """Collects the excerpts of one document."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules
        self._found: dict[str, Excerpt] = {}

    def links(
        self, action: str, module: str = "", place: tuple[str, int] | None = None
    ) -> dict[str, str]:
        """The links of a step. `module` has its definition; `place` is a file of the engine."""
        found = {}
        spec = self._spec(action, [module] if module else _HOMES)
        if spec is not None:
            found["spec"] = self._keep(spec)
        engine = place or _first_use(action)
        if engine is not None:
            found["engine"] = self._keep(_engine_excerpt(*engine))
        return found

    def definition(self, name: str, homes: Iterable[str] = _HOMES) -> str:
        """The id of a definition's excerpt, empty when the spec has none."""
        spec = self._spec(name, homes)
        return "" if spec is None else self._keep(spec)

    def as_json(self) -> list[dict[str, Any]]:
        return [self._found[name].as_json() for name in sorted(self._found)]

    def _keep(self, excerpt: Excerpt) -> str:
        self._found.setdefault(excerpt.id, excerpt)
        return excerpt.id

    def _spec(self, name: str, homes: Iterable[str]) -> Excerpt | None:
        for module in homes:
            source = self._modules.get(module)
            line = None if source is None else _definitions(source).get(name)
            if source is not None and line is not None:
                return _spec_excerpt(module, source, line)
        return None


@functools.lru_cache(64)
def _definitions(source: str) -> dict[str, int]:
    return {name: line for name, (line, _) in read_module(source).definitions.items()}


def _spec_excerpt(module: str, source: str, line: int) -> Excerpt:
    """A definition with the comment above it, up to the next empty line."""
    lines = source.splitlines()
    first = line
    while first > 1 and re.match(r"\s*(\\\*|\(\*)", lines[first - 2]) and line - first < 14:
        first -= 1
    last = line
    while last < len(lines) and lines[last].strip() and last - first < _LINES_MAX:
        last += 1
    text = "\n".join(lines[first - 1 : last])
    return Excerpt("spec", f"spec/{module}.tla", line, first, text)


def _engine_excerpt(name: str, line: int) -> Excerpt:
    lines = _engine_lines(name)
    first = max(1, line - _AROUND)
    text = "\n".join(lines[first - 1 : line + _AROUND])
    return Excerpt("engine", f"reference/lychgate/{name}", line, first, text)


@functools.lru_cache(64)
def _engine_lines(name: str) -> tuple[str, ...]:
    return tuple((_ENGINE / name).read_text(encoding="utf-8").splitlines())


@functools.lru_cache(512)
def _first_use(action: str) -> tuple[str, int] | None:
    """Where the engine first awaits a step, or hands it on to be awaited."""
    used = re.compile(rf"(?:\b{action}\(|\({action},)")
    for path in sorted(_ENGINE.glob("_*.py"), key=lambda it: ("_delivery" in it.name, it.name)):
        if path.name.endswith("_ops.py"):
            continue
        for number, line in enumerate(_engine_lines(path.name), start=1):
            if used.search(line):
                return path.name, number
    return None


def place_of(program: Any) -> tuple[str, int] | None:
    """Where a suspended program of the engine stands: file and line of the await."""
    found: tuple[str, int] | None = None
    while program is not None:
        frame = getattr(program, "cr_frame", None)
        if frame is not None:
            path = Path(frame.f_code.co_filename)
            helper = path.name in ("_op.py", "_steps.py")
            if path.parent == _ENGINE and not helper:
                found = path.name, min(frame.f_lineno, len(_engine_lines(path.name)))
        program = getattr(program, "cr_await", None)
    return found
