"""`lychgate explain`, `lychgate page` and their like: bad input, narrow and old terminals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest

from lychgate_conformance._verdict import NotMeasured
from lychgate_conformance.blackbox._traced import need_strace
from lychgate_tools.cli import main
from lychgate_tools.page.document import FORMAT, SCHEMA, VERSION
from lychgate_tools.page.lessons import LESSONS
from lychgate_tools.ui import ExitCode

QUICK = "rename-without-fsync"


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(words)
    found = capsys.readouterr()
    return code, found.out, found.err


def test_the_scenarios_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(["explain", "--list", "--json"], capsys)
    assert code == ExitCode.OK
    assert [it["name"] for it in json.loads(out)] == [it.name for it in LESSONS]


@pytest.mark.parametrize(
    "words, code, told",
    [
        (["explain", "gost-inode"], ExitCode.USAGE, "did you mean ghost-inode?"),
        (["explain"], ExitCode.USAGE, "name a scenario"),
        (["explain", QUICK, "--open"], ExitCode.USAGE, "--output"),
        (["explain", QUICK, "--output", "/proc/page.html"], ExitCode.FAULT, "name another file"),
        (["explain", QUICK, "--run", "/proc/files"], ExitCode.FAULT, "cannot use"),
        (["page", "missing.json"], ExitCode.USAGE, "cannot read missing.json"),
        (["check", "Lock", "--page", "x.html"], ExitCode.USAGE, "--trace"),
    ],
)
def test_bad_input(
    words: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that says what to do."""
    found, _, err = said(words, capsys)
    assert found == code
    lines = [line for line in err.splitlines() if line.startswith("lychgate: ")]
    assert len(lines) == 1 and told in lines[0]


