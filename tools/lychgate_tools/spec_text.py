"""Just enough reading of TLA+ source to say which definition a place belongs to.

TLC names a violated refinement by its place in the refined module. What parses, and what an
expression means, is SANY's business (`tlc.sany`); this works on text, without Java.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_DEFINITION = re.compile(r"^(\w+)(?:\([^)]*\)|\[[^\]]*\])?\s*==", re.M)
_PLACE = re.compile(r"line (\d+), col \d+ to line \d+, col \d+ of module (\w+)")
_EXTENDS = re.compile(r"^EXTENDS\s+([\w\s,]+?)$", re.M)
_INSTANCE = re.compile(r"^\s*(\w+)(?:\([^)]*\))?\s*==\s*INSTANCE\s+(\w+)", re.M)
_USE = re.compile(r"(?:(\w+)(?:\([^)]*\))?!)?(\w+)")


@dataclass(frozen=True)
class Module:
    definitions: Mapping[str, tuple[int, str]]  # name -> line, text up to the next definition
    extends: tuple[str, ...]
    instances: Mapping[str, str]  # I in `I == INSTANCE M` -> M


def without_comments(source: str) -> str:
    r"""The source with comments blanked, so that places stay what they were."""
    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return re.sub(r"\(\*.*?\*\)|\\\*[^\n]*", blank, source, flags=re.S)


def read_module(source: str) -> Module:
    text = without_comments(source)
    found = list(_DEFINITION.finditer(text))
    ends = [match.start() for match in found] + [len(text)]
    definitions = {
        match[1]: (text.count("\n", 0, match.start()) + 1, text[match.end() : end])
        for match, end in zip(found, ends[1:], strict=True)
    }
    extends = tuple(re.findall(r"\w+", " ".join(_EXTENDS.findall(text))))
    instances = {match[1]: match[2] for match in _INSTANCE.finditer(text)}
    return Module(definitions, extends, instances)


class Source:
    """The modules of a spec, with lookups across EXTENDS and INSTANCE."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self.modules = {name: read_module(source) for name, source in modules.items()}

    def defining(self, module: str, name: str) -> str | None:
        """The module in which `name`, used in `module`, is defined."""
        if module not in self.modules:
            return None
        if name in self.modules[module].definitions:
            return module
        for parent in self.modules[module].extends:
            found = self.defining(parent, name)
            if found is not None:
                return found
        return None

    def extended(self, root: str) -> list[str]:
        """`root` and every module of the spec that it extends, directly or not."""
        found: list[str] = []
        todo = [root]
        while todo:
            module = todo.pop()
            if module in self.modules and module not in found:
                found.append(module)
                todo.extend(self.modules[module].extends)
        return found

    def _instance_of(self, module: str, name: str) -> str | None:
        for known in self.extended(module):
            if name in self.modules[known].instances:
                return self.modules[known].instances[name]
        return None

    def reachable(self, module: str, name: str) -> set[tuple[str, str]]:
        """Every definition that `name` uses, directly or not, itself included."""
        seen: set[tuple[str, str]] = set()
        todo = [(module, name)]
        while todo:
            where, what = todo.pop()
            home = self.defining(where, what)
            if home is None or (home, what) in seen:
                continue
            seen.add((home, what))
            for instance, used in _USE.findall(self.modules[home].definitions[what][1]):
                target = self._instance_of(where, instance) if instance else where
                if target is not None:
                    todo.append((target, used))
        return seen

    def at(self, place: str) -> tuple[str, str] | None:
        """Module and definition of a place as TLC writes it."""
        found = _PLACE.search(place)
        if found is None or found[2] not in self.modules:
            return None
        line = int(found[1])
        before = [
            (start, name)
            for name, (start, _) in self.modules[found[2]].definitions.items()
            if start <= line
        ]
        return (found[2], max(before)[1]) if before else None

    def property_at(self, place: str, root: str, properties: Sequence[str]) -> str:
        """The property of the model that a place in the source belongs to; all that may be."""
        spot = self.at(place)
        if spot is None:
            return place
        fit = [name for name in properties if spot in self.reachable(root, name)]
        exact = [name for name in fit if (spot[1] == name)]
        return (exact or [" or ".join(fit) or place])[0]
