"""The mark in the lock file: what an unfinished change costs the next one (D19, D29, D32)."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from engine.faults import Fault, Store

from lychgate import StorageError


def healed(store: Store) -> bool:
    return "RenameStaging" in store.trace


CHANGES = ["SetMark", "OpenData", "AppendRecord", "FsyncData", "CloseData", "ClearMark"]


@pytest.mark.parametrize("last", CHANGES)
def test_what_a_dead_holder_left_is_healed_before_the_next_change(
    tmp_path: Path, last: str
) -> None:
    """D32, D18: the holder dies right after a step; a copy in a new inode is published first."""
    store = Store(tmp_path).open()
    store.bury("a")
    program = store.programs.add_dead_task("b", None, None, "Job", 1)
    op = program.send(None)
    while True:
        result = op.perform(store.fs)
        if op.action == last:
            break
        op = program.send(result)
    store.kill()
    program.close()
    again = Store(tmp_path).open()
    assert healed(again) == (last != "ClearMark")
    inode = again.data_file().stat().st_ino
    again.bury("c")
    assert not healed(again) and again.data_file().stat().st_ino == inode
    written = CHANGES.index(last) >= CHANGES.index("AppendRecord")
    assert again.dead() == (["a", "b", "c"] if written else ["a", "c"])
    again.kill()


@pytest.mark.parametrize("step", ["FsyncData", "FsyncStaging", "FsyncDir"])
@pytest.mark.parametrize("then", ["add", "remove", "remove nothing", "open"])
def test_a_failed_fsync_is_healed_by_whoever_comes_next(
    store: Store, step: str, then: str
) -> None:
    """F2, W9, D19, D32: a remove of nothing included; a repeated fsync alone proves nothing."""
    store.bury("a")
    store.bury("b")
    name, first = ("fsync_dir", 0) if step == "FsyncDir" else ("fsync", 0)
    store.fs.arm(Fault(first, OSError(errno.EIO, "io"), only=name))
    with pytest.raises(StorageError) as raised:
        store.bury("c") if step == "FsyncData" else store.unbury("a")
    store.fs.arm(None)
    assert raised.value.action == step
    assert raised.value.definite == (step == "FsyncStaging")
    store.check_clean()
    assert not store.staging_file().exists()
    visible = store.dead()
    assert visible == {
        "FsyncData": ["a", "b", "c"], "FsyncStaging": ["a", "b"], "FsyncDir": ["b"],
    }[step]
    match then:
        case "add":
            store.bury("d")
            visible = [*visible, "d"]
        case "remove":
            assert store.unbury("b") == 1
            visible = [name for name in visible if name != "b"]
        case "remove nothing":
            assert store.unbury("x") == 0
        case "open":
            store.kill()
            store = Store(store.path).open()
    assert healed(store)
    assert store.dead() == visible
    store.bury("z")
    assert not healed(store)
    store.kill()


def test_a_copy_that_fails_leaves_no_staging_to_fill_the_disk(store: Store) -> None:
    """F2: the next add needs the space."""
    for name in "abc":
        store.bury(name)
    store.fs.arm(Fault(0, OSError(errno.ENOSPC, "full"), only="append"))
    with pytest.raises(StorageError, match="free space") as raised:
        store.unbury("a")
    assert raised.value.definite
    assert store.trace[-4:] == ["CloseData", "CloseStaging", "UnlinkStaging", "Unlock"]
    assert not store.staging_file().exists()
    store.bury("d")
    assert not healed(store) and store.dead() == ["a", "b", "c", "d"]


def test_a_mark_that_cannot_be_cleared_costs_a_copy_and_no_error(store: Store) -> None:
    """D32: the record is durable; the next holder does not know."""
    store.bury("a")
    store.fs.arm(Fault(0, OSError(errno.EIO, "io"), only="overwrite"))
    with pytest.raises(StorageError, match="nothing was changed"):
        store.bury("b")
    assert store.dead() == ["a"]
    store.fs.arm(Fault(9, OSError(errno.EIO, "io"), only="overwrite"))
    store.bury("b")
    assert store.trace[-2:] == ["ClearMark", "Unlock"]
    assert store.stats()["marks_not_cleared"] == 1
    store.bury("c")
    assert healed(store) and store.dead() == ["a", "b", "c"]


def test_a_short_mark_is_no_clean_mark(store: Store) -> None:
    """D32: whatever the write left."""
    store.bury("a")
    overwrite = store.fs.overwrite
    for size in (0, 1, 6, 41):
        def short(fd: int, offset: int, data: bytes, size: int = size) -> int:
            if data.startswith(b"clean"):
                data = data[:size]
            return overwrite(fd, offset, data)

        store.fs.overwrite = short  # type: ignore[method-assign]
        store.bury("b")
        store.fs.overwrite = overwrite  # type: ignore[method-assign]
        store.bury("b")
        assert healed(store)


def test_a_new_boot_is_healed_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """D28, D29, D32: the mark of another boot is not believed."""
    store.bury("a")
    monkeypatch.setattr(store.fs, "boot", lambda: "another")
    store.bury("b")
    assert healed(store)
    store.bury("c")
    assert not healed(store) and store.dead() == ["a", "b", "c"]
