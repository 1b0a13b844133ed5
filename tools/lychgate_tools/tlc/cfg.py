"""Model files (.cfg): read for what they check, written with other properties.

Only the keywords that TLC 2.15 knows. Some combinations make TLC answer wrongly without a word;
`unsound` names them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SECTIONS = {
    "CONSTANT": "CONSTANTS",
    "CONSTANTS": "CONSTANTS",
    "INIT": "INIT",
    "NEXT": "NEXT",
    "SPECIFICATION": "SPECIFICATION",
    "INVARIANT": "INVARIANTS",
    "INVARIANTS": "INVARIANTS",
    "PROPERTY": "PROPERTIES",
    "PROPERTIES": "PROPERTIES",
    "CONSTRAINT": "CONSTRAINTS",
    "CONSTRAINTS": "CONSTRAINTS",
    "ACTION_CONSTRAINT": "ACTION_CONSTRAINTS",
    "ACTION_CONSTRAINTS": "ACTION_CONSTRAINTS",
    "VIEW": "VIEW",
    "SYMMETRY": "SYMMETRY",
    "TYPE": "TYPE",
    "TYPE_CONSTRAINT": "TYPE_CONSTRAINT",
}
_WORD = re.compile(r"[A-Za-z_]+")


@dataclass(frozen=True)
class Config:
    """A model file: the text of each section, comments gone, and the names it checks."""

    sections: tuple[tuple[str, str], ...]

    def names(self, section: str) -> tuple[str, ...]:
        return tuple(
            name for head, text in self.sections if head == section for name in text.split()
        )

    @property
    def invariants(self) -> tuple[str, ...]:
        return self.names("INVARIANTS")

    @property
    def properties(self) -> tuple[str, ...]:
        return self.names("PROPERTIES")

    @property
    def checked(self) -> tuple[str, ...]:
        """Everything that TLC is asked to find violated."""
        return self.invariants + self.properties

    @property
    def behaviour(self) -> str:
        """The name of the specification, or of the next-state relation."""
        named = self.names("SPECIFICATION") or self.names("NEXT")
        return named[0] if named else ""

    def checking(self, names: frozenset[str]) -> str:
        """The text of the same model, checking only `names`."""
        lines: list[str] = []
        for head, text in self.sections:
            if head in ("INVARIANTS", "PROPERTIES"):
                text = " ".join(name for name in text.split() if name in names)
                if not text:
                    continue
            lines.append(f"{head}\n{text}")
        return "\n".join(lines) + "\n"

    def unsound(self, liveness: bool) -> str:
        """Why the answer of TLC could be wrong, or nothing. Measured, see the spec tour."""
        if not liveness:
            return ""
        for section in ("CONSTRAINTS", "ACTION_CONSTRAINTS", "SYMMETRY", "VIEW"):
            if self.names(section):
                return f"{section} with a liveness property can hide a violation"
        return ""


def constant(text: str, name: str) -> str:
    """The value that a model file gives a constant, as text; empty if it gives none."""
    constants = " ".join(parse(text).names("CONSTANTS"))
    match = re.search(rf"\b{name} = (\{{[^}}]*\}}|\S+)", constants)
    return match[1] if match else ""


def parse(text: str) -> Config:
    """Read a model file. A word that TLC does not know is left to TLC, which says so."""
    text = re.sub(r"\(\*.*?\*\)", " ", text, flags=re.S)
    text = re.sub(r"\\\*[^\n]*", "", text)
    sections: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        rest = line
        match = _WORD.match(line.strip())
        if match is not None and match[0] in _SECTIONS:
            sections.append((_SECTIONS[match[0]], []))
            rest = line.strip()[match.end() :]
        if sections and rest.strip():
            sections[-1][1].append(rest.rstrip())
    return Config(tuple((head, "\n".join(lines)) for head, lines in sections))
