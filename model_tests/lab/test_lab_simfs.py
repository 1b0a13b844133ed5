"""The simulated file system behaves as the Linux manual pages say (F1, D13, D15, D23, D24)."""

from __future__ import annotations

import errno

import pytest
from lychgate._fs import OpenMode
from lychgate_conformance.lab._disk import Crashed, Machine
from lychgate_conformance.lab._faults import Fault, Lasting, Loss
from lychgate_conformance.lab._image import DIRECTORY, Symlink, cached_image, image_of
from lychgate_conformance.lab._simfs import SimFs


def machine(**files: bytes) -> Machine:
    return Machine(image_of({f"d/{name}": data for name, data in files.items()} | {"d": DIRECTORY}))


def code_of(error: pytest.ExceptionInfo[OSError]) -> int | None:
    return error.value.errno


def test_a_descriptor_follows_its_inode_through_rename_and_unlink() -> None:
    """D13: a cached descriptor writes to a file that no path reaches."""
    world = machine(live=b"old\n", new=b"new\n")
    fs = SimFs(world)
    fd = fs.open("/d/live", OpenMode.APPEND)
    fs.rename("/d/new", "/d/live")
    assert not fs.is_named(fd, "/d/live")
    assert fs.append(fd, b"ghost\n") == 6
    assert fs.read(fd, 0, 100) == b"old\nghost\n"
    assert cached_image(world.disk).files() == {"d/live": b"new\n"}


def test_a_lock_stays_with_its_inode_when_the_path_is_replaced() -> None:
    """D24: after unlink and create, or rename, path and lock differ."""
    world = machine(lock=b"")
    first, second = SimFs(world), SimFs(world)
    held = first.open("/d/lock", OpenMode.LOCK)
    assert first.try_lock(held)
    first.rename("/d/lock", "/d/elsewhere")
    moved = second.open("/d/elsewhere", OpenMode.LOCK)
    assert not second.try_lock(moved)
    fresh = second.open("/d/lock", OpenMode.LOCK)
    assert second.try_lock(fresh)
    assert not first.is_named(held, "/d/lock") and first.is_named(held, "/d/elsewhere")


def test_a_lock_belongs_to_the_description_not_to_the_process() -> None:
    """D15: the same descriptor locks twice, another one of the same process does not."""
    fs = SimFs(machine(lock=b""))
    one, two = fs.open("/d/lock", OpenMode.LOCK), fs.open("/d/lock", OpenMode.LOCK)
    assert fs.try_lock(one) and fs.try_lock(one)
    assert not fs.try_lock(two)
    fs.unlock(two)  # holds nothing, frees nothing
    assert not fs.try_lock(two)
    fs.close(one)
    assert fs.try_lock(two)


def test_a_forked_child_shares_the_lock_until_all_copies_are_closed() -> None:
    """D23: an inherited descriptor keeps a dead parent's lock taken."""
    world = machine(lock=b"")
    parent, other = SimFs(world), SimFs(world)
    fd = parent.open("/d/lock", OpenMode.LOCK)
    assert parent.try_lock(fd)
    child = parent.fork(closes=False)
    parent.kill()
    mine = other.open("/d/lock", OpenMode.LOCK)
    assert not other.try_lock(mine)
    assert child.try_lock(fd)
    child.kill()
    assert other.try_lock(mine)


def test_a_child_that_closes_at_fork_holds_nothing() -> None:
    """D23, W13."""
    world = machine(lock=b"")
    parent = SimFs(world)
    fd = parent.open("/d/lock", OpenMode.LOCK)
    assert parent.try_lock(fd)
    child = parent.fork()
    assert child.open_descriptors() == 0 and child.pid() != parent.pid()
    with pytest.raises(OSError) as error:
        child.try_lock(fd)
    assert code_of(error) == errno.EBADF


def test_append_goes_to_the_end_even_when_others_append() -> None:
    """D10: O_APPEND."""
    world = machine(log=b"")
    one, two = SimFs(world), SimFs(world)
    a, b = one.open("/d/log", OpenMode.APPEND), two.open("/d/log", OpenMode.APPEND)
    for fs, fd, data in ((one, a, b"1"), (two, b, b"2"), (one, a, b"3")):
        assert fs.append(fd, data) == 1
    assert one.read(a, 0, 9) == b"123"


def test_open_modes_and_their_errors() -> None:
    """D12, F3: nothing is truncated by opening; what is missing or in the way is refused."""
    world = machine(file=b"x")
    fs = SimFs(world)
    refused = [
        ("/d/missing", OpenMode.READ, errno.ENOENT),
        ("/d/missing", OpenMode.APPEND, errno.ENOENT),
        ("/d/file", OpenMode.CREATE_NEW, errno.EEXIST),
        ("/d", OpenMode.READ, errno.EISDIR),
        ("/none/file", OpenMode.LOCK, errno.ENOENT),
        ("/d/file/below", OpenMode.READ, errno.ENOTDIR),
        ("/d/" + "n" * 256, OpenMode.LOCK, errno.ENAMETOOLONG),
    ]
    for path, mode, code in refused:
        with pytest.raises(OSError) as error:
            fs.open(path, mode)
        assert code_of(error) == code, path
    reading = fs.open("/d/file", OpenMode.READ)
    with pytest.raises(OSError) as error:
        fs.append(reading, b"y")
    assert code_of(error) == errno.EBADF
    assert fs.open("/d/file", OpenMode.LOCK) == reading + 1
    assert cached_image(world.disk).files() == {"d/file": b"x"}


