"""The walk of the WAL notices what it must notice: the engine is changed, and the walk ends there.

Small models of TLC; the quick ones are walked by `lychgate walk`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from lychgate._op import Program, StepError
from lychgate._ops import FsyncWal, UnlinkWal
from lychgate._steps import append_all
from lychgate._wal import Wal
from lychgate._wal_file import Own, Replay, WalFile, close_wal
from lychgate_tools.spec_dir import locate
from lychgate_tools.walk import graph as graphs
from lychgate_tools.walk import wal
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import walk
from lychgate_tools.walk.wal_lines import TORN, WalCells, line_of

CONFIG = """SPECIFICATION LeftSystem
CONSTANTS
  Names = {1, 2, 3, 4}
  Inodes = {1, 2, 3, 4, 5}
  Fds <- AllFds
  Records <- AllRecords
  AtomicRename = TRUE
  HonestFsync = TRUE
  TornWrites = FALSE
  NulTails = TRUE
  StaleTails = FALSE
  FailModes = {"drop"}
  Workers = {"w1"}
  Tasks = {"a"}
  Eager = FALSE
  StartMax = 1
  RotationMax = 1
  ForkMax = 0
  KillMax = 0
  CrashMax = 0
  FailMax = 1
  AgainMax = 0
"""
FRESH = CONFIG.replace("LeftSystem", "WalSystem")
PAIR = CONFIG.replace('{"w1"}', '{"w1", "w2"}').replace("RotationMax = 1", "RotationMax = 0")
PAIR = PAIR.replace("StartMax = 1", "StartMax = 2").replace("FailMax = 1", "FailMax = 0")


@pytest.fixture(scope="module")
def alone() -> Graph:
    """One worker on a file that was left: merge, remove, rotation, one failure."""
    return graphs.load(locate().modules(), "Wal", CONFIG)


@pytest.fixture(scope="module")
def fresh() -> Graph:
    """One worker without a file: add, remove, rotation, one failure."""
    return graphs.load(locate().modules(), "Wal", FRESH)


@pytest.fixture(scope="module")
def pair() -> Graph:
    """Two workers start at once on a file that was left."""
    return graphs.load(locate().modules(), "Wal", PAIR)


def outcome(graph: Graph, config: str) -> str:
    """What the walk of the engine ends with, empty for full coverage."""
    side = wal.Side(graph, config)
    done = walk(graph, side)
    assert (done.failure is None) == done.complete
    return "" if done.failure is None else done.failure[1]


def test_the_engine_takes_every_step_of_the_small_models(
    alone: Graph, fresh: Graph, pair: Graph
) -> None:
    """Control of the mutants below (W2, W5, W6, W9, W11)."""
    assert outcome(alone, CONFIG) == ""
    assert outcome(fresh, FRESH) == ""
    assert outcome(pair, PAIR) == ""


def test_records_and_cells_are_the_same_pieces() -> None:
    """A line of the engine is two cells; a torn tail is none."""
    cells = WalCells(["a", "b"])
    data = line_of("+a") + line_of("-b")
    assert cells.to_cells(data) == ("+a<", "+a>", "-b<", "-b>")
    assert cells.to_bytes(cells.to_cells(data)) == data
    assert cells.to_cells(cells.without_last(data)) == ("+a<", "+a>", "-b<")
    assert cells.to_cells(data + TORN)[-1].startswith("?")


# --- mutants of the engine ----------------------------------------------------------------------


async def _fsync_first(self: Wal, own: Own) -> None:
    """A sync whose batch comes before the names that a failed rotation has left."""
    if own.file is not None and own.file.suspect:
        await self._rotate(own)
    if own.file is not None and own.file.dirty:
        await self._fsync(own, own.file)
    await self._settle(own)
    own.due = None


async def _close_first(self: Wal, file: WalFile) -> None:
    await close_wal(file.fd)
    try:
        await UnlinkWal(file.path)
    except StepError:
        pass


async def _unlink_first(self: Wal, own: Own, fd: int, replay: Replay) -> None:
    await self._sound(own)


async def _no_turning_back(self: Wal, file: WalFile, step: type[Any], data: bytes) -> None:
    await append_all(step, file.fd, data)


async def _settled(self: Wal, own: Own) -> None:
    """The directory is never synced after an unlink."""
    await self._unlink_retired(own)
    own.names_unsynced = False


async def _fsync_twice(self: Wal, own: Own, file: WalFile) -> None:
    await FsyncWal(file.fd)
    await FsyncWal(file.fd)
    file.synced()
    own.due = None


async def _gives_up(self: Wal, own: Own) -> None:
    """A file that cannot be unlinked is forgotten: the next call does not try again."""
    while own.retired:
        file = own.retired.pop()
        own.names_unsynced = True
        await UnlinkWal(file.path)
        await close_wal(file.fd)


def _trusted(self: WalFile) -> object:
    """Records that no fsync has covered are read back from the file."""
    return self.live.items()


def _forgetful(self: WalFile, task_id: str, length: int, line: bytes | None) -> None:
    """Memory keeps no line that an fsync has not covered."""
    _added(self, task_id, length, None)


_added = WalFile.added

MUTANTS: list[tuple[object, str, Callable[..., Any], str]] = [
    (Wal, "_make_durable", _fsync_first, "+ engine w1: FsyncWal"),
    (Wal, "_discard", _close_first, "CloseWal"),
    (Wal, "_merge", _unlink_first, "UnlinkWal"),
    (Wal, "_write", _no_turning_back, "TruncateWal"),
    (Wal, "_settle", _settled, "FsyncWalDir"),
    (Wal, "_fsync", _fsync_twice, "FsyncWal"),
    (Wal, "_unlink_retired", _gives_up, "has failed, and sync begins with"),
    (WalFile, "on_disk", _trusted, "ReadWal own"),
    (WalFile, "added", _forgetful, "tail"),
]


@pytest.mark.parametrize(
    ("owner", "name", "broken", "said"), MUTANTS, ids=[mutant[2].__name__ for mutant in MUTANTS]
)
def test_another_order_or_a_step_left_out_ends_the_walk(
    alone: Graph,
    fresh: Graph,
    owner: object,
    name: str,
    broken: Callable[..., Program[None]],
    said: str,
) -> None:
    """Both sides are shown, one line each (W5, W6, W9, W11)."""
    with mock.patch.object(owner, name, broken):
        message = outcome(alone, CONFIG) or outcome(fresh, FRESH)
    assert said in message
    assert "model" in message or "of w1 has failed" in message
