"""The WAL of one process: steps, batching, tails, rotation (W1–W3, W5–W10)."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from engine.faults import Fault, Store, no_leak
from engine.wal_runs import APPEND, CREATE, ROTATE, SETTLE

from lychgate import StorageError, _wal
from lychgate._lines import seal


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are rotated past 300 bytes: three lines of 86 fit."""
    monkeypatch.setattr(_wal, "ROTATE_BYTES", 300)


# --- steps --------------------------------------------------------------------------------------


def test_the_steps_of_a_life(store: Store) -> None:
    """W2, W6: a file comes with the first add and goes with the last task."""
    assert store.wal_files() == []
    one = store.add(1)
    assert store.trace == [*CREATE, *APPEND]
    two = store.add(2)
    assert store.trace == APPEND
    store.remove(one)
    assert store.trace == APPEND
    assert store.pending() == [two] and store.trace == ["ReadWal"]
    store.remove(two)
    assert store.pending() == [] and store.trace == []
    (path,) = store.wal_files()
    assert path.read_bytes().count(b"\n") == 4
    store.close()
    assert store.trace == ["UnlinkWal", "CloseWal", "CloseLock"]
    assert store.wal_files() == []


def test_a_file_with_live_tasks_stays(store: Store) -> None:
    """W7."""
    store.add(1)
    store.close()
    assert store.trace == ["CloseWal", "CloseLock"]
    assert len(store.wal_files()) == 1


def test_an_unknown_id_changes_nothing(store: Store) -> None:
    """W10: before there is a file, after it was removed, and again."""
    store.remove("unknown")
    assert store.trace == []
    one = store.add(1)
    before = store.wal_files()[0].read_bytes()
    store.remove("unknown")
    assert store.trace == []
    store.remove(one)
    after = store.wal_files()[0].read_bytes()
    store.remove(one)
    assert store.trace == [] and len(after) > len(before)
    assert store.wal_files()[0].read_bytes() == after
    assert store.stats() == {"dead_files_republished": 1}


def test_a_retry_under_the_same_id_replaces(store: Store) -> None:
    """U2, W12: the last record decides, here and after a restart."""
    store.add("old", "id")
    store.add("other")
    store.add("new", "id")
    found = store.do(store.programs.pending_tasks())
    assert [task for _, task, _ in found] == ["other", "new"]
    store.close()
    again = Store(store.path).open()
    assert [task for _, task, _ in again.do(again.programs.pending_tasks())] == ["other", "new"]
    again.remove("id")
    assert len(again.pending()) == 1
    again.kill()


def test_looking_twice_changes_nothing(store: Store) -> None:
    """W7."""
    for n in range(3):
        store.add(n)
    before = store.wal_files()[0].read_bytes()
    assert store.pending() == store.pending()
    assert store.wal_files()[0].read_bytes() == before


def test_delays_of_years_are_kept(store: Store) -> None:
    """W14."""
    far = 1_900_000_000.123456
    store.do(store.programs.add_task("t", far))
    store.close()
    again = Store(store.path).open()
    assert again.do(again.programs.pending_tasks())[0][2] == far
    again.kill()


# --- failures -----------------------------------------------------------------------------------


def test_a_short_write_is_written_on(store: Store) -> None:
    """F2, W1."""
    store.fs.arm(Fault(0, short=7))
    one = store.add("x" * 40)
    assert store.trace.count("AppendWal") > 5
    assert store.pending() == [one]
    store.fs.arm(None)
    store.close()
    again = Store(store.path).open()
    assert again.pending() == [one] and "wal_lines_skipped" not in again.stats()
    again.kill()


def test_a_failed_append_is_taken_back(store: Store) -> None:
    """W6: what it wrote is cut off, so that the next line begins a line."""
    one = store.add(1)
    before = store.wal_files()[0].read_bytes()
    append = store.fs.append

    def fails_half_way(fd: int, data: bytes) -> int:
        if len(data) > 10:
            return append(fd, data[:-10])
        raise OSError(errno.ENOSPC, "full")

    store.fs.append = fails_half_way  # type: ignore[method-assign]
    with pytest.raises(StorageError) as raised:
        store.add(2)
    assert raised.value.definite and store.trace == ["AppendWal", "AppendWal", "TruncateWal"]
    store.fs.append = append  # type: ignore[method-assign]
    assert store.wal_files()[0].read_bytes() == before
    two = store.add(3)
    assert store.pending() == [one, two]


