"""Reports, and what is done with them: HTML, JUnit, expectations, verify, replay."""

from __future__ import annotations

import json
import re
import shlex
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from conformance.languages import LOG_STORE, python_adapter
from lychgate_conformance import Options, Report, Verdict, load_target, run
from lychgate_conformance._html import as_html
from lychgate_conformance._junit import as_junit
from lychgate_conformance._report import as_json, as_text
from lychgate_conformance._schema import load
from lychgate_conformance._target import load_command
from lychgate_tools.cli import main

NEWEST_FIRST = "lychgate_conformance.mutants.dead:NewestFirst"
CONTROL = "lychgate_conformance._control:Control"
IDS = ("L0-ADD-001", "L0-DEAD-005", "L0-DMG-001")


@pytest.fixture(scope="module")
def report() -> Report:
    """One case that passes, one that fails, one that is not claimed."""
    return run(load_target(NEWEST_FIRST), Options(case_ids=IDS))


class Page(HTMLParser):
    """Checks that tags are closed in order; collects ids, rows, links and outside addresses."""

    VOID = ("meta", "input", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.rows: dict[str, str] = {}
        self.outside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag not in self.VOID:
            self.open.append(tag)
        if named.get("id"):
            self.ids.append(str(named["id"]))
        if "data-verdict" in named:
            self.rows[str(named["id"])] = str(named["data-verdict"])
        self.outside += [str(named[it]) for it in ("src", "href") if named.get(it)]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_alone(report: Report) -> None:
    """One file: every case, the digest, the claims, the data; nothing from elsewhere."""
    text = as_html(report)
    page = Page(text)
    assert page.open == [] and len(set(page.ids)) == len(page.ids)
    assert page.rows == {it.case.id: it.verdict.value for it in report.results}
    assert all(it.startswith("#L") for it in page.outside)
    assert not re.search(r"https?://|@import|url\(", text)
    for said in (report.sentence, as_json(report)["suite"]["digest"], "pending_scope", "python"):
        assert said in text
    data = re.search(r'id="report">(.*?)</script>', text, re.DOTALL)
    assert data is not None and json.loads(data[1]) == as_json(report)


HOSTILE = """
from lychgate_conformance._control import Control

class Hostile(Control):
    claims = {"pending_scope": "all"}

    def remove_task(self, task_id):
        raise ValueError("</script><script>alert(1)</script>\\x00\\ud83d & <b>")
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"hostile_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(HOSTILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return f"{name}:Hostile"


def test_what_a_backend_says_cannot_change_a_report(hostile: str, tmp_path: Path) -> None:
    """F3: markup, NUL and lone surrogates in an error text."""
    found = run(load_target(hostile), Options(case_ids=("L0-REM-002",)))
    assert Page(as_html(found)).rows == {"L0-REM-002": "fail"}
    assert "<script>alert" not in as_html(found)
    ElementTree.fromstring(as_junit(found).encode())
    as_json(found), as_text(found).encode("utf-8")


def test_junit(report: Report) -> None:
    root = ElementTree.fromstring(as_junit(report).encode())
    (suite,) = root
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["3", "1", "0", "1"]
    cases = {str(it.get("name"))[:11].strip(): [inner.tag for inner in it] for it in suite[1:]}
    assert cases == {"L0-ADD-001": [], "L0-DEAD-005": ["failure"], "L0-DMG-001": ["skipped"]}


def test_json_is_by_its_schema(report: Report) -> None:
    assert load("report-1").problem(json.loads(json.dumps(as_json(report)))) is None


# --- commands -----------------------------------------------------------------------------------


@pytest.fixture
def saved(report: Report, tmp_path: Path) -> Path:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(as_json(report)))
    return path


def test_the_verdict_of_a_report_stands(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(saved)]) == 0
    assert "the verdict 'not conformant' stands" in capsys.readouterr().out


def _pass(said: Any) -> None:
    said["verdict"], said["exit_code"] = "conformant", 0


def _hide(said: Any) -> None:
    said["results"] = [it for it in said["results"] if it["verdict"] != "fail"]
    said["counts"]["fail"] = 0
    said["executed"].remove("L0-DEAD-005")
    _pass(said)


def _excuse(said: Any) -> None:
    said["results"][1]["expected"] = "it is like that"


def _repeat(said: Any) -> None:
    said["results"].append(said["results"][0])


def _invent(said: Any) -> None:
    said["results"].append({**said["results"][0], "id": "L0-EASY-001"})


FORGED = {
    "exit_code is 0": _pass,
    "1 cases are missing, L0-DEAD-005": _hide,
    "its expectation is not the one of the run": _excuse,
    "L0-ADD-001 stands 2 times": _repeat,
    "L0-EASY-001 is no case of this suite": _invent,
}


@pytest.mark.parametrize("said", FORGED)
def test_a_forged_report_does_not_stand(
    said: str, saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = json.loads(saved.read_text())
    FORGED[said](forged)
    saved.write_text(json.dumps(forged))
    assert main(["verify", str(saved)]) == 1
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "other"}', "\0", "[" * 100_000])
def test_what_is_no_report_is_one_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    for command in ("verify", "replay", "expect"):
        assert main([command, str(path)]) == 4
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["verify", str(tmp_path / "absent.json")]) == 4


def test_replay_runs_what_failed(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(saved)]) == 0
    out = capsys.readouterr().out
    assert "FAIL  L0-DEAD-005" in out and "every case ended as in the report" in out


def test_replay_notices_another_end(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = json.loads(saved.read_text())
    said["results"][0]["verdict"] = "fail"
    saved.write_text(json.dumps(said))
    assert main(["replay", str(saved), "--case", "L0-ADD-001"]) == 1
    assert "L0-ADD-001 was 'fail' and is 'pass'" in capsys.readouterr().out
    assert main(["replay", str(saved), "--case", "L1-KILL-001"]) == 4


def test_replay_of_an_adapter_uses_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = python_adapter(NEWEST_FIRST).words
    report = tmp_path / "r"
    case = ["--case", "L0-DEAD-005"]
    assert main(["conform", *case, "--report", str(report), "--", *words]) == 1
    (path,) = report.glob("*.json")
    capsys.readouterr()
    assert main(["replay", str(path), "--show"]) == 0
    assert shlex.split(capsys.readouterr().out)[0] == sys.executable
    assert main(["replay", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"same": True, "cases": {"L0-DEAD-005": "fail"}}


def test_expected_failures(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A known failure needs a reason, makes the run conformant, and must not go stale."""
    known = tmp_path / "known.json"
    assert main(["expect", str(saved)]) == 1
    assert main(["expect", str(saved), "--write", str(known)]) == 4
    assert "give --reason" in capsys.readouterr().err
    assert main(["expect", str(saved), "--write", str(known), "--reason", "issue 12"]) == 0
    assert main(["expect", str(saved), "--old", str(known)]) == 0
    cases = ["--case", "L0-ADD-001", "--case", "L0-DEAD-005", "--expect", str(known)]
    capsys.readouterr()
    assert main(["conform", NEWEST_FIRST, *cases]) == 0
    out = capsys.readouterr().out
    assert "KNOWN FAIL  L0-DEAD-005" in out and "expected: issue 12" in out
    assert "breaks a promise in 1 cases, all of them expected" in out
    assert main(["conform", CONTROL, *cases, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["stale"] == {"L0-DEAD-005": "pass"} and said["verdict"] == "not conformant"
    saved.write_text(json.dumps(said))
    assert main(["verify", str(saved)]) == 0
    assert main(["expect", str(saved), "--write", str(known)]) == 0
    assert json.loads(known.read_text())["failures"] == []


BROKEN_LISTS = {
    "stands twice": [{"id": "L0-ADD-001", "reason": "a"}, {"id": "L0-ADD-001", "reason": "b"}],
    "no case named": [{"id": "L0-ADD-999", "reason": "a"}],
    "reason: the length is 0": [{"id": "L0-ADD-001", "reason": ""}],
}


@pytest.mark.parametrize("said", BROKEN_LISTS)
def test_a_list_of_known_failures_that_is_wrong(
    said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "known.json"
    failures = BROKEN_LISTS[said]
    head = {"schema": "lychgate-expectations/1", "backend": "x"}
    path.write_text(json.dumps({**head, "failures": failures}))
    assert main(["conform", CONTROL, "--case", "L0-ADD-001", "--expect", str(path)]) == 4
    assert said in capsys.readouterr().err


# --- claims and budgets -------------------------------------------------------------------------


def test_a_claim_of_less_than_the_backend_does_is_reported() -> None:
    """D2, U2: the log store keeps the caller's ids, whatever it says."""
    target = load_command(python_adapter(LOG_STORE, "caller_ids=no", "list_order=any"))
    report = run(target, Options(case_ids=("L0-ADD-001",), probe=True))
    assert {"caller_ids", "list_order"} <= {it.claim for it in report.understated}
    assert "reclaims_space" not in {it.claim for it in report.understated}  # its log only grows
    assert "It claims less than it does: caller_ids=yes" in as_text(report)
    assert report.exit_code == 0


def test_a_budget_ends_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """What was not begun is inconclusive, and the run with it."""
    report = run(load_target(CONTROL), Options(levels=(0,), budget_s=1e-9))
    assert {it.verdict for it in report.results} == {Verdict.INCONCLUSIVE}
    assert report.exit_code == 2 and "the budget of" in as_text(report)
    assert main(["conform", CONTROL, "--budget", "0"]) == 4
