"""The register of mutants."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from lychgate_conformance._resolve import Factory

_MODULES = (
    *("tasks", "dead", "text", "nil", "files", "damage", "processes", "owners", "durable"),
    *("faults", "paused", "delivery", "delivery_files", "delivery_crash", "delivery_faults"),
    "behind",
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One backend with one fault."""

    name: str
    fault: str
    """What is wrong with it: the first line of its class's text."""
    kills: tuple[str, ...]
    """The cases that must fail on it."""
    factory: Factory

    @property
    def spec(self) -> str:
        """The name that any process can load it by."""
        return f"{self.factory.__module__}:{self.factory.__qualname__}"

    def surroundings(self) -> AbstractContextManager[object]:
        """What it needs around it while it is tried: a server, where its store lies on one."""
        serving: Callable[[], AbstractContextManager[object]]
        serving = getattr(self.factory, "serving", nullcontext)
        return serving()


_registry: dict[str, Mutant] = {}
T = TypeVar("T", bound=type[Any])


def mutant(name: str, kills: str) -> Callable[[T], T]:
    """Registers a backend class. `kills` are case ids, separated by spaces."""
    assert name not in _registry, f"{name} is taken"

    def register(backend: T) -> T:
        fault = (backend.__doc__ or "").strip().splitlines()[0]
        _registry[name] = Mutant(name, fault, tuple(kills.split()), backend)
        return backend

    return register


@functools.cache
def all_mutants() -> tuple[Mutant, ...]:
    """Every mutant, by name."""
    for module in _MODULES:
        import_module(f"lychgate_conformance.mutants.{module}")
    return tuple(_registry[name] for name in sorted(_registry))


def find_mutant(name: str) -> Mutant | None:
    return next((it for it in all_mutants() if it.name == name), None)
