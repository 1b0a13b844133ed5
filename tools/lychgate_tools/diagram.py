"""`lychgate diagram`: state diagrams of the protocols, drawn from TLC's graph.

Rules of this file
  * Nothing of a protocol is written down here. A diagram is a projection: of every state of a quick
    model only the place of one actor is kept (a fiber's next step, what became of a task), and an
    edge is drawn for every step that changes it, under the names that the spec gives to steps.
  * To be read, it is reduced: an edge that starts at most places is drawn once, from `anywhere`;
    edges between the same two places share an arrow; what else is left out, its title says.
  * Text and Mermaid need nothing; SVG is drawn by Graphviz, where `dot` is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lychgate_tools import manifest as manifests
from lychgate_tools.spec_dir import Spec, locate
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    print_json,
    unknown,
    wrapped,
)
from lychgate_tools.walk import graph, sides

ANYWHERE = "anywhere"
_MOST = 0.5
"""The share of places from which an edge must start to be drawn once."""
_LABEL_MAX = 3
"""Names of steps on one arrow; further ones are counted."""

State = Callable[[str], Any]
"""A state of the graph: gives the value of a variable, whose shape the projection knows."""
Places = Mapping[Any, str]
"""Where each actor is."""


@dataclass(frozen=True)
class Diagram:
    """What is drawn, from which model."""

    about: str
    model: str
    places: Callable[[State], Places]
    leaves_out: tuple[str, ...] = ()
    """Steps that are not drawn begin with one of these."""


@dataclass(frozen=True)
class Drawn:
    """A reduced diagram: arrows with the steps that take them, in a fixed order."""

    name: str
    about: str
    model: str
    initial: tuple[str, ...]
    arrows: tuple[tuple[str, str, tuple[str, ...]], ...]

    def nodes(self) -> list[str]:
        ends = [end for source, target, _ in self.arrows for end in (source, target)]
        return list(dict.fromkeys([*self.initial, *ends]))


# --- projections ------------------------------------------------------------------------------


def _fibers(at: State) -> Places:
    """Lock and DeadTasks: the next step of each fiber of each worker."""
    return {(w, f): str(step) for w, fibers in at("pc").items() for f, step in fibers.items()}


def _calls(name: str) -> Callable[[State], Places]:
    """The same, of fibers in one kind of call; all others are idle."""

    def places(at: State) -> Places:
        jobs = at("job")
        return {
            (w, f): step if step == "down" or jobs[w][f]["op"] == name else "idle"
            for (w, f), step in _fibers(at).items()
        }

    return places


def _one(at: State) -> Places:
    return {"": str(at("pc"))}


def _workers(at: State) -> Places:
    return {worker: str(step) for worker, step in at("pc").items()}


def _queue_tasks(at: State) -> Places:
    """What became of each task: in which stores it is, and whether a fiber has it in hand."""
    in_hand = set(at("cur").values())
    found = {}
    for task, entry in at("task").items():
        stores = [
            name for name, it in (("waiting", entry), ("dead", at("dead")[task])) if it["now"]
        ]
        place = " and ".join(stores) or ("gone" if task in at("used") else "not made")
        found[task] = f"{place}, in hand" if task in in_hand else place
    return found


def _sql_tasks(at: State) -> Places:
    """What the committed rows say of each task."""
    found = {}
    for task in at("n"):
        if task in at("here"):
            owned = str(at("owner")[task]) != "Nobody"
            found[task] = "claimed" if owned else "not due" if at("wait")[task] else "due"
        else:
            made = "gone" if task in at("used") else "not made"
            found[task] = "dead" if task in at("dead") else made
    return found


_WELL = ", when no system call fails"
_FAILS = ("Fail", "KillIn")

DIAGRAMS: dict[str, Diagram] = {
    "lock": Diagram("the next step of a fiber that takes the lock", "LockLive", _fibers),
    "dead-add": Diagram(f"an add of a dead task{_WELL}", "DeadTasksNew", _calls("add"), _FAILS),
    "dead-remove": Diagram(f"a removal{_WELL}", "DeadTasksNew", _calls("remove"), _FAILS),
    "dead-list": Diagram(f"a list{_WELL}", "DeadTasksNew", _calls("list"), _FAILS),
    "journal": Diagram("the next step of the rejected journal", "Journal", _one),
    "wal": Diagram("the next step of a worker and its WAL", "WalKill", _workers),
    "queue-fiber": Diagram("the next step of a fiber of the queue", "Queue", _workers),
    "queue-task": Diagram("what becomes of a task on disk", "Queue", _queue_tasks),
    "sql-task": Diagram("what the committed rows say of a task", "Sql", _sql_tasks),
    "delivery": Diagram("the next step of the delivery queue", "DeliveryKill", _one),
}
"""Every diagram, by name."""


# --- drawing ----------------------------------------------------------------------------------


def draw(name: str, spec: Spec) -> Drawn:
    """Project the model's graph, and reduce it. Runs TLC where the graph is not in the cache."""
    diagram = DIAGRAMS[name]
    models = manifests.load(spec.manifest).models
    model = next(it for it in models if it.name == diagram.model)
    root, config = sides.plain(model.module, spec.config(model.config))
    found = graph.load(spec.modules(), root, config)
    places = [_projected(found, state, diagram) for state in range(len(found.states))]
    initial = {place for state in found.initial for place in places[state].values()}
    arrows: dict[tuple[str, str], set[str]] = {}
    for source, out in enumerate(found.edges):
        for action, target in out:
            if action.startswith(diagram.leaves_out):
                continue
            before, after = places[source], places[target]
            for actor, place in before.items():
                if place != after.get(actor, place):
                    arrows.setdefault((place, after[actor]), set()).add(action)
    return Drawn(name, diagram.about, model.name, tuple(sorted(initial)), _reduced(arrows))


