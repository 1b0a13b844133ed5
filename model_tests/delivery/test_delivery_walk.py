"""The engine beside TLC's state graph of spec/Delivery.tla: no step without an edge (L2, L10, L11).

Random scripts run on the simulated disk. After each step the graph's states that agree with the
steps so far, and with the files as they are now (names, and records in each), are kept: none left
is a step that the spec does not have. Reading and opening are no steps of the model, or one each.
Every label of the graph must have been taken in the end.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from delivery.delivery_lab import PATH

from lychgate._delivery import DeliveryPrograms
from lychgate._delivery_codec import Record, State, records
from lychgate._delivery_files import parse_segment_name
from lychgate._delivery_layout import Limits
from lychgate._op import Program
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import cached_image, image_of
from lychgate_conformance.lab._simfs import SimFs
from lychgate_tools.spec_dir import Spec
from lychgate_tools.walk.graph import Graph, load

LIMITS = Limits(items_max=9, payload_bytes_max=8, segment_bytes=200, segments_max=1)
"""Three records of any kind in the one segment, never four: `Room` and `SegMax` of the model."""

SILENT = frozenset(("ReadMeta", "ReadSegment"))
UNSEEN = frozenset(
    ("OpenLock", "LockTry", "CheckLock", "CloseLock", "MakeDir", "FsyncParent", "OpenMeta")
    + ("CloseMeta", "OpenSegment", "CloseSegment", *SILENT)
)
Shape = frozenset[tuple[str, int]]


class Walker:
    """The states of the graph in which the engine may be."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.shapes: dict[int, Shape] = {}
        self.taken: set[tuple[int, str, int]] = set()
        self.labels: set[str] = set()
        self.now: set[int] = set()

    def restart(self) -> None:
        self.now = set(self.graph.initial)
        self.way: list[str] = []

    def shape(self, state: int) -> Shape:
        """Names and cells, as the model has them."""
        known = self.shapes.get(state)
        if known is None:
            fs: Any = self.graph.value(state, "fs")
            names = [(name, inode) for name, inode in fs["dir"].items() if inode]
            known = frozenset((name, len(fs["ino"][inode - 1]["mem"])) for name, inode in names)
            self.shapes[state] = known
        return known

    def step(self, label: str, shape: Shape) -> None:
        """One step of the engine, and the files after it."""
        self.way.append(label)
        before = self.quietly()
        moves = [
            (state, label, after)
            for state in before
            for action, after in self.graph.edges[state]
            if action == label and self.shape(after) == shape
        ]
        assert moves, f"the spec has no such step: {' '.join(self.way)}; files {sorted(shape)}"
        self.taken.update(moves)
        self.labels.add(label)
        self.now = {after for _, _, after in moves}

    def killed(self, shape: Shape) -> None:
        """SIGKILL; before its first step of the model, and after its last, there is nobody."""
        if any(self.graph.value(state, "pc") == "down" for state in self.now):
            self.now = {s for s in self.now if self.graph.value(s, "pc") == "down"}
        else:
            self.step("Kill", shape)

    def quietly(self) -> set[int]:
        """Where reading alone may have led."""
        todo, found = list(self.now), set(self.now)
        while todo:
            for action, after in self.graph.edges[todo.pop()]:
                if action in SILENT and after not in found:
                    found.add(after)
                    todo.append(after)
        return found

    def at_rest(self, states: dict[int, str]) -> None:
        """The items that the engine has in memory are those of the model."""
        fitting = {
            state
            for state in self.quietly()
            if self.graph.value(state, "pc") == "idle"
            and _standing(self.graph, state, 1) == states.get(1, "-")
        }
        assert fitting, f"memory differs: {states} after {' '.join(self.way)}"
        self.now = fitting


def _standing(graph: Graph, state: int, number: int) -> str:
    me: Any = graph.value(state, "me")
    standing = str(me["st"][number - 1])
    return "q" if standing in "xy" else standing


