"""The dead-task store, step by step: the sequences that the spec has, and tail repair (D9–D12)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from engine.faults import Fault, Store
from hypothesis import given, settings
from hypothesis import strategies as st

from lychgate import _dead
from lychgate._lines import seal
from lychgate._lock import clean_mark

TAKE = ["LockTry", "CheckLock"]
OPEN = ["OpenData", "StatData", "ReadTail"]
COPY = ["CreateStaging", "OpenData", "StatData", "ReadTail", "MatchOwner", "ReadLive",
        "WriteStaging", "CloseData"]
PUBLISH = ["FsyncStaging", "CloseStaging", "RenameStaging", "FsyncDir"]
APPEND = ["AppendRecord", "FsyncData", "CloseData", "ClearMark", "Unlock"]


def append_raw(store: Store, data: bytes) -> None:
    with open(store.data_file(), "ab") as file:
        file.write(data)


def test_the_steps_of_initialisation(tmp_path: Path) -> None:
    """D9, D22: every level of directories, then the data file, durable by name; then nothing."""
    store = Store(tmp_path / "a" / "b").open()
    parents = len((tmp_path / "a" / "b").parents)
    head = store.trace[: store.trace.index("OpenLock")]
    assert head == ["MakeDir"] * 3 + ["FsyncParent"] * parents
    assert store.trace[len(head) :] == [
        "OpenLock", *TAKE, "ReadMark", "SetMark", "CreateStaging", "OpenData", *PUBLISH,
        "ClearMark", "Unlock", "ListWals",
    ]
    again = Store(tmp_path / "a" / "b").open()
    assert again.trace[1 + parents :] == ["OpenLock", *TAKE, "ReadMark", "Unlock", "ListWals"]
    store.kill()
    again.kill()


def test_the_steps_of_an_add(store: Store) -> None:
    """D10: to an empty file, then to one with a whole tail."""
    store.bury("a")
    assert store.trace == [*TAKE, "ReadMark", "SetMark", "OpenData", "StatData", *APPEND]
    store.bury("b")
    assert store.trace == [*TAKE, "ReadMark", "SetMark", *OPEN, *APPEND]


def test_the_steps_of_a_remove(store: Store) -> None:
    """D12: none asked, none found, some found."""
    for task_id in "abc":
        store.bury(task_id)
    live = store.data_file().stat().st_ino
    assert store.unbury() == 0 and store.trace == []
    copy = [step for step in COPY if step != "ReadTail"]
    assert store.unbury("x", "y") == 0
    assert store.trace == [*TAKE, "ReadMark", *copy, "CloseStaging", "UnlinkStaging", "Unlock"]
    assert store.data_file().stat().st_ino == live and not store.staging_file().exists()
    assert store.unbury("a", "x", "c", "a") == 2
    assert store.trace == [*TAKE, "ReadMark", *copy, "SetMark", *PUBLISH, "ClearMark", "Unlock"]
    assert store.data_file().stat().st_ino != live and not store.staging_file().exists()
    assert store.dead() == ["b"]
    assert store.unbury("b") == 1
    assert store.data_file().read_bytes() == b""


def test_the_steps_of_a_drop(store: Store) -> None:
    """D12, D19: those of a remove, whatever is chosen; a later record of the same id stays."""
    for task_id in "aba":
        store.bury(task_id)
    bodies = [line[9:] for line in store.data_file().read_bytes().splitlines()]
    copy = [step for step in COPY if step != "ReadTail"]
    drop = store.programs._dead.drop
    assert store.do(drop(lambda body: False)) == 0
    assert store.trace == [*TAKE, "ReadMark", *copy, "CloseStaging", "UnlinkStaging", "Unlock"]
    assert store.do(drop(lambda body: body in bodies[:2])) == 2
    assert store.trace == [*TAKE, "ReadMark", *copy, "SetMark", *PUBLISH, "ClearMark", "Unlock"]
    assert store.data_file().read_bytes().splitlines()[0][9:] == bodies[2]


def test_the_steps_of_a_read(store: Store) -> None:
    """D13, D16: the same lock; nothing is read of an empty file, and a missing one is empty."""
    store.dead()
    assert store.trace == [*TAKE, "OpenData", "StatData", "CloseData", "Unlock"]
    store.bury("a")
    for _ in range(2):
        store.do(store.programs.find_dead_task("a"))
        assert store.trace == [*TAKE, "OpenData", "StatData", "ReadLive", "CloseData", "Unlock"]
    store.data_file().unlink()
    assert store.dead() == []
    assert store.trace == [*TAKE, "OpenData", "Unlock"]


def test_a_page_of_nothing_takes_no_step(store: Store) -> None:
    """D16."""
    assert store.do(store.programs.list_dead_tasks(0)) == [] and store.trace == []


def test_no_step_opens_the_data_file_without_the_lock(store: Store) -> None:
    """D13: whatever is called, each data step stands between LockTry and Unlock."""
    calls: list[Callable[[], object]] = [
        lambda: store.bury("a"), store.dead, lambda: store.unbury("a"), lambda: store.unbury("a"),
    ]
    for call in calls:
        call()
        assert store.trace[:2] == TAKE and store.trace[-1] == "Unlock"
        assert store.trace.count("OpenData") == store.trace.count("CloseData") == 1


TORN = [b"x", b"\0" * 5000, b"deadbeef:half a rec", seal(b"{}")[:-1], b"\xff" * 10_000]


@pytest.mark.parametrize("torn", TORN, ids=len)
def test_a_torn_tail_is_cut_before_the_append(store: Store, torn: bytes) -> None:
    """D11, D28: under a trusted mark by truncation, with one fsync for both."""
    store.bury("a")
    before = store.data_file().read_bytes()
    append_raw(store, torn)
    store.bury("b")
    reads = len(torn) // _dead.TAIL_WINDOW_BYTES + 1
    assert store.trace == [
        *TAKE, "ReadMark", "SetMark", "OpenData", "StatData", *["ReadTail"] * reads,
        "TruncateTail", *APPEND,
    ]
    after = store.data_file().read_bytes()
    assert after.startswith(before) and after[len(before) :].count(b"\n") == 1
    assert store.dead() == ["a", "b"] and store.stats()["dead_tails_truncated"] == 1


@pytest.mark.parametrize("torn", TORN, ids=len)
def test_a_file_that_is_one_torn_line_is_cut_to_nothing(store: Store, torn: bytes) -> None:
    """D11: to zero when there is no newline."""
    append_raw(store, torn)
    assert store.dead() == [] and store.stats()["dead_tails_skipped"] == 1
    store.bury("a")
    assert store.dead() == ["a"] and store.data_file().read_bytes().count(b"\n") == 1


def test_a_complete_bad_line_is_not_touched_by_an_add(store: Store) -> None:
    """D11, D16: a bad CRC in a whole line, NULs with a newline: skipped, kept, counted."""
    store.bury("a")
    bad = b"00000000:not its crc\n" + b"\0" * 64 + b"\n" + b"\n"
    append_raw(store, bad)
    before = store.data_file().read_bytes()
    store.bury("b")
    assert "TruncateTail" not in store.trace
    assert store.data_file().read_bytes().startswith(before)
    assert store.dead() == ["a", "b"] and store.stats()["dead_lines_skipped"] == 3
    assert store.unbury("a") == 1
    assert store.stats()["dead_lines_dropped"] == 3
    assert store.data_file().read_bytes().count(b"\n") == 1


def test_a_last_line_without_newline_is_torn_though_its_crc_is_right(store: Store) -> None:
    """D16: it is not listed, not kept by a remove, and cut by an add."""
    store.bury("a")
    store.bury("b")
    data = store.data_file().read_bytes()
    os.truncate(store.data_file(), len(data) - 1)
    assert store.dead() == ["a"]
    assert store.do(store.programs.find_dead_task("b")) is None
    assert store.unbury("b") == 0
    store.bury("c")
    assert store.dead() == ["a", "c"]


@given(
    st.lists(st.one_of(st.just(b"\n"), st.binary(max_size=30), st.just(seal(b"{}"))), max_size=8)
)
@settings(max_examples=60, deadline=None)
def test_an_add_leaves_every_complete_line_alone(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    """D11, D17: whatever stands in the file."""
    store = Store(tmp_path_factory.mktemp("store")).open()
    old = b"".join(parts)
    append_raw(store, old)
    store.bury("a")
    whole = old[: old.rfind(b"\n") + 1]
    assert store.data_file().read_bytes()[: len(whole)] == whole
    assert store.data_file().read_bytes()[len(whole) :].count(b"\n") == 1
    assert store.dead() == ["a"]
    store.kill()


@pytest.mark.parametrize("size", [1, 7, 100])
def test_short_reads_and_writes_change_nothing(store: Store, size: int) -> None:
    """F2: a short read is no end of the file, a short write is written on."""
    for task_id in "abc":
        store.bury(task_id)
    store.fs.arm(Fault(0, short=size))
    store.bury("d", "x" * 500)
    assert store.dead() == ["a", "b", "c", "d"]
    assert store.unbury("b", "z") == 1
    append_raw(store, b"torn" * 50)
    store.bury("e")
    store.fs.arm(None)
    assert store.dead() == ["a", "c", "d", "e"]
    assert "dead_tails_skipped" not in store.stats()


def test_a_read_that_ends_early_is_an_error_and_not_an_empty_store(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2, D17: nothing is copied away, cut or listed short by a file system that gives nothing."""
    store.bury("a")
    store.bury("b")
    before = store.data_file().read_bytes()
    monkeypatch.setattr(store.fs, "read", lambda fd, offset, size: b"")
    for call in (store.dead, lambda: store.unbury("a"), lambda: store.bury("c")):
        with pytest.raises(OSError, match="cut by somebody else"):
            call()
        store.check_clean()
    monkeypatch.undo()
    assert store.data_file().read_bytes() == before
    assert store.dead() == ["a", "b"]
    assert not store.staging_file().exists()


