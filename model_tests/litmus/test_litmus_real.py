"""Litmus programs on real file systems, and that nothing is left of them however they end (F1).

Needs root, loop devices, FUSE and mkfs. How many images a run reaches depends on the machine, so
nothing is asserted about that: only that what was reached is in the models.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from lychgate_conformance.lab._litmus_programs import LITMUS
from lychgate_tools.litmus import jobs
from lychgate_tools.litmus.filesystems import FILE_SYSTEMS, FileSystem
from lychgate_tools.litmus.judge import Judge
from lychgate_tools.ui import ExitCode

PROGRAMS = [
    "append-in-block", "replace-no-fsync", "dlq-new-block-unlink-wal", "tail-repair",
    "fdatasync-after-rename", "move-fsyncdir-target", "sync-everything",
]  # fmt: skip
BUDGET_S = 6.0
GONE_S = 20.0

possible = [
    pytest.param(
        system,
        id=system.name,
        marks=pytest.mark.skipif(bool(jobs.missing(system)), reason=jobs.missing(system) or "-"),
    )
    for system in FILE_SYSTEMS.values()
]


def loops_on(place: str) -> list[str]:
    """Loop devices on a file below a directory."""
    found = []
    for node in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found.append(node.read_text().strip())
        except OSError:  # detached meanwhile
            continue
    return [path for path in found if place in path]


def processes_of(session: int) -> list[str]:
    """Processes of a session that still run."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        if fields[0] != "Z" and int(fields[3]) == session:
            found.append(stat.parent.name)
    return found


@pytest.mark.parametrize("system", possible)
def test_real_states_are_in_their_models(
    system: FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: what ext4, xfs and btrfs leave after a crash, the lab's models allow."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    judges = {p.name: Judge(p, system) for p in LITMUS if p.name in PROGRAMS}
    for _, result in jobs.run([system], list(judges), BUDGET_S, 1):
        if isinstance(result, jobs.Result):
            judges[result.program].take(result)
        elif result.error is not None:
            assert result.error.code == ExitCode.INCONCLUSIVE, result.error.message
            pytest.skip(result.error.message)
    verdicts = [judge.end() for judge in judges.values()]
    assert [outside for verdict in verdicts for outside in verdict.outside] == []
    assert any(verdict.images for verdict in verdicts)
    assert list(tmp_path.iterdir()) == [] and loops_on(str(tmp_path)) == []


@pytest.mark.parametrize("system", possible[:1])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_it_is_ended(
    system: FileSystem, number: signal.Signals, tmp_path: Path
) -> None:
    """F3: no mount, loop device, process or file, not even after SIGKILL: the driver is told by
    the kernel."""
    child = subprocess.Popen(
        [sys.executable, "-m", "lychgate_tools.cli", "litmus", "--fs", system.name],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        until(lambda: bool(loops_on(str(tmp_path))))
        sessions = drivers_of(child.pid)
        assert sessions, "the driver runs in a session of its own"
        child.send_signal(number)
        child.wait(GONE_S)
    finally:
        child.kill()
        _, said = child.communicate()
    if number != signal.SIGKILL:
        assert child.returncode == 130 and b"interrupted" in said
        assert list(tmp_path.iterdir()) == []  # at once
    until(lambda: not loops_on(str(tmp_path)))
    until(lambda: not any(processes_of(session) for session in sessions))
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("system", possible[:1])
def test_nothing_is_left_when_the_driver_is_killed(
    system: FileSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F3: the kernel takes back what was mounted and attached; it is a fault, in one line."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for _, result in jobs.run([system], ["append-in-block"], 30.0, 1):
        if isinstance(result, jobs.Result):
            for pid in drivers_of(os.getpid()):
                os.kill(pid, signal.SIGKILL)
        else:
            assert result.error is not None and "ended early" in result.error.message
    until(lambda: not loops_on(str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def drivers_of(parent: int) -> list[int]:
    """Drivers that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            is_child = int(stat.read_text().rpartition(")")[2].split()[1]) == parent
            if is_child and b"litmus.driver" in (stat.parent / "cmdline").read_bytes():
                found.append(int(stat.parent.name))
        except OSError:  # ended meanwhile
            continue
    return found


def until(holds: object) -> None:
    """Wait for something that must come about."""
    assert callable(holds)
    patience = time.monotonic() + GONE_S
    while not holds():
        assert time.monotonic() < patience, "it did not come about"
        time.sleep(0.02)
