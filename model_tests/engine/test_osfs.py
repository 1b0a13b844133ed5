"""The `Fs` port on the real system: descriptors, locks, forks, and files that are none (F2, F3)."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from engine.faults import is_free, no_leak

from lychgate import _osfs
from lychgate._fs import OpenMode
from lychgate._osfs import OsFs


@pytest.fixture
def fs() -> Iterator[OsFs]:
    with no_leak():
        made = OsFs()
        yield made
        made.close_all()


def test_files_are_private_and_close_on_exec(fs: OsFs, tmp_path: Path) -> None:
    """D23, D27: mode 0600 whatever the umask allows, and no descriptor for an unrelated child."""
    old = os.umask(0)
    try:
        fds = [
            fs.open(f"{tmp_path}/new", OpenMode.CREATE_NEW),
            fs.open(f"{tmp_path}/lock", OpenMode.LOCK),
        ]
        fs.make_dir(f"{tmp_path}/dir")
    finally:
        os.umask(old)
    for fd in fds:
        assert stat.S_IMODE(os.fstat(fd).st_mode) == 0o600
        assert not os.get_inheritable(fd)
    assert stat.S_IMODE((tmp_path / "dir").stat().st_mode) == 0o700


def test_opening_truncates_nothing(fs: OsFs, tmp_path: Path) -> None:
    """D12, D29: and what must be new is never an old inode."""
    (tmp_path / "file").write_bytes(b"kept")
    for mode in (OpenMode.READ, OpenMode.APPEND, OpenMode.LOCK):
        fd = fs.open(f"{tmp_path}/file", mode)
        assert fs.read(fd, 0, 9) == b"kept"
    with pytest.raises(FileExistsError):
        fs.open(f"{tmp_path}/file", OpenMode.CREATE_NEW)
    for mode in (OpenMode.READ, OpenMode.APPEND):
        with pytest.raises(FileNotFoundError):
            fs.open(f"{tmp_path}/none", mode)


@pytest.mark.parametrize("mode", OpenMode)
@pytest.mark.parametrize("kind", ["directory", "fifo", "symlink", "dangling", "device"])
def test_what_is_no_file_is_an_error_and_blocks_nobody(
    fs: OsFs, tmp_path: Path, mode: OpenMode, kind: str
) -> None:
    """F3: a directory, a FIFO without a reader, a link, a device."""
    path = tmp_path / "thing"
    (tmp_path / "file").touch()
    match kind:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "symlink":
            path.symlink_to(tmp_path / "file")
        case "dangling":
            path.symlink_to(tmp_path / "none")
        case "device":
            path = Path("/dev/null")
    with pytest.raises(OSError) as raised:
        fs.open(str(path), mode)
    assert raised.value.errno in {
        errno.EISDIR, errno.EINVAL, errno.ELOOP, errno.EEXIST, errno.ENXIO, errno.EACCES
    }
    assert not (tmp_path / "none").exists()


def test_an_open_that_fails_late_leaks_nothing(
    fs: OsFs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2: also when the failure is an interrupt."""
    for error in (OSError(errno.EIO, "io"), KeyboardInterrupt()):
        def fail(fd: int, error: BaseException = error) -> os.stat_result:
            raise error

        with monkeypatch.context() as patch, no_leak():
            patch.setattr(os, "fstat", fail)
            with pytest.raises(type(error)):
                fs.open(f"{tmp_path}/lock", OpenMode.LOCK)
        assert not fs._fds


def test_a_lock_belongs_to_its_description(fs: OsFs, tmp_path: Path) -> None:
    """D13, D15: a second description of one process is locked out, a second flock of one is not."""
    path = f"{tmp_path}/lock"
    one, two = fs.open(path, OpenMode.LOCK), fs.open(path, OpenMode.LOCK)
    assert fs.try_lock(one) and not fs.try_lock(two) and fs.try_lock(one)
    fs.unlock(one)
    assert fs.try_lock(two) and not fs.try_lock(one)
    fs.close(two)
    assert fs.try_lock(one)