def test_several_records_of_one_id(store: Store) -> None:
    """D26: find gives the newest valid one, list all in order, remove drops all and counts one."""
    for context in (1, 2, 3):
        store.bury("a", context)
        store.bury("b", context)
    append_raw(store, seal(b'{"task_id":"a","damaged":')[:-8] + b"\n")
    found = store.do(store.programs.find_dead_task("a"))
    assert found is not None and found.context == 3
    assert store.dead() == ["a", "b"] * 3
    assert store.unbury("a") == 1
    assert store.dead() == ["b"] * 3


def test_a_newer_record_that_says_nothing_does_not_hide_an_older_one(store: Store) -> None:
    """D26: also when its CRC is right."""
    store.bury("a", "old")
    append_raw(store, seal(b'{"task_id":"a"}'))
    found = store.do(store.programs.find_dead_task("a"))
    assert found is not None and found.context == "old"


def test_pages_are_in_file_order(store: Store) -> None:
    """D16: limit and offset, in any combination."""
    names = [f"t{n}" for n in range(7)]
    for name in names:
        store.bury(name)
    for limit in (None, 0, 1, 3, 7, 100, 10**30):
        for offset in (0, 1, 6, 7, 100, 10**30):
            page = store.do(store.programs.list_dead_tasks(limit, offset))
            end = None if limit is None else offset + limit
            assert [dead.task_id for dead in page] == names[offset:end]


