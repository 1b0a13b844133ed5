"""Small programs under strace: what they did to their files is explained to the last byte.

`record` compares the files that it predicts with the real ones, so a test that ends has passed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lychgate_conformance.blackbox import _strace
from lychgate_conformance.blackbox._calls import RAW, RECORDED
from lychgate_conformance.blackbox._effects import NotUnderstood
from lychgate_conformance.blackbox._record import (
    Recording,
    Unexplained,
    read_trace,
    record,
    snapshot,
)
from lychgate_conformance.blackbox._strace import parse
from lychgate_conformance.lab._image import Symlink, image_of
from lychgate_conformance.lab._micro import EntryAdd, Scope, Sync, UnitWrite

pytestmark = pytest.mark.skipif(
    _strace.strace_path() is None, reason="needs strace: install the package of that name"
)


def recorded(tmp_path: Path, program: str, *, quick: bool = True) -> Recording:
    """What a Python program did in its working directory, `world`."""
    world = tmp_path / "world"
    world.mkdir(exist_ok=True)
    start = snapshot(world)
    output = tmp_path / "trace"
    words = _strace.options(output, RECORDED, quick=quick, raw=RAW)
    subprocess.run(
        [*words, "--", sys.executable, "-S", "-c", "import os\n" + program],
        cwd=world,
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )
    return record(read_trace(output), world, start, [], str(world))


def test_positions_appends_and_short_writes(tmp_path: Path) -> None:
    found = recorded(
        tmp_path,
        """
f = os.open("a", os.O_CREAT | os.O_RDWR)
os.write(f, b"hello world")
os.lseek(f, 0, 0); os.read(f, 5); os.write(f, b"-")
os.pwrite(f, b"zz", 20)
g = os.open("a", os.O_WRONLY | os.O_APPEND)
os.writev(g, [b"ab", b"cd"]); os.pwrite(g, b"at the end", 0)
h = os.dup(f); os.write(h, b"shared"); os.write(f, b"position")
os.ftruncate(f, 9); os.ftruncate(f, 6000)
os.truncate("a", 5000); os.posix_fallocate(f, 0, 7000)
""",
    )
    assert any(isinstance(it, UnitWrite) for it in found.disk.log)


def test_names_directories_and_links(tmp_path: Path) -> None:
    found = recorded(
        tmp_path,
        """
os.mkdir("d"); os.mkdir("d/e"); d = os.open("d", os.O_RDONLY)
f = os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=d)
os.write(f, b"1"); os.rename("new", "newer", src_dir_fd=d, dst_dir_fd=d)
os.link("d/newer", "hard"); os.symlink("d/newer", "soft")
open("soft", "ab").write(b"2")
os.chdir("d/e"); open("../../b", "w").write("3"); os.rename("../../b", "c")
os.unlink("c"); os.chdir("../.."); os.rmdir("d/e")
os.fsync(d); os.fdatasync(f); os.sync()
""",
    )
    scopes = [it.scope for it in found.disk.log if isinstance(it, Sync)]
    assert scopes == [Scope.DIR, Scope.DATA, Scope.ALL]
    assert sum(isinstance(it, EntryAdd) for it in found.disk.log) == 6


def test_children_inherit_positions_and_lose_what_is_close_on_exec(tmp_path: Path) -> None:
    recorded(
        tmp_path,
        """
import subprocess, threading
f = os.open("a", os.O_CREAT | os.O_RDWR)
pid = os.fork()
if pid == 0:
    os.write(f, b"child"); os._exit(0)
os.waitpid(pid, 0); os.write(f, b"parent")
os.set_inheritable(f, True)
subprocess.run(["sh", "-c", f"echo from sh >&{f}; echo two > b; echo three >> b"], close_fds=False)
t = threading.Thread(target=os.write, args=(f, b"thread")); t.start(); t.join()
g = os.open("c", os.O_CREAT | os.O_WRONLY); os.dup2(g, f); os.write(f, b"into c"); os.close(f)
os.open("d", os.O_CREAT | os.O_WRONLY); os.write(f, b"number again")
""",
    )


def test_bytes_that_the_kernel_copies(tmp_path: Path) -> None:
    recorded(
        tmp_path,
        """
open("a", "wb").write(b"x" * 10000)
s = os.open("a", os.O_RDONLY); t = os.open("b", os.O_CREAT | os.O_WRONLY)
os.copy_file_range(s, t, 6000); os.sendfile(t, s, None, 6000)
import shutil; shutil.copyfile("a", "c")
""",
    )


def test_synchronous_descriptors_sync_each_write(tmp_path: Path) -> None:
    program = 'f = os.open("a", os.O_CREAT | os.O_WRONLY | os.O_DSYNC); os.write(f, b"1")'
    found = recorded(tmp_path, program)
    assert [type(it).__name__ for it in found.disk.log] == [
        "EntryAdd", "UnitWrite", "SizeSet", "Sync",
    ]  # fmt: skip


def test_failed_calls_do_nothing(tmp_path: Path) -> None:
    found = recorded(
        tmp_path,
        """
