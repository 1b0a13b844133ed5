"""The specs that a trace may be of, and how the constants of a check follow from the traces.

Records, workers and fibers are those that occur; budgets are as large as the traces need; the
assumptions on crashes (torn writes, NUL tails) are only switched on where a trace has a crash or a
failed fsync, since without one nothing that can be seen depends on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lychgate_tools.tlc.values import render
from lychgate_tools.trace.format import Event, Trace
from lychgate_tools.ui import ExitCode, UserError, unknown


@dataclass(frozen=True)
class Kind:
    """One spec: its trace module, its next-state relation, where an action's parameters come from.

    `constants` gives definitions of the generated module and lines of its model file.
    """

    module: str
    root: str
    next: str
    init: str
    names: tuple[str, ...]  # that a `seen` may hold; empty: any
    parameters: Mapping[str, str]
    constant: str  # that a header must give
    told: str  # the trace's own event that a call has returned
    unseen: frozenset[str]  # actions of the spec that no trace can hold
    invariants: tuple[str, ...]
    action_of: Callable[[Event], str]  # the spec's action of an event
    constants: Callable[[Sequence[Trace]], tuple[dict[str, str], dict[str, str]]]


def kind_of(trace: Trace) -> Kind:
    found = KINDS.get(trace.module)
    if found is None:
        error = unknown("module to check traces of", trace.module, KINDS)
        raise UserError(f"{trace.name}: {error.message}", ExitCode.USAGE)
    return found


def _strings(values: Iterable[str]) -> str:
    return render(frozenset(values))


def _most(traces: Sequence[Trace], counted: Callable[[Trace], int]) -> int:
    return max((counted(trace) for trace in traces), default=0)


def _count(trace: Trace, wanted: Callable[[Event], bool]) -> int:
    return sum(map(wanted, trace.events))


# --- DeadTasks ----------------------------------------------------------------------------------

_DEAD_FAULTS = {"Kill": "kills", "KillInWrite": "kills", "HostCrash": "crashes",
                "Remount": "remounts", "Fork": "forks", "DeleteLock": "meddles"}  # fmt: skip


def _fault(event: Event) -> str:
    return "fails" if event.error else _DEAD_FAULTS.get(event.action, "")


_DEAD_FAILURES = {
    **dict.fromkeys(("OpenLock", "LockTry", "CheckLock", "Unlock"), "FailLock"),
    **dict.fromkeys(("FsyncData", "FsyncStaging", "FsyncDir"), "FailFsync"),
    **dict.fromkeys(("CloseData", "CloseStaging"), "FailClose"),
    "ClearMark": "FailClearMark",
}


def _dead_action(event: Event) -> str:
    if event.how == "ok":
        return event.action
    return "ShortWrite" if event.how == "short" else _DEAD_FAILURES.get(event.action, "Fail")


def _dead_records(traces: Sequence[Trace]) -> set[str]:
    cells = {
        cell
        for trace in traces
        for seen in (trace.seen, *(event.seen for event in trace.events))
        for name in ("live", "tmp")
        for cell in seen.get(name) or ()
    }
    named = {cell[:-1] for cell in cells if cell[-1:] in ("<", ">")}
    asked = {str(e.args.get("record", "")) for t in traces for e in t.events if e.action == "Call"}
    return (named | asked) - {""}


def _created(trace: Trace) -> int:
    """How many files were made at most between two syncs of the directory: until then a crash may
    bring any of them back, so that the spec knows them all."""
    most = since = 0
    before = trace.seen
    for event in trace.events:
        for name in ("tmp", "lock"):
            since += before.get(name) is None and event.seen.get(name) is not None
        most = max(most, since)
        if event.action in ("FsyncDir", "HostCrash", "Remount") and not event.error:
            since = 0
        before = event.seen
    return most


def _dead_constants(traces: Sequence[Trace]) -> tuple[dict[str, str], dict[str, str]]:
    workers = {event.worker for trace in traces for event in trace.events} - {""}
    fibers = {event.fiber for trace in traces for event in trace.events} - {""}
    calls = {
        (str(event.args.get("op", "")), str(event.args.get("record", "")))
        for trace in traces
        for event in trace.events
        if event.action == "Call"
    }
    faults: Counter[str] = Counter()
    for trace in traces:
        faults |= Counter(_fault(event) for event in trace.events)
    kinds = ("kills", "crashes", "remounts", "fails", "forks", "meddles")
    total = _most(traces, lambda trace: _count(trace, lambda event: bool(_fault(event))))
    budget = [f"faults |-> {total}", *(f"{kind} |-> {faults[kind]}" for kind in kinds)]
    crashes = "TRUE" if any(faults[kind] for kind in ("crashes", "remounts", "fails")) else "FALSE"
    inodes = 4 + _most(traces, _created)
    longest = _most(traces, lambda trace: _count(trace, lambda event: event.action == "Call"))
    tries = {trace.constants.get("MaxTries") for trace in traces}
    assert len(tries) == 1, "traces of other constants are checked apart"
    definitions = {
        "TraceInodes": f"1..{inodes}",
        "TraceLockFds": render(tuple(f"k{n}" for n in range(1, len(workers) + 2))),
        "TraceCalls": render(frozenset(calls)),
        "TracePlan": f"[n \\in 1..{longest} |-> TraceCalls]",
        "TraceBudget": f"[{', '.join(budget)}]",
    }
    values = {
        "Names": "<- AllNames",
        "Fds": "<- AllFds",
        "Inodes": "<- TraceInodes",
        "Records": f"= {_strings(_dead_records(traces))}",
        "AtomicRename": "= TRUE",
        "HonestFsync": "= TRUE",
        "TornWrites": f"= {crashes}",
        "NulTails": f"= {crashes}",
        "StaleTails": "= FALSE",
        "FailModes": '= {"keep", "drop"}',
        "Workers": f"= {_strings(workers)}",
        "Fibers": f"= {_strings(fibers)}",
        "MaxTries": f"= {tries.pop()}",
        "LockFds": "<- TraceLockFds",
        "Plan": "<- TracePlan",
        "Budget": "<- TraceBudget",
        "Store": '= "new"',
    }
    return definitions, values


DEAD = Kind(
    module="DeadTasks",
    root="TraceDeadTasks",
    next="DeadNext",
    init="TraceInit",
    names=("live", "tmp", "lock"),
    parameters={"w": "e[2]", "f": "e[3]", "v": "e[3]"},
    constant="MaxTries",
    told="Return",
    unseen=frozenset(("Finished", "Fork", "DropInherited")),
    invariants=(
        "DeadTypeOK", "MutualExclusion", "HolderKeepsLock", "AcknowledgedSurvives",
        "AbsentStaysAbsent", "NoGhostWrite",
    ),  # fmt: skip
    action_of=_dead_action,
    constants=_dead_constants,
)

KINDS: dict[str, Kind] = {DEAD.module: DEAD}
"""Every kind, by the module that a trace's header names."""
