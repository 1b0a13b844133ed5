"""Traces of spec/Wal.tla, and how the constants of a check follow from them.

Tasks and workers are those that occur, names and inodes as many as were known at one time, budgets
as large as the traces need. A record of the spec is written whole or not at all in a trace without
a crash of the host; nothing that can be seen depends on what a crash might do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lychgate_tools.tlc.values import render
from lychgate_tools.trace.format import Event, Seen, Trace
from lychgate_tools.trace.kind import Kind, count, most, strings
from lychgate_tools.trace.wal_pieces import joined

_REPEATED = ("UnlinkWal", "FsyncWalDir", "CreateWal")
"""Steps whose failure may be a stutter of the spec: the next operation takes them again."""


def _cases(arms: Mapping[str, str]) -> dict[str, str]:
    found = {
        'e[1] = "Call"': "UNCHANGED vars",
        'e[1] = "Return"': "Told(e[2], e[3], Answers[e[4]]) /\\ UNCHANGED vars",
    }
    for action in _REPEATED:
        step = arms[f'e[1] = "{action}"']
        found[f'e[6] = "fail" /\\ e[1] = "{action}"'] = f"({step}) \\/ Repeated(e[1], e[2])"
    return found


def _view(seen: Seen) -> str:
    """Pairs of label and content, of the files that are there."""
    pairs = ((name, cells) for name, cells in seen.items() if cells is not None)
    return render(frozenset(pairs))


def _tasks(traces: Sequence[Trace]) -> set[str]:
    cells = {
        cell
        for trace in traces
        for seen in (trace.seen, *(event.seen for event in trace.events))
        for content in seen.values()
        for cell in content or ()
    }
    asked = {
        str(event.args.get("record", ""))
        for trace in traces
        for event in trace.events
        if event.action == "Call"
    }
    return ({cell[1:-1] for cell in cells if cell[:1] in ("+", "-")} | asked) - {""}


def _known(trace: Trace) -> int:
    """How many files a crash may know at most at one time: those that are there, those that went
    since the last sync of the directory, and those that some start has listed."""
    most_known, gone = 1, set[str]()
    before = trace.seen
    for event in trace.events:
        there = {name for name, cells in event.seen.items() if cells is not None}
        gone |= {name for name, cells in before.items() if cells is not None} - there
        if event.action == "FsyncWalDir" and not event.error:
            gone = set()
        listed = len(event.result) if event.action == "ListWals" and event.result else 0
        most_known = max(most_known, len(there | gone) + listed)
        before = event.seen
    return most_known


def _again(trace: Trace) -> int:
    added = [cell for e in trace.events if e.action == "AppendWal" for cell in e.args["data"]]
    puts = [cell for cell in added if cell.startswith("+") and cell.endswith(">")]
    return len(puts) - len(set(puts))


def _constants(traces: Sequence[Trace]) -> tuple[dict[str, str], dict[str, str]]:
    workers = {event.worker for trace in traces for event in trace.events} - {""}
    names = 1 + most(traces, _known)

    def times(action: str) -> int:
        return most(traces, lambda trace: count(trace, lambda event: event.action == action))

    values = {
        "Names": f"= {render(frozenset(range(1, names + 1)))}",
        "Inodes": f"= {render(frozenset(range(1, names + len(workers) + 1)))}",
        "Fds": "<- AllFds",
        "Records": "<- AllRecords",
        "AtomicRename": "= TRUE",
        "HonestFsync": "= TRUE",
        "TornWrites": "= FALSE",
        "NulTails": "= FALSE",
        "StaleTails": "= FALSE",
        "FailModes": '= {"drop", "keep"}',
        "Workers": f"= {strings(workers)}",
        "Tasks": f"= {strings(_tasks(traces))}",
        "Eager": f"= {'TRUE' if traces[0].constants['Eager'] else 'FALSE'}",
        "StartMax": f"= {times('ListWals')}",
        "RotationMax": f"= {times('CreateWal')}",
        "ForkMax": "= 0",
        "KillMax": f"= {times('Kill')}",
        "CrashMax": f"= {times('HostCrash')}",
        "FailMax": f"= {most(traces, lambda trace: count(trace, lambda e: bool(e.error)))}",
        "AgainMax": f"= {most(traces, _again)}",
        "First": "<- TraceFirst",
    }
    return {}, values


def _action(event: Event) -> str:
    return event.action


WAL = Kind(
    module="Wal",
    root="TraceWal",
    next="Next",
    init="TraceInit",
    names=(),
    parameters={"w": "e[2]", "out": "e[6]", "r": "Record(Answers[e[4]])", "child": "e[3]"},
    free={"why": '{"sync", "close"}'},
    constant="Eager",
    told=frozenset(("Call", "Return")),
    cases=_cases,
    prepared=joined,
    view=_view,
    overrides="TraceFirst(ns) == Picked(ns, Answers[Events[Nodes[cursor']][4]][1])",
    unseen=frozenset(("Done", "Fork")),
    invariants=(
        "TypeOK", "NoAcknowledgedLoss", "NoSyncedLoss", "NothingComesBack", "OneWriter",
        "NoGhostWrite", "MemoryIsBacked",
    ),
    action_of=_action,
    constants=_constants,
)  # fmt: skip