for call in (lambda: os.rename("no", "b"), lambda: os.unlink("no"), lambda: os.fsync(99),
             lambda: os.open("no", os.O_RDONLY), lambda: os.mkdir("no/no")):
    try:
        call()
    except OSError:
        pass
""",
    )
    assert found.disk.log == []


@pytest.mark.parametrize(
    "program, call",
    [
        ('import mmap\nf = os.open("a", os.O_CREAT | os.O_RDWR); os.ftruncate(f, 4096)\n'
         "m = mmap.mmap(f, 4096); m[0:1] = b'x'", "mmap"),
        ('s = os.open("/etc/passwd", os.O_RDONLY); t = os.open("a", os.O_CREAT | os.O_WRONLY)\n'
         "os.sendfile(t, s, 0, 10)", "sendfile"),
        ('os.mkfifo("q")', "mknod"),
        ('r, w = os.pipe(); os.write(w, b"abc"); t = os.open("a", os.O_CREAT | os.O_WRONLY)\n'
         "os.splice(r, t, 3)", "splice"),
        ('os.symlink("/etc/hostname", "a")', "symlink"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_named(tmp_path: Path, program: str, call: str) -> None:
    with pytest.raises(NotUnderstood, match=call):
        recorded(tmp_path, program)


def test_shared_memory_of_sqlite_is_excepted(tmp_path: Path) -> None:
    recorded(
        tmp_path,
        """
import sqlite3
db = sqlite3.connect("s.db", isolation_level=None)
db.execute("PRAGMA journal_mode=WAL"); db.execute("CREATE TABLE t (x)")
db.execute("INSERT INTO t VALUES (1)"); os._exit(0)
""",
    )


def test_files_that_change_without_a_call_make_a_recording_worthless(tmp_path: Path) -> None:
    """Somebody who is not traced wrote into the directory."""
    world = tmp_path / "world"
    world.mkdir()
    output = tmp_path / "trace"
    words = _strace.options(output, RECORDED, raw=RAW)
    subprocess.run([*words, "--", "true"], cwd=world, check=True, timeout=60)
    (world / "a").write_text("not seen")
    with pytest.raises(Unexplained, match="a: 8 bytes, and by its calls nothing"):
        record(read_trace(output), world, image_of({}), [], str(world))


def lines_of(pid: int, *calls: tuple[int, int, str]) -> list[str]:
    """Calls of one strace: entry and end in nanoseconds, and the text up to the result."""
    return [f"{pid}  0.{begun:09} {text} <0.{end - begun:09}>" for begun, end, text in calls]


def test_an_answer_stands_before_what_it_caused(tmp_path: Path) -> None:
    """The end of a call is noted late on a busy machine, by the strace of another process."""
    world = tmp_path / "world"
    world.mkdir()
    (world / "a").touch()
    here = "".join(f"\\x{byte:02x}" for byte in bytes(tmp_path / "world" / "a"))
    pipe = "".join(f"\\x{byte:02x}" for byte in b"pipe:[7]")
    first = lines_of(1, (10, 900, f'write(1<{pipe}>, "\\x7b\\x0a", 2) = 2'))
    flags = "O_WRONLY|O_CREAT|O_CLOEXEC, 0600"
    second = lines_of(2, (50, 60, f'openat(AT_FDCWD, "{here}", {flags}) = 3<{here}>'))
    events = [*parse(first), *parse(second)]
    found = record(events, world, image_of({}), ["pipe:[7]"], str(world))
    assert [type(it).__name__ for it in found.disk.log] == ["Ack", "EntryAdd"]
    assert [(it.adapter, it.line, it.at) for it in found.spoken] == [(0, b"{", 0)]



def test_nothing_is_read_through_what_an_adapter_leaves(tmp_path: Path) -> None:
    """F3: a symlink is what it says, never what it leads to; a pipe is not waited for."""
    (tmp_path / "outside").write_text("not ours")
    world = tmp_path / "world"
    world.mkdir()
    (world / "link").symlink_to(tmp_path / "outside")
    assert snapshot(world) == image_of({"link": Symlink(str(tmp_path / "outside"))})
    os.mkfifo(world / "pipe")
    with pytest.raises(Unexplained, match="pipe is no regular file"):
        snapshot(world)
