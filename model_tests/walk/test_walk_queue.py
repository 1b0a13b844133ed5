"""The walk of the queue and of task ids: full coverage, and what a changed engine is told.

Small models of TLC; the quick ones are walked by `lychgate walk`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from lychgate import _queue_flow
from lychgate._backend import add_dead_task, add_task, remove_dead_tasks, remove_task
from lychgate._ids import TaskIds
from lychgate._queue_core import Core, Item
from lychgate._queue_job import Job, attempts_of, name_of, to_json
from lychgate_tools.spec_dir import locate
from lychgate_tools.walk import graph as graphs
from lychgate_tools.walk import ids, queue, sides
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import walk

QUEUE = """SPECIFICATION Spec
CONSTANTS
  Workers = {w1}
  Fibers = {1}
  Jobs = {j1}
  Retries = 1
  MaxAttempts = 3
  DeathsMax = 2
  Poison = {}
  Nobody = Nobody
  KillMax = 1
  CrashMax = 0
  TimeoutMax = 1
"""
IDS = "SPECIFICATION Spec\nCONSTANTS\n  Workers = {w1, w2}\n  MaxClock = 1\n  MaxIds = 2\n"


@pytest.fixture(scope="module")
def jobs() -> Graph:
    """One worker, one job: retry, give-up, retry of the dead task, a kill, a time-out."""
    return graphs.load(locate().modules(), "Queue", QUEUE)


@pytest.fixture(scope="module")
def stamps() -> Graph:
    """Two workers make two ids."""
    return graphs.load(locate().modules(), "WalIds", IDS)


def of_queue(graph: Graph) -> str:
    """What the walk ends with, empty for full coverage."""
    with sides.constants(QUEUE):
        done = walk(graph, queue.Side(graph, QUEUE))
    assert (done.failure is None) == done.complete
    return "" if done.failure is None else done.failure[1]


def of_ids(graph: Graph) -> str:
    done = walk(graph, ids.Side(graph, IDS))
    assert (done.failure is None) == done.complete
    return "" if done.failure is None else done.failure[1]


def test_the_queue_takes_every_step(jobs: Graph) -> None:
    """Control of the mutants below (U1, U2, U3, U4, U7, U8)."""
    assert of_queue(jobs) == ""


def test_task_ids_take_every_step(stamps: Graph) -> None:
    """W4."""
    assert of_ids(stamps) == ""


# --- mutants ------------------------------------------------------------------------------------


async def _remove_first(core: Core, task_id: str, context: object, error: BaseException) -> None:
    await remove_task(task_id)
    await add_dead_task(task_id, context, error, name_of(context), attempts_of(context))


async def _uncounted(core: Core, item: Item) -> bool:
    return True


async def _counted_twice(core: Core, item: Item) -> bool:
    item.job = replace(item.job, attempts=item.job.attempts + 1)
    await add_task(to_json(item.job), item.publish_at, item.task_id)
    return True


async def _unsynced(core: Core, dead_ids: list[str]) -> None:
    await remove_dead_tasks(dead_ids)


def _forgiving(job: Job) -> Job:
    """A run that nobody saw end is no death."""
    return replace(job, running=False)


def _ended(job: Job) -> Job:
    """A run that was seen to end leaves the count of deaths as it was."""
    return replace(job, running=False)


async def _unscheduled(core: Core, *rest: Any) -> str:
    return await add_task(to_json(rest[1]), rest[2])


MUTANTS: list[tuple[object, str, Callable[..., Any], str]] = [
    (_queue_flow, "bury", _remove_first, '+ engine fiber (w1, 1): <<"remove", "j1/0">>'),
    (_queue_flow, "_count", _uncounted, "the model takes Count"),
    (_queue_flow, "_count", _counted_twice, "+ engine task j1/0"),
    (_queue_flow, "_remove_dead", _unsynced, '+ engine fiber (w1, 1): <<"drop", "j1/0">>'),
    (_queue_flow, "found", _forgiving, "+ engine task j1/0"),
    (_queue_flow, "ended", _ended, "+ engine task j1/"),
    (_queue_flow, "enqueue", _unscheduled, "+ engine memory of w1"),
]


@pytest.mark.parametrize(
    ("owner", "name", "broken", "said"), MUTANTS, ids=[mutant[2].__name__ for mutant in MUTANTS]
)
def test_another_order_of_calls_ends_the_walk(
    jobs: Graph, owner: object, name: str, broken: Callable[..., Any], said: str
) -> None:
    """Each is a design that the spec rejects (U1, U2, U3, U4, U7)."""
    with mock.patch.object(owner, name, broken):
        message = of_queue(jobs)
    assert said in message


def test_ids_that_ask_the_clock_alone_end_the_walk(stamps: Graph) -> None:
    """W4: the stamp is above every id that was met."""
    with mock.patch.object(TaskIds, "observe", lambda self, task_id: None):
        assert "last of w" in of_ids(stamps)


def test_ids_without_a_random_part_end_the_walk(stamps: Graph) -> None:
    """W4: two workers may have the same clock and the same files."""

    def next_id(self: TaskIds) -> str:
        self._last = max(self._last + 1, int(self._facts.now() * 1_000_000))
        return f"{self._last:020d}-{0:016x}"

    with mock.patch.object(TaskIds, "next", next_id):
        assert "a second time" in of_ids(stamps)
