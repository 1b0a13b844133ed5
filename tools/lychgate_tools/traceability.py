"""Who cites which requirement: gathered from what the files of a checkout already say.

    spec               a comment of a TLA+ module, or the `about` of a model that must hold
    engine             a docstring or comment in reference/lychgate
    model test         the docstring of a test
    conformance case   what a case `requires`
    mutant             what a mutant says that it breaks, what the cases require that kill it,
                       the `about` of a model that must fail, a definition of a *Broken module

Rules of this file
  * A text that cites few ids says most about each: its name comes first.
  * An id in a comment belongs to the definition that the comment is in, or stands before.
  * L0 to L5 are also the suite's levels: as requirements they count only where the delivery queue
    is spoken of.
  * Nothing is written down for this table alone. What a requirement lacks on purpose says the
    second table of docs/requirements.md, with the reason.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lychgate_conformance._case import all_cases
from lychgate_conformance.lab._hunt import MUTANTS
from lychgate_conformance.mutants import all_mutants

COLUMNS = ("spec", "engine", "model test", "conformance case", "mutant")

_ID = re.compile(r"\b(?:[DWUQF]\d{1,2}|L\d{1,2})\b(?![-\w])")
_RANGE = re.compile(r"\b([DWUQLF])(\d{1,2})[-–]\1(\d{1,2})\b")
_DEFINITION = re.compile(r"(\w+)(?:\([^)]*\)|\[[^\]]*\])?\s*==")
_ROW = re.compile(r"(?m)^\| ([DWUQLF]\d+) \| (.+) \|$")
_LACKS = re.compile(rf"(?m)^\| ({'|'.join(COLUMNS)}) \| ([^|]+) \| (.+) \|$")

Cited = dict[str, list[str]]
"""Names by requirement, in the order in which they were found, each once."""


@dataclass(frozen=True)
class Requirements:
    """docs/requirements.md."""

    text: dict[str, str]
    lacks: dict[tuple[str, str], str]
    """The reason why a requirement has nothing in a column."""


def read_requirements(path: Path) -> Requirements:
    page = path.read_text(encoding="utf-8")
    lacks = {
        (found, column): why
        for column, ids, why in _LACKS.findall(page)
        for found in _ID.findall(ids)
    }
    return Requirements(dict(_ROW.findall(page)), lacks)


def gather(root: Path) -> dict[str, Cited]:
    """Every citation, by column."""
    models = _models(root / "spec" / "manifest.toml")
    return {
        "spec": _collected([*_spec(root / "spec", False), *_by_model(models, True)]),
        "engine": _collected(_engine(root / "reference" / "lychgate")),
        "model test": _collected(_tests(root / "model_tests")),
        "conformance case": _collected((it.id, it.requires) for it in all_cases()),
        "mutant": _collected(_mutants(root, models)),
    }


def _collected(found: Iterable[tuple[str, Iterable[str]]]) -> Cited:
    by_name: dict[str, set[str]] = defaultdict(set)
    for name, ids in found:
        by_name[name].update(ids)
    cited: Cited = defaultdict(list)
    for name, known in sorted(by_name.items(), key=lambda item: (len(item[1]), item[0])):
        for one in known:
            cited[one].append(name)
    return dict(cited)


def ids_in(text: str, about_delivery: bool) -> list[str]:
    """The requirements that a text cites, by themselves or in a range (`Q1-Q11`)."""
    found = _ID.findall(text)
    for letter, first, last in _RANGE.findall(text):
        found += [f"{letter}{number}" for number in range(int(first), int(last) + 1)]
    return [one for one in found if about_delivery or not re.fullmatch(r"L[0-5]", one)]


# --- spec -------------------------------------------------------------------------------------


def _spec(directory: Path, broken: bool) -> Iterator[tuple[str, list[str]]]:
    for path in sorted(directory.glob("*.tla")):
        if path.stem.endswith("Broken") == broken:
            yield from _module(path)


def _module(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Comments at the start of a line speak of the next definition, others of the one around."""
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [
        (number, match[1])
        for number, line in enumerate(lines)
        if (match := _DEFINITION.match(line)) is not None
    ]
    body = next((n for n, line in enumerate(lines) if line.startswith(("EXTENDS", "CONST"))), 0)
    for number, line in enumerate(lines):
        cited = ids_in(line, "Delivery" in path.stem)
        if not cited:
            continue
        after = next((name for at, name in starts if at > number), None)
        before = next((name for at, name in reversed(starts) if at <= number), None)
        leads = line.startswith(("\\*", "(*"))
        name = None if number < body else after if leads and after else before
        yield (f"{path.stem}!{name}" if name else path.stem), cited