def _projected(found: graph.Graph, state: int, diagram: Diagram) -> Places:
    return diagram.places(lambda variable: found.value(state, variable))


def _reduced(
    arrows: Mapping[tuple[str, str], Iterable[str]],
) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """Arrows that start at most places, under one name, become one."""
    places = {end for arrow in arrows for end in arrow}
    starts: dict[tuple[str, str], set[str]] = {}
    for (source, target), actions in arrows.items():
        for action in actions:
            starts.setdefault((action, target), set()).add(source)
    common = {key for key, found in starts.items() if len(found) > _MOST * len(places)}
    reduced: dict[tuple[str, str], set[str]] = {}
    for (source, target), actions in arrows.items():
        for action in actions:
            start = ANYWHERE if (action, target) in common else source
            reduced.setdefault((start, target), set()).add(action)
    return tuple((*ends, tuple(sorted(steps))) for ends, steps in sorted(reduced.items()))


def as_text(drawn: Drawn) -> str:
    """One line for each arrow."""
    lines = [f"{drawn.name}: {drawn.about} (model {drawn.model})"]
    lines.append(f"begins: {', '.join(drawn.initial)}")
    for source, target, steps in drawn.arrows:
        lines += wrapped(f"{source} -> {target}: {', '.join(steps)}", "  ", "      ")
    return "\n".join(lines)


def as_mermaid(drawn: Drawn) -> str:
    """A Mermaid state diagram."""
    ids = {node: f"s{number}" for number, node in enumerate(drawn.nodes())}
    lines = ["stateDiagram-v2"]
    lines += [f'  state "{node}" as {short}' for node, short in ids.items()]
    lines += [f"  [*] --> {ids[node]}" for node in drawn.initial]
    lines += [f"  {ids[a]} --> {ids[b]}: {_label(a, b, steps)}" for a, b, steps in drawn.arrows]
    return "\n".join(lines)


def as_dot(drawn: Drawn) -> str:
    """Graphviz: programs of a worker (`start.ClaimOpen`) as boxes around their steps."""
    lines = [f'digraph "{drawn.name}" {{']
    lines.append('  graph [rankdir=TB, fontname="sans-serif", bgcolor="transparent", nodesep=0.25]')
    lines.append('  node [shape=box, style="rounded,filled", fillcolor="#f4f1ea", color="#6b6459",')
    lines.append('        fontname="sans-serif", fontsize=11, margin="0.12,0.06", height=0.3]')
    lines.append('  edge [color="#6b6459", fontname="sans-serif", fontsize=9, arrowsize=0.7]')
    clusters: dict[str, list[str]] = {}
    for node in drawn.nodes():
        clusters.setdefault(node.rpartition(".")[0], []).append(node)
    for number, (program, nodes) in enumerate(clusters.items()):
        inside = [f"    {_node(node, drawn)}" for node in nodes]
        if program:
            inside.insert(0, f'    label="{program}"; fontname="sans-serif"; color="#c9c2b4"')
            inside = [f"  subgraph cluster_{number} {{", *inside, "  }"]
        lines += inside
    for source, target, steps in drawn.arrows:
        dashed = ", style=dashed" if source == ANYWHERE else ""
        label = _label(source, target, steps)
        lines.append(f'  "{source}" -> "{target}" [label="{label}"{dashed}]')
    return "\n".join([*lines, "}"])


