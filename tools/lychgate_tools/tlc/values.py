"""TLA+ values as TLC prints them, read into hashable Python objects.

    TRUE, 42, "text"            bool, int, str
    p1                          ModelValue("p1")
    {1, 2}, 1..3                frozenset
    <<1, 2>>                    tuple
    [a |-> 1]                   Fn, keys are str
    (p1 :> 1 @@ p2 :> 2)        Fn

TLC prints a function over 1..n as a tuple and one over strings as a record; both are one value to
it and are read as printed. `<< >>` is the empty function as well as the empty tuple. Values wrap at
80 columns, so newlines are blanks here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union


@dataclass(frozen=True, slots=True)
class ModelValue:
    """A model value: equal to nothing but itself, so never to a string of the same letters."""

    name: str

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


class Fn(Mapping[Any, Any]):
    """A function or record: an immutable mapping that can be a member of a set or a key."""

    __slots__ = ("_hash", "_items")

    def __init__(self, items: Iterable[tuple[Any, Any]]) -> None:
        self._items = dict(items)
        self._hash = hash(frozenset(self._items.items()))

    def __getitem__(self, key: Any) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fn) and self._items == other._items

    def __repr__(self) -> str:
        return render(self)


Value = Union[bool, int, str, ModelValue, frozenset[Any], tuple[Any, ...], Fn]


class ValueSyntaxError(ValueError):
    """The text is not a value; says where."""


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<number>-?\d+)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<mark><<|>>|\|->|:>|@@|\.\.|[{}\[\](),])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}


def parse(text: str) -> Value:
    """The one value that `text` is."""
    reader = _Reader(text)
    value = reader.value()
    reader.end()
    return value


class _Reader:
    """Recursive descent over the tokens of one value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        position = 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise ValueSyntaxError(f"no TLA+ value at {text[position : position + 40]!r}")
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        self.index = 0

    def peek(self) -> str:
        return self.tokens[self.index][1] if self.index < len(self.tokens) else ""

    def take(self, *expected: str) -> str:
        found = self.peek()
        if not found or (expected and found not in expected):
            wanted = " or ".join(expected) or "a value"
            raise ValueSyntaxError(f"{wanted} expected, found {found or 'the end'!r}")
        self.index += 1
        return found

    def end(self) -> None:
        if self.index != len(self.tokens):
            raise ValueSyntaxError(f"the end expected, found {self.peek()!r}")

    def value(self) -> Value:
        if self.index >= len(self.tokens):
            raise ValueSyntaxError("a value expected, found the end")
        kind, text = self.tokens[self.index]
        self.index += 1
        if kind == "number":
            return self._number(int(text))
        if kind == "string":
            return _unescape(text)
        if kind == "name":
            return text == "TRUE" if text in ("TRUE", "FALSE") else ModelValue(text)
        if text == "{":
            return frozenset(self._list("}"))
        if text == "<<":
            return tuple(self._list(">>"))
        if text == "[":
            return self._record()
        if text == "(":
            return self._function()
        raise ValueSyntaxError(f"a value expected, found {text!r}")

    def _number(self, low: int) -> Value:
        if self.peek() != "..":
            return low
        self.take("..")
        high = int(self.take())
        return frozenset(range(low, high + 1))

    def _list(self, closing: str) -> list[Value]:
        found: list[Value] = []
        while self.peek() != closing:
            found.append(self.value())
            if self.peek() != closing:
                self.take(",")
        self.take(closing)
        return found

    def _record(self) -> Fn:
        items: list[tuple[str, Value]] = []
        while self.peek() != "]":
            name = self.take()
            self.take("|->")
            items.append((name, self.value()))
            if self.peek() != "]":
                self.take(",")
        self.take("]")
        return Fn(items)

    def _function(self) -> Fn:
        items: list[tuple[Value, Value]] = []
        while True:
            key = self.value()
            self.take(":>")
            items.append((key, self.value()))
            if self.take("@@", ")") == ")":
                return Fn(items)


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1], flags=re.S)


def parse_state(text: str) -> dict[str, Value]:
    r"""A state as TLC prints it: `/\ name = value` lines, or one `name = value`."""
    state: dict[str, Value] = {}
    for part in re.split(r"(?:\A|\n)/\\ ", text.strip()):
        if not part.strip():
            continue
        name, equals, value = part.partition(" = ")
        if not equals or not name.strip().isidentifier():
            raise ValueSyntaxError(f"no `name = value` in {part[:60]!r}")
        state[name.strip()] = parse(value)
    return state


def render(value: Any) -> str:
    """The value in TLA+ notation, sets and functions in a fixed order."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, ModelValue):
        return str(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted((render(item) for item in value), key=_natural)) + "}"
    if isinstance(value, tuple):
        return "<<" + ", ".join(render(item) for item in value) + ">>"
    if isinstance(value, Fn):
        return _render_fn(value)
    return str(value)


def _render_fn(value: Fn) -> str:
    if all(type(key) is str for key in value):
        return "[" + ", ".join(f"{key} |-> {render(value[key])}" for key in value) + "]"
    pairs = sorted(((render(key), render(item)) for key, item in value.items()), key=_first_natural)
    return "(" + " @@ ".join(f"{key} :> {item}" for key, item in pairs) + ")"


def _natural(text: str) -> tuple[tuple[int, int | str], ...]:
    """Sorts `p2` before `p10`."""
    parts = re.split(r"(\d+)", text)
    return tuple((1, int(part)) if part.isdigit() else (0, part) for part in parts if part)


def _first_natural(pair: tuple[str, str]) -> tuple[tuple[int, int | str], ...]:
    return _natural(pair[0])


def to_json(value: Any) -> Any:
    """The value for JSON: sets as `{"set": […]}`, functions as `{"fn": [[key, value], …]}`,
    model values as `{"model": name}`, records as objects."""
    if isinstance(value, ModelValue):
        return {"model": str(value)}
    if isinstance(value, frozenset):
        return {"set": [to_json(item) for item in sorted(value, key=lambda v: _natural(render(v)))]}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    if isinstance(value, Fn):
        if all(type(key) is str for key in value):
            return {"record": {key: to_json(value[key]) for key in value}}
        pairs = sorted(value.items(), key=lambda pair: _natural(render(pair[0])))
        return {"fn": [[to_json(key), to_json(item)] for key, item in pairs]}
    return value
