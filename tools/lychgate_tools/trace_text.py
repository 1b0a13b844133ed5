"""A counter-example for a person: each step's action, and what it changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lychgate_tools.tlc.output import TraceState, Verdict
from lychgate_tools.tlc.values import Fn, render, to_json


def lines(verdict: Verdict) -> Iterator[str]:
    """The first state in full, then per step the parts that changed."""
    before: Mapping[str, Any] | None = None
    for number, state in enumerate(verdict.trace, start=1):
        yield f"{number:3}  {state.action}"
        if before is None:
            for name in sorted(state.values):
                yield f"       {name} = {render(state.values[name])}"
        else:
            names = sorted(state.values)
            shown = [change for name in names for change in _changes(before, state, name)]
            yield from shown or ["       (nothing changes)"]
        before = state.values
    if verdict.loop_to == 0:
        yield "     ... and nothing happens any more"
    elif verdict.loop_to is not None:
        yield f"     ... and again from state {verdict.loop_to}"


def _changes(before: Mapping[str, Any], state: TraceState, name: str) -> Iterator[str]:
    for path, old, new in differences(before.get(name), state.values[name]):
        yield f"       {name}{path}: {render(old)} -> {render(new)}"


def differences(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The smallest parts of a value that differ, with the path to each."""
    if old == new and type(old) is type(new):
        return
    if isinstance(old, Fn) and isinstance(new, Fn) and set(old) == set(new):
        for key in old:
            step = f".{key}" if type(key) is str and key.isidentifier() else f"[{render(key)}]"
            yield from differences(old[key], new[key], path + step)
    elif isinstance(old, tuple) and isinstance(new, tuple) and len(old) == len(new):
        for index, (left, right) in enumerate(zip(old, new, strict=True), start=1):
            yield from differences(left, right, f"{path}[{index}]")
    else:
        yield path, old, new


def as_json(verdict: Verdict) -> dict[str, Any]:
    """The same for a program; values as in `values.to_json`."""
    return {
        "verdict": verdict.said,
        "loop_to": verdict.loop_to,
        "states": [
            {
                "action": state.action,
                "module": state.module,
                "values": {name: to_json(value) for name, value in sorted(state.values.items())},
            }
            for state in verdict.trace
        ],
    }
