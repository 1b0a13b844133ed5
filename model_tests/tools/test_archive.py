"""The class-data archive of TLC: made once, never needed, trusted no further than it was tried."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tools import tiny

from lychgate_tools.tlc import archive, toolchain
from lychgate_tools.tlc.runner import Runner, Task
from lychgate_tools.tlc.toolchain import Toolchain

ANSWERS = 'echo "Model checking completed. No error has been found."'
CALLED = 'echo "$*" >> "$0.calls"'
MAKES = f"""{CALLED}
for word; do
  case "$word" in -XX:ArchiveClassesAtExit=*) echo data > "${{word#*=}}" ;; esac
done
{ANSWERS}"""
REFUSES = f"""{CALLED}
echo "Unrecognized VM option 'ArchiveClassesAtExit'" >&2; exit 1"""
IGNORES = f"{CALLED}\n{ANSWERS}"
BREAKS = f"""{MAKES}
case "$*" in *SharedArchiveFile*) kill -SEGV $$ ;; esac"""


class Machine:
    """A jar, a cache, and a Java that does as a script says."""

    def __init__(self, root: Path) -> None:
        self.jar, self.java, self.cache = root / "tla.jar", root / "java", root / "cache"
        self.jar.write_bytes(b"jar")

    def runs(self, script: str) -> None:
        self.java.write_text(f"#!/bin/sh\n{script}\n")
        self.java.chmod(self.java.stat().st_mode | stat.S_IXUSR)

    def find(self) -> Path | None:
        return archive.find(self.jar, self.java, self.cache, dict(os.environ))

    @property
    def calls(self) -> int:
        return len(Path(f"{self.java}.calls").read_text().splitlines())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_it_is_made_once(machine: Machine) -> None:
    """Once to make it and once to try it; then it is found."""
    machine.runs(MAKES)
    found = machine.find()
    assert found is not None and found.read_text() == "data\n"
    assert machine.find() == found
    assert machine.calls == 2
    assert list(machine.cache.iterdir()) == [found]
    assert archive.flags(found)[0] == f"-XX:SharedArchiveFile={found}"


@pytest.mark.parametrize(("script", "calls"), [(REFUSES, 1), (IGNORES, 1), (BREAKS, 2)])
def test_a_java_that_cannot_is_asked_once(machine: Machine, script: str, calls: int) -> None:
    """Too old, without the feature, or one that falls over its own archive."""
    machine.runs(script)
    assert machine.find() is None
    assert machine.find() is None
    assert machine.calls == calls
    assert archive.flags(None) == []


def test_a_damaged_one_is_made_again(machine: Machine) -> None:
    machine.runs(MAKES)
    found = machine.find()
    assert found is not None
    found.write_text("dat")
    assert machine.find() == found
    assert found.read_text() == "data\n"


@pytest.mark.parametrize("changed", ["jar", "java"])
def test_another_jar_or_java_has_its_own(machine: Machine, changed: str) -> None:
    machine.runs(MAKES)
    before = machine.find()
    os.utime(getattr(machine, changed), (1, 1))
    assert machine.find() != before


def test_a_cache_that_cannot_be_written(machine: Machine) -> None:
    machine.runs(MAKES)
    machine.cache.write_text("a file")
    assert machine.find() is None


def test_a_java_that_is_not_there(machine: Machine) -> None:
    assert machine.find() is None


def test_a_java_that_hangs(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is concluded from one that was only slow today."""
    monkeypatch.setattr(archive, "_TIMEOUT_S", 0.2)
    machine.runs("exec sleep 60")
    assert machine.find() is None
    assert list(machine.cache.iterdir()) == []


def test_tlc_answers_the_same_with_any(tmp_path: Path) -> None:
    """The real one, and a file that is none: Java passes it over without a word."""
    tools = toolchain.find()
    (tmp_path / "none.jsa").write_bytes(b"no archive")
    config = "SPECIFICATION BadSpec\nINVARIANT Mutex\nCONSTANTS Workers = {a, b} Max = 1\n"
    task = Task({"Tiny": tiny.MODULE}, "Tiny", config, coverage=False)
    wrong = Toolchain(tools.jar, tools.java, tmp_path / "none.jsa")
    with Runner(tools) as good, Runner(wrong) as bad:
        runs = [runner.run(task) for runner in (good, bad)]
    assert [run.verdict.said for run in runs] == ["violates Mutex"] * 2
    assert runs[0].verdict == runs[1].verdict
    assert [run.output.loose for run in runs if "archive" in str(run.output.loose)] == []
