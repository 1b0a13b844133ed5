"""The WAL's files: taking over, merging, foreign ones (W2, W4, W5, W11, W12, W14, F3)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from engine.faults import Fault, Store, is_free
from engine.wal_runs import CREATE

from lychgate import Disk, StorageError, _wal_file
from lychgate._fs import OpenMode
from lychgate._lines import seal
from lychgate._osfs import OsFs

CLAIM = ["ClaimOpen", "ClaimTry", "ClaimCheck", "ReadWal", "ReadWal"]
MERGE = ["ReadWal", "CopyWal", "FsyncWal", "UnlinkWal", "CloseWal"]


def write(path: Path, number: int, *lines: bytes) -> Path:
    """A WAL file that a dead process left."""
    file = path / f"deferred-0-20260101-1-{number:016x}"
    file.write_bytes(b"".join(lines))
    return file


def add(task_id: str, task: object = None) -> bytes:
    return seal(f"add:{task_id}:0:{'null' if task is None else task}".encode())


def rem(task_id: str) -> bytes:
    return seal(f"rem:{task_id}".encode())


def start(path: Path) -> Store:
    return Store(path).open()


def start_trace(store: Store) -> list[str]:
    return store.trace[store.trace.index("ListWals") :]


# --- merging ------------------------------------------------------------------------------------


def test_the_steps_of_a_start(tmp_path: Path) -> None:
    """W2, W5, W11: each file: lock, read, copy, fsync, unlink, close; then the directory, once."""
    write(tmp_path, 1, add("a"), add("b"), rem("a"))
    write(tmp_path, 2, add("c"))
    write(tmp_path, 3, add("d"), rem("d"))
    store = start(tmp_path)
    assert start_trace(store) == [
        "ListWals", *CLAIM, *CREATE, *MERGE, *CLAIM, *MERGE, *CLAIM, "UnlinkWal", "CloseWal",
        "FsyncWalDir",
    ]
    assert store.pending() == ["b", "c"]
    assert len(store.wal_files()) == 1 and store.stats()["wal_files_merged"] == 3
    store.kill()


def test_files_without_live_tasks_make_no_file(tmp_path: Path) -> None:
    """W2: nothing to keep, nothing to create."""
    write(tmp_path, 1, add("a"), rem("a"))
    write(tmp_path, 2)
    store = start(tmp_path)
    assert store.wal_files() == [] and "CreateWal" not in store.trace
    store.kill()


def test_live_sets_are_united(tmp_path: Path) -> None:
    """W12: a removal in one file never kills what is live in another, in either order."""
    write(tmp_path, 1, add("a"), rem("b"))
    write(tmp_path, 2, add("b"), rem("a"))
    store = start(tmp_path)
    assert sorted(store.pending()) == ["a", "b"]
    store.close()
    assert sorted(start(tmp_path).pending()) == ["a", "b"]


def test_the_same_id_in_two_files_is_one_task(tmp_path: Path) -> None:
    """W12: it stays live, once, and one removal ends it."""
    write(tmp_path, 1, add("a", 1))
    write(tmp_path, 2, add("a", 2))
    store = start(tmp_path)
    assert store.pending() == ["a"]
    store.remove("a")
    store.close()
    assert start(tmp_path).pending() == []


def test_files_in_use_are_left_alone(tmp_path: Path) -> None:
    """W2: of another process, and of another object of this one."""
    one = start(tmp_path)
    task_id = one.add(1)
    other = start(tmp_path)
    assert start_trace(other) == ["ListWals", "ClaimOpen", "ClaimTry", "CloseWal"]
    assert other.pending() == [] and one.pending() == [task_id]
    mine = other.add(2)
    one.close()
    third = start(tmp_path)
    assert third.pending() == [task_id] and other.pending() == [mine]
    for store in (other, third):
        store.kill()


def test_a_big_file_is_copied_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W5: neighbours in one piece, up to the size of a batch; a longer record alone."""
    monkeypatch.setattr(_wal_file, "BATCH_BYTES", 100)
    lines = [add(f"t{n}") for n in range(20)]
    lines[10:10] = [add("long", '"' + "x" * 500 + '"'), add("gone"), rem("gone")]
    write(tmp_path, 1, *lines)
    store = start(tmp_path)
    assert store.trace.count("CopyWal") < 12
    expected = [f"t{n}" for n in range(10)] + ["long"] + [f"t{n}" for n in range(10, 20)]
    assert store.pending() == expected
    store.kill()


