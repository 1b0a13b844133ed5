"""`lychgate doctor`: what it finds out, what it says, and that it leaves nothing behind (F1)."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lychgate import Disk
from lychgate_tools import doctor_probe, doctor_system
from lychgate_tools.cli import main
from lychgate_tools.doctor import FAILS, NOTE, OK, UNKNOWN, WARNING, Check, examine, judge
from lychgate_tools.mounts import Mount, mount_of, parse_mountinfo


def _by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_an_ordinary_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F1: every probe is made, the last line is the verdict, nothing stays behind."""
    code = main(["doctor", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert code in (0, 1, 2)  # the test machine's file system decides
    assert lines[-1].startswith(f"{tmp_path}: c")
    found = _by_name(examine(str(tmp_path)))
    for name in doctor_probe.PROBES:
        assert found[name].state == OK, found[name]
    assert list(tmp_path.iterdir()) == []


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F1: the same as JSON, exit code included."""
    code = main(["doctor", str(tmp_path), "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["exit_code"] == code
    assert {"name", "state", "text"} == set(said["checks"][0])


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    """F1, D22: it would be made; the nearest one above is tried, and stays as it was."""
    found = _by_name(examine(str(tmp_path / "a" / "b")))
    assert "2 to be made" in found["path"].text
    assert found["rename"].state == OK
    assert list(tmp_path.iterdir()) == []


def test_through_a_symlink(tmp_path: Path) -> None:
    """W14: the directory behind the link is the one that counts."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert "through a symlink" in _by_name(examine(str(tmp_path / "link")))["path"].text


@pytest.mark.parametrize("path", ["", "a\0b", "{file}", "{file}/below", "{loop}"])
def test_no_directory(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F3: what can never be a directory fails in words."""
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    shown = path.format(file=tmp_path / "file", loop=tmp_path / "loop")
    assert main(["doctor", shown]) == 1
    assert "FAILS    path" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "options", "state"),
    [
        ("ext4", "rw,relatime", OK),
        ("xfs", "rw", OK),
        ("ext4", "rw,nobarrier", FAILS),
        ("ext4", "rw,barrier=0", FAILS),
        ("ext4", "rw,relatime,data=writeback", FAILS),
        ("ext4", "rw,relatime,data=journal", OK),
        ("tmpfs", "rw", FAILS),
        ("vfat", "rw", FAILS),
        ("overlay", "rw,volatile", FAILS),
        ("overlay", "rw,upperdir=/x", UNKNOWN),
        ("nfs4", "rw", UNKNOWN),
        ("cifs", "rw", UNKNOWN),
        ("9p", "rw", UNKNOWN),
        ("fuse.sshfs", "rw", UNKNOWN),
        ("fuseblk", "rw", UNKNOWN),
        ("newfs9", "rw", UNKNOWN),
    ],
)
def test_kinds_of_file_systems(kind: str, options: str, state: str) -> None:
    """F1: what is known of a kind decides; what is not known is not taken for good."""
    assert doctor_system.judge_mount(Mount("/m", kind, "/dev/x", options, "8:1")).state == state


def test_mountinfo() -> None:
    """F1: both lists of options, escaped blanks, optional fields, lines of another form."""
    lines = [
        "36 35 98:0 /mnt1 /a\\040b rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n",
        "37 35 0:5 / /c rw - tmpfs tmpfs rw\n",
        "nonsense\n",
    ]
    first, second = parse_mountinfo(lines)
    assert first == Mount("/a b", "ext3", "/dev/root", "rw,noatime,errors=continue", "98:0")
    assert (second.point, second.kind) == ("/c", "tmpfs")


@pytest.mark.skipif(not os.path.exists("/proc/self/mountinfo"), reason="Linux only")
def test_mount_of_this_directory(tmp_path: Path) -> None:
    """F1: the mount has the device number of the directory, or is the only one above it."""
    mount = mount_of(str(tmp_path))
    assert mount is not None and str(tmp_path.resolve()).startswith(mount.point)


@pytest.mark.parametrize(
    ("states", "code"),
    [((OK, NOTE), 0), ((OK, WARNING), 0), ((UNKNOWN, WARNING), 2), ((UNKNOWN, FAILS), 1)],
)
def test_verdict(states: tuple[str, ...], code: int) -> None:
    """F1: one failure decides; what could not be found out is no pass."""
    assert judge([Check("x", state, "") for state in states])[0] == code


# --- what lies there ----------------------------------------------------------------------------


def test_a_store_in_use(tmp_path: Path) -> None:
    """D33: bytes, the mark and owned WAL files are told, without a lock being taken."""
    with Disk(tmp_path, "a-") as disk:
        disk.add_task({"n": 1})
        disk.add_dead_task("d", {}, ValueError("x"), "t", 1)
        check = _by_name(examine(str(tmp_path)))["store 'a-'"]
        assert "bytes of dead tasks" in check.text and "1 WAL file" in check.text
        if os.path.exists("/proc/locks") and os.path.exists(doctor_system._BOOT_ID):
            assert check.state == OK and "finished and durable" in check.text
            assert "no owner" not in check.text


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="Linux only")
def test_leftovers(tmp_path: Path) -> None:
    """D18, W2: staging, WAL files without owner, foreign files and an unfinished mark."""
    with Disk(tmp_path) as disk:
        disk.add_task({"n": 1})
    (tmp_path / "deferred-dead_tasks-0.tmp").touch()
    (tmp_path / "deferred-dead_tasks.lock").write_bytes(b"unfinished")
    (tmp_path / "notes.txt").touch()
    found = _by_name(examine(str(tmp_path)))
    text = found["store 'deferred-'"].text
    assert "no owner" in text and "staging" in text and "left unfinished" in text
    assert found["store 'deferred-'"].state == NOTE
    assert "notes.txt" in found["other files"].text


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="Linux only")
def test_a_store_under_change(tmp_path: Path) -> None:
    """D13: a lock that somebody holds is seen, and staging then is no leftover."""
    with Disk(tmp_path):
        (tmp_path / "deferred-dead_tasks-0.tmp").touch()
        with open(tmp_path / "deferred-dead_tasks.lock", "r+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            check = _by_name(examine(str(tmp_path)))["store 'deferred-'"]
    assert "works on it now" in check.text and "staging" not in check.text


def test_things_in_the_place_of_files(tmp_path: Path) -> None:
    """F3: a directory where a file belongs fails, a dangling link and a lost lock file warn."""
    (tmp_path / "x-dead_tasks-0").mkdir()
    (tmp_path / "y-dead_tasks.lock").symlink_to("nowhere")
    (tmp_path / "z-dead_tasks-0").touch()
    found = _by_name(examine(str(tmp_path)))
    assert found["file 'x-dead_tasks-0'"].state == FAILS
    assert found["file 'y-dead_tasks.lock'"].state == WARNING
    assert found["store 'z-'"].state == WARNING


def test_a_mode_that_lets_others_delete(tmp_path: Path) -> None:
    """D24: whoever may delete the lock file can break the exclusion."""
    tmp_path.chmod(0o777)
    assert _by_name(examine(str(tmp_path)))["permissions"].state == WARNING
    tmp_path.chmod(0o1777)
    assert _by_name(examine(str(tmp_path)))["permissions"].state == OK


# --- assumptions that do not hold ---------------------------------------------------------------


def test_a_lock_that_excludes_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1: a flock that says yes to everybody is found out."""
    monkeypatch.setattr(doctor_probe, "_takes", lambda fd: True)
    found = _by_name(examine(str(tmp_path)))
    assert found["flock"].state == FAILS and found["flock between processes"].state == FAILS


def test_an_fsync_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F2: what the system refuses the doctor, it would refuse the engine."""

    def refuse(fd: int) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(doctor_probe, "_fsync", refuse)
    found = _by_name(examine(str(tmp_path)))
    assert found["fsync of a file"].state == FAILS
    assert found["fsync of a directory"].text == "Invalid argument"
    assert list(tmp_path.iterdir()) == []


def test_a_rename_that_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1: a rename that makes another file of it is found out."""

    def copying(old: str, new: str) -> None:
        subprocess.run(["cp", old, new], check=True)
        os.unlink(old)

    monkeypatch.setattr(os, "rename", copying)
    assert _by_name(examine(str(tmp_path)))["rename"].state == FAILS


def test_no_second_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1: what could not be tried is unknown, and so is the verdict."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    checks = examine(str(tmp_path))
    assert _by_name(checks)["flock between processes"].state == UNKNOWN


def test_windows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """F1: on Windows the answer is a clear no."""
    monkeypatch.setattr(sys, "platform", "win32")
    (check,) = examine("C:/queue")
    assert check.state == FAILS and "flock" in check.text
