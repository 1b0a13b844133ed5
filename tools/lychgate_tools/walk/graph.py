"""The state graph of a model: got from TLC's dump, interned, kept in the user's cache.

TLC 2.15 writes every transition with the name of its action, without arguments; who took a step is
read off the two states by whoever walks (`store`, `wal`). Nothing about allowed steps is written
down a second time: change the spec, and the graph is another.

The cache holds the graph as columns: per variable the distinct texts of its values, per state one
index each. Its name is a digest of the sources and the model file; a damaged file is made again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lychgate_tools.tlc import cfg, toolchain
from lychgate_tools.tlc.runner import Runner, Task
from lychgate_tools.tlc.values import Value, parse
from lychgate_tools.ui import ExitCode, UserError

_FORMAT = 1
_EDGE = re.compile(r'(-?\d+) -> (-?\d+) \[label="([^"]*)"')
_STATE = re.compile(r'(-?\d+) \[label="((?:[^"\\]|\\.)*)"(,style = filled)?\]')
_EXTENDS = re.compile(r"^EXTENDS((?:\s+\w+\s*,)*\s+\w+)", re.M)
_LEADS_TO = re.compile(r"\bINSTANCE (\w+)")
_ESCAPE = re.compile(r"\\(.)")


@dataclass
class Graph:
    """States are numbers from 0; `edges[s]` are the (action, target) pairs of state s."""

    variables: tuple[str, ...]
    texts: dict[str, list[str]]
    states: list[tuple[int, ...]]
    initial: list[int]
    edges: list[list[tuple[str, int]]]
    _values: dict[str, dict[int, Value]] = field(default_factory=dict, repr=False)

    def value(self, state: int, variable: str) -> Value:
        """The value of a variable in a state; each distinct text is parsed once."""
        index = self.states[state][self.variables.index(variable)]
        parsed = self._values.setdefault(variable, {})
        if index not in parsed:
            parsed[index] = parse(self.texts[variable][index])
        return parsed[index]

    def edge_count(self) -> int:
        return sum(len(out) for out in self.edges)

    def parents(self) -> list[tuple[int, str] | None]:
        """A breadth-first tree: how each state is first reached, None for initial states."""
        found: dict[int, tuple[int, str] | None] = {state: None for state in self.initial}
        queue = list(self.initial)
        for state in queue:
            for action, target in self.edges[state]:
                if target not in found:
                    found[target] = (state, action)
                    queue.append(target)
        assert len(found) == len(self.states), "TLC reaches every state that it prints"
        return [found[state] for state in range(len(self.states))]


def load(
    modules: Mapping[str, str],
    root: str,
    config: str,
    on_progress: Callable[[int], None] | None = None,
) -> Graph:
    """The graph of a model, from the cache or from TLC."""
    path = toolchain.cache_dir() / f"graph-{_digest(modules, root, config)}.json.gz"
    cached = _read(path)
    if cached is not None:
        return cached
    graph = _from_tlc(modules, root, config, on_progress)
    _write(path, graph)
    return graph


def _digest(modules: Mapping[str, str], root: str, config: str) -> str:
    """Over the modules that the root leads to, and no others: each edit costs what it must."""
    needed: dict[str, str] = {}
    todo = [root]
    while todo:
        name = todo.pop()
        if name in modules and name not in needed:
            needed[name] = modules[name]
            todo += _LEADS_TO.findall(_EXTENDS.sub(_one_each, modules[name]))
    text = json.dumps([_FORMAT, root, sorted(needed.items()), config])
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:24]


def _one_each(match: re.Match[str]) -> str:
    return "".join(f"\nINSTANCE {name.strip()}" for name in match[1].split(","))


def _from_tlc(
    modules: Mapping[str, str], root: str, config: str, on_progress: Callable[[int], None] | None
) -> Graph:
    with tempfile.TemporaryDirectory(prefix="lychgate-graph-") as place:
        dump = Path(place) / "graph"
        task = Task(
            modules=modules,
            root=root,
            config=cfg.parse(config).checking(frozenset()),  # `lychgate check` checks properties
            deadlock=False,
            coverage=False,
            memory="2g",
            extra=("-dump", "dot,actionlabels", str(dump)),
        )
        with Runner(toolchain.find()) as runner:
            run = runner.run(task, on_progress)
        if run.verdict.outcome != "ok":
            raise UserError(f"no graph of {root}: TLC says {run.verdict.said}", ExitCode.SHORT)
        with dump.with_suffix(".dot").open(encoding="utf-8") as lines:
            graph = parse_dump(lines)
    if len(graph.states) != run.verdict.distinct:
        raise UserError(
            f"the dump of {root} has {len(graph.states)} states, TLC counted "
            f"{run.verdict.distinct}: make room on the disk and run again"
        )
    return graph


def parse_dump(lines: Iterator[str]) -> Graph:
    """Read TLC's dot file. Values wrap at 80 columns: `/\\` at a line's start parts variables."""
    numbers: dict[str, int] = {}
    rows: dict[int, str] = {}
    initial: list[int] = []
    pairs: dict[tuple[int, str, int], None] = {}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    for line in lines:
        edge = _EDGE.match(line)
        if edge:
            source, target, action = edge.groups()
            pairs[number(source), action, number(target)] = None
            continue
        state = _STATE.match(line)
        if state:
            name, label, filled = state.groups()
            rows[number(name)] = _ESCAPE.sub(_unescape, label)
            if filled:
                initial.append(number(name))
    return _columns(rows, initial, pairs)


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


def _columns(
    rows: Mapping[int, str], initial: list[int], pairs: Mapping[tuple[int, str, int], None]
) -> Graph:
    if not rows:
        return Graph((), {}, [], [], [])
    split = [_variables(rows[state]) for state in range(len(rows))]
    variables = tuple(sorted(split[0]))
    indexes: dict[str, dict[str, int]] = {name: {} for name in variables}
    states = [
        tuple(indexes[name].setdefault(values[name], len(indexes[name])) for name in variables)
        for values in split
    ]
    edges: list[list[tuple[str, int]]] = [[] for _ in states]
    for source, action, target in pairs:
        edges[source].append((action, target))
    texts = {name: list(indexes[name]) for name in variables}
    return Graph(variables, texts, states, sorted(set(initial)), edges)


def _variables(label: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in re.split(r"(?:\A|\n)/\\ ", label):
        if part:
            name, _, value = part.partition(" = ")
            found[name] = value
    return found


def _read(path: Path) -> Graph | None:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            data = json.load(file)
        edges = [[(str(action), int(target)) for action, target in out] for out in data["edges"]]
        graph = Graph(
            tuple(data["variables"]),
            {str(name): list(texts) for name, texts in data["texts"].items()},
            [tuple(row) for row in data["states"]],
            list(data["initial"]),
            edges,
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None  # missing, or damaged: made again
    return graph if len(graph.states) == len(edges) else None


def _write(path: Path, graph: Graph) -> None:
    """Keep the graph, if the cache can be written; several commands may do so at once."""
    data = {
        "variables": graph.variables,
        "texts": graph.texts,
        "states": graph.states,
        "initial": graph.initial,
        "edges": graph.edges,
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        try:
            os.close(handle)
            with gzip.open(name, "wt", encoding="utf-8", compresslevel=3) as file:
                json.dump(data, file, separators=(",", ":"))
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError:
        pass  # a read-only cache only costs time
