"""Task ids that never repeat (W4)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lychgate import Disk
from lychgate._ids import TaskIds, next_stamp
from lychgate._osfs import OsFs


class Clock(OsFs):
    """A clock that shows what the test says, and no chance at all."""

    def __init__(self, times: list[float]) -> None:
        super().__init__()
        self._times = iter(times)

    def now(self) -> float:
        return next(self._times)

    def random(self, size: int) -> bytes:
        return bytes(size)


@given(st.lists(st.floats(0, 4e9), min_size=1))
def test_ids_grow_whatever_the_clock_does(times: list[float]) -> None:
    """W4: without their random part, too."""
    ids = TaskIds(Clock(times))
    made = [ids.next() for _ in times]
    assert made == sorted(set(made))


def test_ids_are_above_every_id_found_in_the_files() -> None:
    """W4: Lamport's rule, over a restart with the clock set back; ids of callers say nothing."""
    (before,) = [TaskIds(Clock([2e9])).next()]
    ids = TaskIds(Clock([1e9, 1e9, 1e9]))
    ids.observe(before)
    ids.observe("a caller's own id")
    ids.observe("99999999999999999999999-0000000000000000")
    ids.observe("")
    assert before < ids.next() < ids.next()


def test_a_restart_with_the_clock_set_back_gives_a_higher_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W4: the same through a backend and its files, removed tasks included."""
    monkeypatch.setattr(OsFs, "now", lambda fs: 2e9)
    with Disk(tmp_path) as store:
        kept, gone = store.add_task(1), store.add_task(2)
        store.remove_task(gone)
    monkeypatch.setattr(OsFs, "now", lambda fs: 1e9)
    with Disk(tmp_path) as store:
        assert kept < gone < store.add_task(3)


@given(st.integers(0, 10**20), st.floats(0, 1e12))
def test_the_next_stamp_is_above_the_last(last: int, now: float) -> None:
    """W4."""
    assert next_stamp(last, now) > last


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_makes_ids_of_its_own(tmp_path: Path) -> None:
    """W4, W13: parent and child go on from one clock and differ by chance."""
    ids = TaskIds(OsFs())
    ids.next()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, " ".join(ids.next() for _ in range(50)).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    theirs = set(os.read(reading, 10_000).decode().split())
    os.close(reading)
    assert len(theirs) == 50
    assert not theirs & {ids.next() for _ in range(50)}
