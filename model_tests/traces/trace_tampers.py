"""What the tests of traces share: recording, checking, tampering."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace

from lychgate_tools.trace.check import Checker
from lychgate_tools.trace.format import Event, Trace, parse


def recorded(record: Callable[[io.StringIO], int], name: str) -> Trace:
    out = io.StringIO()
    assert record(out) > 0
    return parse(name, out.getvalue().splitlines())


def rejected(checker: Checker, traces: list[Trace]) -> list[str]:
    (batch,) = checker.check(traces)
    return [
        trace.name for trace, good in zip(batch.traces, batch.accepted, strict=True) if not good
    ]


def renumbered(trace: Trace, name: str, events: list[Event]) -> Trace:
    return replace(trace, name=name, events=tuple(events))


def last_steps(trace: Trace) -> dict[tuple[str, str], int]:
    """Where each fiber does something for the last time: what is cut off there leaves no gap."""
    return {(event.worker, event.fiber): place for place, event in enumerate(trace.events)}


def is_cut_off(trace: Trace, place: int) -> bool:
    """Whether its worker is killed after this step: it might have been before it as well."""
    worker = trace.events[place].worker
    after = (event for event in trace.events[place + 1 :] if event.worker == worker)
    return next((event.action == "Kill" for event in after), False)


def dropped(trace: Trace, but: tuple[str, ...] = ("Return",)) -> Iterator[Trace]:
    """Every step of the engine left out, one at a time; `but` some."""
    ends = last_steps(trace)
    for place, event in enumerate(trace.events):
        if is_cut_off(trace, place):
            continue
        if event.action not in but and place < ends[event.worker, event.fiber] - 1:
            events = list(trace.events)
            del events[place]
            yield renumbered(trace, f"{place} {event.action} dropped", events)


def swapped(trace: Trace, but: tuple[str, ...] = ()) -> Iterator[Trace]:
    """Every two neighbours of one fiber changed for one another; `but` some."""
    for place, (one, two) in enumerate(zip(trace.events, trace.events[1:], strict=False)):
        same = (one.worker, one.fiber) == (two.worker, two.fiber)
        if same and one.action != two.action and not {one.action, two.action} & set(but):
            events = list(trace.events)
            events[place : place + 2] = [replace(two, seen=one.seen), replace(one, seen=two.seen)]
            yield renumbered(trace, f"{place} {one.action} swapped", events)


def altered(trace: Trace, but: tuple[str, ...] = ()) -> Iterator[Trace]:
    """Every answer another one, every content that can be seen another one but after some."""
    for place, event in enumerate(trace.events):
        changes: list[Event] = []
        if isinstance(event.result, bool):
            changes.append(replace(event, result=not event.result))
        elif isinstance(event.result, int):
            changes.append(replace(event, result=event.result + 1))
        elif isinstance(event.result, list) and event.result:
            changes.append(replace(event, result=event.result[:-1]))
        if "data" in event.args:
            changes.append(replace(event, args={"data": event.args["data"][:-1]}))
        for name, cells in event.seen.items():
            if cells and name != "lock" and event.action not in but:
                changes.append(replace(event, seen={**event.seen, name: cells[:-1]}))
                break
        for change in changes:
            events = list(trace.events)
            events[place] = change
            yield renumbered(trace, f"{place} {event.action} altered", events)
