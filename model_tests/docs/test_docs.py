"""The pages cannot drift: blocks run, commands and links exist, every public name is documented.

Rules for a page
  * A `python` block runs by itself, in a directory that all blocks of its page share.
  * A `console` block runs its `$` lines; the lines between must appear in their output, in order,
    where `...` stands for anything and any number for a number.
  * What is not run says so to the reader: `*Not run by the tests: why.*` as the paragraph before
    the block, or `# not run by the tests: why` at the end of the line.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import lychgate
from lychgate import aio
from lychgate._backend import Backend
from lychgate_tools.cli import COMMANDS, build_parser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"\*Not run by the tests: [^*]{5,}\*\s*\Z")
NOT_RUN_LINE = re.compile(r"# not run by the tests: .{5,}")
EXIT = re.compile(r"# exit (\d)$")
DOCTOR_CODES = {0, 1, 2}  # the machine's file system decides


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    kind: str
    text: str
    is_run: bool


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, match.start()) + 2,
            match.group(1),
            match.group(2),
            NOT_RUN.search(text[: match.start()]) is None,
        )
        for match in FENCE.finditer(text)
    ]


def commands(block: Block) -> list[tuple[str, list[str]]]:
    """The `$` lines of a console block, each with the lines of output under it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"{block.page.name}:{block.line}: output before the first command"
            found[-1][1].append(line)
    return found


# --- running ------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_runs(page: Path, tmp_path: Path) -> None:
    """D2, D5, U1: what the pages show works as shown."""
    for block in blocks(page):
        assert block.kind in KINDS, f"{page.name}:{block.line}: a block of kind {block.kind!r}"
        if not block.is_run:
            continue
        if block.kind == "python":
            _run_python(block, tmp_path)
        if block.kind == "console":
            for command, expected in commands(block):
                if not NOT_RUN_LINE.search(command):
                    _run_command(block, command, expected, tmp_path)


def _run_python(block: Block, directory: Path) -> None:
    script = directory / f"block-{block.line}.py"
    script.write_text("\n" * (block.line - 1) + block.text, encoding="utf-8")
    done = _run([sys.executable, "-X", "dev", "-W", "error", str(script)], directory)
    assert done.returncode == 0, f"{block.page.name}:{block.line}\n{done.stdout}"


def _run_command(block: Block, command: str, expected: list[str], directory: Path) -> None:
    words = shlex.split(command, comments=True)
    where = f"{block.page.name}:{block.line}: {command}"
    assert words[0] == "lychgate", f"{where}: not a command that a test may run"
    done = _run([sys.executable, "-m", "lychgate_tools.cli", *words[1:]], directory)
    said = EXIT.search(command)  # "# exit 1": what is shown is a failure
    codes = {int(said[1])} if said else DOCTOR_CODES if words[1] == "doctor" else {0}
    assert done.returncode in codes, f"{where}\n{done.stdout}"
    left = done.stdout.splitlines()
    for line in expected if said or done.returncode == 0 else []:
        pattern = _pattern(line)
        while left and not pattern.fullmatch(left[0].rstrip()):
            left.pop(0)
        assert left, f"{where}: no such line (from there on): {line}\n{done.stdout}"
        left.pop(0)


def _pattern(line: str) -> re.Pattern[str]:
    """A line of shown output as what a real one must match."""
    text = re.escape(re.sub(r"\s+", " ", line.strip()))
    text = text.replace(re.escape("..."), ".*").replace(r"\ ", r"\s+")
    return re.compile(r"\s*" + re.sub(r"\d[\d,]*(\\\.\d+)?", r"[\\d,.]+", text))


def _run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=directory, text=True, timeout=120,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_shown_output_is_matched_loosely_in_numbers_only() -> None:
    """D33: the comparison of shown and real output notices a word that differs."""
    assert _pattern("ok   fsync takes 158 µs (median of 7)").fullmatch(
        "ok fsync takes 4,211.5 µs (median of 9)"
    )
    assert _pattern("conform ... cases").fullmatch("conform 117 cases")
    assert not _pattern("ok fsync takes 158 µs").fullmatch("ok fsync took 158 µs")


# --- commands -----------------------------------------------------------------------------------


