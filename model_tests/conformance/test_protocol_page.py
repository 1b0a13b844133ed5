"""docs/protocol.md: every conversation in it is held, and its adapter passes `smoke`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conformance.languages import LOG_STORE
from lychgate_conformance import Options, Verdict, run
from lychgate_conformance._claims import QUEUE as QUEUE_CLAIMS, STDIO, Claims, as_mapping
from lychgate_conformance._findings import FINDINGS
from lychgate_conformance._schema import load
from lychgate_conformance._session import CODES, Command
from lychgate_conformance._smoke import smoke
from lychgate_conformance._target import load_command
from lychgate_conformance.adapters import HOME

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
TEXT = PAGE.read_text(encoding="utf-8")
TALKS = re.findall(r"^```protocol\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
QUEUE = "lychgate_conformance.adapters.sqlite_queue:SqliteQueue"


@pytest.mark.parametrize("number", range(len(TALKS)))
def test_a_shown_conversation_is_held(number: int, tmp_path: Path) -> None:
    """D2, D30, L1: the shipped adapter gives the shown replies; times and `…` are anything."""
    lines = [line for line in TALKS[number].splitlines() if line]
    backend = QUEUE if '"profile":"delivery"' in TALKS[number] else LOG_STORE
    sent = [json.loads(line[2:]) for line in lines if line.startswith("→ ")]
    shown = [json.loads(line[2:]) for line in lines if line.startswith("← ")]
    assert len(sent) == len(shown) == len(lines) / 2
    for message in sent:
        if "path" in message:
            message["path"] = str(tmp_path / "store")
    done = subprocess.run(
        [sys.executable, str(HOME / "python_adapter.py"), backend],
        input="".join(json.dumps(it) + "\n" for it in sent),
        capture_output=True,
        text=True,
        check=True,
    )
    for message, want, line in zip(sent, shown, done.stdout.splitlines(), strict=True):
        assert alike(json.loads(line), want), line
        verb = message["do"]
        protocol = load("protocol-1")
        assert protocol.problem(want, "reply") is None
        if "ok" in want:
            assert protocol.problem(message) is None
            assert protocol.problem(want["ok"], f"{verb}.result") is None


def alike(got: Any, shown: Any, name: str = "") -> bool:
    if shown == "…" or name in ("t", "failed_at"):
        return type(got) is type(shown)
    if isinstance(shown, dict):
        same = isinstance(got, dict) and got.keys() == shown.keys()
        return same and all(alike(got[key], shown[key], key) for key in shown)
    if isinstance(shown, list):
        return len(got) == len(shown) and all(map(alike, got, shown))
    return bool(got == shown)


@pytest.fixture
def page_adapter(tmp_path: Path) -> Command:
    """The adapter in the page, as a program."""
    (code,) = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    program = tmp_path / "page_adapter.py"
    program.write_text(code, encoding="utf-8")
    return Command((sys.executable, str(program)))


def test_the_adapter_in_the_page_works(page_adapter: Command, tmp_path: Path) -> None:
    """D2: somebody who copies it has a conformant adapter."""
    result = smoke(page_adapter, base=str(tmp_path))
    assert [it.message for it in result.outcomes if it.verdict not in ("ok", "left out")] == []
    ids = ("L0-ADD-005", "L0-DEAD-011", "L0-SEQ-001", "L0-TEXT-003", "L1-KILL-001")
    report = run(load_command(page_adapter), Options(case_ids=ids))
    verdicts = [it.verdict for it in report.results]
    assert verdicts == [Verdict.PASS] * 4 + [Verdict.NOT_CLAIMED]


def rows(first: str) -> dict[str, list[str]]:
    """The table whose first header is `first`: name in the first column, the other cells."""
    table = TEXT.partition(f"\n| {first} |")[2].partition("\n\n")[0]
    found = {}
    for line in table.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for name in re.findall(r"`([^`]+)`", cells[0]):
            found[name] = cells[1:]
    return found


def test_the_tables_are_those_of_the_suite() -> None:
    """F3: claims with their defaults, capabilities, verbs, error codes and findings."""
    defs = load("protocol-1").document["$defs"]
    for header, claims in (("claim", STDIO), ("claim of a queue", QUEUE_CLAIMS)):
        shown = {name: cells[0].split(",")[0] for name, cells in rows(header).items()}
        assert shown == defaults(claims), header
    offered = defs["hello.result"]["properties"]["capabilities"]["items"]["enum"]
    assert set(rows("capability")) == set(offered)
    codes = {name: cells[0] for name, cells in rows("code").items()}
    said = {True: "true", False: "false", None: "as you say"}
    assert codes == {name: said[definite] for name, definite in CODES.items()}
    assert {name: cells[0] for name, cells in rows("finding").items()} == {
        name: meaning for name, (meaning, _) in FINDINGS.items()
    }


def defaults(claims: Claims) -> dict[str, str]:
    words = {True: "true", False: "false"}
    return {
        name: words[value] if isinstance(value, bool) else f"`{value}`"
        for name, value in as_mapping(claims).items()
    }


def test_every_verb_is_in_the_page() -> None:
    """F3: what a schema has and nobody documents does not ship."""
    for name in load("protocol-1").document["$defs"]:
        if name.endswith(".request"):
            assert f"`{name.removesuffix('.request')}`" in TEXT, name


def test_findings_lead_to_headings() -> None:
    """F3: the page that a finding names has that heading."""
    headings = {it.lower().replace(" ", "-") for it in re.findall(r"^## (.+)$", TEXT, re.MULTILINE)}
    assert {anchor for _, anchor in FINDINGS.values()} <= headings
