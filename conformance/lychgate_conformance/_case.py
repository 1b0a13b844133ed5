"""Cases and their registry.

An id is `L{level}-{area}-{number}`. It never changes and is never given to another case; a case
that is taken out leaves a gap. What a case needs is written as claims: `stores`, `not stores`,
`duplicates=kept`.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from lychgate_conformance._claims import Claims, as_mapping, claim_names
from lychgate_conformance._stage import Stage

Function = Callable[[Stage], None]

_ID = re.compile(r"L([0-9])-([A-Z]+)-[0-9]{3}")
_MODULES = (
    "tasks",
    "dead",
    "text",
    "nil",
    "files",
    "damage",
    "sequence",
    "restart",
    "kill",
    "race",
    "own",
    "fork",
    "threads",
    "memory",
    "call_kill",
    "host_crash",
    "fault",
    "pause",
    "queue",
    "queue_room",
    "queue_restart",
    "queue_crash",
    "queue_fault",
)

LEVELS = {
    0: "contract",
    1: "processes and restarts",
    2: "process kill at every call",
    3: "host crash, every image",
    4: "faults, every call in every way",
    5: "schedules, a worker stopped at every call",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One promise, tried."""

    id: str
    level: int
    title: str
    requires: tuple[str, ...]
    needs: tuple[str, ...]
    function: Function
    limit_s: float
    profile: str = "tasks"

    def unmet(self, claims: Claims) -> str | None:
        """The first need that the claims do not meet, in words; None when all are met."""
        if self.profile != claims.profile:
            return f"not claimed: profile={self.profile}"
        values = as_mapping(claims)
        for need in self.needs:
            negative = need.startswith("not ")
            name, _, word = need.removeprefix("not ").partition("=")
            met = values[name] == word if word else bool(values[name])
            if met == negative:
                return f"not claimed: {need}"
        return None


_registry: dict[str, Case] = {}


def case(
    case_id: str,
    title: str,
    requires: str,
    needs: str = "stores",
    limit_s: float = 60.0,
    profile: str = "tasks",
) -> Callable[[Function], Function]:
    """Registers a function as a case. `requires` and `needs` are comma-separated."""
    match = _ID.fullmatch(case_id)
    assert match is not None, case_id
    assert case_id not in _registry, f"{case_id} is taken"
    level = int(match.group(1))
    cited = tuple(word.strip() for word in requires.split(","))
    needed = tuple(word.strip() for word in needs.split(",") if word.strip())
    for need in needed:
        assert need.removeprefix("not ").partition("=")[0] in claim_names(profile), need

    def register(function: Function) -> Function:
        _registry[case_id] = Case(
            case_id, level, title, cited, needed, function, limit_s, profile
        )
        return function

    return register


@functools.cache
def all_cases() -> tuple[Case, ...]:
    """Every case, in the order of the ids."""
    for name in _MODULES:
        import_module(f"lychgate_conformance.cases.{name}")
    return tuple(_registry[case_id] for case_id in sorted(_registry))


@functools.cache
def suite_digest() -> str:
    """SHA-256 over the source and schemas of this package: which suite said so."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    files = [*root.rglob("*.py"), *root.rglob("*.json")]
    for path in sorted(files, key=lambda it: it.relative_to(root).as_posix()):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()