def test_an_orphan_staging_file_is_not_read_and_never_reused(store: Store) -> None:
    """D18, D29: its inode is given up, so that nothing of it can come back."""
    store.bury("a")
    store.staging_file().write_bytes(seal(b"orphan") * 3)
    orphan = store.staging_file().open("rb")
    assert store.dead() == ["a"]
    assert store.unbury("a") == 1
    assert store.trace.count("CreateStaging") == 2
    assert os.fstat(orphan.fileno()).st_nlink == 0 and orphan.read() == seal(b"orphan") * 3
    orphan.close()
    assert store.dead() == [] and store.stats()["orphan_stagings_removed"] == 1


def test_a_big_store_is_copied_in_pieces(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D12: line by line, in bounded memory, whatever the chunks."""
    monkeypatch.setattr(_dead, "CHUNK_BYTES", 64)
    for n in range(20):
        store.bury(f"t{n}", "x" * n)
    assert store.unbury("t3", "t19", "t0") == 3
    assert store.trace.count("ReadLive") > 20
    assert store.dead() == [f"t{n}" for n in range(20) if n not in (0, 3, 19)]


# --- files --------------------------------------------------------------------------------------


def test_modes_and_owner_survive_a_copy(store: Store) -> None:
    """D27."""
    store.bury("a")
    for path in (store.data_file(), store.lock_file()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    os.chmod(store.data_file(), 0o640)
    if os.geteuid() == 0:
        os.chown(store.data_file(), 1234, 4321)
    before = store.data_file().stat()
    assert store.unbury("a") == 1
    after = store.data_file().stat()
    assert before.st_ino != after.st_ino
    assert (before.st_mode, before.st_uid, before.st_gid) == (
        after.st_mode, after.st_uid, after.st_gid,
    )


@pytest.mark.parametrize("exists", [True, False])
def test_a_data_path_that_is_a_link_stays_one(tmp_path: Path, exists: bool) -> None:
    """D27: staging, rename and directory fsync happen beside the target."""
    (tmp_path / "volume").mkdir()
    (tmp_path / "storage").mkdir()
    target, link = tmp_path / "volume" / "dead", tmp_path / "storage" / "deferred-dead_tasks-0"
    if exists:
        target.touch()
    link.symlink_to(Path("..") / "volume" / "dead")
    store = Store(tmp_path / "storage").open()
    store.bury("a")
    store.bury("b")
    assert store.unbury("a") == 1
    assert link.is_symlink() and os.readlink(link) == "../volume/dead"
    assert sorted(os.listdir(tmp_path / "volume")) == ["dead"]
    assert target.read_bytes().count(b"\n") == 1
    store.kill()
    again = Store(tmp_path / "storage").open()
    assert again.dead() == ["b"]
    again.kill()


@pytest.mark.parametrize("kind", ["directory", "fifo", "link to itself"])
def test_something_else_in_place_of_the_data_file(tmp_path: Path, kind: str) -> None:
    """F3: a clear error, nothing lost, and no descriptor or lock kept; mended, it works."""
    path = tmp_path / "deferred-dead_tasks-0"
    match kind:
        case "directory":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case _:
            path.symlink_to(path.name)
    store = Store(tmp_path)
    with pytest.raises(OSError, match="move it away|not a regular file"):
        store.open()
    store.check_clean()
    assert not store.staging_file().exists()
    path.rmdir() if kind == "directory" else path.unlink()
    store.open()
    store.bury("a")
    assert store.dead() == ["a"]
    store.kill()


def test_a_directory_that_came_while_open(store: Store) -> None:
    """F3."""
    store.bury("a")
    store.data_file().rename(store.path / "away")
    store.data_file().mkdir()
    for call in (store.dead, lambda: store.bury("b"), lambda: store.unbury("a")):
        with pytest.raises(OSError):
            call()
        store.check_clean()
    store.data_file().rmdir()
    (store.path / "away").rename(store.data_file())
    store.bury("b")
    assert store.dead() == ["a", "b"]


def test_a_deleted_data_file_is_made_anew(store: Store) -> None:
    """D9, F3: and its name is durable before the add is acknowledged."""
    store.bury("a")
    store.data_file().unlink()
    assert store.dead() == [] and store.unbury("a") == 0
    store.bury("b")
    assert store.trace == [
        *TAKE, "ReadMark", "SetMark", "OpenData", "CreateStaging", "OpenData", *PUBLISH,
        "OpenData", "StatData", *APPEND,
    ]
    assert store.dead() == ["b"]


def test_files_of_other_versions_are_left_alone(store: Store) -> None:
    """D6."""
    other = store.path / "deferred-dead_tasks-1"
    other.write_bytes(b"the future")
    store.bury("a")
    assert store.unbury("a") == 1
    assert other.read_bytes() == b"the future"


def test_the_mark_is_read_as_a_whole(store: Store) -> None:
    """D32: anything but the clean mark of this boot is unclean."""
    clean = clean_mark(store.fs.boot())
    assert store.lock_file().read_bytes() == clean
    for content in (b"", clean[:-1], clean[:6], b"\0" * 64, clean_mark("another boot"), b"x" * 99):
        store.lock_file().write_bytes(content)
        store.bury("a")
        assert "RenameStaging" in store.trace
        store.bury("a")
        assert "RenameStaging" not in store.trace
        assert store.lock_file().read_bytes()[:64] == clean
