"""Traces of the tasks WAL: the engine's are accepted, and tampered ones are rejected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import pytest

from lychgate import _wal
from lychgate._ops import OwnCheck, OwnTry
from lychgate._wal_file import WalFile
from lychgate_tools.spec_dir import locate
from lychgate_tools.tlc import toolchain
from lychgate_tools.tlc.runner import Runner
from lychgate_tools.trace import coverage, fibers, processes, simulated_wal
from lychgate_tools.trace.check import Checker
from lychgate_tools.trace.explain import explain
from lychgate_tools.trace.format import Event, Trace
from lychgate_tools.trace.simulated_wal import WalPlan
from lychgate_tools.trace.wal_pieces import joined
from traces.trace_tampers import altered, dropped, recorded, rejected, renumbered, swapped

PIECES = ("Call", "Return", "ReadWal")
"""Steps that the check joins or does not ask for."""


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    with Runner(toolchain.find()) as runner:
        yield Checker(locate(), runner)


def simulated_trace(plan: WalPlan) -> Trace:
    return recorded(partial(simulated_wal.record, plan=plan), f"seed {plan.seed}")


def test_the_simulators_traces_are_behaviours(checker: Checker) -> None:
    """W2-W12: workers that start, write, rotate, close, die and are taken over; calls that fail."""
    plans = [WalPlan(seed, calls=22, eager=bool(seed % 2), fails=4) for seed in range(14)]
    batches = checker.check([simulated_trace(plan) for plan in plans])
    assert [batch.accepted.count(False) for batch in batches] == [0, 0]
    covered = coverage.of(checker, batches)["Wal"]
    assert len(covered.actions) >= 16, sorted(covered.missing)
    assert covered.successions >= 50


def test_traces_of_real_files_are_behaviours(checker: Checker) -> None:
    """W2, W11: fibers of one process under asyncio, and processes that are killed."""
    traces = [
        recorded(lambda out: fibers.record(out, 1, 5, "wal"), "fibers"),
        recorded(lambda out: processes.record(out, 1, 8, "wal"), "processes"),
    ]
    (batch,) = checker.check(traces)
    assert batch.accepted == [True, True]
    steps = {event.action for event in traces[1].events}
    assert {"Kill", "ListWals", "AppendWal", "FsyncWal", "CloseWal"} <= steps


def test_tampered_traces_are_rejected(checker: Checker) -> None:
    """One step dropped, swapped or altered, at every position of a trace; fsyncs among them."""
    trace = simulated_trace(WalPlan(7, calls=16, workers=2))
    kinds = [
        list(dropped(trace, PIECES)),
        list(swapped(trace, PIECES)),
        list(altered(trace, PIECES)),
    ]
    assert all(len(tampered) >= 8 for tampered in kinds), [len(some) for some in kinds]
    tampered = [one for some in kinds for one in some]
    assert sum("Fsync" in one.name for one in kinds[0]) >= 2
    assert rejected(checker, [trace, *tampered]) == [one.name for one in tampered]


def test_a_dropped_fsync_is_named_with_the_false_guard(checker: Checker) -> None:
    """W9: the trace of an add without its fsync; the step after it shows what is missing."""
    trace = simulated_trace(WalPlan(7, calls=16, workers=2))
    events = list(trace.events)
    place = next(n for n, e in enumerate(events) if e.action == "FsyncWal")
    worker = events.pop(place).worker
    short = renumbered(trace, "short", events)
    (batch,) = checker.check([short])
    found = explain(checker, batch, batch.traces[0])
    assert found.event.line > trace.events[place].line and found.event.worker == worker
    assert found.guard and found.place.startswith(("Wal:", "TraceWal:"))
    assert '"ack.FsyncWal"' in found.reason


def test_an_engine_without_a_directory_fsync_is_found(checker: Checker) -> None:
    """W2: not the trace but the engine is wrong: a new file's name is not made durable."""

    async def lock_new(self: _wal.Wal, file: WalFile) -> bool:
        return await OwnTry(file.fd) and await OwnCheck(file.fd, file.path)

    with mock.patch.object(_wal.Wal, "_lock_new", lock_new):
        trace = simulated_trace(WalPlan(7, calls=16, workers=2))
    (batch,) = checker.check([trace])
    assert batch.accepted == [False]
    assert '"new.FsyncWalDir"' in explain(checker, batch, batch.traces[0]).reason


# --- several steps of the engine, one of the spec -----------------------------------------------


def event(line: int, action: str, **rest: Any) -> Event:
    return Event(line, action, "w1", "f1", **rest)


def test_pieces_become_one_step() -> None:
    """W5: a file is read to its end and copied in runs; others see nothing of it before the end."""
    empty, half, full = ({"f1": cells} for cells in ((), ("+a<", "+a>"), ("+a<", "+a>", "+b<")))
    other = replace(event(7, "ClaimOpen", seen=half), worker="w2")
    events = (
        event(2, "ReadWal", result=["+a<"], seen=empty),
        event(3, "ReadWal", result=["+a>"], seen=empty),
        event(4, "ReadWal", result=[], seen=empty),
        event(5, "ReadWal", result=["+a<", "+a>"], seen=empty),
        event(6, "CopyWal", args={"data": ["+a<", "+a>"]}, seen=half),
        other,
        event(8, "ReadWal", result=["+b<"], seen=half),
        event(9, "CopyWal", args={"data": ["+b<"]}, seen=full),
        event(10, "CopyWal", args={"data": ["+c<"]}, seen=full),
    )
    found = joined(Trace("t", "Wal", "", {}, empty, events)).events
    assert [(one.line, one.action) for one in found] == [
        (2, "ReadWal"), (5, "ReadWal"), (7, "ClaimOpen"), (9, "CopyWal"), (10, "CopyWal"),
    ]  # fmt: skip
    assert found[0].result == ["+a<", "+a>"] and found[1].result == ["+a<", "+a>", "+b<"]
    assert found[2].seen == empty and found[3].args == {"data": ["+a<", "+a>", "+b<"]}