@dataclass(frozen=True)
class _Model:
    ids: list[str]
    holds: bool


def _models(manifest: Path) -> dict[str, _Model]:
    """What each model's `about` cites."""
    return {
        it["name"]: _Model(
            ids_in(it.get("about", ""), it["name"].startswith("Delivery")), it["expect"] == "ok"
        )
        for it in tomllib.loads(manifest.read_text(encoding="utf-8"))["model"]
    }


def _by_model(models: dict[str, _Model], holds: bool) -> Iterator[tuple[str, list[str]]]:
    for name, model in models.items():
        if model.holds == holds:
            yield f"model {name}", model.ids


# --- Python -----------------------------------------------------------------------------------


@cache
def _functions(path: Path) -> list[tuple[int, int, str, str]]:
    """First and last line, qualified name and docstring of everything in a file, innermost last."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [(1, 10**9, "", ast.get_docstring(tree) or "")]

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{prefix}{child.name}"
                end = child.end_lineno or child.lineno
                found.append((child.lineno, end, name, ast.get_docstring(child) or ""))
                visit(child, f"{name}.")
            else:
                visit(child, prefix)

    visit(tree, "")
    return found


def _engine(directory: Path) -> Iterator[tuple[str, list[str]]]:
    for path in sorted(directory.glob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            ids = ids_in(line, "delivery" in path.stem)
            around = [name for start, end, name, _ in _functions(path) if start <= number <= end]
            if ids:
                yield f"{path.stem}.{_outermost(around)}".rstrip("."), ids


def _outermost(around: list[str]) -> str:
    """A method of a class, a function of a module: not what is defined inside of them."""
    return min(around, key=lambda name: (not name, name.count(".") != 1, len(name)))


def _tests(directory: Path) -> Iterator[tuple[str, list[str]]]:
    for path in sorted(directory.rglob("*.py")):
        for _, _, name, text in _functions(path):
            if ids := ids_in(text, "delivery" in str(path)):
                yield f"{path.stem}.{name}".rstrip("."), ids


# --- mutants ----------------------------------------------------------------------------------


_PLANTS = ("Planted", "_one")  # what makes a mutant there


def _mutants(root: Path, models: dict[str, _Model]) -> Iterator[tuple[str, list[str]]]:
    yield from _by_model(models, False)
    yield from _spec(root / "spec", True)
    for it in MUTANTS:
        also = models[it.like].ids if it.like else []
        yield f"engine {it.name}", [*ids_in(it.about, False), *also]
    requires = {it.id: it.requires for it in all_cases()}
    for other in all_mutants():
        cited = [one for case_id in other.kills for one in requires.get(case_id, ())]
        yield f"suite {other.name}", cited
    planted = root / "model_tests" / "delivery" / "delivery_mutants.py"
    for node in ast.walk(ast.parse(planted.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") not in _PLANTS:
            continue
        arguments = [*node.args, *(word.value for word in node.keywords)]
        words = [str(one.value) for one in arguments if isinstance(one, ast.Constant)]
        for like in (models[word] for word in words if word in models):
            yield f"delivery {words[0]}", like.ids


# --- gaps -------------------------------------------------------------------------------------


def gaps(known: Requirements, cited: dict[str, Cited]) -> list[str]:
    """What is missing without a reason."""
    return [
        f"{one}: no {column} cites it, and docs/requirements.md does not say why"
        for one in known.text
        for column in COLUMNS
        if not cited[column].get(one) and (one, column) not in known.lacks
    ]


def stale(known: Requirements, cited: dict[str, Cited]) -> list[str]:
    """Reasons for what is not missing, or is no requirement."""
    return [
        f"{one}: docs/requirements.md says that it lacks a {column}, which it has"
        for one, column in known.lacks
        if cited[column].get(one) or one not in known.text
    ]
