"""Traces of spec/DeadTasks.tla, and how the constants of a check follow from them.

Records, workers and fibers are those that occur; budgets are as large as the traces need; the
assumptions on crashes (torn writes, NUL tails) are only switched on where a trace has a crash or a
failed fsync, since without one nothing that can be seen depends on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lychgate_tools.tlc.values import Fn, render
from lychgate_tools.trace.format import Event, Seen, Trace
from lychgate_tools.trace.kind import Kind, count, most, strings

_FAULTS = {"Kill": "kills", "KillInWrite": "kills", "HostCrash": "crashes",
                "Remount": "remounts", "Fork": "forks", "DeleteLock": "meddles"}  # fmt: skip


def _fault(event: Event) -> str:
    return "fails" if event.error else _FAULTS.get(event.action, "")


_FAILURES = {
    **dict.fromkeys(("OpenLock", "LockTry", "CheckLock", "Unlock"), "FailLock"),
    **dict.fromkeys(("FsyncData", "FsyncStaging", "FsyncDir"), "FailFsync"),
    **dict.fromkeys(("CloseData", "CloseStaging"), "FailClose"),
    "ClearMark": "FailClearMark",
}


def _action(event: Event) -> str:
    if event.how == "ok":
        return event.action
    return "ShortWrite" if event.how == "short" else _FAILURES.get(event.action, "Fail")


_CASES = {
    'e[6] = "fail"': "Failing(e[1], e[2], e[3])",
    'e[6] = "short"': "Shortened(e[1], e[2], e[3])",
    'e[1] = "Return"': "Told(e[2], e[3], Answers[e[4]]) /\\ UNCHANGED vars",
}


def _view(seen: Seen) -> str:
    """A record of the three files; one that is not there is <<"-">>."""
    shown = ((name, ("-",) if cells is None else cells) for name, cells in seen.items())
    return render(Fn(shown))


def _records(traces: Sequence[Trace]) -> set[str]:
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


def _constants(traces: Sequence[Trace]) -> tuple[dict[str, str], dict[str, str]]:
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
    total = most(traces, lambda trace: count(trace, lambda event: bool(_fault(event))))
    budget = [f"faults |-> {total}", *(f"{kind} |-> {faults[kind]}" for kind in kinds)]
    crashes = "TRUE" if any(faults[kind] for kind in ("crashes", "remounts", "fails")) else "FALSE"
    inodes = 4 + most(traces, _created)
    longest = most(traces, lambda trace: count(trace, lambda event: event.action == "Call"))
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
        "Records": f"= {strings(_records(traces))}",
        "AtomicRename": "= TRUE",
        "HonestFsync": "= TRUE",
        "TornWrites": f"= {crashes}",
        "NulTails": f"= {crashes}",
        "StaleTails": "= FALSE",
        "FailModes": '= {"keep", "drop"}',
        "Workers": f"= {strings(workers)}",
        "Fibers": f"= {strings(fibers)}",
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
    told=frozenset(("Return",)),
    free={},
    cases=lambda _: _CASES,
    prepared=lambda trace: trace,
    view=_view,
    overrides="",
    unseen=frozenset(("Finished", "Fork", "DropInherited")),
    invariants=(
        "DeadTypeOK", "MutualExclusion", "HolderKeepsLock", "AcknowledgedSurvives",
        "AbsentStaysAbsent", "NoGhostWrite",
    ),  # fmt: skip
    action_of=_action,
    constants=_constants,
)
