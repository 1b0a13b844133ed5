"""The house rules that a machine can check. A rule that is broken names file and line."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOTS = ("reference", "conformance", "tools")
LINE_MAX = 100
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

OUTSIDE = {"os", "time", "random", "socket", "subprocess", "tempfile", "shutil", "fcntl", "secrets"}
"""What a decision of the engine may not depend on: the world comes in through the port."""
OUTSIDE_ALLOWED = {
    "_osfs.py": "the port on the real system",
    "_clock.py": "the queue's clock and chance, behind an interface of their own",
    "_sql_sqlite_names.py": "names of files, beside what SQLite itself does with them",
    "_sql_fork.py": "hears of forks",
    "_sql_mariadb.py": "closes a socket that its driver forgets",
}
OPTIONAL = {
    "pytest": {"plugin.py", "_pytest_items.py", "no_skips.py"},  # loaded by pytest itself
    "markdown_it": {"build.py"},  # loaded by `lychgate site` alone
    "psycopg": {"_sql_postgres.py"},  # loaded for a PostgreSQL URL alone
    "pymysql": {"_sql_mariadb.py"},  # loaded for a MariaDB URL alone
}
MARKS = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX|NotImplemented" + r"Error)\b")
IDS = re.compile(r"\b(?:[DWUQF]\d{1,2}|L(?:[6-9]|1\d))\b(?![-\w])")
"""Requirement ids as they are cited. L0 to L5 are also levels of the suite: not looked at."""


def _sources(*directories: str) -> list[Path]:
    return sorted(
        path
        for directory in directories
        for path in (ROOT / directory).rglob("*.py")
        if "__pycache__" not in path.parts
    )


def _packages() -> list[Path]:
    return _sources(*ROOTS)


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(_text(path))


def _at(path: Path, line: int, what: str) -> str:
    return f"{path.relative_to(ROOT)}:{line}: {what}"


def _clean(problems: Iterator[str]) -> None:
    found = list(problems)
    assert not found, "\n" + "\n".join(found)


def test_lines_fit() -> None:
    def problems() -> Iterator[str]:
        for path in [*_sources(*ROOTS, "model_tests"), *sorted((ROOT / "spec").rglob("*.tla"))]:
            for number, line in enumerate(_text(path).splitlines(), start=1):
                if len(line) > LINE_MAX:
                    yield _at(path, number, f"{len(line)} columns")
                if line != line.rstrip():
                    yield _at(path, number, "blanks at the end")

    _clean(problems())


def test_modules_and_functions_are_short() -> None:
    def problems() -> Iterator[str]:
        for path in _packages():
            count = len(_text(path).splitlines())
            if count > MODULE_LINES_MAX:
                yield _at(path, 1, f"{count} lines")
            for node in ast.walk(_tree(path)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    length = (node.end_lineno or node.lineno) - node.lineno + 1
                    if length > FUNCTION_LINES_MAX:
                        yield _at(path, node.lineno, f"{node.name} has {length} lines")

    _clean(problems())


def test_every_file_says_what_it_is_for() -> None:
    _clean(
        _at(path, 1, "no docstring")
        for path in _sources(*ROOTS, "model_tests")
        if not ast.get_docstring(_tree(path))
    )


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or ""


def test_the_engine_meets_the_world_in_one_place() -> None:
    """Decisions and codecs are plain functions; only the port and the clock touch the system."""

    def problems() -> Iterator[str]:
        for path in _sources("reference"):
            if path.name in OUTSIDE_ALLOWED:
                continue
            for line, name in _imports(path):
                if name.partition(".")[0] in OUTSIDE:
                    yield _at(path, line, f"imports {name}")

    _clean(problems())


def test_imports_go_one_way() -> None:
    """Engine ← suite ← tools, and nothing but the standard library besides."""
    above = {
        "reference": {"lychgate_conformance", "lychgate_tools"},
        "conformance": {"lychgate_tools"},
        "tools": set[str](),
    }
    own = {"lychgate", "lychgate_conformance", "lychgate_tools"}

    def problems() -> Iterator[str]:
        for root in ROOTS:
            for path in _sources(root):
                for line, name in _imports(path):
                    top = name.partition(".")[0]
                    if top in above[root]:
                        yield _at(path, line, f"imports {name}")
                    if top not in own and top not in sys.stdlib_module_names:
                        if path.name not in OPTIONAL.get(top, set()):
                            yield _at(path, line, f"{top} is not in the standard library")

    _clean(problems())


def test_every_import_is_used() -> None:
    """In the packages; modules of tests may import fixtures. A name in text (`__all__`, a type in
    quotes) counts as used, and so does `X as X`."""

    def problems() -> Iterator[str]:
        for path in _packages():
            if path.name == "__init__.py":
                continue
            nodes = list(ast.walk(_tree(path)))
            used = {it.id for it in nodes if isinstance(it, ast.Name)}
            texts = [it.value for it in nodes if isinstance(it, ast.Constant)]
            used |= {word for it in texts if isinstance(it, str) for word in re.findall(r"\w+", it)}
            for node in nodes:
                if isinstance(node, ast.Import) or (
                    isinstance(node, ast.ImportFrom) and node.module != "__future__"
                ):
                    for alias in node.names:
                        name = alias.asname or alias.name.partition(".")[0]
                        if name not in used and alias.asname != alias.name:
                            yield _at(path, node.lineno, f"{name} is imported and not used")

    _clean(problems())


def test_no_await_in_finally() -> None:
    """Closing a suspended program runs its finally blocks: clean-up that no crash would run."""

    def problems() -> Iterator[str]:
        for path in _packages():
            for node in ast.walk(_tree(path)):
                if isinstance(node, ast.Try):
                    for inner in [one for part in node.finalbody for one in ast.walk(part)]:
                        if isinstance(inner, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
                            yield _at(path, inner.lineno, "await in finally")

    _clean(problems())


def test_each_op_makes_one_call_on_the_port() -> None:
    """`perform` is one statement: one call of one method of `fs`, its result given back."""
    engine = ROOT / "reference" / "lychgate"
    nodes = [
        (path, node)
        for path in (engine / "_ops.py", engine / "_delivery_ops.py")
        for node in ast.walk(_tree(path))
    ]

    def problems() -> Iterator[str]:
        for path, node in nodes:
            if not isinstance(node, ast.FunctionDef) or node.name != "perform":
                continue
            calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
            receivers = [
                one.func.value.id
                for one in calls
                if isinstance(one.func, ast.Attribute) and isinstance(one.func.value, ast.Name)
            ]
            if len(node.body) != 1 or len(calls) != 1 or receivers != ["fs"]:
                yield _at(path, node.lineno, "perform is not exactly one call on fs")

    _clean(problems())


def _requirements() -> set[str]:
    rows = re.findall(r"(?m)^\| ([A-Z]\d+) \|", _text(ROOT / "docs" / "requirements.md"))
    assert len(rows) == len(set(rows)), "an id stands twice in docs/requirements.md"
    return set(rows)


def test_cited_requirements_exist() -> None:
    known = _requirements()
    assert {"D1", "D34", "W14", "U9", "Q11", "L15", "F3"} <= known

    def problems() -> Iterator[str]:
        files = [*_sources(*ROOTS, "model_tests"), *(ROOT / "spec").rglob("*.tla")]
        for path in [*files, ROOT / "spec" / "manifest.toml", *(ROOT / "docs").rglob("*.md")]:
            if not path.exists() or path == Path(__file__).resolve():
                continue
            for number, line in enumerate(_text(path).splitlines(), start=1):
                for found in IDS.findall(line):
                    if found not in known:
                        yield _at(path, number, f"cites {found}, which does not exist")

    _clean(problems())


def test_every_built_requirement_is_cited() -> None:
    """D, W, U and F are built: the spec or a package names each of them."""
    built = {name for name in _requirements() if name[0] in "DWUF"}
    files = [*_packages(), *(ROOT / "spec").rglob("*.tla")]
    cited = set(IDS.findall("\n".join(_text(path) for path in files)))
    assert not built - cited, f"nowhere cited: {sorted(built - cited)}"


def test_no_generic_names_reach_site_packages() -> None:
    """Nothing but our three packages is importable from the roots."""
    loose = [
        str(path.relative_to(ROOT))
        for root in (*ROOTS, "spec", "model_tests")
        for path in (ROOT / root).glob("*.py")
    ]
    assert not loose
    packages = {
        path.name
        for root in ROOTS
        for path in (ROOT / root).iterdir()
        if path.is_dir() and path.name != "__pycache__"
    }
    assert packages == {"lychgate", "lychgate_conformance", "lychgate_tools"}
    assert all((ROOT / root / name / "py.typed").is_file() for root, name in zip(
        ROOTS, ("lychgate", "lychgate_conformance", "lychgate_tools"), strict=True
    ))


def test_test_files_have_names_of_their_own() -> None:
    names = Counter(path.name for path in _sources("model_tests") if path.name != "conftest.py")
    assert not [name for name, count in names.items() if count > 1]
    assert not list((ROOT / "model_tests").rglob("__init__.py"))


def test_no_leftovers() -> None:
    def problems() -> Iterator[str]:
        files = [*_sources(*ROOTS, "model_tests"), *(ROOT / "spec").rglob("*.tla")]
        for path in [*files, *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
            for number, line in enumerate(_text(path).splitlines(), start=1):
                if MARKS.search(line):
                    yield _at(path, number, "unfinished")
        for path in _packages():
            for number, line in enumerate(_text(path).splitlines(), start=1):
                if re.search(r"# type: ignore(?!\[[\w-]+\]  # \w)", line):
                    yield _at(path, number, "an ignore needs a code and a reason beside it")

    _clean(problems())


@pytest.mark.parametrize("name", ["run", "test", ".ci/run"])
def test_scripts_can_be_run(name: str) -> None:
    path = ROOT / name
    assert os.access(path, os.X_OK)
    text = _text(path)
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in text
