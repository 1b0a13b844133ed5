"""TLA+ modules as SANY understands them: definitions, expression trees, exact places.

SANY's XML export gives every operator application with its place in the source and its level
(0 constant, 1 state, 2 action, 3 temporal). Two users: the actions that a next-state relation is
made of, and the spec mutants, which need to know what an expression is and where it ends.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lychgate_tools.spec_text import Source
from lychgate_tools.tlc.java import run
from lychgate_tools.tlc.output import complaint
from lychgate_tools.tlc.runner import place
from lychgate_tools.tlc.toolchain import Toolchain, environment
from lychgate_tools.ui import ExitCode, UserError

CONSTANT, STATE, ACTION, TEMPORAL = range(4)
_TIMEOUT_S = 120


@dataclass(frozen=True)
class Place:
    """Lines and columns from 1, both ends included."""

    module: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line}"


@dataclass(frozen=True)
class Node:
    """An expression: an operator applied, a literal, a LET, …

    `name` is the operator's: `$ConjList`, `\\land`, `=`, `'`, `UNCHANGED`, a variable's, a
    definition's. `uid` leads to the definition where there is one.
    """

    kind: str
    name: str
    uid: str
    level: int
    place: Place
    operands: tuple[Node, ...]

    def walk(self) -> Iterator[Node]:
        yield self
        for operand in self.operands:
            yield from operand.walk()


@dataclass(frozen=True)
class Definition:
    name: str  # with its instance: `Abs!Next`
    place: Place
    level: int
    body: Node


@dataclass(frozen=True)
class Parsed:
    """The definitions of a root module and of all that it uses, by SANY's own ids."""

    root: str
    definitions: Mapping[str, Definition]
    visible: Sequence[str]  # the root module and those that it extends

    def named(self, name: str) -> Definition | None:
        """The definition of that name which the root module sees; not one of an instance."""
        found = self._uid(name)
        return self.definitions[found] if found is not None else None

    def _uid(self, name: str) -> str | None:
        for uid, one in self.definitions.items():
            if one.name == name and ("!" in name or one.place.module in self.visible):
                return uid
        return None

    def reachable(self, *names: str) -> set[str]:
        """The ids of all definitions that `names` use, themselves included."""
        seen: set[str] = set()
        todo = [uid for uid in map(self._uid, names) if uid is not None]
        while todo:
            uid = todo.pop()
            if uid in seen or uid not in self.definitions:
                continue
            seen.add(uid)
            todo.extend(node.uid for node in self.definitions[uid].body.walk() if node.uid)
        return seen

    def actions(self, name: str) -> list[Definition]:
        """The actions that a specification or next-state relation is made of, by TLC's rule.

        TLC splits over disjunctions, over bounded existence and through operators; the label is
        the innermost operator reached. So does this.
        """
        start = self.named(name)
        if start is None:
            return []
        found: dict[str, Definition] = {}
        if start.level == ACTION:
            self._split(start, start.body, found)
        for uid in self.reachable(name) if start.level == TEMPORAL else ():
            for node in self.definitions[uid].body.walk():
                if node.name == "$SquareAct":  # [Next]_vars
                    self._split(self.definitions[uid], node.operands[0], found)
        return list(found.values())

    def _split(self, home: Definition, node: Node, found: dict[str, Definition]) -> None:
        if node.name in ("$DisjList", "\\lor", "$BoundedExists"):
            for operand in node.operands:
                if operand.level == ACTION:  # the others are the sets that are quantified over
                    self._split(home, operand, found)
        elif node.uid in self.definitions and self.definitions[node.uid].level == ACTION:
            called = self.definitions[node.uid]
            self._split(called, called.body, found)
        else:
            found[home.name] = home


def parse(tools: Toolchain, modules: Mapping[str, str], root: str) -> Parsed:
    """Run SANY on `root`; `UserError` with its complaint when it does not parse."""
    private = Path(tempfile.mkdtemp(prefix="lychgate-sany-"))
    try:
        place(private, modules)
        exported = _java(tools, private, "tla2sany.xml.XMLExporter", "-o", f"{root}.tla")
        start = exported.find(b"<?xml")
        if start < 0:  # the exporter does not say why, SANY itself does
            said = _java(tools, private, "tla2sany.SANY", f"{root}.tla").decode("utf-8", "replace")
            raise UserError(f"{root} does not parse: {complaint(said)}", ExitCode.SHORT)
    finally:
        shutil.rmtree(private, ignore_errors=True)
    return read(exported[start:], Source(modules).extended(root))


def _java(tools: Toolchain, private: Path, *command: str) -> bytes:
    java = [str(tools.java), "-Xss8m"]
    try:
        return run(java, tools.jar, private, command, environment(), _TIMEOUT_S).stdout
    except subprocess.TimeoutExpired as error:
        raise UserError(f"SANY gave no answer in {_TIMEOUT_S} s") from error


def read(xml: bytes, visible: Sequence[str]) -> Parsed:
    """The export, read."""
    top = ElementTree.fromstring(xml)
    entries = {entry.findtext("UID", ""): entry[1] for entry in top.iterfind("context/entry")}
    names = {uid: node.findtext("uniquename", "") for uid, node in entries.items()}
    definitions = {
        uid: Definition(
            names[uid],
            _place(node),
            int(node.findtext("level", "0")),
            _node(body[0], names),
        )
        for uid, node in entries.items()
        if node.tag == "UserDefinedOpKind" and (body := node.find("body")) is not None and len(body)
    }
    return Parsed(top.findtext("RootModule", ""), definitions, visible)


def _place(element: ElementTree.Element) -> Place:
    def number(path: str) -> int:
        return int(element.findtext(f"location/{path}", "0"))

    return Place(
        element.findtext("location/filename", ""),
        number("line/begin"),
        number("column/begin"),
        number("line/end"),
        number("column/end"),
    )


_SKIPPED = {"location", "level", "operator", "params", "uniquename", "arity"}
_VALUES = {"StringNode": "StringValue", "NumeralNode": "IntValue", "DecimalNode": "mantissa"}


def _node(element: ElementTree.Element, names: Mapping[str, str]) -> Node:
    operator = element.find("operator")
    uid = "" if operator is None or not len(operator) else operator[0].findtext("UID", "")
    name = names.get(uid, "")
    if element.tag in _VALUES:
        name = element.findtext(_VALUES[element.tag], "")
    return Node(
        kind=element.tag,
        name=name,
        uid=uid,
        level=int(element.findtext("level", "0")),
        place=_place(element),
        operands=tuple(_children(element, names)),
    )


def _children(element: ElementTree.Element, names: Mapping[str, str]) -> Iterator[Node]:
    """The expressions below, whatever wraps them: operands, bounds, bodies, LET definitions."""
    for child in element:
        if child.tag in _SKIPPED or child.tag.endswith("Ref"):
            continue
        if child.find("location") is not None and child.find("level") is not None:
            yield _node(child, names)
        else:
            yield from _children(child, names)


