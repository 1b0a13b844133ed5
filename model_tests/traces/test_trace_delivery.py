"""Traces of the delivery queue: the engine's are accepted, and tampered ones are rejected."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from unittest import mock

import pytest

from lychgate import _delivery
from lychgate_tools.spec_dir import locate
from lychgate_tools.tlc import toolchain
from lychgate_tools.tlc.runner import Runner
from lychgate_tools.trace import coverage, fibers, processes, simulated_delivery
from lychgate_tools.trace.check import Checker
from lychgate_tools.trace.delivery_kind import joined
from lychgate_tools.trace.explain import explain
from lychgate_tools.trace.format import Event, Trace
from lychgate_tools.trace.simulated_delivery import DeliveryPlan
from traces.trace_tampers import altered, dropped, recorded, rejected, renumbered, swapped

PIECES = ("Call", "Return", "ReadMeta", "ReadSegment")
"""Steps that the check joins, makes up or does not ask for."""


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    with Runner(toolchain.find()) as runner:
        yield Checker(locate(), runner)


def simulated_trace(plan: DeliveryPlan) -> Trace:
    return recorded(partial(simulated_delivery.record, plan=plan), f"seed {plan.seed}")


def test_the_simulators_traces_are_behaviours(checker: Checker) -> None:
    """L2, L4, L7, L10-L12: opens, changes, compactions, kills, failed calls, garbage at an end."""
    plans = [DeliveryPlan(seed, fails=4) for seed in range(1, 13)]
    (batch,) = checker.check([simulated_trace(plan) for plan in plans])
    assert batch.accepted == [True] * len(plans)
    covered = coverage.of(checker, [batch])["Delivery"]
    assert not covered.missing, sorted(covered.missing)
    assert covered.successions >= 50


def test_traces_of_real_files_are_behaviours(checker: Checker) -> None:
    """L2, L3: one asyncio task, and a process that is killed by SIGKILL and opened again."""
    traces = [
        recorded(lambda out: fibers.record(out, 1, 10, "delivery", 1), "fibers"),
        recorded(lambda out: processes.record(out, 4, 15, "delivery", 1), "processes"),
    ]
    (batch,) = checker.check(traces)
    assert batch.accepted == [True, True]
    steps = {event.action for event in traces[1].events}
    assert {"Kill", "AppendEvent", "FsyncSegment", "UnlinkSegment", "ClearMark"} <= steps


def test_tampered_traces_are_rejected(checker: Checker) -> None:
    """One step dropped, swapped or altered, at every position of a trace; fsyncs among them."""
    trace = simulated_trace(DeliveryPlan(2, calls=9, kills=1))
    kinds = [
        list(dropped(trace, PIECES)),
        list(swapped(trace, PIECES)),
        list(altered(trace, PIECES)),
    ]
    assert all(len(tampered) >= 8 for tampered in kinds), [len(some) for some in kinds]
    tampered = [one for some in kinds for one in some]
    assert sum("Fsync" in one.name for one in kinds[0]) >= 6
    assert rejected(checker, [trace, *tampered]) == [one.name for one in tampered]


def test_a_dropped_fsync_is_named_with_the_false_guard(checker: Checker) -> None:
    """L2: the trace of a change without its fsync; the step after it shows what is missing."""
    trace = simulated_trace(DeliveryPlan(2, calls=9, kills=1))
    events = list(trace.events)
    place = next(
        n for n, e in enumerate(events)
        if e.action == "FsyncSegment" and events[n - 1].action == "AppendEvent"
    )  # fmt: skip
    del events[place]
    short = renumbered(trace, "short", events)
    (batch,) = checker.check([short])
    found = explain(checker, batch, batch.traces[0])
    assert found.event.line > trace.events[place].line
    assert found.guard and found.place.startswith(("Delivery:", "TraceDelivery:"))
    assert '"FsyncSegment"' in found.reason


async def _nothing(fd: int) -> None:
    """In the place of a step that a mutant leaves out."""


def test_an_engine_that_answers_before_the_fsync_is_found(checker: Checker) -> None:
    """L2: not the trace but the engine is wrong."""
    with mock.patch.object(_delivery, "FsyncSegment", _nothing):
        trace = simulated_trace(DeliveryPlan(2, calls=9, kills=0))
    (batch,) = checker.check([trace])
    assert batch.accepted == [False]
    assert '"FsyncSegment"' in explain(checker, batch, batch.traces[0]).reason


# --- several steps of the engine, one of the spec -----------------------------------------------


def event(line: int, action: str, **rest: Any) -> Event:
    return Event(line, action, "w1", "f1", **rest)


def test_pieces_become_one_step() -> None:
    """L4: both small files and the log are read at once; a record is written in one step, or part
    of it; what is copied or read on the way is no step."""
    data = {"data": ["i1p<", "i1p>"]}
    found = joined(
        Trace("t", "Delivery", "", {}, {}, (
            event(2, "ReadMeta"), event(3, "ReadMeta"), event(4, "FsyncQueueDir"),
            event(5, "ReadSegment"), event(6, "CopyItems"),
            event(7, "AppendEvent", args=data, error="short"), event(8, "AppendEvent"),
            event(9, "AppendEvent", args=data, error="short"),
            event(10, "AppendEvent", error="EIO"),
        ))
    ).events  # fmt: skip
    assert [(one.line, one.action, one.error) for one in found] == [
        (2, "ReadMeta", ""), (4, "ReadSegment", ""), (4, "FsyncQueueDir", ""),
        (6, "CopyItems", ""), (8, "AppendEvent", ""), (10, "AppendEvent", "short"),
    ]  # fmt: skip
    assert found[4].args == found[5].args == data