def _node(node: str, drawn: Drawn) -> str:
    bold = ", penwidth=2" if node in drawn.initial else ""
    dashed = ', style="dashed,rounded"' if node == ANYWHERE else ""
    return f'"{node}" [label="{node.rpartition(".")[2]}"{bold}{dashed}]'


def _label(source: str, target: str, steps: tuple[str, ...]) -> str:
    """The steps of an arrow; none where the place it leaves has the step's name."""
    if steps == (source.rpartition(".")[2],):
        return ""
    shown = ", ".join(steps[:_LABEL_MAX])
    return shown if len(steps) <= _LABEL_MAX else f"{shown} and {len(steps) - _LABEL_MAX} more"


_DIGEST = re.compile(r"<!-- lychgate diagram: ([0-9a-f]{16}) -->")
_COMMENT = re.compile(r"<!--.*?-->\s*", re.S)


def digest(drawn: Drawn) -> str:
    """What an SVG file must carry to be of this graph."""
    return hashlib.sha256(as_dot(drawn).encode("utf-8")).hexdigest()[:16]


def as_svg(drawn: Drawn) -> str:
    """Drawn by Graphviz; carries the digest of what it was drawn from."""
    dot = shutil.which("dot")
    if dot is None:
        remedy = "install Graphviz (`apt-get install graphviz`), or take --format mermaid"
        raise UserError(f"no `dot` on PATH: {remedy}", ExitCode.INCONCLUSIVE)
    done = subprocess.run([dot, "-Tsvg"], input=as_dot(drawn), capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"dot failed: {done.stderr.strip()}", ExitCode.FAULT)
    body = done.stdout[done.stdout.index("<svg") :]
    return f"<!-- lychgate diagram: {digest(drawn)} -->\n{_COMMENT.sub('', body)}"


def digest_in(svg: str) -> str:
    """The digest that an SVG file carries; empty where it is none of ours."""
    found = _DIGEST.search(svg)
    return found[1] if found else ""


# --- the command ------------------------------------------------------------------------------

FORMATS: dict[str, Callable[[Drawn], str]] = {
    "text": as_text,
    "mermaid": as_mermaid,
    "dot": as_dot,
    "svg": as_svg,
}

_EXAMPLE = """lychgate diagram lock
  lychgate diagram sql-task --format mermaid
  lychgate diagram --format svg --output docs/diagrams

exit codes:
  0 drawn   2 Graphviz or Java is missing   4 usage   130 interrupted"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "diagram", "draw the state diagrams of the protocols from TLC's graph", _EXAMPLE
    )
    names = ", ".join(DIAGRAMS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all of them, or some: {names}")
    parser.add_argument("--format", choices=tuple(FORMATS), default="text", help="(default: text)")
    parser.add_argument("--output", metavar="DIR", type=Path, help="a file for each, in DIR")
    parser.add_argument("--spec", metavar="DIR", help="the spec (default: the one of this package)")


def run(args: argparse.Namespace) -> int:
    for name in args.names:
        if name not in DIAGRAMS:
            raise unknown("diagram", name, DIAGRAMS)
    names = args.names or list(DIAGRAMS)
    spec = locate(args.spec)
    found = []
    with Progress("drawing", len(names), "diagrams") as progress:
        for done, name in enumerate(names):
            progress.update(done, name)
            found.append(draw(name, spec))
    if args.json:
        print_json([_fields(drawn) for drawn in found])
    for drawn in found:
        text = FORMATS[args.format](drawn)
        if args.output is not None:
            _keep(args.output / f"{drawn.name}.{_ENDS[args.format]}", text)
        elif not args.json:
            print(text)
    return ExitCode.OK


_ENDS = {"text": "txt", "mermaid": "mmd", "dot": "dot", "svg": "svg"}


def _keep(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text.rstrip()}\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}", ExitCode.USAGE) from error


def _fields(drawn: Drawn) -> dict[str, object]:
    arrows = [{"from": a, "to": b, "steps": list(steps)} for a, b, steps in drawn.arrows]
    about = {"name": drawn.name, "about": drawn.about, "model": drawn.model}
    return {**about, "initial": list(drawn.initial), "arrows": arrows}