@pytest.mark.parametrize(
    "content, told",
    [
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", f"its format is not {FORMAT}"),
        (b'{"format": "lychgate-steps", "version": 9}', f"version 9 of {FORMAT}, this program"),
        (b'{"format": "lychgate-steps", "version": 1}', "is missing"),
    ],
)
def test_a_file_that_is_no_trace(
    content: bytes, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    code, _, err = said(["page", str(path)], capsys)
    assert code == ExitCode.USAGE and told in err and len(err.splitlines()) == 1


def test_a_trace_file_becomes_the_same_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """explain → trace file → page is what explain → page is; the text is the same, too."""
    trace, first, second = (str(tmp_path / it) for it in ("t.json", "a.html", "b.html"))
    assert main(["explain", QUICK, "--output", trace]) == ExitCode.OK
    assert main(["explain", QUICK, "--output", first]) == ExitCode.OK
    assert main(["page", trace, "--output", second]) == ExitCode.OK
    assert Path(first).read_bytes() == Path(second).read_bytes()
    assert json.loads(Path(trace).read_bytes())["version"] == VERSION
    capsys.readouterr()
    _, text, _ = said(["page", trace], capsys)
    assert text == said(["explain", QUICK], capsys)[1]


def test_every_kind_has_a_look() -> None:
    """Shapes and pieces: the style knows each kind of the schema, and the text each piece."""
    kinds = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    style = SCHEMA.with_name("page.css").read_text(encoding="utf-8")
    for kind in kinds["step"]["properties"]["kind"]["enum"]:
        assert f".shape.{kind}" in style, kind
    plain = {"record"}  # the look of a piece without more
    for kind in set(kinds["piece"]["properties"]["kind"]["enum"]) - plain:
        assert f".piece.{kind}" in style, kind


def test_a_trace_that_refers_to_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.json"
    assert main(["explain", QUICK, "--output", str(path)]) == ExitCode.OK
    document = json.loads(path.read_bytes())
    document["steps"][1]["worker"] = "nobody"
    path.write_text(json.dumps(document))
    code, _, err = said(["page", str(path)], capsys)
    assert code == ExitCode.USAGE and "'nobody', which is not listed" in err


def test_a_page_is_safe_whatever_a_trace_says(tmp_path: Path) -> None:
    """Text of a trace cannot end its element, and loads nothing."""
    path = tmp_path / "t.json"
    assert main(["explain", QUICK, "--output", str(path)]) == ExitCode.OK
    document = json.loads(path.read_bytes())
    document["meta"]["title"] = "</script><script>alert(1)</script>{{data}}\ud800"
    path.write_text(json.dumps(document))
    assert main(["page", str(path), "--output", str(tmp_path / "p.html")]) == ExitCode.OK
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page and "</script><script>" not in page
    assert "http:" not in page and "https:" not in page and "src=" not in page


def test_old_narrow_and_piped_terminals() -> None:
    """40 columns, a pipe, NO_COLOR, a locale that is not UTF-8: no traceback, no escape codes."""
    env = {**os.environ, "COLUMNS": "40", "NO_COLOR": "1", "LC_ALL": "C", "PYTHONUTF8": "0"}
    env |= {"PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "lychgate_tools.cli", "explain", QUICK]
    done = subprocess.run(command, capture_output=True, env=env, check=True)
    text = done.stdout.decode("ascii")
    assert "\x1b" not in text and "X promise is broken" in " ".join(text.split())
    assert all(len(line) <= 40 or " " not in line.strip() for line in text.splitlines())


@pytest.mark.parametrize("answer", [False, webbrowser.Error("none")])
def test_without_a_browser_the_page_is_there(
    answer: bool | Exception,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def opened(url: str) -> bool:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(webbrowser, "open", opened)
    path = tmp_path / "p.html"
    code, out, err = said(["explain", QUICK, "--output", str(path), "--open"], capsys)
    assert code == ExitCode.OK and not out and path.is_file()
    assert f"no browser here; open {path} yourself" in err


def test_the_full_text_has_calls_places_and_every_outcome(
    capsys: pytest.CaptureFixture[str],
) -> None:
    short = said(["explain", QUICK], capsys)[1]
    full = said(["explain", QUICK, "--full"], capsys)[1]
    assert "call: rename(2)" in full and "see: spec/FileSystem.tla:" in full
    assert "next: the program" not in short and "next: p append" in full
    assert short.count("×100") < full.count("×100")


def test_a_counter_example_without_files_becomes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """U3: of a module without files the page shows what changes in its variables."""
    path = tmp_path / "t.json"
    code, out, _ = said(["check", "--trace", "QueueRemoveFirst", "--page", str(path)], capsys)
    document = json.loads(path.read_bytes())
    assert code == ExitCode.OK and "violates NoGivenUpLoss" in out
    assert document["objects"] == [] and document["steps"][-1]["verdicts"].count("broken") == 1
    assert all(it.get("says") for it in document["steps"][1:])
    assert document["steps"][-1]["links"]["spec"].startswith("spec:spec/QueueBroken.tla")


def test_a_run_on_real_files_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = tmp_path / "files"
    code, out, _ = said(["explain", QUICK, "--run", str(where), "--json"], capsys)
    told = json.loads(out)
    assert code == ExitCode.OK and told["steps"][-1] == "rename t f"
    assert (where / "live" / "f").read_bytes() == b"b" * 100
    code, _, err = said(["explain", QUICK, "--run", str(where)], capsys)
    assert code == ExitCode.USAGE and "not empty" in err


def test_a_trace_of_the_engine_becomes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `lychgate trace record` wrote: every event is a step, with what could be seen."""
    assert main(["trace", "record", "simulator-faults", "--out", str(tmp_path)]) == ExitCode.OK
    (path,) = tmp_path.glob("*.jsonl")
    capsys.readouterr()
    code, out, _ = said(["page", str(path), "--json"], capsys)
    document = json.loads(out)
    events = path.read_text().splitlines()[1:]
    assert code == ExitCode.OK and len(document["steps"]) == len(events) + 1
    changed = sum('"seen"' in it for it in events)
    assert changed and sum("changes" in it for it in document["steps"][1:]) == changed


def test_a_failed_case_becomes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D12: a foreign backend that renames what it has not synced; its recorded calls, the words
    that it acknowledged, and the image of the crash that loses one."""
    try:
        need_strace()
    except NotMeasured as reason:
        pytest.skip(str(reason))
    backend = "lychgate_conformance.mutants.durable:StagingNotFsynced"
    main(["conform", backend, "--case", "L3-DLQ-002", "--report", str(tmp_path)])
    (report,) = tmp_path.glob("*.json")
    path = tmp_path / "page" / "trace.json"
    path.parent.mkdir()
    assert main(["replay", str(report), "--page", str(path)]) == ExitCode.OK
    document = json.loads(path.read_bytes())
    last = document["steps"][-1]
    assert last["verdicts"] == ["broken"] and last["action"] == "HostCrash"
    (taken,) = [it for it in last["crash"]["outcomes"] if it["taken"]]
    assert taken["holds"] is False and "lost" in taken["verdict"]
    actions = [it["action"] for it in document["steps"]]
    assert actions.index("rename") < len(actions) - 1
    assert any(it.get("says") == "dead:a is acknowledged" for it in document["steps"])
    capsys.readouterr()


def test_a_plan_of_the_lab_becomes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`lychgate replay` on a plan: the page shows the verdict that the replay gives."""
    plan = (
        '{"target":"no-fsync-data","model":"portable","workload":"new;0;add:a","fault":null,'
        '"setting":{},"phases":[[["26x"],null,"kill"]]}'
    )
    path = tmp_path / "plan.json"
    code, out, _ = said(["replay", plan, "--page", str(path)], capsys)
    assert code == ExitCode.OK and "nothing is broken" in out
    document = json.loads(path.read_bytes())
    assert document["meta"]["holds"] is True and document["steps"][-1]["action"] == "Kill"