def files_of(machine: Machine) -> Shape:
    """Names and cells of the simulated disk: two a record, as in the model."""
    found: list[tuple[str, int]] = []
    for path, data in cached_image(machine.disk).files().items():
        name = path.rpartition("/")[2]
        place = parse_segment_name(name)
        if place is not None:
            cells = 2 * sum(isinstance(one, Record) for one in records(data, *place))
            found.append((f"g{place[0]}s{place[1]}", cells))
        elif name != "queue.lock":
            found.append((name.removeprefix("queue."), 2 if data else 0))
    return frozenset(found)


class Killed(Exception):
    """SIGKILL, at the step that was drawn."""


class Script:
    """One random life of a queue, within the numbers of the model."""

    def __init__(self, walker: Walker, seed: int) -> None:
        self.walker = walker
        self.dice = random.Random(seed)
        self.machine = Machine(image_of({}))
        self.kill_at = self.dice.choice((-1, self.dice.randrange(60)))
        self.steps = 0
        self.opens, self.closes = 0, 0
        self.compacted = False

    def run(self) -> None:
        self.walker.restart()
        self.open()
        for _ in range(12):
            try:
                if not self.act():
                    return
            except Killed:
                self.kill_at = -1
                self.fs.kill()
                self.walker.killed(files_of(self.machine))
                if self.opens == 2:
                    return
                self.open()

    def open(self) -> None:
        self.opens += 1
        self.fs = SimFs(self.machine)
        self.queue = DeliveryPrograms(PATH, LIMITS, self.fs)
        try:
            self.drive(self.queue.open())
        except Killed:
            self.kill_at = -1
            self.fs.kill()
            self.walker.killed(files_of(self.machine))
            if self.opens < 2:
                self.open()
            return
        self.rest()

    def rest(self) -> None:
        names = {State.PENDING: "p", State.CLAIMED: "c", State.QUARANTINED: "q"}
        items = self.queue._ledger.items.values()
        self.walker.at_rest({item.sequence: names[item.state] for item in items})

    def act(self) -> bool:
        """One call; whether there may be another."""
        stats = self.queue.stats()
        full = stats["log_bytes"] > 160  # three records
        if stats["poisoned"] or full and self.compacted:
            return False  # the model has one compaction
        self.compacted |= full
        self.machine.clock += 10.0
        if self.closes == 0 and self.opens < 2 and self.dice.random() < 0.15:
            self.closes += 1
            self.drive(self.queue.close())
            self.open()
            return True
        if stats["sequence_high"] == 0:
            self.drive(self.queue.enqueue(b"a"))
        elif not stats["items"] or stats.get("items_quarantined"):
            return False
        else:
            self.drive(next(self.choices()))
        self.rest()
        return True

    def choices(self) -> Iterator[Program[object]]:
        if self.queue.items()[0].state == "leased" or self.queue._ledger.items[1].attempts:
            claimed = self.queue._ledger.items[1].state is State.CLAIMED
            draw = self.dice.random()
            if claimed and draw < 0.45:
                yield self.queue.retry(1, 0, None)
            if claimed and draw < 0.6:
                yield self.queue.ack(1, None)
            if claimed and draw < 0.7:
                yield self.queue.quarantine(1, "no", None)
        yield self.queue.claim(1000)

    def drive(self, program: Program[object]) -> None:
        value: object = None
        error: OSError | None = None
        try:
            while True:
                op = program.send(value) if error is None else program.throw(error)
                value = error = None
                self.steps += 1
                if self.steps == self.kill_at:
                    raise Killed
                try:
                    value = op.perform(self.fs)
                except OSError as raised:
                    error = raised
                if error is None and op.action not in UNSEEN:
                    self.walker.step(op.action, files_of(self.machine))
        except StopIteration:
            return
        finally:
            program.close()


def test_every_step_has_its_edge() -> None:
    """L2, L7, L10, L11: 400 random lives with a kill anywhere, each step and each file compared."""
    spec = Spec(Path(__file__).parents[2] / "spec")
    graph = load(spec.modules(), "Delivery", spec.config("models/DeliveryWalk.cfg"))
    walker = Walker(graph)
    for seed in range(400):
        Script(walker, seed).run()
    labels = {label for edges in graph.edges for label, _ in edges} - SILENT - {"Done"}
    assert labels - walker.labels <= {"KillInWrite"}, labels - walker.labels
    assert len(walker.taken) > 1000
