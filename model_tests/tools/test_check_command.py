"""`lychgate check` with the real TLC on a tiny spec: what passes, what drifts, what breaks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tools import tiny

from lychgate_tools.cli import main
from lychgate_tools.ui import ExitCode


def _lychgate(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return code, out, err


def test_everything_as_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdict, property, counter-example and counts agree. What a negative model takes, Barge, is
    not counted: it would hide that no model that holds takes it. A space is in the name."""
    spec = tiny.write(tmp_path / "a spec")
    code, out, _ = _lychgate(
        capsys, "check", "--spec", str(spec), "--json", "--reports", str(tmp_path / "reports")
    )
    report = json.loads(out)
    assert report["exit_code"] == code == ExitCode.OK
    assert {m["name"]: m["verdict"] for m in report["models"]} == {
        "Good": "ok",
        "Barged": "violates Mutex",
        "Lazy": "violates Ends",
    }
    taken = {action["action"] for action in report["actions"]}
    assert {"LockTry", "Unlock", "Done"} <= taken and "Barge" not in taken
    assert json.loads((tmp_path / "reports" / "check.json").read_text()) == report


def test_drift_is_named_and_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tiny.write(tmp_path / "spec", numbers={"Good": {"distinct": 70, "depth": 5}})
    manifest = spec / "manifest.toml"
    code, out, _ = _lychgate(capsys, "check", "--spec", str(spec), "Good", "Barged")
    assert code == ExitCode.SHORT
    assert "Good: distinct was 70, is 7" in out
    assert "Barged: trace_length is 3 and not recorded" in out
    code, out, _ = _lychgate(capsys, "check", "--spec", str(spec), "--record")
    assert code == ExitCode.OK
    assert "distinct = 7\n" in manifest.read_text()
    again = tiny.write(tmp_path / "other")
    assert manifest.read_text().split() == (again / "manifest.toml").read_text().split()


def test_dead_action_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    never = "Never == n > Max /\\ UNCHANGED vars\nNext == Never \\/"
    module = tiny.MODULE.replace("Next ==", never)
    spec = tiny.write(tmp_path / "spec", module)
    code, out, _ = _lychgate(capsys, "check", "--spec", str(spec))
    assert code == ExitCode.SHORT
    assert "Tiny.Never: no quick model ever takes this action" in out


def test_negative_model_that_passes_is_a_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tiny.MODULE.replace('/\\ pc[w] = "idle" /\\ n < Max', "/\\ FALSE")
    spec = tiny.write(tmp_path / "spec", module)
    code, out, _ = _lychgate(capsys, "check", "--spec", str(spec), "Barged")
    assert code == ExitCode.SHORT
    assert "Barged: expected violates Mutex, got ok" in out


def test_spec_that_does_not_parse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tiny.write(tmp_path / "spec", tiny.MODULE.replace("Init ==", "Init == /\\ /\\ ("))
    code, out, _ = _lychgate(capsys, "check", "--spec", str(spec), "Good")
    assert code == ExitCode.SHORT
    assert "Good: expected ok, got error parse" in out
    assert "module Tiny" in out


def test_unknown_operator_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tiny.write(tmp_path / "spec", tiny.MODULE.replace("Vacuous == n", "Vacuous == m"))
    code, out, _ = _lychgate(capsys, "check", "--spec", str(spec), "Good")
    assert code == ExitCode.SHORT
    assert "Unknown operator: `m'" in out


def test_time_out_is_inconclusive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tiny.write(tmp_path / "spec")
    code, out, _ = _lychgate(capsys, "check", "--spec", str(spec), "Good", "--timeout", "0.01s")
    assert code == ExitCode.INCONCLUSIVE
    assert "got error timeout" in out


def test_trace_shows_steps_and_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = tiny.write(tmp_path / "spec")
    code, out, _ = _lychgate(capsys, "check", "--spec", str(spec), "--trace", "Barged")
    assert code == ExitCode.OK
    assert "  1  Initial predicate\n       held = {}\n       n = 0\n" in out
    assert "Barge\n       held: " in out
    assert '"idle" -> "in"' in out


def test_liveness_with_a_constraint_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A CONSTRAINT was seen to make a false liveness property pass."""
    spec = tiny.write(tmp_path / "spec")
    with (spec / "models" / "Good.cfg").open("a") as file:
        file.write("CONSTRAINT Vacuous\n")
    code, _, err = _lychgate(capsys, "check", "--spec", str(spec), "Good")
    assert code == ExitCode.SHORT
    assert "CONSTRAINTS with a liveness property can hide a violation" in err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["Goood"], "did you mean Good?"),
        (["--class", "full"], "has no full model"),
        (["--class", "fast"], "invalid choice"),
        (["--jobs", "0"], "no number from 1 up"),
        (["--timeout", "soon"], "no time such as"),
        (["--memory", "lots"], "no size such as"),
    ],
)
def test_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], hint: str
) -> None:
    spec = tiny.write(tmp_path / "spec")
    code, _, err = _lychgate(capsys, "check", "--spec", str(spec), *words)
    assert code == ExitCode.USAGE
    assert hint in err
    assert len(err.splitlines()) == 1


def test_spec_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _lychgate(capsys, "check", "--spec", str(tmp_path))
    assert code == ExitCode.USAGE
    assert "no manifest.toml there" in err


def test_list_needs_no_tlc(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TLA2TOOLS_JAR", str(tmp_path / "none.jar"))
    spec = tiny.write(tmp_path / "spec")
    code, out, _ = _lychgate(capsys, "check", "--spec", str(spec), "--list")
    assert code == ExitCode.OK
    assert "Barged" in out
    assert "violates Mutex" in out