def test_an_append_that_cannot_be_taken_back_costs_a_rotation(store: Store) -> None:
    """W6, D29: the file is not trusted; live tasks move to a new one before the next promise."""
    one = store.add(1)
    store.fs.arm(Fault(0, OSError(errno.EIO, "io"), count=2))
    with pytest.raises(StorageError):
        store.add(2)
    assert store.trace == ["AppendWal", "TruncateWal"]
    store.fs.arm(None)
    assert store.pending() == [one]
    two = store.add(3)
    assert store.trace == [*ROTATE, *SETTLE, *APPEND]
    assert store.pending() == [one, two] and len(store.wal_files()) == 1


@pytest.mark.parametrize("then", ["add", "remove", "remove again", "sync", "tick", "close"])
def test_after_a_failed_fsync_nothing_is_promised_before_a_new_file(
    store: Store, then: str
) -> None:
    """W9, F2: what the next call acknowledges, it has put into a new inode, durable by name."""
    one, two = store.add(1), store.add(2)
    old = store.wal_files()
    store.fs.arm(Fault(0, OSError(errno.EIO, "io"), only="fsync"))
    with pytest.raises(StorageError, match="may or may not") as raised:
        store.remove(one)
    assert raised.value.action == "FsyncWal" and not raised.value.definite
    store.fs.arm(None)
    assert store.pending() == [two]
    match then:
        case "add":
            store.add(3)
        case "remove":
            store.remove(two)
        case "remove again":
            store.remove(one)  # finds nothing, and must not pretend
        case "sync":
            store.do(store.programs.sync())
        case "tick":
            store.do(store.programs.tick(1e12))
        case "close":
            store.close()
    assert store.trace[: len(ROTATE)] == ROTATE
    assert SETTLE == [step for step in store.trace[len(ROTATE) :] if step in SETTLE][:3]
    assert store.wal_files() != old and len(store.wal_files()) == 1
    assert not set(store.wal_files()) & set(old)


# --- rotation -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_the_steps_of_a_rotation(store: Store) -> None:
    """W5: copy, fsync, name, then unlink while locked, and the unlink durable."""
    tasks = [store.add("x" * 30) for _ in range(3)]
    old = store.wal_files()
    store.remove(tasks.pop(0))
    assert store.trace == [*APPEND, *ROTATE, *SETTLE]
    assert store.pending() == tasks
    assert len(store.wal_files()) == 1 and store.wal_files() != old
    assert store.stats()["wal_rotations"] == 1


@pytest.mark.usefixtures("small")
def test_many_live_tasks_do_not_rotate_for_ever(store: Store) -> None:
    """W5, W10: the limit grows where the live tasks alone would reach it."""
    tasks = [store.add("x" * 30) for _ in range(100)]
    assert 1 <= store.stats()["wal_rotations"] <= 8
    assert store.pending() == tasks
    for task_id in tasks[:-1]:
        store.remove(task_id)
    for n in range(50):
        store.remove(store.add(n))
    assert store.pending() == tasks[-1:]
    assert store.wal_files()[0].stat().st_size < 2_000


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", ["open", "try_lock", "fsync_dir", "read", "append", "unlink"])
def test_a_rotation_that_fails_costs_its_call_nothing(store: Store, name: str) -> None:
    """W5, F2: the call is done; the file is rotated later, and nothing of the attempt stays."""
    tasks = [store.add("x" * 30) for _ in range(3)]
    first = 2 if name in ("append", "fsync") else 0
    store.fs.arm(Fault(first, OSError(errno.EIO, "io"), count=99, only=name))
    tasks += [store.add("x" * 30) for _ in range(1)]
    assert store.stats()["wal_rotations_failed"] == 1
    store.fs.arm(None)
    store.check_clean()
    assert store.pending() == tasks
    for n in range(20):
        store.remove(store.add(n))
    assert store.stats()["wal_rotations"] >= 1
    assert store.pending() == tasks and len(store.wal_files()) == 1
    store.kill()
    again = Store(store.path).open()
    assert again.pending() == tasks
    again.kill()