# --- damage -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "junk",
    [b"junk\n", b"\0" * 5000 + b"\n", add("x")[:-1] + b"x\n", b"\n", seal(b"new:kind"),
     seal(b"add:a"), seal(b"add:a:soon:1"), seal(b"add:\xff:0:1"), seal(b"")],
    ids=lambda junk: repr(junk[:16]),
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_damaged_lines_are_skipped_and_counted(tmp_path: Path, junk: bytes, place: int) -> None:
    """W7, W14: their neighbours are kept."""
    lines = [add("a"), add("b")]
    lines.insert(place, junk)
    write(tmp_path, 1, *lines)
    store = start(tmp_path)
    assert store.pending() == ["a", "b"] and store.stats()["wal_lines_skipped"] == 1
    store.kill()


@pytest.mark.parametrize("torn", [add("c")[:-1], b"0", b"\0" * 100, b"\xff" * 9000], ids=len)
def test_a_torn_tail_is_skipped_and_never_appended_to(tmp_path: Path, torn: bytes) -> None:
    """W6, D28: the new file begins clean, so the next line begins a line."""
    write(tmp_path, 1, add("a"), torn)
    store = start(tmp_path)
    assert store.pending() == ["a"] and store.stats()["wal_lines_skipped"] == 1
    store.add(1, "b")
    store.kill()
    again = start(tmp_path)
    assert again.pending() == ["a", "b"] and "wal_lines_skipped" not in again.stats()
    again.kill()


def test_a_task_that_cannot_be_read_is_kept(tmp_path: Path) -> None:
    """W7: it is reported, moved with the others, and removed by its id."""
    write(tmp_path, 1, seal(b"add:a:0:{broken"), add("b"))
    store = start(tmp_path)
    assert store.pending() == ["a", "b"]
    store.close()
    again = start(tmp_path)
    assert again.pending() == ["a", "b"]
    again.remove("a")
    assert again.pending() == ["b"]
    again.kill()


def test_things_that_are_no_files_of_ours(tmp_path: Path) -> None:
    """W14, F3: directories, links, FIFOs under our names, and files under other names."""
    (tmp_path / f"deferred-0-20260101-1-{1:016x}").mkdir()
    (tmp_path / f"deferred-0-20260101-1-{2:016x}").symlink_to("target")
    (tmp_path / "target").write_bytes(add("x"))
    os.mkfifo(tmp_path / f"deferred-0-20260101-1-{3:016x}")
    (tmp_path / f"deferred-1-20260101-1-{4:016x}").write_bytes(add("y"))
    (tmp_path / f"deferred-0-20260101-1-{5:016x}.tmp").write_bytes(add("z"))
    write(tmp_path, 6, add("a"))
    before = {path.name for path in tmp_path.iterdir()} - {f"deferred-0-20260101-1-{6:016x}"}
    store = start(tmp_path)
    assert store.pending() == ["a"] and store.stats()["wal_files_unreadable"] == 3
    store.remove("a")
    store.close()
    left = {path.name for path in tmp_path.iterdir()} - {"deferred-dead_tasks-0"}
    assert left - {"deferred-dead_tasks.lock"} == before
    assert (tmp_path / "target").read_bytes() == add("x")


