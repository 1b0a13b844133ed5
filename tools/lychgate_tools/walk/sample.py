"""A part of a state graph that is too large to tour: the states along random walks, with all edges.

TLC walks at random (`-simulate`) from the beginning as far as the model goes, and in a second run
takes every step from every state that it came by. So each of these states has all its edges, which
is what a walker needs to know what is enabled, and there is a way through them that is as long as
the model allows. What the other edges lead to is known and has no edges of its own.

To get the actions' names out of TLC the actions must stay where they are. So the spec's own text is
used, with each action wrapped under its own name in its own place: the wrapper is never enabled in
the states that the second run came to.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lychgate_tools.spec_text import Source
from lychgate_tools.tlc import cfg, sany, toolchain
from lychgate_tools.tlc.runner import Runner, Task
from lychgate_tools.tlc.sany import Definition
from lychgate_tools.ui import ExitCode, UserError
from lychgate_tools.walk.graph import Graph, parse_dump

_ROOT = "SampleRun"
_DATA = "SampleData"
_HALT = "sampleHalt"
_EXTENDS = re.compile(r"^EXTENDS\s+(.*?)$", re.M)
_DEPTH = 150

_EVALUATED = """\
---- MODULE {root} ----
EXTENDS {base}
\\* Whatever is compared is evaluated first: TLC prints functions that it has not looked at as text.
Evaluated == vars = vars
====
"""

State = Mapping[str, str]
"""A state by variable, values as TLC prints them."""


@dataclass(frozen=True)
class Sample:
    """A graph, and its states that have all their edges; the others have none."""

    graph: Graph
    expanded: frozenset[int]


def load(
    modules: Mapping[str, str], root: str, config: str, walks: int, seed: int = 1
) -> Sample:
    """The states of so many walks; the same every time. UserError where TLC refuses the model."""
    model = cfg.parse(config)
    with (
        Runner(toolchain.find()) as runner,
        tempfile.TemporaryDirectory(prefix="lychgate-sample-") as place,
    ):
        named = f"num={walks},file={place}/walk"
        extra = ("-simulate", named, "-depth", str(_DEPTH), "-seed", str(seed))
        config = f"{model.checking(frozenset())}INVARIANT Evaluated\n"
        texts = {**modules, _ROOT: _EVALUATED.format(root=_ROOT, base=root)}
        run = runner.run(_task(texts, _ROOT, config, extra))
        files = sorted(Path(place).glob("walk_*"))
        if not files:
            raise UserError(f"no walk through {root}: {run.verdict.detail}", ExitCode.SHORT)
        states, begins = _distinct(files)
        actions = sany.parse(runner.tools, modules, root).actions(model.behaviour)
        texts = {**_wrapped(modules, root, actions), **_roots(root, states)}
        dump = Path(place) / "graph"
        task = _task(texts, _ROOT, _config(model), ("-dump", "dot,actionlabels", str(dump)))
        run = runner.run(task)
        if run.verdict.outcome != "ok":
            raise UserError(f"no steps of {root}: {run.verdict.detail}", ExitCode.SHORT)
        with dump.with_suffix(".dot").open(encoding="utf-8") as lines:
            return _joined(parse_dump(lines), begins)


def _task(modules: Mapping[str, str], root: str, config: str, extra: tuple[str, ...]) -> Task:
    return Task(
        modules=modules,
        root=root,
        config=config,
        deadlock=False,
        coverage=False,
        memory="2g",
        extra=extra,
    )


def _distinct(files: Iterable[Path]) -> tuple[list[State], int]:
    """Every state once, those that a walk begins with first, and how many these are."""
    walks = [list(_states(path.read_text(encoding="utf-8"))) for path in files]
    ordered = [walk[0] for walk in walks] + [state for walk in walks for state in walk[1:]]
    found = {tuple(sorted(state.items())): state for state in ordered}
    begins = {tuple(sorted(walk[0].items())) for walk in walks}
    return list(found.values()), len(begins)


def _states(text: str) -> Iterator[State]:
    for part in re.split(r"^STATE_\d+ ==", text, flags=re.M)[1:]:
        body = part.split("\n\n")[0].split("\n====")[0]
        pairs = (one.partition(" = ") for one in re.split(r"^/\\ ", body, flags=re.M)[1:])
        yield {name: " ".join(value.split()) for name, _, value in pairs}


# --- the spec with its actions wrapped ----------------------------------------------------------


def _roots(root: str, states: list[State]) -> dict[str, str]:
    """A module whose initial states are the given ones, and one with a table per variable and a row
    per state: it needs operators of TLC whose names the spec may use for its own."""
    variables = sorted(states[0])
    tables: dict[str, dict[str, int]] = {name: {} for name in variables}
    rows = [
        [tables[name].setdefault(state[name], len(tables[name]) + 1) for name in variables]
        for state in states
    ]
    data = [f"---- MODULE {_DATA} ----", "LOCAL INSTANCE TLC"]
    data += [f"Sample_{name} == <<{_lines(values)}>>" for name, values in tables.items()]
    data.append(f"SampleRows == <<{_lines(f'<<{_lines(map(str, row))}>>' for row in rows)}>>")
    text = [f"---- MODULE {_ROOT} ----", f"EXTENDS {root}, {_DATA}"]
    text.append("SampleInit == \\E k \\in 1..Len(SampleRows) :")
    text += [
        f"  /\\ {name} = Sample_{name}[SampleRows[k][{n}]]"
        for n, name in enumerate(variables, start=1)
    ]
    text.append(f"  /\\ {_HALT} = FALSE")
    return {_ROOT: "\n".join([*text, "====", ""]), _DATA: "\n".join([*data, "====", ""])}


def _lines(items: Iterable[str]) -> str:
    """In short lines, which SANY reads faster than long ones."""
    return ",\n".join(re.sub(r"(.{80,}?), ", r"\1,\n", item) for item in items)


def _wrapped(
    modules: Mapping[str, str], root: str, actions: Iterable[Definition]
) -> dict[str, str]:
    found = dict(modules)
    by_module: dict[str, list[Definition]] = {}
    for action in actions:
        by_module.setdefault(action.place.module, []).append(action)
    for name, some in by_module.items():
        lines = found[name].splitlines()
        for action in sorted(some, key=lambda one: -one.place.line):
            _wrap(lines, action)
        found[name] = "\n".join(lines) + "\n"
    source = Source(modules)
    visible = source.extended(root)
    base = next(
        name for name in visible if not any(up in visible for up in source.modules[name].extends)
    )
    found[base] = _EXTENDS.sub(rf"EXTENDS \1\nVARIABLE {_HALT}", found[base], count=1)
    return found


def _wrap(lines: list[str], action: Definition) -> None:
    """Rename an action where it stands, and put its wrapper behind it."""
    start, end = action.place.line - 1, action.place.end_line
    head = re.match(rf"{action.name}(\([^)]*\))?", lines[start])
    assert head is not None, f"{action.place}: {action.name} begins a line"
    lines[start] = f"Sample{lines[start]}"
    for number in range(start + 1, end):  # they keep their columns below the head's
        if lines[number].strip():
            lines[number] = " " * len("Sample") + lines[number]
    lines.insert(end, f"{head[0]} == ~{_HALT} /\\ Sample{head[0]} /\\ {_HALT}' = TRUE")


def _config(model: cfg.Config) -> str:
    """The same constants, from the states of the walks."""
    next_step = model.names("NEXT") or ("Next",)
    constants = "\n".join(f"{head}\n{text}" for head, text in model.sections if head == "CONSTANTS")
    return f"{constants}\nINIT SampleInit\nNEXT {next_step[0]}\n"


# --- the graph ----------------------------------------------------------------------------------


def _joined(found: Graph, begins: int) -> Sample:
    """One state for each two that differ in the halt alone. `begins` is how many of the states
    that TLC began with, in its order, the model begins with."""
    column = found.variables.index(_HALT)
    halts = found.texts[_HALT]
    numbers: dict[tuple[int, ...], int] = {}
    to: list[int] = []
    expanded: set[int] = set()
    for row in found.states:
        plain = row[:column] + row[column + 1 :]
        to.append(numbers.setdefault(plain, len(numbers)))
        if halts[row[column]] == "FALSE":
            expanded.add(to[-1])
    edges: list[dict[tuple[str, int], None]] = [{} for _ in numbers]
    for state, out in enumerate(found.edges):
        edges[to[state]].update(dict.fromkeys((action, to[target]) for action, target in out))
    graph = Graph(
        tuple(name for name in found.variables if name != _HALT),
        {name: texts for name, texts in found.texts.items() if name != _HALT},
        list(numbers),
        [to[state] for state in found.initial[:begins]],
        [list(out) for out in edges],
    )
    return Sample(graph, frozenset(expanded))
