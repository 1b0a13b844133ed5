"""The module that TLC runs: many traces as one tree, one arm per action of the spec.

The tree's nodes are numbers. Node n is entered by the event `Nodes[n]`; what follows stands at
n + 1, where 0 ends a trace that was accepted and -k leads to the nodes of `Branches[k]`. So equal
beginnings, and equal traces, are checked once. Events, answers and views are interned: a node is
one number in the file. A view that is the one before is 0.

TLC steps from node to node by `Step`, which is: the answer agrees with the state, the spec's own
action is taken, and what can be seen afterwards is what the trace saw. At the end of a trace its
node is printed; a trace whose node is not printed was rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lychgate_tools.tlc.sany import Definition, Parsed
from lychgate_tools.tlc.values import render
from lychgate_tools.trace.format import Event, Seen, Trace
from lychgate_tools.trace.kind import Kind
from lychgate_tools.ui import ExitCode, UserError

ROOT = "TraceRun"
DATA = "TraceData"
_HEAD = r"^{name}(?:\(([^)]*)\))?\s*=="


@dataclass
class Tree:
    """Traces laid out. `ends` leads from a trace's last node to the traces that end there."""

    nodes: list[int] = field(default_factory=list)
    branches: list[list[int]] = field(default_factory=list)
    starts: list[tuple[int, int]] = field(default_factory=list)  # first place, view
    ends: dict[int, list[int]] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    views: list[str] = field(default_factory=list)

    @property
    def distinct(self) -> int:
        """Steps that are left after equal beginnings were joined."""
        return sum(1 for node in self.nodes if node > 0)


class _Table(dict[str, int]):
    """Texts to numbers from 1."""

    def number(self, text: str) -> int:
        return self.setdefault(text, len(self) + 1)


class _Interned:
    """Events as texts, through tables of answers and views."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.events, self.answers, self.views = _Table(), _Table(), _Table()
        self._seen: dict[int, tuple[Seen, int]] = {}

    def view(self, seen: Seen) -> int:
        found = self._seen.get(id(seen))
        if found is None or found[0] is not seen:
            number = self.views.number(self._kind.view(seen))
            self._seen[id(seen)] = found = (seen, number)
        return found[1]

    def event(self, event: Event, before: Seen) -> int:
        answer = self.answers.number(render(event.tokens))
        view = 0 if event.seen is before else self.view(event.seen)
        names = ", ".join(render(word) for word in (event.action, event.worker, event.fiber))
        return self.events.number(f"<<{names}, {answer}, {view}, {render(event.how)}>>")


@dataclass
class _Node:
    event: int
    children: dict[int, _Node] = field(default_factory=dict)
    traces: list[int] = field(default_factory=list)


def lay_out(traces: Sequence[Trace], kind: Kind) -> Tree:
    """The tree of all traces."""
    interned = _Interned(kind)
    roots: dict[int, _Node] = {}
    for number, trace in enumerate(traces):
        node = roots.setdefault(interned.view(trace.seen), _Node(0))
        before = trace.seen
        for event in trace.events:
            key = interned.event(event, before)
            before = event.seen
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = _Node(key)
            node = child
        node.traces.append(number)
    tree = Tree()
    for view, root in roots.items():
        tree.starts.append((len(tree.nodes) + 1, view))
        _write(tree, root, interned.events.number(END_EVENT))
    tree.events, tree.answers = list(interned.events), list(interned.answers)
    tree.views = list(interned.views)
    return tree


def _write(tree: Tree, root: _Node, end: int) -> None:
    """Write a node and what follows it, spine by spine; a branch is linked when it is written."""
    todo: list[tuple[_Node, int]] = [(root, 0)]  # node, and the branch that leads to it
    while todo:
        node, branch = todo.pop()
        if branch:
            tree.branches[branch - 1].append(len(tree.nodes) + 1)
        while True:
            tree.nodes.append(node.event)
            children = list(node.children.values())
            if node.traces and children:
                children.append(_Node(end, {}, node.traces))
            elif node.traces:
                tree.ends[len(tree.nodes)] = node.traces
            if len(children) != 1:
                break
            node = children[0]
        if not children:
            tree.nodes.append(0)
            continue
        tree.branches.append([])
        tree.nodes.append(-len(tree.branches))
        todo.extend((child, len(tree.branches)) for child in children)


# --- text -------------------------------------------------------------------------------------

END_EVENT = '<<"End", "", "", 0, 0, "ok">>'

_RUN = """---- MODULE {root} ----
EXTENDS {extends}, {data}
VARIABLE cursor
{definitions}
{overrides}

Take(e) ==
  CASE {arms}

