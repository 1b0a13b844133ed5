"""Why a trace was rejected: the first step that no step of the spec matches, and the false guard.

Two runs of TLC on the one trace. The first prints every node that is reached. The second stops in
the last states that match and looks at the next event: it takes the spec's action without looking
at what the trace saw, and evaluates the action's conjuncts in their order. Either the action can be
taken, and answer or view differ; or the first conjunct that cannot be true together with those
before it is the guard that is false.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lychgate_tools.tlc.runner import Task
from lychgate_tools.tlc.sany import ACTION, Definition, Node, Place
from lychgate_tools.tlc.values import ValueSyntaxError, parse, render
from lychgate_tools.trace import module
from lychgate_tools.trace.check import Batch, Checker, failure
from lychgate_tools.trace.format import Event, Trace
from lychgate_tools.trace.kind import Kind
from lychgate_tools.trace.module import Tree
from lychgate_tools.ui import UserError


@dataclass(frozen=True)
class Rejection:
    """The step that does not match, and why. `guard` and `place` are empty if a view differs."""

    trace: Trace
    event: Event
    action: str
    reason: str
    guard: str = ""
    place: str = ""

    def __str__(self) -> str:
        where = f"{self.trace.name}:{self.event.line}"
        return f"{where}: {self.event.who} took {said(self.event)}; {self.reason}"


def said(event: Event) -> str:
    """The step as a person names it."""
    words = " ".join(str(value) for value in event.args.values() if value != "")
    ending = f" ({event.error})" if event.error else ""
    return f"{event.action}{' ' + words if words and event.action == 'Call' else ''}{ending}"


@dataclass(frozen=True)
class _Conjunct:
    text: str  # as a definition's body, in its columns, with the LETs around it
    plain: str  # in one line, as it stands in the spec
    place: Place
    guards: bool  # whether it speaks of the state alone
    left: str = ""  # what is compared, to show its value


def explain(checker: Checker, batch: Batch, trace: Trace) -> Rejection:
    """Why `trace`, one of the rejected traces of `batch`, was rejected."""
    kind = batch.kind
    tree = module.lay_out([trace], kind)
    assert len(tree.nodes) == len(trace.events) + 2, "one trace is one spine"
    lines = _run(checker, batch, tree, _PROGRESS)
    reached = [int(line) for line in lines if line.isdigit()]
    last = max(reached, default=1)
    event = trace.events[last - 1]
    action = _action(checker, kind, event)
    conjuncts = _conjuncts(checker, action) if action is not None else []
    extra = _diagnosis(checker, kind, action, conjuncts, last)
    try:
        lines = _run(checker, batch, tree, extra)
    except UserError:  # a conjunct that has no value in a state where its action is out of place
        lines = []
    return _verdict(kind, trace, event, action, conjuncts, lines)


_PROGRESS = """
WatchNext == RunNext /\\ PrintT(cursor')
"""


def _run(checker: Checker, batch: Batch, tree: Tree, extra: str) -> list[str]:
    """What TLC prints for the one trace, with `WatchNext` of `extra` as the next-state relation.
    The constants are those of the whole batch, so that nothing else is another."""
    kind = batch.kind
    definitions, values = kind.constants(batch.traces)
    arms = module.arms_text(checker.arms(kind), kind)
    texts = module.sources(tree, kind, arms, definitions, extra)
    task = Task(
        modules={**checker.modules, **texts},
        root=module.ROOT,
        config=module.config(values).replace("NEXT RunNext", "NEXT WatchNext"),
        deadlock=False,
        coverage=False,
        memory=checker.limits.memory,
        timeout_s=checker.limits.timeout_s,
    )
    run = checker.runner.run(task)
    if run.verdict.outcome != "ok":
        raise failure(kind, run.verdict)
    return run.output.loose


def _action(checker: Checker, kind: Kind, event: Event) -> Definition | None:
    name = {"fail": "Failing", "short": "Shortened"}.get(event.how, event.action)
    if checker.parsed(kind).named(name) is None:
        name = event.action
    return checker.parsed(kind).named("Told" if name == "Return" else name)


# --- conjuncts --------------------------------------------------------------------------------


def _conjuncts(checker: Checker, action: Definition) -> list[_Conjunct]:
    lines = checker.modules[action.place.module].splitlines()
    return list(_split(action.body, lines, ""))


def _split(node: Node, lines: list[str], lets: str) -> list[_Conjunct]:
    if node.name in ("$ConjList", "\\land"):
        return [one for operand in node.operands for one in _split(operand, lines, lets)]
    if node.kind == "LetInNode" and node.operands:
        ends = (node.place.end_line, node.place.end_column)
        body = next(
            one for one in node.operands if (one.place.end_line, one.place.end_column) == ends
        )
        head = _cut(lines, node.place.line, node.place.column, body.place.line, body.place.column)
        return _split(body, lines, lets + head + "\n")
    place = node.place
    text = _cut(lines, place.line, place.column, place.end_line, place.end_column + 1)
    compared = node.name in ("=", "\\in", "#") and node.operands and node.level < ACTION
    left = ""
    if compared:
        spot = node.operands[0].place
        left = _cut(lines, spot.line, spot.column, spot.end_line, spot.end_column + 1)
    plain = " ".join(text.split())
    return [_Conjunct(lets + text, plain, place, node.level < ACTION, lets + left if left else "")]


def _cut(lines: list[str], line: int, column: int, end_line: int, end_column: int) -> str:
    """The text between two places, in its columns: bullets mean what they meant."""
    part = lines[line - 1 : end_line]
    part[-1] = part[-1][: end_column - 1]
    part[0] = " " * (column - 1) + part[0][column - 1 :]
    return "\n".join(part)


def _diagnosis(
    checker: Checker,
    kind: Kind,
    action: Definition | None,
    conjuncts: list[_Conjunct],
    last: int,
) -> str:
    """What is put behind the module: conjuncts as operators, and the step that prints them."""
    names = module.parameters(action, checker.modules) if action is not None else []
    head = f"({', '.join(names)})" if names else ""
    call = f"({', '.join(_column(kind, name) for name in names)})" if names else ""
    parts: list[str] = []
    for number, one in enumerate(conjuncts, start=1):
        parts.append(f"Part{number}{head} ==\n{one.text}")
        if one.left:
            parts.append(f"Left{number}{head} ==\n{one.left}")
    tests = "\n".join(
        f"         ELSE IF ~ {_so_far(conjuncts, number, call)}\n"
        f'         THEN PrintT(<<"false", {number}>>)'
        + (f' /\\ PrintT(<<"left", ToString(Left{number}{call})>>)' if one.left else "")
        for number, one in enumerate(conjuncts, start=1)
    )
    return "\n".join(parts) + _DIAGNOSIS.format(last=last, tests=tests)


def _so_far(conjuncts: list[_Conjunct], number: int, call: str) -> str:
    """The conjunct itself, or, where it speaks of the next state, all up to it."""
    if conjuncts[number - 1].guards:
        return f"Part{number}{call}"
    together = " /\\ ".join(f"Part{one}{call}" for one in range(1, number + 1))
    return f"ENABLED ({together})"


def _column(kind: Kind, name: str) -> str:
    if name in kind.free:
        return f"CHOOSE {name} \\in {kind.free[name]} : TRUE"
    return {"a": "e[1]", "f": "e[3]", "x": "Answers[e[4]]"}.get(name) or kind.parameters[name]


_DIAGNOSIS = """
Tried(e) ==
  \\/ /\\ (IF ~Sane(e[1], Answers[e[4]]) THEN PrintT(<<"false", 0>>)
{tests}
         ELSE TRUE)
     /\\ e[2] # "" => PrintT(<<"stands", ToString(Stands(e[2], e[3]))>>)
     /\\ FALSE
  \\/ /\\ Sane(e[1], Answers[e[4]])
     /\\ Take(e)
     /\\ PrintT(<<"answer", ToString(Answer(e[1], e[2], e[3], Answers[e[4]]))>>)
     /\\ PrintT(<<"view", ToString(View')>>)
     /\\ FALSE
WatchNext ==
  IF cursor < {last} THEN RunNext
  ELSE cursor = {last} /\\ cursor' = {last} + 1 /\\ Tried(Events[Nodes[{last} + 1]])
"""


# --- reading what TLC printed -------------------------------------------------------------------

_KEYS = "false|left|stands|answer|view"
_PAIR = re.compile(rf'<<"({_KEYS})", (.*?)>>(?=\s*(?:<<"(?:{_KEYS})"|\Z))', re.S)


def _verdict(
    kind: Kind,
    trace: Trace,
    event: Event,
    action: Definition | None,
    conjuncts: list[_Conjunct],
    lines: list[str],
) -> Rejection:
    found: dict[str, str] = {}
    for key, value in _PAIR.findall("\n".join(lines)):
        found.setdefault(key, value)
    name = event.action if action is None else action.name
    if "view" in found:
        return Rejection(trace, event, name, _differs(kind, event, found))
    if "false" not in found:
        return Rejection(trace, event, name, f"{name} is not possible here")
    number = int(found["false"])
    if number == 0:
        return Rejection(trace, event, name, f"{render(event.tokens)} cannot be said of {name}")
    guard = conjuncts[number - 1]
    value = f", {_one_line(guard.left)} is {_text_of(found['left'])}" if "left" in found else ""
    if not value and "stands" in found:
        value = f", {event.who} stands at {_text_of(found['stands'])}"
    reason = f"the guard `{guard.plain}` of {name} is false ({guard.place}{value})"
    return Rejection(trace, event, name, reason, guard.plain, str(guard.place))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _text_of(quoted: str) -> str:
    """A string that TLC printed, without its quotes."""
    return " ".join(quoted.strip().removeprefix('"').removesuffix('"').replace('\\"', '"').split())


def _differs(kind: Kind, event: Event, found: Mapping[str, str]) -> str:
    """The action can be taken, but what the trace saw is not what the spec gives."""
    answer, view = _text_of(found.get("answer", "")), _text_of(found["view"])
    if event.how == "ok" and answer and _value(answer) != render(event.tokens):
        gave = render(event.tokens)
        return f"the spec gives {_value(answer)} where the trace has {gave}"
    seen = kind.view(event.seen)
    if _value(view) != _value(seen):
        return f"afterwards the spec shows {_value(view)} and the trace {_value(seen)}"
    return "the spec's action is another choice of the same name"


def _value(text: str) -> str:
    try:
        return render(parse(text))
    except ValueSyntaxError:
        return text
