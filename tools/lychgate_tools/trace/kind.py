"""What a check needs to know of a spec that traces may be of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lychgate_tools.tlc.values import render
from lychgate_tools.trace.format import Event, Seen, Trace


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
    free: Mapping[str, str]  # parameters that an event says nothing about, and their values
    constant: str  # that a header must give
    told: frozenset[str]  # the trace's own events, which are no actions of the spec
    cases: Callable[[Mapping[str, str]], dict[str, str]]  # of `Take`, before those by action
    prepared: Callable[[Trace], Trace]  # a trace as the spec's steps
    view: Callable[[Seen], str]  # what can be seen, as the spec's View gives it
    overrides: str  # definitions that take the place of the spec's, in the generated module
    unseen: frozenset[str]  # actions of the spec that no trace can hold
    invariants: tuple[str, ...]
    action_of: Callable[[Event], str]  # the spec's action of an event
    constants: Callable[[Sequence[Trace]], tuple[dict[str, str], dict[str, str]]]


def strings(values: Iterable[str]) -> str:
    """A set of strings."""
    return render(frozenset(values))


def most(traces: Sequence[Trace], counted: Callable[[Trace], int]) -> int:
    """The largest count of any trace."""
    return max((counted(trace) for trace in traces), default=0)


def count(trace: Trace, wanted: Callable[[Event], bool]) -> int:
    """How many events of a trace are wanted."""
    return sum(map(wanted, trace.events))