def _shown_commands() -> list[tuple[str, str]]:
    """Every `lychgate …` line of a console block and every such code span, with its place."""
    found: list[tuple[str, str]] = []
    for page in PAGES:
        for block in blocks(page):
            if block.kind == "console":
                found += [(page.name, command) for command, _ in commands(block)]
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        found += [(page.name, span) for span in re.findall(r"`(lychgate [a-z][^`]*)`", prose)]
    return [(page, text) for page, text in found if text.startswith("lychgate ")]


@pytest.mark.parametrize(("page", "command"), _shown_commands())
def test_every_shown_command_line_is_valid(page: str, command: str) -> None:
    """F3: subcommand and options of every command line in the pages exist."""
    name, *words = shlex.split(command, comments=True)[1:]
    assert name in COMMANDS, f"{page}: there is no command {name!r}"
    if not words:
        return  # its name alone, in prose
    parser = build_parser(name)
    try:
        parser.parse_args([name, *words])
    except SystemExit as ended:  # --help
        assert ended.code == 0


def test_every_command_is_in_the_pages() -> None:
    """F3: a command that nobody documents does not ship."""
    shown = {shlex.split(command, comments=True)[1] for _, command in _shown_commands()}
    assert set(COMMANDS) <= shown, set(COMMANDS) - shown


def test_every_command_has_help_with_an_example() -> None:
    """F3: each subcommand says what it does and shows a line to begin with."""
    for name in COMMANDS:
        parser = build_parser(name)
        (sub,) = (
            action.choices[name]
            for action in parser._actions
            if isinstance(action, argparse._SubParsersAction)
        )
        assert f"lychgate {name}" in str(sub.epilog), name


# --- links and names ----------------------------------------------------------------------------


def _anchors(page: Path) -> set[str]:
    """Headings as GitHub names them."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower().replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """F3: every relative link names a file of the repository, and a heading of it."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in _anchors(linked), f"{page.name}: {target}"


def _text(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def test_public_names_are_in_the_guide() -> None:
    """D2, D5: everything that `lychgate` and `lychgate.aio` export is in the guide."""
    guide = _text("guide.md")
    missing = [name for name in lychgate.__all__ if not re.search(rf"\b{name}\b", guide)]
    missing += [f"aio.{name}" for name in getattr(aio, "__all__", ()) if f"aio.{name}" not in guide]
    assert not missing


def test_facade_is_in_the_guide() -> None:
    """D2: every method of the facade has its line."""
    guide = _text("guide.md")
    for name in (*vars(Backend), "tick", "sync", "stats", "close"):
        assert name.startswith("_") or f"| `{name}(" in guide, name


def test_counters_are_in_the_guide() -> None:
    """D33: every counter of the disk backend has its line."""
    guide = _text("guide.md")
    source = ROOT / "reference" / "lychgate"
    for module in ("_dead.py", "_disk.py", "_lock.py", "_wal.py", "_wal_file.py"):
        for name in re.findall(r'count\("(\w+)"', (source / module).read_text(encoding="utf-8")):
            assert f"`{name}`" in guide, name


def _spec_names() -> set[str]:
    """Modules, models, definitions, constants and variables of the spec."""
    known: set[str] = set()
    for path in (ROOT / "spec").rglob("*"):
        if path.suffix in (".tla", ".cfg"):
            known.add(path.stem)
        if path.suffix == ".tla":
            known.update(re.findall(r"\b[A-Z]\w*", path.read_text(encoding="utf-8")))
    return known


def test_names_of_the_spec_exist() -> None:
    """D20: every model, module and property that the pages name is in the spec."""
    named = {
        name
        for page in ("decisions.md", "guide.md")
        for name in re.findall(
            r"`((?:DeadTasks|Lock|Wal|Queue|Backend|Journal|Store)[A-Z]\w*)`", _text(page)
        )
    }
    named |= set(re.findall(r"`([A-Z]\w*[a-z]\w*)`", FENCE.sub("", _text("spec-tour.md"))))
    missing = named - _spec_names() - set(lychgate.__all__)
    assert not missing


def test_every_module_is_in_the_tour() -> None:
    """D20: no module of the spec goes unexplained."""
    tour = _text("spec-tour.md")
    missing = {path.name for path in (ROOT / "spec").glob("*.tla") if f"/{path.name})" not in tour}
    assert not missing


KINDS = frozenset({"python", "console", "protocol", "wal", "dead", "names", "lock"})
