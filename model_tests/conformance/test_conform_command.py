"""`lychgate conform`: exit codes, words, reports, bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lychgate_tools.cli import main

CONTROL = "lychgate_conformance._control:Control"

BAD = """
from lychgate_conformance._control import Control

def raises(**options):
    raise ValueError("no such database\\nsecond line")

def gives_nothing(**options):
    return None

def takes_nothing():
    return Control()

def ends(**options):
    import os
    os._exit(7)

def leaves(**options):
    raise SystemExit("done")

class NoFind(Control):
    find_dead_task = None

class OtherNames(Control):
    def add_task(self, work, when):
        return "x"

class StrangeClaims(Control):
    claims = ["everything"]

class UnknownClaim(Control):
    claims = {"survives_meteorites": True}

class Noisy(Control):
    claims = {"pending_scope": "all", "fork_safe": False}

    def add_task(self, *args, **kwargs):
        print("{\\"n\\": 1, \\"ok\\": \\"not a reply\\"}", flush=True)
        return super().add_task(*args, **kwargs)

class Dies(Control):
    claims = {"pending_scope": "all"}

    def remove_task(self, task_id):
        import os, signal
        os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an importable module of backends that are no good."""
    name = f"bad_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(BAD)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def conform(*words: str) -> int:
    return main(["conform", *words])


def test_a_conformant_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert conform(CONTROL, "--case", "L0-ADD-001", "--case", "L1-KILL-001") == 0
    out = capsys.readouterr().out
    assert "keeps every promise that was tried (2 cases)" in out


def test_a_failure_prints_the_command_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert conform("--mutant", "first-wins", "--case", "L0-ADD-005", "--seed", "7") == 1
    out = capsys.readouterr().out
    line = next(it for it in out.splitlines() if "replay:" in it)
    words = line.split("replay: lychgate conform ")[1].split()
    assert conform(*words) == 1
    assert capsys.readouterr().out.splitlines()[:3] == out.splitlines()[:3]


def test_json_names_everything(capsys: pytest.CaptureFixture[str]) -> None:
    skip = "L0-ADD-003=known, see issue 12"
    assert (
        conform(
            CONTROL,
            "--case",
            "L0-ADD-001",
            "--case",
            "L0-ADD-003",
            "--case",
            "L0-DMG-001",
            "--skip",
            skip,
            "--json",
        )
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    assert report["schema"] == "lychgate-conformance/1"
    assert len(report["suite"]["digest"]) == 64 and report["seed"] == 0 and report["complete"]
    assert report["executed"] == ["L0-ADD-001"]
    verdicts = {it["id"]: (it["verdict"], it["message"]) for it in report["results"]}
    assert verdicts == {
        "L0-ADD-001": ("pass", ""),
        "L0-ADD-003": ("skipped by user", "known, see issue 12"),
        "L0-DMG-001": ("not claimed", "not claimed: disk_layout"),
    }
    assert report["backend"]["claims"]["pending_scope"] == "all"


def test_reports_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conform(CONTROL, "--case", "L0-ADD-001", "--report", str(tmp_path / "r")) == 0
    capsys.readouterr()
    names = sorted(it.name for it in (tmp_path / "r").iterdir())
    assert [Path(it).suffix for it in names] == [".html", ".json", ".txt", ".xml"]
    assert json.loads((tmp_path / "r" / names[1]).read_text())["exit_code"] == 0


def test_the_same_seed_gives_the_same_report(capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for _ in range(2):
        conform("--mutant", "newest-first", "--case", "L0-SEQ-001", "--seed", "5", "--json")
        report = json.loads(capsys.readouterr().out)
        report.pop("seconds")
        assert report["results"][0].pop("seconds") > 0
        found.append(report)
    assert found[0] == found[1]


def test_files_go_where_they_are_sent_and_do_not_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = str(tmp_path / "made")
    assert conform(CONTROL, "--case", "L0-ADD-001", "--case", "L1-OPEN-001", "--path", made) == 0
    assert [it.name for it in tmp_path.rglob("*")] == ["made"]


def test_nothing_tried_is_inconclusive(capsys: pytest.CaptureFixture[str]) -> None:
    assert conform(CONTROL, "--case", "L0-DMG-001") == 2


def test_claims_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert conform(CONTROL, "--case", "L0-TEXT-001", "--claim", "caller_ids=no") == 2
    assert "not claimed: caller_ids" in capsys.readouterr().out


def test_what_the_backend_prints_is_no_reply(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert conform(f"{bad}:Noisy", "--case", "L0-ADD-003") == 0


def test_a_backend_that_dies_has_failed(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A crash is never an expected refusal, and the next case has a new process."""
    assert conform(f"{bad}:Dies", "--case", "L0-REM-002", "--case", "L0-ADD-001") == 1
    out = capsys.readouterr().out
    assert "SIGSEGV" in out and "FAIL  L0-REM-002" in out and "L0-ADD-001" not in out


