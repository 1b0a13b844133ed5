"""The room in the delivery queue beside its model: module DeliverySpace (L6, L7, L9, L12).

An edge is a whole call of the engine on the simulated disk, records and all: the model has the
engine's own sizes. Compared are the items in their order, with payload and reason, the segments,
the bytes in the last one, the bytes of all, and what the files hold; and in every state each
payload size and each record that an item may ask for is refused where the model has no edge.

Mapped: which item is claimed is DeliverySpec's business, here the model says which. A queue full of
items is asked for one more only by the model's count.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

from lychgate._delivery import DeliveryPrograms
from lychgate._delivery_answers import Claimed, Enqueued
from lychgate._delivery_codec import CLAIM_BYTES, ITEM_BYTES, OVERHEAD_BYTES, retry_body
from lychgate._delivery_errors import Result
from lychgate._delivery_files import segment_name
from lychgate._delivery_layout import Limits
from lychgate._delivery_ledger import Item, Ledger
from lychgate._drive import run
from lychgate._op import Program
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import image_of
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.tlc.cfg import constant
from lychgate_tools.tlc.values import parse
from lychgate_tools.walk.beside import View, compare_views
from lychgate_tools.walk.delivery_cells import STANDINGS
from lychgate_tools.walk.delivery_view import DIRECTORY
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import Mismatch


class SpaceWorld:
    """The engine in one state of the graph."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._machine = Machine(image_of({f"{DIRECTORY[1:]}/.keep": b""}))
        self._fs = SimFs(self._machine)
        self._queue = DeliveryPrograms(DIRECTORY, side.limits, self._fs)
        run(self._queue.open(), self._fs)

    def close(self) -> None:
        self._fs.kill()

    # --- following an edge ----------------------------------------------------------------------

    def step(self, source: int, action: str, target: int) -> None:
        before, after = self._side.items(source), self._side.items(target)
        if action == "Enqueue":
            program: Program[Any] = self._queue.enqueue(bytes(after[-1]["size"]))
        else:
            k = _changed(before, after) if action != "Claim" else self._claimed(source, target)
            program = self._program(action, k, after)
        answer = self._run(program)
        result = answer.result if isinstance(answer, (Claimed, Enqueued)) else answer
        if result is not Result.OK:
            raise Mismatch(f"{action} answers {result}")

    def _claimed(self, source: int, target: int) -> int:
        """The item of a claim; of one that was claimed before, any: its record is as long."""
        before, after = self._side.items(source), self._side.items(target)
        claimed = [k for k, item in enumerate(before) if item["st"] == "c"]
        return _changed(before, after) if before != after else claimed[0]

    def _program(self, action: str, k: int, after: tuple[Any, ...]) -> Program[Any]:
        item = list(self._queue._ledger.items.values())[k]
        self._chosen = item
        if action == "Claim":
            return self._queue.claim(1000)
        if action == "Retry":
            return self._queue.retry(item.sequence, 0, None)
        if action == "Ack":
            return self._queue.ack(item.sequence, None)
        return self._queue.quarantine(item.sequence, bytes(after[k]["reason"]), None)

    def _run(self, program: Program[Any]) -> object:
        with mock.patch.object(Ledger, "choose", lambda ledger, now: self._chosen):
            return run(program, self._fs)

    _chosen: Item | None = None

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, state: int) -> None:
        log = self._queue._log
        engine: View = {
            "items": tuple(map(_shown, self._queue._ledger.items.values())),
            "log": tuple(log.fill),
            "bytes": log.size,
            "bytes on the disk": self._on_disk(),
        }
        bytes_ = self._side.value(state, "bytes")
        model: View = {
            "items": tuple((i["size"], i["st"], i["reason"]) for i in self._side.items(state)),
            "log": self._side.value(state, "log"),
            "bytes": bytes_,
            "bytes on the disk": bytes_,
        }
        compare_views(engine, model)
        self._check_refusals(state)

    def _on_disk(self) -> int:
        """Bytes of the selected generation; what a compaction has left behind is gone."""
        nodes, log = self._machine.disk.nodes, self._queue._log
        entries = self._machine.directory(DIRECTORY).entries
        names = [segment_name(log.generation, segment.number) for segment in log.segments]
        assert set(entries) - {".keep"} == {
            "queue.lock", "queue.format", "queue.manifest", *names
        }  # fmt: skip
        return sum(len(nodes[entries[name]].data) for name in names)

    def _check_refusals(self, state: int) -> None:
        """What has no edge is refused: payloads for which there is no room with that of their
        ends."""
        graph, items = self._side.graph, self._side.items(state)
        taken = {
            self._side.items(target)[-1]["size"]
            for action, target in graph.edges[state]
            if action == "Enqueue"
        }
        if len(items) == self._side.limits.items_max and taken:
            raise Mismatch("the model takes more items than there may be")
        for size in self._side.payloads - taken:
            answer = self._run(self._queue.enqueue(bytes(size)))
            if answer != Enqueued(Result.FULL):
                raise Mismatch(f"a payload of {size} bytes: {answer}, and the model has no edge")


def _changed(before: tuple[Any, ...], after: tuple[Any, ...]) -> int:
    """The item that an edge is about."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((k for k, (old, new) in pairs if old != new), len(after))


def _shown(item: Item) -> tuple[int, str, int]:
    return item.payload_bytes, STANDINGS[item.state], len(item.reason)


class Side:
    """DeliverySpace beside the engine, for `lychgate walk`."""

    rebuilds: frozenset[str] = frozenset()

    def __init__(self, graph: Graph, config: str) -> None:
        self.graph = graph
        sizes = {
            "ItemBytes": ITEM_BYTES,
            "ClaimBytes": CLAIM_BYTES,
            "RetryBytes": OVERHEAD_BYTES + len(retry_body(0, 0)),
            "AckBytes": OVERHEAD_BYTES,
            "SpareBytes": CLAIM_BYTES,
        }
        for name, size in sizes.items():
            if constant(config, name) != str(size):
                raise Mismatch(f"{name} of the engine is {size}: the model cannot be walked")
        reason, segment, segments, items = (
            int(constant(config, name)) for name in ("ReasonMax", "SegBytes", "SegMax", "ItemsMax")
        )
        self.limits = Limits(items, reason, segment, segments)
        payloads: Any = parse(constant(config, "Payloads"))
        self.payloads: frozenset[int] = payloads

    def value(self, state: int, variable: str) -> Any:
        return self.graph.value(state, variable)

    def items(self, state: int) -> tuple[Any, ...]:
        found: Any = self.graph.value(state, "items")
        assert isinstance(found, tuple)
        return found

    def starts(self) -> list[int]:
        """An empty queue: which history has led to a state, its numbers do not tell."""
        return list(self.graph.initial)

    def world(self, state: int) -> SpaceWorld:
        return SpaceWorld(self)
