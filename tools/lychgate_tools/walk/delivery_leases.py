"""What callers of the delivery queue may rely on, beside its model: DeliverySpec (L1, L5, L8).

An edge is a whole call of the engine on the simulated disk, or a move of its clock; one tick is a
second. Compared are, of every item, its state, attempts, lease or delay, and reason; the next
number; which item would be claimed now; and what every claim that a consumer holds is answered,
shown and not shown, where the model has no edge. What an acked item once was, the engine forgets.

Any state can be built: a snapshot with its items, behind a clean end. The model does not say
whether a retry showed its receipt, so it does in every other state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lychgate._delivery import DeliveryPrograms
from lychgate._delivery_answers import Claim, Claimed, Enqueued
from lychgate._delivery_codec import (
    FORMAT_MARKER,
    ItemBody,
    Kind,
    Manifest,
    Place,
    encode,
    encode_manifest,
    item_body,
)
from lychgate._delivery_errors import Result
from lychgate._delivery_files import FORMAT, LOCK, MANIFEST, segment_name
from lychgate._delivery_layout import Limits
from lychgate._drive import run
from lychgate._lock import clean_mark
from lychgate._op import Program
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import Content, image_of
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.tlc.cfg import constant
from lychgate_tools.walk.beside import compare_views
from lychgate_tools.walk.delivery_cells import STANDINGS
from lychgate_tools.walk.delivery_view import DIRECTORY
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import Mismatch
from lychgate_tools.walk.wal_view import items

_TICK_MS = 1000
_BOOT = "boot-1"
_STATES = {letter: state for state, letter in STANDINGS.items()}
_REFUSALS = frozenset((Result.ALREADY_DONE, Result.NOT_CLAIMED, Result.CLAIM_LOST))


class LeasesWorld:
    """The engine in one state of the graph."""

    def __init__(self, side: Side, state: int) -> None:
        self._side = side
        self._machine = Machine(image_of(self._files(state)), boot=_BOOT)
        self._set_clock(state)
        self._fs = SimFs(self._machine)
        self._queue = DeliveryPrograms(DIRECTORY, Limits(), self._fs)
        run(self._queue.open(), self._fs)

    def close(self) -> None:
        self._fs.kill()

    def _set_clock(self, state: int) -> None:
        self._machine.clock = self._side.value(state, "now") * _TICK_MS / 1000

    def _files(self, state: int) -> dict[str, Content]:
        data, event, place = b"", 0, Place(1, 1, 0)
        for s, item in self._side.items(state).items():
            if item["st"] in _STATES:
                until, length = item["until"] * _TICK_MS, item["length"] * _TICK_MS
                reason = item["reason"].encode("ascii")
                standing = _STATES[item["st"]]
                body = ItemBody(standing, item["attempt"], until, length, reason, b"%d" % s)
                event += 1
                data += encode(Kind.ITEM, s, event, item_body(body), place)
                place = place._replace(offset=len(data))
        high = self._side.value(state, "next") - 1
        manifest = Manifest(1, 1, len(data), high) if data else Manifest(1, 0, 0, high)
        files: dict[str, bytes] = {
            LOCK: clean_mark(_BOOT), FORMAT: FORMAT_MARKER, MANIFEST: encode_manifest(manifest)
        }  # fmt: skip
        if data:
            files[segment_name(1, 1)] = data
        return {f"{DIRECTORY[1:]}/{name}": content for name, content in files.items()}

    # --- following an edge ----------------------------------------------------------------------

    def step(self, source: int, action: str, target: int) -> None:
        side = self._side
        if action in ("Tick", "Jump"):
            return self._set_clock(target)
        before, after = side.items(source), side.items(target)
        (s,) = [s for s in before if before[s] != after[s]]
        item = after[s]
        if action == "Enqueue":
            self._expect(self._queue.enqueue(b"%d" % s), Enqueued(Result.OK, s))
        elif action == "Claim":
            claim = Claim(s, item["attempt"], item["until"] * _TICK_MS)
            lease = item["length"] * _TICK_MS
            self._expect(self._queue.claim(lease), Claimed(Result.OK, claim))
        elif action == "Retry":
            receipt = item["attempt"] if source % 2 else None
            delay = item["length"] * _TICK_MS
            self._expect(self._queue.retry(s, delay, receipt), Result.OK)
        else:
            ended = dict(items(side.value(target, "ended")))[s]
            receipt = ended[0] if ended else None
            self._expect(self._finish(s, item["st"], item["reason"], receipt), Result.OK)

    def _finish(self, s: int, st: str, reason: str, receipt: int | None) -> Program[Result]:
        if st == "a":
            return self._queue.ack(s, receipt)
        return self._queue.quarantine(s, reason, receipt)

    def _expect(self, program: Program[Any], wanted: object) -> None:
        answer = run(program, self._fs)
        if answer != wanted:
            raise Mismatch(f"the engine answers {answer}, in the model it is {wanted}")

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, state: int) -> None:
        side = self._side
        model: dict[str, object] = {"next": side.value(state, "next")}
        engine: dict[str, object] = {"next": self._queue._ledger.high + 1}
        for s, item in side.items(state).items():
            is_there = item["st"] in _STATES
            model[f"item {s}"] = tuple(item.values()) if is_there else item["st"]
            engine[f"item {s}"] = self._shown(s)
        compare_views(engine, model)
        chosen = self._queue._ledger.choose(self._queue._now_ms())
        wanted = side.claimable(state)
        if wanted is None and chosen is not None and chosen.attempts >= side.attempts_max:
            chosen = None  # the model makes an end of it there
        if (None if chosen is None else chosen.sequence) != wanted:
            raise Mismatch(f"the engine would claim {chosen}, the model item {wanted}")
        self._check_refusals(state)

    def _shown(self, s: int) -> object:
        item = self._queue._ledger.items.get(s)
        if item is None:
            return "a" if s <= self._queue._ledger.high else "-"
        until, length = item.until_ms // _TICK_MS, item.length_ms // _TICK_MS
        return STANDINGS[item.state], item.attempts, until, length, item.reason.decode("ascii")

    def _check_refusals(self, state: int) -> None:
        """Who holds a claim that no longer counts is told, and changes nothing."""
        found = self._side.items(state)
        held = {h for claims in self._side.value(state, "holds").values() for h in claims}
        for s, n in held:
            item = found[s]
            for receipt in (n, None):
                if item["st"] == "c" and receipt in (None, item["attempt"]):
                    continue
                wanted = _REFUSALS if item["st"] in ("p", "c") else {Result.ALREADY_DONE}
                for program in (
                    self._queue.ack(s, receipt),
                    self._queue.retry(s, 0, receipt),
                    self._queue.quarantine(s, "late", receipt),
                ):
                    answer = run(program, self._fs)
                    if answer not in wanted:
                        raise Mismatch(f"item {s}, {item['st']}, receipt {receipt}: {answer}")


class Side:
    """DeliverySpec beside the engine, for `lychgate walk`."""

    rebuilds: frozenset[str] = frozenset()

    def __init__(self, graph: Graph, config: str) -> None:
        self._graph = graph
        self.attempts_max = int(constant(config, "AttemptMax"))

    def value(self, state: int, variable: str) -> Any:
        return self._graph.value(state, variable)

    def items(self, state: int) -> Mapping[int, Mapping[str, Any]]:
        return dict(items(self.value(state, "item")))

    def claimable(self, state: int) -> int | None:
        """The item that the model would claim."""
        before = self.items(state)
        for action, target in self._graph.edges[state]:
            if action == "Claim":
                after = self.items(target)
                return next(s for s in before if before[s] != after[s])
        return None

    def starts(self) -> list[int]:
        """Any state can be built."""
        return list(range(len(self._graph.states)))

    def world(self, state: int) -> LeasesWorld:
        return LeasesWorld(self, state)