FAULTS = {
    "raises": "cannot be opened: ValueError: no such database",
    "gives_nothing": "gave a NoneType that is no backend: it has no method add_task",
    "takes_nothing": "cannot be opened: TypeError",
    "ends": "cannot be opened: the process that held the backend ended: exit code 7",
    "leaves": "cannot be opened: the process that held the backend ended",
    "NoFind": "it has no method find_dead_task",
    "OtherNames": "add_task cannot be called as add_task(task, publish_at=None, task_id=None)",
    "StrangeClaims": "declares claims that are no mapping",
    "UnknownClaim": "no claim named 'survives_meteorites'",
    "Absent": "has no attribute 'Absent'",
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_adapter_is_one_line(
    name: str, bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3, no traceback; `--debug` shows one where there is one."""
    assert conform(f"{bad}:{name}") == 3
    captured = capsys.readouterr()
    assert FAULTS[name] in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_debug_shows_the_traceback(bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert conform(f"{bad}:raises", "--debug") == 3
    assert "Traceback" in capsys.readouterr().err


USAGE = {
    (): "name a backend",
    ("dsik",): "no backend named 'dsik'",
    ("disk", "--case", "L0-ADD-999"): "did you mean L0-ADD-00",
    ("disk", "--level", "9"): "no level 9; there are: 0, 1",
    ("disk", "--mutant", "first-wins"): "a backend or a mutant, not both",
    ("--mutant", "fist-wins"): "did you mean first-wins?",
    ("disk", "--skip", "L0-ADD-001"): "--skip L0-ADD-001=REASON",
    ("disk", "--claim", "durable"): "no claim named 'durable'",
    ("disk", "--claim", "list_order=none"): "one of file, any",
    ("disk", "--claim", "stores=perhaps"): "is yes or no",
    ("disk", "--seed", "x"): "invalid int value",
}


@pytest.mark.parametrize("words", USAGE, ids=" ".join)
def test_a_wrong_command_line_is_one_line(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert conform(*words) == 4
    captured = capsys.readouterr()
    assert USAGE[words] in captured.err and captured.err.count("\n") == 1 and captured.out == ""


def test_a_path_that_cannot_be_used_is_a_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert conform("disk", "--path", "/proc/nowhere") == 3
    assert "cannot be written to" in capsys.readouterr().err


def test_the_list_names_cases_and_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    assert conform("--list", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert all(it["mutants"] and it["requires"] for it in listed["cases"])
    assert conform("--list", "--level", "1") == 0
    out = capsys.readouterr().out
    assert "L1-KILL-001" in out and "L0-ADD-001" not in out and "first-wins" in out


def test_help_ends_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        conform("--help")
    assert ended.value.code == 0
    assert "lychgate conform disk" in capsys.readouterr().out


def test_the_working_directory_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_store_here.py").write_text(BAD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [it for it in sys.path if it])
    assert conform("my_store_here:Noisy", "--case", "L1-OPEN-001") == 0
