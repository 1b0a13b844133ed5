"""The command line as a whole: help with examples, names, exit codes, interrupts."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tools import tiny

from lychgate_tools import main_job
from lychgate_tools.cli import COMMANDS, build_parser, main
from lychgate_tools.ui import ExitCode


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_of_every_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An example that starts with the command itself, and --json."""
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert re.search(rf"(?m)^example:\n  lychgate {name}\b", text), text
    assert "--json" in text


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_examples_parse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The example in the help is a command line that the parser takes."""
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = capsys.readouterr().out.partition("example:\n")[2]
    for line in re.findall(r"^  lychgate (.*)$", text, re.M):
        words = shlex.split(line, comments=True)
        assert build_parser(name).parse_args(words).command == name


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in COMMANDS)
    assert "exit codes:" in text


def test_help_imports_no_command() -> None:
    """`lychgate --help` stays fast: it loads the table, not the commands."""
    script = (
        "import sys\nfrom lychgate_tools.cli import COMMANDS, main\n"
        "try:\n main(['--help'])\nexcept SystemExit:\n pass\n"
        "print([m for m, _ in COMMANDS.values() if m in sys.modules], file=sys.stderr)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["chek"], "no command named 'chek'; did you mean check?"),
        (["zzzz"], "there are: "),
        (["check", "--no-such-option"], "see lychgate --help"),
        (["--version"], "unrecognized arguments"),
    ],
)
def test_wrong_command_lines(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert hint in err
    assert len(err.splitlines()) == 1


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == ExitCode.USAGE
    assert "usage: lychgate" in capsys.readouterr().out


SLOW = r"""---- MODULE Slow ----
EXTENDS Naturals
VARIABLES a, b, c
Init == a = 0 /\ b = 0 /\ c = 0
A == a < 400 /\ a' = a + 1 /\ UNCHANGED <<b, c>>
B == b < 400 /\ b' = b + 1 /\ UNCHANGED <<a, c>>
C == c < 400 /\ c' = c + 1 /\ UNCHANGED <<a, b>>
Next == A \/ B \/ C
Sum == a + b + c <= 1200
====
"""
SLOW_MODEL = """[[model]]
name = "Slow"
module = "Slow"
config = "Slow.cfg"
expect = "ok"
class = "quick"
deadlock = false
"""


def _children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            stat = (entry / "stat").read_text()
        except (OSError, ValueError):
            continue
        if int(stat.rpartition(")")[2].split()[1]) == pid:
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C: exit code 130, one line, no java left, no temporary file left."""
    spec = tmp_path / "spec"
    spec.mkdir()
    (spec / "Slow.tla").write_text(SLOW)
    (spec / "Slow.cfg").write_text("INIT Init\nNEXT Next\nINVARIANT Sum\n")
    (spec / "manifest.toml").write_text(SLOW_MODEL)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-m", "lychgate_tools.cli", "check", "--spec", str(spec)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    deadline = time.monotonic() + 60
    while not any(temporary.glob("lychgate-tlc-*/meta*")):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    javas = _children_of(child.pid)
    assert javas
    child.send_signal(number)
    out, err = child.communicate(timeout=60)
    assert child.returncode == ExitCode.INTERRUPTED
    assert err.splitlines()[-1] == "lychgate: interrupted"
    assert "Traceback" not in err
    assert not [pid for pid in javas if Path(f"/proc/{pid}").exists()]
    assert list(temporary.iterdir()) == []


def test_reader_that_goes_away(tmp_path: Path) -> None:
    """`lychgate check --list | head -0` ends without a traceback."""
    spec = tiny.write(tmp_path / "spec")
    command = [sys.executable, "-m", "lychgate_tools.cli", "check", "--spec", str(spec), "--list"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    err = child.stderr.read()
    child.stderr.close()
    child.wait(timeout=60)
    assert b"Traceback" not in err


def test_worst_exit_code_of_the_main_job() -> None:
    """What fell short outweighs a fault, and that outweighs what could not be measured."""
    assert main_job.worst([0, 0, 0]) == ExitCode.OK
    assert main_job.worst([0, 2, 3]) == ExitCode.FAULT
    assert main_job.worst([2, 3, 1]) == ExitCode.SHORT
    assert main_job.worst([0, 77, 0]) == 77


def test_main_job_needs_a_writable_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    code = main(["all", "--reports", str(tmp_path / "r"), str(tmp_path / "file")])
    assert code == ExitCode.FAULT
    assert "name another directory" in capsys.readouterr().err


def test_reports_of_both_kinds_are_summarised() -> None:
    models = [{"problems": [], "distinct": 10}, {"problems": ["x"], "distinct": None}]
    checked = {"models": models, "dead_actions": []}
    assert main_job.summarise(checked) == "2 models, 10 states, 1 drifted, 0 dead actions"
    walked = {"models": [{"edges": 1200, "walked": 1100}], "not_walked": {}}
    assert main_job.summarise(walked) == "1 models, 1,100 of 1,200 edges walked"
    assert main_job.summarise({"counts": {"pass": 3, "fail": 0}}) == "3 pass"
