"""One step of the spec where the engine takes several: reading and copying a file piece by piece.

spec/Wal.tla reads a claimed file at once, and copies the lines of a file in one batch; the engine
reads to the end of the file, and copies runs of lines that lie side by side. Nobody else writes to
either file meanwhile, and nobody looks into a file that is locked. So the pieces become one event:
of reads where the first stood, of copies where the last stood, and what the others saw of a file
that was being filled is what it held before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lychgate_tools.trace.format import Event, Seen, Trace


@dataclass
class _Group:
    """The pieces of one worker that belong together: places in the trace."""

    reads: list[int] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)


def joined(trace: Trace) -> Trace:
    """The trace with the spec's steps."""
    events: list[Event | None] = list(trace.events)
    for group in _groups(trace.events):
        _join(events, group, "result")
        _join(events, group, "data")
        if len(group.copies) > 1:
            _freeze(events, trace, group.copies)
    return replace(trace, events=tuple(event for event in events if event is not None))


def _groups(events: tuple[Event, ...]) -> Iterator[_Group]:
    """Reads up to the empty one, or reads with copies in turn. A copy that no read precedes is of
    a line from memory, and stands alone."""
    steps: dict[str, list[int]] = {}
    for place, event in enumerate(events):
        if event.action not in ("Call", "Return"):
            steps.setdefault(event.worker, []).append(place)
    for places in steps.values():
        group = _Group()
        for place in places:
            event = events[place]
            if event.action == "ReadWal" and not event.error:
                if not group.copies and group.reads and _is_end(events[group.reads[-1]]):
                    yield group
                    group = _Group()
                group.reads.append(place)
            elif (
                event.action == "CopyWal"
                and not event.error
                and group.reads
                and (not group.copies or group.reads[-1] > group.copies[-1])
            ):
                group.copies.append(place)
            else:
                yield group
                group = _Group()
        yield group


def _is_end(event: Event) -> bool:
    return not event.result


def _join(events: list[Event | None], group: _Group, what: str) -> None:
    places = group.reads if what == "result" else group.copies
    if len(places) < 2:
        return
    pieces = [event for place in places if (event := events[place]) is not None]
    found = [one.result if what == "result" else one.args[what] for one in pieces]
    cells = [cell for part in found for cell in part]
    for place in places:
        events[place] = None
    if what == "result":
        events[places[0]] = replace(pieces[0], result=cells)
    else:
        events[places[-1]] = replace(pieces[-1], args={what: cells})


def _freeze(events: list[Event | None], trace: Trace, copies: list[int]) -> None:
    """Between the first copy and the last, the file that is filled shows what it held before."""
    first = copies[0]
    before = trace.events[first - 1].seen if first else trace.seen
    after = trace.events[first].seen
    (name,) = (name for name in after if after[name] != before.get(name))
    known: dict[int, Seen] = {}
    for place in range(first, copies[-1]):
        event = events[place]
        if event is not None:
            seen = known.setdefault(id(event.seen), {**event.seen, name: before.get(name)})
            events[place] = replace(event, seen=seen)
