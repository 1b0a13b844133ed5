"""A validator for the part of JSON Schema (2020-12) that our own schemas use.

Standard library only, so it is small: `KEYWORDS` is everything it knows, and a schema with any
other keyword is a defect of ours that a test finds. `problem` gives the first thing that is wrong
and the field it is wrong with, as `error.code` or `ok[3].task_id`; None when nothing is.

A choice (`oneOf`) that fails is reported by the alternative that came furthest, which for an
object is the one whose constants match.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Json = Any
Found: TypeAlias = "Iterator[Problem]"

SCHEMAS = Path(__file__).parent / "schemas"

NOTES = frozenset({"$schema", "$id", "$defs", "title", "description"})
"""Keywords that say nothing about an instance."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and where. `depth` is how far into the instance it was found."""

    field: str
    what: str
    depth: int

    def __str__(self) -> str:
        return f"{self.field or 'the message'}: {self.what}"


@functools.cache
def load(name: str) -> Schema:
    """A shipped schema: `protocol-1` or `report-1`."""
    return Schema(json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8")))


class Schema:
    """One document with its definitions."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self._defs: dict[str, Json] = document.get("$defs", {})

    def problem(self, instance: Json, definition: str | None = None) -> Problem | None:
        """The first problem of an instance, by one definition or by the document as a whole."""
        schema = self.document if definition is None else self._defs[definition]
        return next(self._problems(instance, schema, ""), None)

    def has(self, definition: str) -> bool:
        return definition in self._defs

    def _problems(self, instance: Json, schema: Json, at: str) -> Found:
        for keyword, argument in schema.items():
            if keyword not in NOTES:
                yield from KEYWORDS[keyword](self, instance, argument, schema, at)

    # --- keywords: each gets the instance, its own argument, the schema around it, the place -----

    def _ref(self, instance: Json, ref: str, schema: Json, at: str) -> Found:
        start, _, name = ref.rpartition("/")
        assert start == "#/$defs", ref
        yield from self._problems(instance, self._defs[name], at)

    def _one_of(self, instance: Json, choices: Json, schema: Json, at: str) -> Found:
        found: list[Problem] = []
        matches = 0
        for choice in choices:
            problem = next(self._problems(instance, choice, at), None)
            matches += problem is None
            found += [] if problem is None else [problem]
        if matches == 0:
            yield max(found, key=lambda it: it.depth)
        elif matches > 1:
            yield _at(at, "fits more than one of the allowed forms")

    def _properties(self, instance: Json, named: Json, schema: Json, at: str) -> Found:
        if not isinstance(instance, dict):
            return
        # constants first: they say which form a message means to have
        for name in sorted(named, key=lambda it: "const" not in named[it]):
            if name in instance:
                yield from self._problems(instance[name], named[name], _member(at, name))

    def _additional(self, instance: Json, rest: Json, schema: Json, at: str) -> Found:
        if not isinstance(instance, dict):
            return
        for name in instance:
            if name in schema.get("properties", {}):
                continue
            if rest is False:
                known = ", ".join(schema.get("properties", {})) or "none"
                yield _at(_member(at, name), f"is not a field here; there are: {known}")
            elif rest is not True:
                yield from self._problems(instance[name], rest, _member(at, name))

    def _items(self, instance: Json, items: Json, schema: Json, at: str) -> Found:
        if isinstance(instance, list):
            for n, item in enumerate(instance):
                yield from self._problems(item, items, f"{at}[{n}]")


def _member(at: str, name: str) -> str:
    shown = name if re.fullmatch(r"\w+", name) else ascii(name[:40])
    return f"{at}.{shown}" if at else shown


def _at(at: str, what: str) -> Problem:
    return Problem(at, what, at.count(".") + at.count("[") + bool(at))


def _kind(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"  # 1.0 is no integer here: stricter than the standard
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _type(self: Schema, instance: Json, wanted: Json, schema: Json, at: str) -> Found:
    allowed = [wanted] if isinstance(wanted, str) else wanted
    kind = _kind(instance)
    if kind not in allowed and not (kind == "integer" and "number" in allowed):
        yield _at(at, f"is {_shown(instance)}, expected {' or '.join(allowed)}")


def _shown(value: Json) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def _required(self: Schema, instance: Json, names: Json, schema: Json, at: str) -> Found:
    if isinstance(instance, dict):
        for name in names:
            if name not in instance:
                yield _at(_member(at, name), "is missing")


def _const(self: Schema, instance: Json, wanted: Json, schema: Json, at: str) -> Found:
    if not _same(instance, wanted):
        yield Problem(at, f"is {_shown(instance)}, expected {_shown(wanted)}", 0)


def _enum(self: Schema, instance: Json, words: Json, schema: Json, at: str) -> Found:
    if not any(_same(instance, word) for word in words):
        yield _at(at, f"is {_shown(instance)}, expected one of {', '.join(map(str, words))}")


def _same(a: Json, b: Json) -> bool:
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _bound(
    applies: tuple[type, ...], measure: Callable[[Json], float], low: bool, what: str
) -> Callable[..., Found]:
    """A keyword that bounds a size: `minLength` and its kin."""

    def check(self: Schema, instance: Json, bound: Json, schema: Json, at: str) -> Found:
        if not isinstance(instance, applies) or isinstance(instance, bool):
            return
        size = measure(instance)
        if (size < bound) if low else (size > bound):
            yield _at(at, f"{what} is {size}, expected at {'least' if low else 'most'} {bound}")

    return check


def _pattern(self: Schema, instance: Json, pattern: str, schema: Json, at: str) -> Found:
    if isinstance(instance, str) and not re.search(pattern, instance):
        yield _at(at, f"is {_shown(instance)}, which does not match {pattern}")


_NUMBER = (int, float)

KEYWORDS: dict[str, Callable[..., Found]] = {
    "$ref": Schema._ref,
    "type": _type,
    "const": _const,
    "enum": _enum,
    "required": _required,
    "properties": Schema._properties,
    "additionalProperties": Schema._additional,
    "items": Schema._items,
    "oneOf": Schema._one_of,
    "minimum": _bound(_NUMBER, lambda it: it, True, "the value"),
    "maximum": _bound(_NUMBER, lambda it: it, False, "the value"),
    "minLength": _bound((str,), len, True, "the length"),
    "maxLength": _bound((str,), len, False, "the length"),
    "minItems": _bound((list,), len, True, "the number of items"),
    "maxItems": _bound((list,), len, False, "the number of items"),
    "pattern": _pattern,
}
