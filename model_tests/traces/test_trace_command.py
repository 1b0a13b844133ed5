"""`lychgate trace` at the terminal: what it prints, and one line for every kind of bad input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lychgate_tools.cli import main
from lychgate_tools.spec_dir import locate


@pytest.fixture
def trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A recorded trace."""
    record = ["trace", "record", "simulator", "--out", str(tmp_path), "--seed", "5", "--calls", "4"]
    assert main([*record, "--json"]) == 0
    (written,) = json.loads(capsys.readouterr().out)
    path = Path(written["file"])
    assert path == tmp_path / "simulator-5.jsonl" and written["steps"] > 20
    return path


def test_a_trace_is_checked(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Accepted: code 0, and what the trace visited."""
    assert main(["trace", "check", str(trace), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (batch,) = data["batches"]
    assert batch["module"] == "DeadTasks" and batch["rejected"] == 0 and batch["steps"] > 20
    covered = data["coverage"]["DeadTasks"]
    assert {"Call", "LockTry", "Unlock"} <= set(covered["actions"])
    assert "HostCrash" in covered["not_visited"]


def test_a_rejected_trace_names_file_line_step_and_guard(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rejected: code 1, and the place to look at, in the trace and in the spec."""
    lines = trace.read_text(encoding="utf-8").splitlines()
    place = next(n for n, line in enumerate(lines) if '"CheckLock"' in line)
    del lines[place]
    trace.write_text("\n".join(lines), encoding="utf-8")
    assert main(["trace", "check", str(trace)]) == 1
    said = capsys.readouterr().out
    assert "of 38 actions of the spec visited" in said
    assert f"{trace}:" in said and "is false (DeadTasks:" in said
    assert 'is "CheckLock"' in said


def header(path: Path, **changes: object) -> None:
    first, *rest = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([json.dumps({**json.loads(first), **changes}), *rest]))


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text + "\n")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda path: header(path, version=7), "has version 7 of the trace format"),
        (lambda path: header(path, format="core-dump"), "is no trace"),
        (lambda path: header(path, module="Wol"), "no module to check traces of named 'Wol'"),
        (lambda path: header(path, constants=3), "module and constants are missing"),
        (lambda path: header(path, constants={}), "MaxTries"),
        (lambda path: header(path, seen={"live": "x"}), "seen is not a table"),
        (lambda path: header(path, seen={}), "seen has to hold live, lock, tmp"),
        (lambda path: path.write_text(""), ":1: not JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "not UTF-8"),
        (lambda path: path.unlink(), "No such file"),
        (lambda path: append(path, "{"), "not JSON"),
        (lambda path: append(path, "[]"), "not a JSON object"),
        (lambda path: append(path, '{"action":7}'), "no event"),
        (lambda path: append(path, '{"action":"Sleep","seen":3}'), "no event"),
        (lambda path: append(path, '{"action":"LockTray"}'), "did you mean LockTry?"),
        (lambda path: append(path, '{"action":"Kill","worker":"w 1"}'), "is not a name"),
        (lambda path: append(path, '{"action":"Sleep","worker":"w1"}'), "Sleep needs a fiber"),
    ],
)
def test_what_is_no_trace_is_one_line_and_code_4(
    trace: Path, capsys: pytest.CaptureFixture[str], change: object, says: str
) -> None:
    """Another version, no JSON, an unknown action, …: a mistake in the file is no verdict."""
    assert callable(change)
    change(trace)
    assert main(["trace", "check", str(trace)]) == 4
    said = capsys.readouterr()
    assert not said.out and says in said.err and len(said.err.splitlines()) == 1


def spec_with(tmp_path: Path, module: str, text: str) -> str:
    root = tmp_path / "spec"
    shutil.copytree(locate().root, root)
    (root / f"{module}.tla").write_text(text, encoding="utf-8")
    return str(root)


def test_a_spec_that_does_not_parse_is_one_line_and_code_1(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SANY's complaint, without a traceback."""
    spec = spec_with(tmp_path, "TraceDeadTasks", "---- MODULE TraceDeadTasks ----\nA == (\n====\n")
    assert main(["trace", "check", str(trace), "--spec", spec]) == 1
    said = capsys.readouterr()
    assert "does not parse" in said.err and len(said.err.splitlines()) == 1


def test_a_tlc_without_memory_is_one_line_and_code_3(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A heap too small for the run: TLC's fault, not the trace's."""
    assert main(["trace", "check", str(trace), "--memory", "16m"]) == 3
    said = capsys.readouterr()
    assert "memory" in said.err and len(said.err.splitlines()) == 1


def test_no_spec_for_traces_is_code_3(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A spec directory of somebody else's."""
    root = tmp_path / "spec"
    root.mkdir()
    (root / "manifest.toml").write_text("")
    assert main(["trace", "check", str(trace), "--spec", str(root)]) == 3
    assert "no module TraceDeadTasks.tla" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["trace"], ["trace", "check"], ["trace", "record", "moon"], ["trace", "record", "fibers",
     "--count", "0"]],
)  # fmt: skip
def test_a_wrong_command_line_is_code_4(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 4
    assert len(capsys.readouterr().err.splitlines()) == 1
