"""The walk of the composed store: full coverage, and what a changed engine is told.

A small model of TLC; the quick ones are walked by `lychgate walk`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

from lychgate import _disk, _lock, _queue_flow
from lychgate._backend import add_dead_task, remove_dead_tasks, remove_task
from lychgate._queue_core import Core
from lychgate._queue_job import attempts_of, name_of
from lychgate_tools import manifest
from lychgate_tools.spec_dir import locate
from lychgate_tools.walk import composed, sides
from lychgate_tools.walk import graph as graphs
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import walk

CONFIG = """SPECIFICATION Spec
CONSTANTS
  Workers = {w1}
  Fibers = {1, 2}
  Jobs = {j1}
  Retries = 1
  Nobody = Nobody
  KillMax = 0
  CrashMax = 0
  FailMax = 1
  TimeoutMax = 1
"""


@pytest.fixture(scope="module")
def pieces() -> Graph:
    """One worker of two fibers, one job and its retry, a failure, a time-out."""
    return graphs.load(locate().modules(), "Store", CONFIG)


def outcome(graph: Graph) -> str:
    """What the walk ends with, empty for full coverage."""
    with sides.constants(CONFIG):
        done = walk(graph, composed.Side(graph, CONFIG))
    assert (done.failure is None) == done.complete
    return "" if done.failure is None else done.failure[1]


def test_the_pieces_take_every_step(pieces: Graph) -> None:
    """Control of the mutants below (D14, D17, D19, D32, U3, U4)."""
    assert outcome(pieces) == ""


async def _remove_first(core: Core, task_id: str, context: object, error: BaseException) -> None:
    await remove_task(task_id)
    await add_dead_task(task_id, context, error, name_of(context), attempts_of(context))


async def _unsynced(core: Core, dead_ids: list[str]) -> None:
    await remove_dead_tasks(dead_ids)


async def _trusting(self: _lock.StoreLock, held: _lock.Held) -> bool:
    """Whoever failed before, the mark is taken for clean."""
    return True


async def _no_mark(self: _lock.StoreLock, held: _lock.Held) -> None:
    """The mark is never set."""


async def _forgetful(self: _disk.DiskPrograms, task_id: str) -> None:
    """A removal that removes nothing."""


MUTANTS: list[tuple[object, str, Callable[..., Any], str]] = [
    (_queue_flow, "bury", _remove_first, '- model  fiber (w1, 1): <<"add"'),
    (_queue_flow, "_remove_dead", _unsynced, '<<"sync", <<j1, 0>>>>'),
    (_lock.StoreLock, "is_clean", _trusting, "+ engine mark is set: TRUE"),
    (_lock.StoreLock, "set_mark", _no_mark, "- model  mark is set: TRUE"),
    (_disk.DiskPrograms, "remove_task", _forgetful, "+ engine task (j1, 0)"),
]


@pytest.mark.parametrize(
    ("owner", "name", "broken", "said"), MUTANTS, ids=[mutant[2].__name__ for mutant in MUTANTS]
)
def test_pieces_put_together_otherwise_end_the_walk(
    pieces: Graph, owner: object, name: str, broken: Callable[..., Any], said: str
) -> None:
    """Each is a design that a model rejects (D32, U3, U4)."""
    with mock.patch.object(owner, name, broken):
        message = outcome(pieces)
    assert said in message


def test_every_quick_model_of_the_store_is_walked() -> None:
    """What is not walked says why; no model of the disk engine and its queue is among these."""
    models = sides.possible(manifest.load(locate().manifest).models)
    walked = {model.module for model in models if not sides.excluded(model)}
    assert walked >= {
        "MC_Lock", "MC_DeadTasks", "Wal", "WalRefines", "WalIds", "Queue", "Store"
    }  # fmt: skip
    assert all(sides.excluded(model) for model in models if model.module not in walked)