def test_a_lock_that_was_interrupted_is_not_taken(
    fs: OsFs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2: a method that raises has done nothing, also when Ctrl-C comes after its call."""
    fd = fs.open(f"{tmp_path}/lock", OpenMode.LOCK)
    flock = fcntl.flock

    def interrupted(fd: int, how: int) -> None:
        flock(fd, how)
        if how & fcntl.LOCK_EX:
            raise KeyboardInterrupt

    monkeypatch.setattr(fcntl, "flock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fs.try_lock(fd)
    monkeypatch.undo()
    assert is_free(tmp_path / "lock")


def test_a_name_is_the_inode_and_not_a_link_to_it(fs: OsFs, tmp_path: Path) -> None:
    """D24, W11."""
    path = tmp_path / "file"
    fd = fs.open(str(path), OpenMode.LOCK)
    (tmp_path / "link").symlink_to(path)
    assert fs.is_named(fd, str(path))
    assert not fs.is_named(fd, f"{tmp_path}/link")
    path.rename(tmp_path / "moved")
    assert not fs.is_named(fd, str(path))
    path.touch()
    assert not fs.is_named(fd, str(path))


def test_the_owner_is_kept_where_permitted(
    fs: OsFs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D27: who may not give the file away keeps the group if he can, and the mode in any case."""
    fd = fs.open(f"{tmp_path}/new", OpenMode.CREATE_NEW)
    asked: list[tuple[int, int]] = []

    def fchown(fd: int, uid: int, gid: int) -> None:
        asked.append((uid, gid))
        if uid != -1:
            raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "fchown", fchown)
    fs.set_owner(fd, 0o640, 12345, 54321)
    assert asked == [(12345, 54321), (-1, 54321)]
    assert fs.status(fd).mode == 0o640
    asked.clear()
    fs.set_owner(fd, 0o600, fs.status(fd).uid, fs.status(fd).gid)
    assert not asked

    def broken(fd: int, uid: int, gid: int) -> None:
        raise OSError(errno.EIO, "io")

    monkeypatch.setattr(os, "fchown", broken)
    with pytest.raises(OSError, match="io"):
        fs.set_owner(fd, 0o640, 12345, 54321)


def test_no_descriptor_stands_for_a_standard_stream(tmp_path: Path) -> None:
    """F3: a daemon closes its streams; what it then prints must not land in a store."""
    program = f"""
import os
from lychgate._fs import OpenMode
from lychgate._osfs import OsFs
os.close(0); os.close(1); os.close(2)
fs = OsFs()
fds = [fs.open({str(tmp_path)!r} + "/" + str(n), OpenMode.CREATE_NEW) for n in range(4)]
assert min(fds) > 2 and fs._fds == set(fds)
assert not any(os.get_inheritable(fd) for fd in fds)
for name in range(3):
    try:
        os.fstat(name)
    except OSError:
        continue
    os._exit(3)
os._exit(7)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 7


def test_a_backend_that_is_dropped_gives_its_locks_back(tmp_path: Path) -> None:
    """F2: nobody can reach them any more."""
    fs = OsFs()
    assert fs.try_lock(fs.open(f"{tmp_path}/lock", OpenMode.LOCK))
    assert not is_free(tmp_path / "lock")
    del fs
    gc.collect()
    assert is_free(tmp_path / "lock")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_closes_what_it_inherits(fs: OsFs, tmp_path: Path) -> None:
    """D23, W13: at once, so that the parent's death frees the parent's locks."""
    fd = fs.open(f"{tmp_path}/lock", OpenMode.LOCK)
    assert fs.try_lock(fd)
    pid = os.fork()
    if pid == 0:
        try:
            os.fstat(fd)
        except OSError:
            os._exit(7 if not fs._fds else 4)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    fs.read(fd, 0, 1)
    assert not is_free(tmp_path / "lock")


def test_a_process_id_that_comes_round_again_is_another_process(
    fs: OsFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D23, W13: what an ancestor had open must not be taken for one's own."""
    seen = {fs.pid()}
    for pid in (20, os.getpid(), 20, os.getpid()):
        monkeypatch.setattr(os, "getpid", lambda pid=pid: pid)
        fs.forked()
        assert fs.pid() == fs.pid() and fs.pid() not in seen
        seen.add(fs.pid())


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_no_descriptor_slips_through_a_fork_of_another_thread(fs: OsFs, tmp_path: Path) -> None:
    """D23: opening and noting, forgetting and closing, are one for whoever forks."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            fs.close(fs.open(f"{tmp_path}/lock", OpenMode.LOCK))

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(60):
            pid = os.fork()
            if pid == 0:
                left = [
                    name for name in os.listdir("/proc/self/fd")
                    if name.isdigit() and _target(name) == f"{tmp_path}/lock"
                ]
                os._exit(3 if left else 7)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    finally:
        stop.set()
        thread.join()


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        return ""


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_signal_handler_may_fork_within_an_open(
    fs: OsFs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D23: the thread that forks may be the one that opens; neither side waits for itself."""
    codes: list[int] = []

    def fork(number: int, frame: FrameType | None) -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(7)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    real = os.open

    def slow(path: str, flags: int, mode: int) -> int:
        fd = real(path, flags, mode)
        signal.raise_signal(signal.SIGUSR1)
        return fd

    old = signal.signal(signal.SIGUSR1, fork)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", slow)
            fs.open(f"{tmp_path}/lock", OpenMode.LOCK)
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert codes == [7]
    assert _osfs._no_fork.acquire(blocking=False)
    _osfs._no_fork.release()


def test_the_boot_id_is_never_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """D32: without one, a mark of another boot would be trusted."""
    first = _osfs._read_boot()
    assert first and len(first) <= 48 and first == _osfs._read_boot()
    (tmp_path / "empty").touch()
    for path in ("/nowhere", f"{tmp_path}/empty"):
        monkeypatch.setattr(
            "builtins.open", lambda name, path=path, **how: os.fdopen(os.open(path, os.O_RDONLY))
        )
        one, other = _osfs._read_boot(), _osfs._read_boot()
        assert one and other and one != other
