"""Spec mutants: one small fault each, made from the TLA+ source when they are needed.

A property that no mutant violates may be vacuous. The operators replace one expression, whose exact
place and meaning SANY gave, by text that keeps the columns of everything after it, so that bullet
lists stay what they are:

    guard        one conjunct of a guard, or of a state condition, becomes TRUE
    frozen       one update `x' = e` becomes `x' = x`
    unfair       one WF or SF of the fairness becomes TRUE
    never        the first guard of an action becomes FALSE
    condition    the condition of an IF becomes TRUE, or FALSE
    bound        `<` becomes `<=`, `>` becomes `>=`
    kept, lost   `A \\ B` becomes `A`; `A \\cup B` becomes `A`
    garbage      what an update assigns becomes a model value that belongs to no type

Only what the behaviour is made of is mutated. A definition that a property uses as well is left
alone, unless it is an action: otherwise the yardstick would change with what it measures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lychgate_tools.tlc.sany import ACTION, STATE, TEMPORAL, Definition, Node, Parsed, Place

GARBAGE = "LychgateGarbage"
_CONJUNCTIONS = ("$ConjList", "\\land")
_FAIR = ("$WF", "$SF")
_WIDER = {"<": "<=", ">": ">="}
_HEADER = re.compile(r"^-{4,}\s*MODULE\s+\w+\s*-{4,}", re.M)
_EXTENDS = re.compile(r"^EXTENDS\s+\w+(?:\s*,\s*\w+)*", re.M)


@dataclass(frozen=True)
class Mutant:
    """One fault: which operator, where, what text replaces the place."""

    operator: str
    definition: str
    place: Place
    text: str

    @property
    def name(self) -> str:
        return f"{self.operator} {self.definition} {self.place}:{self.place.column} {self.text}"

    def applied(self, modules: Mapping[str, str]) -> dict[str, str]:
        """The modules with this fault in them."""
        source = replaced(modules[self.place.module], self.place, self.text)
        if self.operator == "garbage":
            source = _declared(source)
        return {**modules, self.place.module: source}

    @property
    def constants(self) -> str:
        """What the model file needs besides."""
        return f"CONSTANT {GARBAGE} = {GARBAGE}\n" if self.operator == "garbage" else ""


def _declared(source: str) -> str:
    """The source with the model value declared; done last, since it moves the lines below."""
    head = _EXTENDS.search(source) or _HEADER.search(source)
    assert head is not None, "a module has a header"
    return f"{source[: head.end()]}\nCONSTANT {GARBAGE}\n{source[head.end() :]}"


def mutants(
    parsed: Parsed, modules: Mapping[str, str], behaviour: str, properties: tuple[str, ...]
) -> list[Mutant]:
    """All mutants of the behaviour, in an order that visits every definition early."""
    used = parsed.reachable(behaviour)
    yardstick = parsed.reachable(*properties)
    per_definition: list[list[Mutant]] = []
    seen: set[tuple[Place, str]] = set()
    ordered = sorted(
        (parsed.definitions[uid] for uid in used),
        key=lambda one: (-one.level, one.place.module, one.place.line, one.place.column),
    )
    shared = {parsed.definitions[uid].place for uid in yardstick}
    for definition in ordered:
        if definition.place.module not in modules or "!" in definition.name:
            continue
        if definition.place in shared and definition.level < ACTION:
            continue
        found = []
        for mutant in _of(definition, modules):
            if (mutant.place, mutant.text) not in seen and _changes(mutant, modules):
                seen.add((mutant.place, mutant.text))
                found.append(mutant)
        if found:
            per_definition.append(found)
    return _spread(per_definition)


def _spread(groups: list[list[Mutant]]) -> list[Mutant]:
    """One of each definition, then the second of each, and so on."""
    longest = max((len(group) for group in groups), default=0)
    return [group[turn] for turn in range(longest) for group in groups if turn < len(group)]


def _of(definition: Definition, modules: Mapping[str, str]) -> Iterator[Mutant]:
    if definition.level == TEMPORAL:
        for node in definition.body.walk():
            if node.name in _FAIR:
                yield _mutant("unfair", definition, node.place, "TRUE")
        return
    for node in definition.body.walk():
        if node.place.module != definition.place.module:
            continue
        yield from _guards(definition, node)
        yield from _updates(definition, node)
        yield from _weakened(definition, node, modules)
        yield from _assigned(definition, node)
    yield from _disabled(definition)


def _guards(definition: Definition, node: Node) -> Iterator[Mutant]:
    if node.name in _CONJUNCTIONS:
        for part in node.operands:
            if part.level <= STATE and part.name not in (*_CONJUNCTIONS, "TRUE"):
                yield _mutant("guard", definition, part.place, "TRUE")
    if node.name == "$IfThenElse" and node.operands[0].level <= STATE:
        yield _mutant("condition", definition, node.operands[0].place, "TRUE")
        yield _mutant("condition", definition, node.operands[0].place, "FALSE")


def _updates(definition: Definition, node: Node) -> Iterator[Mutant]:
    if node.name != "=" or not node.operands or node.operands[0].name != "'":
        return
    variable, value = node.operands[0].operands[0], node.operands[1]
    if variable.operands:  # `f[x]' = …`: nothing to name it by
        return
    yield _mutant("frozen", definition, node.place, f"{variable.name}' = {variable.name}")
    if value.name != "$Except":
        yield _mutant("garbage", definition, value.place, GARBAGE)


def _assigned(definition: Definition, node: Node) -> Iterator[Mutant]:
    """What `[f EXCEPT ![x] = e]` puts in, wherever it stands."""
    if node.name == "$Except":
        for pair in node.operands[1:]:
            if len(pair.operands) == 2:
                yield _mutant("garbage", definition, pair.operands[1].place, GARBAGE)


def _weakened(definition: Definition, node: Node, modules: Mapping[str, str]) -> Iterator[Mutant]:
    if len(node.operands) != 2:
        return
    left, right = node.operands
    if node.name in _WIDER:
        texts = [text_at(modules, side.place) for side in (left, right)]
        if "\n" not in "".join(texts):
            text = f"{texts[0]} {_WIDER[node.name]} {texts[1]}"
            yield _mutant("bound", definition, node.place, text)
    elif node.name in ("\\", "\\union", "\\cup"):
        operator = "kept" if node.name == "\\" else "lost"
        kept = "@" if left.kind == "AtNode" else text_at(modules, left.place)  # its place is odd
        if "\n" not in kept:
            yield _mutant(operator, definition, node.place, kept)


def _disabled(definition: Definition) -> Iterator[Mutant]:
    if definition.level == ACTION and definition.body.name in _CONJUNCTIONS:
        for part in definition.body.operands:
            if part.level == STATE:
                yield _mutant("never", definition, part.place, "FALSE")
                return


def _mutant(operator: str, definition: Definition, place: Place, text: str) -> Mutant:
    return Mutant(operator, definition.name, place, text)


def _changes(mutant: Mutant, modules: Mapping[str, str]) -> bool:
    """Whether the text differs at all; `x' = x` frozen is no fault."""
    if mutant.place.module not in modules:
        return False
    before = " ".join(text_at(modules, mutant.place).split())
    return before != mutant.text


def text_at(modules: Mapping[str, str], place: Place) -> str:
    lines = modules[place.module].split("\n")
    if place.line == place.end_line:
        return lines[place.line - 1][place.column - 1 : place.end_column]
    first = lines[place.line - 1][place.column - 1 :]
    last = lines[place.end_line - 1][: place.end_column]
    return "\n".join([first, *lines[place.line : place.end_line - 1], last])


def replaced(source: str, place: Place, text: str) -> str:
    """The source with one place replaced. Later lines of the place are blanked, what follows it on
    its last line keeps its column where the text is not longer."""
    assert "\n" not in text, "a replacement is one line"
    lines = source.split("\n")
    rest = lines[place.end_line - 1][place.end_column :]
    head = lines[place.line - 1][: place.column - 1] + text
    if place.line == place.end_line:
        lines[place.line - 1] = (head.ljust(place.end_column) + rest).rstrip()
    else:
        lines[place.line - 1] = head
        for number in range(place.line, place.end_line - 1):
            lines[number] = ""
        lines[place.end_line - 1] = (" " * place.end_column + rest).rstrip()
    return "\n".join(lines)
