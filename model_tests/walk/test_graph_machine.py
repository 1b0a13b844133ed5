"""Hypothesis on paths through state graphs, those of models too large to tour among them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest

from lychgate import _dead, _lock, _wal
from lychgate._ops import OwnCheck, OwnTry
from lychgate._wal_file import WalFile
from lychgate_tools.spec_dir import locate
from lychgate_tools.tlc import cfg
from lychgate_tools.walk import graph as graphs
from lychgate_tools.walk import sample, sides
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.sample import Sample
from lychgate_tools.walk.tour import Mismatch, Side
from walk.graph_machine import Paths, run

WALKS = 6

LONG = """---- MODULE MC_Long ----
EXTENDS MC_DeadTasks
LongPlan == [n \\in 1..10 |-> Any(Records)]
LongBudget == [faults |-> 4, kills |-> 2, crashes |-> 1, remounts |-> 1, fails |-> 3, forks |-> 1,
               meddles |-> 1]
====
"""
LONG_DEAD = {
    "MaxTries = 1": "MaxTries = 4",
    "PlanPair3": "LongPlan",
    "KillFailCrash": "LongBudget",
    "TwoLockFds": "ThreeLockFds",
}
LONG_WAL = {
    '{"a"}': '{"a", "b", "c"}',
    "{1, 2, 3, 4}": "{1, 2, 3, 4, 5, 6}",
    "{1, 2, 3, 4, 5}": "{1, 2, 3, 4, 5, 6, 7}",
    "StartMax = 3": "StartMax = 6",
    "RotationMax = 0": "RotationMax = 2",
    "ForkMax = 0": "ForkMax = 1",
    "KillMax = 1": "KillMax = 2",
    "FailMax = 0": "FailMax = 3",
    "AgainMax = 0": "AgainMax = 1",
}


def changed(config: str, changes: dict[str, str]) -> str:
    """A model file of the spec with larger numbers."""
    for old, new in changes.items():
        assert old in config, old
        config = config.replace(old, new)
    return config


@cache
def model(name: str) -> tuple[dict[str, str], str, str]:
    """Modules, root and model file of a model that TLC could search for days."""
    spec = locate()
    modules = spec.modules()
    if name == "dead":
        config = changed(spec.config("models/DeadTasksFull.cfg"), LONG_DEAD)
        return {**modules, "MC_Long": LONG}, "MC_Long", config
    config = changed(spec.config("models/WalPairFull.cfg"), LONG_WAL)
    return modules, *sides.plain("WalRefines", config)


SIDES = {"dead": "MC_DeadTasks", "wal": "Wal"}


@cache
def sample_of(name: str) -> Sample:
    modules, root, config = model(name)
    return sample.load(modules, root, config, WALKS)


@contextmanager
def side_of(name: str) -> Iterator[tuple[Sample, Side]]:
    found, (_, _, config) = sample_of(name), model(name)
    with sides.constants(config):
        yield found, sides.SIDES[SIDES[name]](found.graph, config)


@pytest.mark.parametrize("name", sorted(SIDES))
def test_paths_of_models_too_large_to_tour(name: str) -> None:
    """D10-D32, W2-W12: whatever path Hypothesis takes, engine and model stay together."""
    with side_of(name) as (found, side):
        paths = run(found.graph, side, found.expanded)
    assert len(paths.edges) > 300
    assert len({action for _, action, _ in paths.edges}) >= 12


# --- planted differences ------------------------------------------------------------------------

SMALL = changed(
    locate().config("models/DeadTasks.cfg"),
    {"PlanAny2": "PlanAddRemove", "KillFailCrash": "NoFaults", '{"f1"}': '{"f1", "f2"}'},
)


@cache
def small() -> Graph:
    """An add and a remove by the two fibers of a worker, in any order."""
    modules = locate().modules()
    return graphs.load(modules, "MC_DeadTasks", cfg.parse(SMALL).checking(frozenset()))


def small_run() -> Paths:
    graph = small()
    with sides.constants(SMALL):
        return run(graph, sides.SIDES["MC_DeadTasks"](graph, SMALL))


def test_paths_of_a_small_model() -> None:
    """Control of the planted differences: with the engine as it is there is none (D10, D12)."""
    assert len({action for _, action, _ in small_run().edges}) >= 16


async def nothing(*args: object) -> None:
    """In the place of a step that is left out."""


@pytest.mark.parametrize(
    ("owner", "name", "shortest"),
    [
        (_lock.StoreLock, "set_mark", "Restart Call OpenLock LockTry CheckLock ReadMark"),
        (
            _dead.DeadStore,
            "_finish",
            "Restart Call OpenLock LockTry CheckLock ReadMark SetMark OpenData StatData ReadTail"
            " AppendRecord FsyncData CloseData",
        ),
    ],
)
def test_a_planted_difference_is_found_and_shrunk(
    owner: type, name: str, shortest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D9, D32: a step is left out; little is left beside the shortest path on which it shows."""
    monkeypatch.setattr(owner, name, nothing)
    paths = Paths()
    with pytest.raises(Mismatch, match="in the model"), sides.constants(SMALL):
        graph = small()
        run(graph, sides.SIDES["MC_DeadTasks"](graph, SMALL), paths=paths)
    steps = iter(paths.last)
    assert all(step in steps for step in shortest.split()), "in this order"
    assert len(paths.last) <= len(shortest.split()) + 5, "the other fiber's call and its sleeps"


def test_a_planted_difference_is_found_in_a_large_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """W2, W11: a new file whose name is not made durable, in a model that nobody can tour."""

    async def lock_new(self: _wal.Wal, file: WalFile) -> bool:
        return await OwnTry(file.fd) and await OwnCheck(file.fd, file.path)

    monkeypatch.setattr(_wal.Wal, "_lock_new", lock_new)
    with side_of("wal") as (found, side), pytest.raises(Mismatch):
        run(found.graph, side, found.expanded, shrinks=False)
