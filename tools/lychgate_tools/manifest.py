"""spec/manifest.toml: what TLC must say of each model, and what it was measured to say.

    [[model]]
    name = "Lock"                  # unique
    module = "MC_Lock"             # the root module
    config = "models/Lock.cfg"     # beside the manifest
    expect = "ok"                  # or "violates NAME"; Deadlock is a name
    class = "quick"                # quick, full, nightly
    liveness = true                # a temporal property is checked; default false
    deadlock = false               # a deadlock is no error; default true
    coverage = false               # TLC need not count how often each action is taken, which may
                                   # double its time; default true, and for quick models only
    distinct = 162                 # measured: distinct states, depth of the graph,
    depth = 19                     # states of the counter-example
    trace_length = 7
    about = "…"

    [[unmodelled]]
    step = "MakeDir"
    reason = "…"

The measured numbers are written by `lychgate check --record` and by nobody else; what is expected
is never written by a program.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lychgate_tools.spec_dir import read
from lychgate_tools.ui import ExitCode, UserError, nearest

CLASSES = ("quick", "full", "nightly")
MEASURED = ("distinct", "depth", "trace_length")
_KINDS: dict[str, type] = {
    "name": str,
    "module": str,
    "config": str,
    "expect": str,
    "class": str,
    "about": str,
    "liveness": bool,
    "deadlock": bool,
    "coverage": bool,
    "distinct": int,
    "depth": int,
    "trace_length": int,
}
_REQUIRED = ("name", "module", "config", "expect", "class")


@dataclass(frozen=True)
class Model:
    name: str
    module: str
    config: str
    expect: str
    time_class: str
    liveness: bool = False
    deadlock: bool = True
    coverage: bool = True
    distinct: int | None = None
    depth: int | None = None
    trace_length: int | None = None
    about: str = ""

    @property
    def positive(self) -> bool:
        return self.expect == "ok"


@dataclass(frozen=True)
class Manifest:
    models: tuple[Model, ...]
    unmodelled: Mapping[str, str]  # step -> reason
    environment: Mapping[str, str]  # action that is no engine step -> what it stands for

    def chosen(self, names: list[str], time_class: str) -> list[Model]:
        """The models of a command line: those named, else those of the class."""
        by_name = {model.name: model for model in self.models}
        for name in names:
            if name not in by_name:
                hint = nearest(name, by_name) or "; lychgate check --list shows them"
                raise UserError(f"no model named {name!r}{hint}", ExitCode.USAGE)
        if names:
            return [by_name[name] for name in dict.fromkeys(names)]
        return [model for model in self.models if model.time_class == time_class]


def load(path: Path) -> Manifest:
    """Read and check the manifest; a slip in it is one line with the place."""
    return parse(read(path), str(path))


def parse(text: str, where: str) -> Manifest:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{where} is not TOML: {error}") from error
    models = tuple(_model(entry, where) for entry in data.get("model", []))
    seen: set[str] = set()
    for model in models:
        if model.name in seen:
            raise UserError(f"{where}: two models are named {model.name}")
        seen.add(model.name)
    return Manifest(
        models,
        _reasons(data.get("unmodelled", []), "step", "reason", where),
        _reasons(data.get("environment", []), "action", "about", where),
    )


def _model(entry: Mapping[str, Any], where: str) -> Model:
    name = entry.get("name", "?")
    for key, value in entry.items():
        kind = _KINDS.get(key)
        if kind is None:
            raise UserError(f"{where}: model {name}: no key {key!r}{nearest(key, _KINDS)}")
        if type(value) is not kind:
            raise UserError(f"{where}: model {name}: {key} must be of type {kind.__name__}")
    missing = [key for key in _REQUIRED if key not in entry]
    if missing:
        raise UserError(f"{where}: model {name} lacks {', '.join(missing)}")
    if entry["class"] not in CLASSES:
        raise UserError(f"{where}: model {name}: class is one of {', '.join(CLASSES)}")
    if entry["expect"] != "ok" and not re.fullmatch(r"violates \w+", entry["expect"]):
        raise UserError(f'{where}: model {name}: expect is "ok" or "violates NAME"')
    known = {key: entry[key] for key in _KINDS if key in entry and key != "class"}
    return Model(time_class=entry["class"], **known)


def _reasons(entries: Any, key: str, reason: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entries:
        if not isinstance(entry.get(key), str) or not entry.get(reason):
            raise UserError(f"{where}: an entry lacks {key} or {reason}: {entry}")
        found[entry[key]] = entry[reason]
    return found


def record(path: Path, measured: Mapping[str, Mapping[str, int]]) -> None:
    """Write measured numbers into the file, in place of the old ones; nothing else changes."""
    text = rewritten(read(path), measured)
    handle, temporary = tempfile.mkstemp(prefix=".manifest-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, path.stat().st_mode)
        os.replace(temporary, path)
    except OSError as error:
        os.unlink(temporary)
        raise UserError(f"cannot write {path}: {error.strerror}") from error


def rewritten(text: str, measured: Mapping[str, Mapping[str, int]]) -> str:
    """The manifest's text with the numbers of the models in `measured` replaced or added.

    A measured key that the run did not give is removed, so that no stale number stays.
    """
    parts = re.split(r"(?m)^(?=\s*\[)", text)
    for index, part in enumerate(parts):
        name = re.search(r'(?m)^name\s*=\s*"([^"]*)"', part)
        if part.lstrip().startswith("[[model]]") and name is not None and name[1] in measured:
            parts[index] = _rewritten_entry(part, measured[name[1]])
    result = "".join(parts)
    assert _expectations(result) == _expectations(text), "recording may not change an expectation"
    return result


def _rewritten_entry(entry: str, numbers: Mapping[str, int]) -> str:
    lines = entry.splitlines(keepends=True)
    place: int | None = None
    kept: list[str] = []
    comments: dict[str, str] = {}
    for line in lines:
        match = re.match(r"(\w+)\s*=\s*[\d_]+[ \t]*(#.*)?$", line)
        if match is not None and match[1] in MEASURED:
            place = len(kept) if place is None else place
            comments[match[1]] = f"  {match[2]}" if match[2] else ""
        else:
            kept.append(line)
    if place is None:
        place = 1 + next(i for i, line in enumerate(kept) if re.match(r"class\s*=", line))
    fresh = [
        f"{key} = {numbers[key]}{comments.get(key, '')}\n" for key in MEASURED if key in numbers
    ]
    return "".join([*kept[:place], *fresh, *kept[place:]])


def _expectations(text: str) -> list[tuple[str, str]]:
    return [(model.name, model.expect) for model in parse(text, "manifest").models]