@pytest.mark.usefixtures("small")
def test_the_copy_of_a_failed_rotation_is_gone_for_good_before_the_next_promise(
    store: Store,
) -> None:
    """W5: its name was durable; if it came back after a crash, it would revive removed tasks."""
    tasks = [store.add("x" * 30) for _ in range(3)]
    store.fs.arm(Fault(0, OSError(errno.EIO, "io"), only="read"))
    tasks.append(store.add("x" * 30))
    assert store.trace == [*APPEND, *CREATE, "ReadWal", "UnlinkWal", "CloseWal"]
    store.fs.arm(None)
    store.remove(tasks[0])
    assert store.trace[:2] == ["FsyncWalDir", "AppendWal"]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("then", ["add", "remove", "sync", "tick", "unknown"])
def test_a_replaced_file_that_cannot_be_unlinked_stops_promises(store: Store, then: str) -> None:
    """W5: it holds no later removals; until it is gone, the next call fails, definitely."""
    tasks = [store.add("x" * 30) for _ in range(3)]
    store.fs.arm(Fault(0, OSError(errno.EACCES, "no"), count=99, only="unlink"))
    tasks.append(store.add("x" * 30))
    assert len(store.wal_files()) == 2
    calls: dict[str, Callable[[], object]] = {
        "add": lambda: store.add(1), "remove": lambda: store.remove(tasks[0]),
        "sync": lambda: store.do(store.programs.sync()),
        "tick": lambda: store.do(store.programs.tick(0.0)),
        "unknown": lambda: store.remove("unknown"),
    }
    with pytest.raises(StorageError, match="give this user access") as raised:
        calls[then]()
    assert raised.value.definite and store.pending() == tasks
    store.fs.arm(None)
    calls[then]()
    assert store.trace[:3] == SETTLE and len(store.wal_files()) == 1


@pytest.mark.usefixtures("small")
def test_closing_over_a_file_that_cannot_be_unlinked(tmp_path: Path) -> None:
    """W5, F2: everything is let go; the next start merges what is left."""
    with no_leak():
        store = Store(tmp_path).open()
        tasks = [store.add("x" * 30) for _ in range(3)]
        store.fs.arm(Fault(0, OSError(errno.EACCES, "no"), count=99, only="unlink"))
        tasks.append(store.add("x" * 30))
        with pytest.raises(StorageError):
            store.close()
        assert not store.fs._fds
        store.close()
        again = Store(tmp_path).open()
        assert again.pending() == tasks and len(again.wal_files()) == 1
        again.close()


def test_an_own_file_that_others_cut_is_an_error(store: Store) -> None:
    """F3: and not an empty list."""
    store.add(1)
    store.wal_files()[0].write_bytes(b"")
    with pytest.raises(StorageError, match="cut by somebody else"):
        store.pending()
    store.check_clean()


def test_an_own_line_that_others_damaged_is_counted(store: Store) -> None:
    """W7."""
    store.add(1)
    two = store.add(2)
    (path,) = store.wal_files()
    data = bytearray(path.read_bytes())
    data[12] ^= 1
    path.write_bytes(bytes(data))
    assert store.pending() == [two] and store.stats()["wal_lines_skipped"] == 1


def test_a_line_is_what_the_format_says(store: Store) -> None:
    """W1."""
    store.do(store.programs.add_task({"a": "é\n"}, 2.5, "i:d\n%"))
    store.remove("i:d\n%")
    assert store.wal_files()[0].read_bytes() == (
        seal(b'add:i%3Ad%0A%25:2.5:{"a":"\\u00e9\\n"}') + seal(b"rem:i%3Ad%0A%25")
    )