def test_symlinks_are_followed_on_the_way_and_not_at_the_end() -> None:
    """D27: the last part of a path is never followed by open, lstat and unlink."""
    world = Machine(image_of({"real/file": b"1", "way": Symlink("/real"), "a": Symlink("real")}))
    fs = SimFs(world)
    assert fs.resolve("/way/file") == "/real/file"
    fd = fs.open("/way/file", OpenMode.APPEND)
    assert fs.is_named(fd, "/way/file") and fs.is_named(fd, "/real/file")
    assert fs.list_dir("/way") == ["file"]
    with pytest.raises(OSError) as error:
        fs.open("/a", OpenMode.READ)
    assert code_of(error) == errno.ELOOP and fs.resolve("/a/x/../file") == "/real/file"
    fs.unlink("/way")
    assert fs.list_dir("/") == ["a", "real"]


def test_a_killed_process_does_nothing_any_more() -> None:
    """F1: descriptors and locks go, and clean-up code cannot run."""
    world = machine(lock=b"")
    fs, other = SimFs(world), SimFs(world)
    fd = fs.open("/d/lock", OpenMode.LOCK)
    assert fs.try_lock(fd)
    fs.kill()
    with pytest.raises(Crashed):
        fs.unlock(fd)
    with pytest.raises(Crashed):
        fs.close(fd)
    with pytest.raises(Crashed):
        fs.unlink("/d/lock")
    assert other.try_lock(other.open("/d/lock", OpenMode.LOCK))


def test_a_crashed_machine_refuses_every_process() -> None:
    """F1."""
    world = machine(file=b"")
    fs = SimFs(world)
    world.crash()
    with pytest.raises(Crashed):
        fs.list_dir("/d")


def test_a_fault_strikes_once_or_from_then_on() -> None:
    """F2."""
    world = machine(file=b"")
    fs = SimFs(world)
    fd = fs.open("/d/file", OpenMode.APPEND)
    fs.inject(Fault(fs.calls + 1, errno.EIO))
    with pytest.raises(OSError):
        fs.append(fd, b"x")
    assert fs.struck == "append" and fs.append(fd, b"x") == 1
    fs.inject(Fault(fs.calls + 1, errno.ENOSPC, keep=2, lasting=Lasting.CALL))
    assert fs.append(fd, b"yyyy") == 2
    for _ in range(2):
        with pytest.raises(OSError):
            fs.append(fd, b"yy")
    assert fs.read(fd, 0, 9) == b"xyy"
    fs.inject(Fault(fs.calls + 1, errno.EIO, lasting=Lasting.ALL))
    for _ in range(2):
        with pytest.raises(OSError):
            fs.status(fd)


def test_a_write_that_was_short_may_fail_once_when_it_is_repeated() -> None:
    """F2, W6: k bytes are in the file, the rest is refused, and then all is well again."""
    fs = SimFs(machine(file=b""))
    fd = fs.open("/d/file", OpenMode.APPEND)
    fs.inject(Fault(fs.calls + 1, errno.ENOSPC, keep=2))
    assert fs.append(fd, b"yyyy") == 2
    assert fs.status(fd).size == 2  # calls of another kind are not struck
    with pytest.raises(OSError):
        fs.append(fd, b"yy")
    assert fs.append(fd, b"yy") == 2


def test_a_close_that_fails_has_closed() -> None:
    """F2: the descriptor is gone all the same."""
    fs = SimFs(machine(file=b""))
    fd = fs.open("/d/file", OpenMode.READ)
    fs.inject(Fault(fs.calls + 1, errno.EIO))
    with pytest.raises(OSError):
        fs.close(fd)
    assert fs.open_descriptors() == 0


def test_a_failed_fsync_shows_what_the_disk_lacks() -> None:
    """W9: ext4-like, the cache keeps the new bytes and the next fsync succeeds."""
    fs = SimFs(machine(file=b"old"))
    fd = fs.open("/d/file", OpenMode.APPEND)
    fs.append(fd, b"new")
    fs.inject(Fault(fs.calls + 1, errno.EIO, loss=Loss.CLEAN))
    with pytest.raises(OSError):
        fs.fsync(fd)
    fs.fsync(fd)
    assert fs.read(fd, 0, 9) == b"oldnew"


def test_a_failed_fsync_may_revert_the_cache() -> None:
    """W9: btrfs-like, cache and size go back."""
    fs = SimFs(machine(file=b"old"))
    fd = fs.open("/d/file", OpenMode.APPEND)
    fs.append(fd, b"kept")
    fs.fsync(fd)
    fs.append(fd, b"new")
    fs.inject(Fault(fs.calls + 1, errno.EIO, loss=Loss.REVERTED))
    with pytest.raises(OSError):
        fs.fsync(fd)
    assert fs.read(fd, 0, 99) == b"oldkept" and fs.status(fd).size == 7


def test_processes_never_draw_the_same_bytes() -> None:
    """W4: and a run draws the same bytes every time."""
    drawn = set()
    for boot in ("boot-1", "boot-2"):
        world = Machine(boot=boot)
        for fs in (SimFs(world), SimFs(world)):
            drawn |= {fs.random(8) for _ in range(3)}
    assert len(drawn) == 12
    assert SimFs(Machine()).random(8) == SimFs(Machine()).random(8)
