"""The walk of the delivery queue notices what it must notice: the engine is changed, and the walk
ends there.

Small models of TLC; the quick ones are walked by `lychgate walk`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from lychgate import _delivery, _delivery_publish
from lychgate._delivery import DeliveryPrograms
from lychgate._delivery_codec import Manifest, encode_manifest
from lychgate._delivery_files import MANIFEST, Log, replace_meta
from lychgate._delivery_ledger import Item, Ledger
from lychgate._delivery_lock import InstanceLock
from lychgate._stats import Stats
from lychgate_tools.spec_dir import locate
from lychgate_tools.walk import delivery_cells as cells
from lychgate_tools.walk import graph as graphs
from lychgate_tools.walk import sides
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import walk


class Small:
    """A quick model with smaller numbers, and its graph."""

    def __init__(self, root: str, name: str, *changes: tuple[str, str]) -> None:
        self.root = root
        self.config = locate().config(f"models/{name}.cfg")
        for old, new in changes:
            assert old in self.config, f"{name} has {old}"
            self.config = self.config.replace(old, new)
        self.graph: Graph = graphs.load(locate().modules(), root, self.config)

    def outcome(self) -> str:
        """What the walk of the engine ends with, empty for full coverage."""
        done = walk(self.graph, sides.SIDES[self.root](self.graph, self.config))
        assert (done.failure is None) == done.complete
        return "" if done.failure is None else done.failure[1]


@pytest.fixture(scope="module")
def files() -> Small:
    """One failure, one compaction, one clean end."""
    changes = [("KillMax = 1", "KillMax = 0"), ("FailMax = 0", "FailMax = 1")]
    changes += [("FailModes = {}", 'FailModes = {"drop"}'), ("CloseMax = 1", "CloseMax = 0")]
    return Small("Delivery", "DeliveryEnds", *changes)


@pytest.fixture(scope="module")
def closed() -> Small:
    return Small("Delivery", "DeliveryClose")


@pytest.fixture(scope="module")
def space() -> Small:
    return Small("DeliverySpace", "DeliverySpace", ("SegBytes = 184", "SegBytes = 160"))


@pytest.fixture(scope="module")
def leases() -> Small:
    return Small("DeliverySpec", "DeliveryLeases", ("Items = {1, 2}", "Items = {1}"))


def test_the_engine_takes_every_step_of_the_small_models(
    files: Small, closed: Small, space: Small, leases: Small
) -> None:
    """Control of the mutants below (L4, L5, L7, L9-L12)."""
    assert [small.outcome() for small in (files, closed, space, leases)] == [""] * 4


def test_records_and_cells_are_the_same_pieces() -> None:
    """A record of the engine is two cells; the front of one is told by its header and body."""
    names = ["i1p", "e1c", "e1x"]
    data = cells.Writer(2).segment(1, cells.whole(names))
    assert cells.segment_cells(data, 2, 1) == cells.whole(names)
    assert cells.segment_cells(data[: -cells.FOOTER_BYTES], 2, 1) == cells.whole(names)[:-1]
    assert cells.segment_cells(data, 3, 1) == ("!",), "a record is valid at its place only"


# --- mutants of the engine ----------------------------------------------------------------------


async def _nothing(*args: object) -> None:
    """In the place of a step that a mutant leaves out."""


async def _select_unsynced(log: Log, manifest: Manifest) -> None:
    await replace_meta(log.path(MANIFEST), encode_manifest(manifest))


async def _retire_or_fail(log: Log, stats: Stats) -> None:
    await _delivery_publish.clean(log)


async def _compact_unpoisoned(self: DeliveryPrograms) -> None:
    """What ends a compaction early leaves an instance that goes on."""
    await _delivery_publish.publish(self._log, self._ledger, self._limits)
    await _delivery_publish.retire(self._log, self._stats)


async def _always_trusted(self: InstanceLock) -> bool:
    await _take(self)
    return True


_take = InstanceLock.take


def _admits_what_fits(limits: object, worst: object) -> bool:
    return True


def _asleep(self: Ledger, item: Item) -> None:
    """A lease that a clock far ahead has begun is not looked at before that clock says so."""
    self._timed.append((item.until_ms, item.sequence))
    self._timed.sort()


FILES: list[tuple[object, str, Callable[..., Any], str]] = [
    (_delivery_publish, "clean", _nothing, "UnlinkSegment"),
    (_delivery_publish, "select", _select_unsynced, "FsyncQueueDir"),
    (_delivery, "retire", _retire_or_fail, "compact ends with"),
    (DeliveryPrograms, "_compact", _compact_unpoisoned, "poisoned: False"),
    (InstanceLock, "take", _always_trusted, "model"),
]


@pytest.mark.parametrize(
    ("owner", "name", "broken", "said"), FILES, ids=[mutant[2].__name__ for mutant in FILES]
)
def test_another_step_of_the_engine_ends_the_walk(
    files: Small, owner: object, name: str, broken: Callable[..., Any], said: str
) -> None:
    """Both sides are shown (L7, L10-L12)."""
    with mock.patch.object(owner, name, broken):
        assert said in files.outcome()


def test_a_mark_that_is_not_set_ends_the_walk(closed: Small) -> None:
    """L4: an end that was not clean would pass for one."""
    with mock.patch.object(InstanceLock, "mark_unfinished", _nothing):
        assert "SetMark" in closed.outcome()


def test_admission_without_headroom_ends_the_walk(space: Small) -> None:
    """L9: a payload is taken that could never reach an end."""
    with mock.patch.object(_delivery, "admits", _admits_what_fits):
        assert "the model has no edge" in space.outcome()


def test_a_clock_set_back_before_an_open_ends_the_walk(leases: Small) -> None:
    """L5: a lease counts from when it was made, also for an instance that did not make it."""
    with mock.patch.object(Ledger, "_wake", _asleep):
        assert "the engine would claim None" in leases.outcome()
