"""Mutants of the engine: a few replaced pieces of source, put in place while a run lasts.

Rules of this file
  * A mutant says which function it changes, which text stands there, and what stands there instead.
    The text must be in that function exactly once; if the engine has changed, `LookupError` says
    which mutant fell behind. So the list of mutants stays in step with the engine, or is red.
  * Only code is exchanged (`__code__`): classes, modules and constants stay the same objects, so
    that everything else, the lab included, goes on as it is. Clean-up puts the old code back.
  * A mutant is a target like any other: the lab explores it with the parts, the oracle and the
    images that it has for the engine, and knows nothing of what was changed.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType, ModuleType

from lychgate_conformance.lab._target import ATTEMPTS, ROTATE_NEVER, Target


_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Edit:
    """One piece of source: `function` is `module.function` or `module.Class.method`."""

    function: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted fault, and a run that is known to show it."""

    name: str
    about: str
    """What is wrong with it, and the requirement that it breaks."""
    edits: tuple[Edit, ...]
    part: str
    """The part of the campaign that shows it."""
    workload: str
    like: str = ""
    """The negative model of the spec that it embodies, where there is one."""
    focus: tuple[str, ...] = ()
    """The steps before which the run is preempted, killed or made to fail; empty for all."""
    closes_at_fork: bool = True


class MutantTarget(Target):
    """The engine with a fault in it."""

    def __init__(
        self, mutant: Mutant, lock_attempts: int = ATTEMPTS, rotate_bytes: int = ROTATE_NEVER
    ) -> None:
        super().__init__(lock_attempts, rotate_bytes)
        self.mutant = mutant
        self.name = mutant.name
        self.closes_at_fork = mutant.closes_at_fork

    @contextmanager
    def constants(self) -> Iterator[None]:
        """Small limits and the fault, for as long as a run lasts."""
        with super().constants(), planted(self.mutant):
            yield


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """The engine with the mutant's code in the place of its own."""
    changed = [(function, function.__code__, code) for function, code in codes_of(mutant)]
    try:
        for function, _, code in changed:
            function.__code__ = code
        yield
    finally:
        for function, code, _ in changed:
            function.__code__ = code


@cache
def codes_of(mutant: Mutant) -> tuple[tuple[FunctionType, CodeType], ...]:
    """The functions that a mutant changes, each with its changed code.

    Raises LookupError when the mutant does not fit the engine any more.
    """
    by_module: dict[str, list[Edit]] = {}
    for edit in mutant.edits:
        by_module.setdefault(edit.function.partition(".")[0], []).append(edit)
    found: list[tuple[FunctionType, CodeType]] = []
    for module_name, edits in by_module.items():
        module = importlib.import_module(f"lychgate.{module_name}")
        changed = compile(_edited(module, edits, mutant), str(module.__file__), "exec")
        for name in dict.fromkeys(edit.function.partition(".")[2] for edit in edits):
            function, code = _function(module, name), _code(changed, name)
            assert code.co_freevars == function.__code__.co_freevars, "the same cells"
            found.append((function, code))
    return tuple(found)


def _edited(module: ModuleType, edits: list[Edit], mutant: Mutant) -> str:
    source = inspect.getsource(module)
    places = sorted(_place(source, edit, mutant) for edit in edits)
    for (start, end, new), (following, _, _) in zip(places, [*places[1:], (len(source), 0, "")]):
        assert end <= following, f"edits of {mutant.name} overlap"
        assert start < end, f"an edit of {mutant.name} replaces nothing"
    for start, end, new in reversed(places):
        source = source[:start] + new + source[end:]
    return source


def _place(source: str, edit: Edit, mutant: Mutant) -> tuple[int, int, str]:
    """Where an edit's text stands, and what is to stand there."""
    node = _definition(ast.parse(source), edit.function.partition(".")[2].split("."))
    if node is None:
        raise LookupError(f"mutant {mutant.name}: there is no {edit.function} any more")
    lines = source.splitlines(keepends=True)
    start = sum(len(line) for line in lines[: node.lineno - 1])
    body = "".join(lines[node.lineno - 1 : node.end_lineno])
    if body.count(edit.old) != 1:
        raise LookupError(
            f"mutant {mutant.name}: {edit.old!r} stands {body.count(edit.old)} times in "
            f"{edit.function}, not once; bring the mutant into step with the engine"
        )
    start += body.index(edit.old)
    return start, start + len(edit.old), edit.new


def _definition(tree: ast.AST, names: list[str]) -> _Definition | None:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _Definition) and node.name == names[0]:
            return node if len(names) == 1 else _definition(node, names[1:])
    return None


def _function(module: ModuleType, name: str) -> FunctionType:
    found: object = module
    for part in name.split("."):
        found = getattr(found, part)
    assert isinstance(found, FunctionType), f"{name} is a plain function or method"
    return found


def _code(code: CodeType, name: str) -> CodeType:
    """The code of a function or method in a module's code."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_qualname == name:
                return constant
            if name.startswith(f"{constant.co_qualname}."):
                return _code(constant, name)
    raise LookupError(f"no code of {name}")