@pytest.mark.parametrize("step", ["ClaimOpen", "ClaimTry", "ClaimCheck", "ReadWal"])
def test_one_unreadable_file_never_stops_the_others(tmp_path: Path, step: str) -> None:
    """W14: it is counted, left where it is, and read on a better day."""
    write(tmp_path, 1, add("a"))
    write(tmp_path, 2, add("b"))
    store = Store(tmp_path)
    name = {"ClaimOpen": "open", "ClaimTry": "try_lock", "ClaimCheck": "is_named",
            "ReadWal": "read"}[step]
    Store(tmp_path / "elsewhere").open().kill()
    (tmp_path / "deferred-dead_tasks.lock").write_bytes(
        (tmp_path / "elsewhere" / "deferred-dead_tasks.lock").read_bytes()
    )
    before = {"open": 1, "try_lock": 1, "is_named": 1, "read": 1}[name]  # of the dead-task lock
    real, seen = getattr(store.fs, name), 0

    def once(*args: object) -> object:
        nonlocal seen
        seen += 1
        if seen == before + 1:
            raise OSError(errno.EIO, "io")
        return real(*args)

    setattr(store.fs, name, once)
    store.open()
    assert store.pending() == ["b"] and store.stats()["wal_files_unreadable"] == 1
    store.check_clean()
    store.kill()
    again = start(tmp_path)
    assert sorted(again.pending()) == ["a", "b"]
    again.kill()


def test_a_disk_full_of_files_that_cannot_be_merged(tmp_path: Path) -> None:
    """F2: the start fails, and loses nothing; when there is space again it works."""
    write(tmp_path, 1, add("a"))
    write(tmp_path, 2, add("b"))
    store = Store(tmp_path)
    store.fs.arm(Fault(0, OSError(errno.ENOSPC, "full"), count=99, only="append"))
    with pytest.raises(StorageError, match="free space"):
        store.open()
    store.kill()
    again = start(tmp_path)
    assert sorted(again.pending()) == ["a", "b"] and len(again.wal_files()) == 1
    again.kill()


# --- races over names ---------------------------------------------------------------------------


def test_a_lock_won_on_an_unlinked_file_is_let_go(tmp_path: Path) -> None:
    """W11: another process merged it between our open and our lock."""
    file = write(tmp_path, 1, add("a"))
    store = Store(tmp_path)
    real = store.fs.try_lock

    def late(fd: int) -> bool:
        if os.fstat(fd).st_ino == file.stat().st_ino:
            file.unlink()
            file.write_bytes(add("b"))
        return real(fd)

    store.fs.try_lock = late  # type: ignore[method-assign]
    store.open()
    assert store.pending() == [] and store.wal_files() == [file]
    assert is_free(file)
    store.kill()


@pytest.mark.parametrize("how", ["locked", "unlinked"])
def test_a_new_file_that_another_process_took(store: Store, how: str) -> None:
    """W11: between creation and lock; we make another, and wait for nobody."""
    rival = OsFs()
    real_open, real_lock = store.fs.open, store.fs.try_lock
    taken: list[str] = []

    def open_and_lose(path: str, mode: OpenMode) -> int:
        fd = real_open(path, mode)
        if mode is OpenMode.CREATE_NEW and "-0-" in path and not taken:
            taken.append(path)
            if how == "locked":
                assert rival.try_lock(rival.open(path, OpenMode.READ))
            else:
                os.unlink(path)
        return fd

    store.fs.open = open_and_lose  # type: ignore[method-assign]
    task_id = store.add(1)
    assert store.trace[0] == "CreateWal" and store.trace.count("CreateWal") == 2
    assert store.fs.try_lock is not None and real_lock is not None
    assert store.pending() == [task_id]
    store.check_clean()
    rival.close_all()


# --- names and places ---------------------------------------------------------------------------


def test_a_relative_path_is_resolved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W14."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path / "one")
    with Disk("storage") as store:
        store.add_task(1)
        monkeypatch.chdir(tmp_path / "two")
        store.add_task(2)
        store.add_dead_task("a", None, None, "Job", 1)
        assert len(store.pending_tasks()) == 2 and len(store.list_dead_tasks()) == 1
    assert list((tmp_path / "two").iterdir()) == []
    with Disk(tmp_path / "one" / "storage") as store:
        assert len(store.pending_tasks()) == 2


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    """F3: a clear error."""
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match="a file stands where a directory belongs"):
            Disk(path)


def test_the_new_name_says_day_and_process(store: Store) -> None:
    """W2: `{prefix}{VERSION}-{date}-{pid}-{random}`."""
    store.add(1)
    name = store.wal_files()[0].name
    assert name.startswith("deferred-0-2") and name.split("-")[3] == str(os.getpid())