Step(e) ==
  /\\ Sane(e[1], Answers[e[4]])
  /\\ Take(e)
  /\\ e[6] = "ok" => Answer(e[1], e[2], e[3], Answers[e[4]]) = Answers[e[4]]
  /\\ Agrees(e[1], e[2], e[3], Answers[e[4]])
  /\\ View' = IF e[5] = 0 THEN View ELSE Views[e[5]]

Kids(n) ==
  IF Nodes[n + 1] > 0 THEN {{n + 1}} ELSE IF Nodes[n + 1] = 0 THEN {{}} ELSE Branches[-Nodes[n + 1]]

RunInit == \\E k \\in 1..Len(Starts) : cursor = Starts[k][1] /\\ {init}(Views[Starts[k][2]])
RunNext ==
  \\E n \\in Kids(cursor) :
    /\\ cursor' = n
    /\\ LET e == Events[Nodes[n]] IN IF e[1] = "End" THEN UNCHANGED traced ELSE Step(e)
    /\\ Nodes[n + 1] = 0 => PrintT(n)
"""


_DATA = """\
---- MODULE {data} ----
EXTENDS Integers
Events == {events}
Answers == {answers}
Views == {views}
Nodes == {nodes}
Branches == {branches}
Starts == {starts}
====
"""


def sources(
    tree: Tree, kind: Kind, arms: str, definitions: Mapping[str, str], extra: str = ""
) -> dict[str, str]:
    """The module that runs, and the tables in one of their own: SANY looks through every line of a
    root module for a PlusCal algorithm, which takes longer than TLC takes for the traces."""
    run = _RUN.format(
        root=ROOT,
        data=DATA,
        extends=kind.root,
        definitions="\n".join(f"{name} == {value}" for name, value in definitions.items()),
        overrides=kind.overrides,
        init=kind.init,
        arms=arms,
    )
    data = _DATA.format(
        data=DATA,
        events=_tuple(tree.events),
        answers=_tuple(tree.answers),
        views=_tuple(tree.views),
        nodes=_tuple(map(str, tree.nodes)),
        branches=_tuple(f"{{{', '.join(map(str, kids))}}}" for kids in tree.branches),
        starts=_tuple(f"<<{place}, {view}>>" for place, view in tree.starts),
    )
    return {ROOT: f"{run}{extra}====\n", DATA: data}


def config(values: Mapping[str, str], invariants: Sequence[str] = ()) -> str:
    lines = ["CONSTANTS", *(f"  {name} {value}" for name, value in values.items())]
    lines += ["INIT RunInit", "NEXT RunNext"]
    if invariants:
        lines.append(f"INVARIANTS {' '.join(invariants)}")
    return "\n".join(lines) + "\n"


def _tuple(items: Iterable[str]) -> str:
    """A sequence in short lines without blanks: SANY looks through every line for a PlusCal
    algorithm, in a time that grows with the square of the line and with its blanks."""
    rows: list[str] = []
    row = ""
    for item in items:
        if len(row) > 60:
            rows.append(row)
            row = ""
        row += item.replace(", ", ",") + ","
    return "<<" + "\n".join([*rows, row]).removesuffix(",") + ">>"


def arms_of(parsed: Parsed, modules: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """Per action of the spec, the action applied to an event's columns."""
    return {
        action.name: _applied(action, parameters(action, modules), kind)
        for action in parsed.actions(kind.next)
    }


def _applied(action: Definition, names: Sequence[str], kind: Kind) -> str:
    """A parameter that an event says nothing about is any of its values."""
    missing = [name for name in names if name not in {**kind.parameters, **kind.free}]
    if missing:
        raise UserError(
            f"{action.place}: {action.name} has the parameter {missing[0]}, and a trace of "
            f"{kind.module} has nothing for it",
            ExitCode.SHORT,
        )
    free = "".join(f"\\E {name} \\in {kind.free[name]} : " for name in names if name in kind.free)
    given = ", ".join(kind.parameters.get(name, name) for name in names)
    return f"{free}{action.name}({given})" if names else action.name


def parameters(action: Definition, modules: Mapping[str, str]) -> list[str]:
    """The names of an action's parameters, from the source."""
    lines = modules[action.place.module].splitlines()
    head = " ".join(lines[action.place.line - 1 : action.place.line + 1])
    found = re.match(_HEAD.format(name=re.escape(action.name)), head)
    return [] if found is None or not found[1] else re.findall(r"\w+", found[1])


def arms_text(arms: Mapping[str, str], kind: Kind) -> str:
    """The cases of `Take`: faults and what is no step first."""
    named = {f'e[1] = "{name}"': call for name, call in arms.items()}
    cases = {**kind.cases(named), **named}
    return "\n    [] ".join(f"{condition} -> {call}" for condition, call in cases.items())
