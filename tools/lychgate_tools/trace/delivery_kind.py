"""Traces of spec/Delivery.tla, and how the constants of a check follow from them.

One step of the spec where the engine takes several, or none:
  * a file that is read in pieces is one ReadMeta for both small files, one ReadSegment for all of
    the log; an empty log is a ReadSegment without a step of the engine;
  * what is read of a record on the way (to copy it, or for a consumer) is no step of the spec;
  * a short write and what follows it are one AppendEvent: whole, or `part` when the rest failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from lychgate_tools.tlc.values import render
from lychgate_tools.trace.format import Event, Seen, Trace
from lychgate_tools.trace.kind import Kind, count, most

_TOLD = ("Call", "Return")


def joined(trace: Trace) -> Trace:
    """The trace with the spec's steps."""
    return replace(trace, events=tuple(_steps(trace.events)))


def _steps(events: Sequence[Event]) -> Iterator[Event]:
    last = ""  # the step before, as the spec has it
    seen: Seen = {}  # after it
    short: Event | None = None
    for event in events:
        if short is not None:
            if event.action == "AppendEvent":
                yield replace(event, args=short.args, error="short" if event.error else "")
                short, last = None, event.action
                continue
            yield short
            short = None
        if last == "ReadMeta" and event.action not in ("ReadMeta", "ReadSegment", "Kill"):
            yield Event(event.line, "ReadSegment", event.worker, event.fiber, seen=seen)
            last = "ReadSegment"
        seen = event.seen
        if event.action == "ReadMeta" == last:
            continue
        if event.action == "ReadSegment" and last != "ReadMeta":
            continue
        if event.action == "AppendEvent" and event.error == "short":
            short = event
            continue
        yield event
        if event.action not in _TOLD:
            last = event.action
    if short is not None:
        yield short


def _view(seen: Seen) -> str:
    """Pairs of name and content, of the files that are there."""
    return render(frozenset((name, cells) for name, cells in seen.items() if cells is not None))


def _opens(event: Event) -> bool:
    return event.action == "ListQueue"


def _compacts(trace: Trace) -> int:
    """At most so many compactions began: calls that sync names and have added no segment."""
    found = set[int]()
    call, opening, before = 0, False, ""
    for event in trace.events:
        if event.action == "Call":
            call, opening = event.line, event.args.get("op") in ("open", "recover")
        if event.action in ("UnlinkSegment", "FsyncQueueDir") and before != "CreateSegment":
            found |= set() if opening else {call}
        before = event.action
    return len(found)


def _cells(trace: Trace) -> set[str]:
    seen = (trace.seen, *(event.seen for event in trace.events))
    return {cell for one in seen for content in one.values() for cell in content or ()}


def _highest(trace: Trace, kind: str) -> int:
    """The highest number of an item (`i`) or a generation (`m`) in a file."""
    return max((int(cell[1]) for cell in _cells(trace) if cell[:1] == kind), default=0)


def _constants(traces: Sequence[Trace]) -> tuple[dict[str, str], dict[str, str]]:
    def times(action: str) -> int:
        return most(traces, lambda trace: count(trace, lambda event: event.action == action))

    room, segments = traces[0].constants["Room"], traces[0].constants["SegMax"]
    opens = most(traces, lambda trace: count(trace, _opens))
    numbers = most(traces, lambda trace: _highest(trace, "i"))
    generations = 1 + most(traces, lambda trace: _highest(trace, "m"))
    values = {
        "Names": "<- AllNames",
        "Fds": "<- AllFds",
        "Records": "<- AllRecords",
        "Inodes": f"= {render(frozenset(range(1, 6 * int(segments) + 11)))}",
        "AtomicRename": "= TRUE",
        "HonestFsync": "= TRUE",
        "TornWrites": "= FALSE",
        "NulTails": "= FALSE",
        "StaleTails": "= FALSE",
        "FailModes": '= {"drop", "keep"}',
        "SeqMax": f"= {max(1, numbers)}",
        "Room": f"= {room}",
        "SegMax": f"= {segments}",
        "OpenMax": f"= {opens}",
        "CompactMax": f"= {most(traces, _compacts)}",
        "GenMax": "<- TraceGenMax",
        "CloseMax": f"= {times('ClearMark')}",
        "KillMax": f"= {times('Kill') + times('KillInWrite')}",
        "CrashMax": "= 0",
        "FailMax": f"= {most(traces, lambda trace: count(trace, lambda e: bool(e.error)))}",
        "HurtMax": f"= {times('Foreign')}",
        "Hurts": '= {"tail"}',
    }
    return {"TraceGenMax": str(generations)}, values


DELIVERY = Kind(
    module="Delivery",
    root="TraceDelivery",
    next="Next",
    init="TraceInit",
    names=(),
    parameters={
        "w": "e[2]",
        "out": 'IF e[6] = "short" THEN "part" ELSE e[6]',
        "s": "Changed(Answers[e[4]])[1]",
        "t": "Changed(Answers[e[4]])[2]",
        "h": "Answers[e[4]][1]",
    },
    free={},
    constant="Room",
    told=frozenset(_TOLD),
    cases=lambda _: {
        'e[1] = "Call"': "UNCHANGED vars",
        'e[1] = "Return"': "Told(e[2], e[3], Answers[e[4]]) /\\ UNCHANGED vars",
    },
    prepared=joined,
    view=_view,
    overrides="",
    unseen=frozenset(("Done", "HostCrash")),
    invariants=("TypeOK", "Promise", "FreshNumbers", "MemoryIsBacked", "DiskBound"),
    action_of=lambda event: event.action,
    constants=_constants,
)
