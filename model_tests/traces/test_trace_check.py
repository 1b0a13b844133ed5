"""Traces of the dead-task store: the engine's are accepted, and every tampered one is rejected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from unittest import mock

import pytest

from lychgate import _dead
from lychgate._ops import AppendRecord, ReadTail, StatData
from lychgate._steps import append_all
from lychgate_tools.spec_dir import locate
from lychgate_tools.tlc import toolchain
from lychgate_tools.tlc.runner import Runner
from lychgate_tools.trace import coverage, fibers, processes, simulated
from lychgate_tools.trace.check import Checker
from lychgate_tools.trace.command import ALL_FAULTS
from lychgate_tools.trace.explain import explain
from lychgate_tools.trace.format import Trace
from lychgate_tools.trace.simulated import Plan
from traces.trace_tampers import altered, dropped, recorded, rejected, renumbered, swapped


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    with Runner(toolchain.find()) as runner:
        yield Checker(locate(), runner)


def simulated_trace(plan: Plan) -> Trace:
    return recorded(partial(simulated.record, plan=plan), f"seed {plan.seed}")


# --- the engine's own traces --------------------------------------------------------------------


def test_the_simulators_traces_are_behaviours_and_visit_the_spec(checker: Checker) -> None:
    """D9-D32, F2: with failed calls, kills, crashes and remounts, every action of the spec but the
    fork is taken, and nothing that the engine does is outside of the spec."""
    plans = [Plan(seed, faults=ALL_FAULTS) for seed in range(1000, 1080)]
    batches = checker.check([simulated_trace(plan) for plan in plans])
    assert [batch.accepted.count(False) for batch in batches] == [0]
    covered = coverage.of(checker, batches)["DeadTasks"]
    assert len(covered.actions) >= 36, sorted(covered.missing)
    assert covered.successions >= 120


def test_traces_of_real_files_are_behaviours(checker: Checker) -> None:
    """D10-D16: fibers of one process under asyncio, and processes that are killed inside calls."""
    traces = [
        recorded(lambda out: fibers.record(out, 1, 8), "fibers"),
        recorded(lambda out: processes.record(out, 1, 6), "processes"),
    ]
    batches = checker.check(traces)
    assert [batch.accepted for batch in batches] == [[True, True]]
    steps = {event.action for event in traces[1].events}
    assert {"Kill", "Restart", "AppendRecord", "RenameStaging", "ReadLive", "Sleep"} <= steps


def test_the_specs_invariants_hold_along_a_trace(checker: Checker) -> None:
    """D17, D32: what is promised is true in every state that a trace goes through."""
    strict = Checker(checker.spec, checker.runner, invariants=True)
    assert not rejected(strict, [simulated_trace(Plan(1003, faults=ALL_FAULTS))])


# --- tampered traces ------------------------------------------------------------------------------


def test_every_tampered_trace_is_rejected(checker: Checker) -> None:
    """One step dropped, swapped or altered, at every position of a trace; fsyncs among them."""
    trace = simulated_trace(Plan(5, calls=7))
    kinds = [list(tamper(trace)) for tamper in (dropped, swapped, altered)]
    assert all(len(tampered) >= 25 for tampered in kinds)
    tampered = [one for some in kinds for one in some]
    assert sum("Fsync" in one.name for one in kinds[0]) >= 2
    names = [one.name for one in tampered]
    assert rejected(checker, [trace, *tampered]) == names


def test_a_dropped_fsync_is_named_with_the_false_guard(checker: Checker) -> None:
    """D10: the trace of an add without its fsync; the step after it shows what is missing."""
    trace = simulated_trace(Plan(5, calls=7))
    place = next(n for n, event in enumerate(trace.events) if event.action == "FsyncData")
    events = list(trace.events)
    del events[place]
    short = renumbered(trace, "short", events)
    (batch,) = checker.check([short])
    found = explain(checker, batch, short)
    after = next(e for e in events[place:] if e.fiber == trace.events[place].fiber
                 and e.worker == trace.events[place].worker)  # fmt: skip
    assert found.event is after and found.action == "CloseData"
    assert found.guard == 'pc[w][f] = "CloseData"'
    assert found.place.startswith("DeadTasks:")
    assert 'pc[w][f] is "FsyncData"' in found.reason


def test_an_altered_content_is_named_with_both_sides(checker: Checker) -> None:
    """The step is allowed, and what was seen after it is not what it does."""
    trace = simulated_trace(Plan(5, calls=7))
    place = next(n for n, event in enumerate(trace.events) if event.action == "AppendRecord")
    events = list(trace.events)
    events[place] = replace(events[place], seen={**events[place].seen, "tmp": ()})
    wrong = renumbered(trace, "wrong", events)
    (batch,) = checker.check([wrong])
    found = explain(checker, batch, wrong)
    assert found.event is events[place] and not found.guard
    assert "afterwards the spec shows" in found.reason


def test_an_engine_without_its_fsync_is_found(checker: Checker) -> None:
    """D17: not the trace but the engine is wrong, and the rejected step says where."""

    async def append(
        self: _dead.DeadStore, fd: int, line: bytes, attempt: _dead.Attempt
    ) -> None:
        size = (await StatData(fd)).size
        if size:
            await ReadTail(fd, size - 1, 1)
        await append_all(AppendRecord, fd, line)

    with mock.patch.object(_dead.DeadStore, "_append", append):
        trace = simulated_trace(Plan(5, calls=7))
    (batch,) = checker.check([trace])
    assert batch.accepted == [False]
    assert 'pc[w][f] is "FsyncData"' in explain(checker, batch, trace).reason
