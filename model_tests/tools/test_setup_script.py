"""`.ci/setup`, which `./run` and `./test` share: every obstacle is one line and exit code 3.

Python is played by scripts, so that nothing is installed and no network is asked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("bash", "cat", "cksum", "dirname", "grep", "mkdir", "rm", "tail", "printf", "env", "chmod")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkout with a space in its path and a machine with the plainest tools only."""
    checkout = tmp_path / "check out"
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "setup", checkout / ".ci" / "setup")
    (checkout / "pyproject.toml").write_text("[project]\n")
    (checkout / "go").write_text('source "$(dirname "$0")/.ci/setup"\n"$PY" --work\n')
    (tmp_path / "bin").mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        if found is not None:
            (tmp_path / "bin" / name).symlink_to(found)
    return checkout


def _python(place: Path, name: str, body: str) -> None:
    path = place.parent / "bin" / name
    path.write_text(f"#!/bin/bash\n{body}\n")
    path.chmod(0o755)


def _go(place: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-euo", "pipefail", str(place / "go")],
        capture_output=True,
        text=True,
        env={"PATH": str(place.parent / "bin"), "HOME": str(place.parent), **more},
        cwd="/",
        check=False,
    )


FAKE = """
echo "$*" >> "$HOME/calls"
case "$*" in
  -V) echo Python 3.11.9 ;;
  *version_info*) exit {old} ;;
  *ensurepip*) exit {bare} ;;
  "-m venv "*) [ {broken} = 0 ] || {{ echo disk full >&2; exit 1; }}
               mkdir -p "$3/bin"; cat "$0" > "$3/bin/python"; chmod +x "$3/bin/python" ;;
  *"pip install"*) [ {offline} = 0 ] || {{ echo "ERROR: no such host" >&2; exit 1; }} ;;
  --work) echo working ;;
esac
"""


def _fake(old: int = 0, bare: int = 0, broken: int = 0, offline: int = 0) -> str:
    return FAKE.format(old=old, bare=bare, broken=broken, offline=offline)


def test_second_run_skips_everything(place: Path) -> None:
    """The stamp covers pyproject.toml: a change of it sets up again."""
    _python(place, "python3", _fake())
    first = _go(place)
    assert (first.returncode, first.stdout) == (0, "working\n"), first.stderr
    assert "setup: making" in first.stderr
    calls = place.parent / "calls"
    assert "pip install" in calls.read_text()
    calls.unlink()
    second = _go(place)
    assert (second.returncode, second.stdout, second.stderr) == (0, "working\n", "")
    assert "pip install" not in calls.read_text()
    (place / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert "setup: making" in _go(place).stderr


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (_fake(old=1), "no Python 3.11 or newer found"),
        (_fake(bare=1), "has no venv module"),
        (_fake(broken=1), "python -m venv failed: disk full"),
        (_fake(offline=1), "ERROR: no such host"),
    ],
)
def test_obstacles_are_one_line(place: Path, body: str, says: str) -> None:
    _python(place, "python3", body)
    done = _go(place)
    assert done.returncode == 3
    lines = [line for line in done.stderr.splitlines() if not line.startswith("setup: making")]
    assert len(lines) == 1
    assert says in lines[0]
    assert done.stdout == ""
    assert not (place / ".venv" / "stamp").exists()


def test_newer_python_under_another_name(place: Path) -> None:
    _python(place, "python3", _fake(old=1))
    _python(place, "python3.12", _fake())
    assert _go(place).stdout == "working\n"


def test_python_can_be_named(place: Path) -> None:
    _python(place, "my-python", _fake())
    assert _go(place, PYTHON=str(place.parent / "bin" / "my-python")).stdout == "working\n"


@pytest.mark.parametrize("name", ["run", "test", ".ci/run", ".ci/setup"])
def test_scripts_parse(name: str) -> None:
    done = subprocess.run(["bash", "-n", str(ROOT / name)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_run_has_help_without_any_setup(tmp_path: Path) -> None:
    """`./run --help` works from anywhere, before anything is installed."""
    done = subprocess.run(
        [str(ROOT / "run"), "--help"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "LYCHGATE_VENV": str(tmp_path / "venv")},
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ./run")
    assert not (tmp_path / "venv").exists()
