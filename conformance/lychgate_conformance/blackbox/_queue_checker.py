"""What a new process sees of a delivery queue on an image, and whether the queue can go on.

`QueueChecker` is `Checker` with the queue's words: it opens, shows every item and closes. To go on
means: an item is accepted under a number that nobody has, one that can be claimed is claimed and
acked, and whoever opens the queue next sees just that. Every image also keeps the bound of L12,
where that is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from lychgate_conformance._after_crash import View
from lychgate_conformance._queue import Claimed, Item, items_of, open_request, result_of
from lychgate_conformance._store import Call, CallError
from lychgate_conformance._target import Target
from lychgate_conformance._verdict import Failed
from lychgate_conformance._wire import Json, short
from lychgate_conformance.blackbox._checker import STORE, Checker, Left, Outcome
from lychgate_conformance.blackbox._explore import Explorer
from lychgate_conformance.blackbox._images import Bounds
from lychgate_conformance.blackbox._queue_script import QueueScript, QueueView, seen

_LIMIT_S = 30.0
_NOTHING = seen([])
_MANIFESTS_BYTES = 2 * 48


class QueueChecker(Checker):
    """Judges images of one queue."""

    def __init__(self, target: Target, script: QueueScript, boot: int) -> None:
        super().__init__(target, script.frequency, boot)
        self._script = script
        self._bytes_max = bytes_max(script.limits) if target.claims.disk_bound else math.inf

    def _open(self, handle: int, directory: Path) -> Json:
        path = str(directory / STORE)
        return open_request(path, handle, self._script.now_ms, self._script.limits)

    def _look(self, directory: Path) -> list[Json]:
        handle = self._made % 9000 + 1
        opened = self._open(handle, directory)
        if self.offers("crash_check"):
            return [{**opened, "do": "crash_check"}]
        return [opened, *(Call(handle, it).request() for it in ("items", "close"))]

    def _answer(self) -> Outcome:
        replies = [self.host.take(_LIMIT_S)]
        if not self.offers("crash_check"):
            replies += [self.host.take(_LIMIT_S) for _ in range(2)]
        for what, reply in zip(("open", "items", "close"), replies, strict=False):
            if "error" in reply:
                error = reply["error"]
                return Outcome(_NOTHING, f"{what} raised {error['type']}: {error['text'][:200]}")
        shown = replies[0]["ok"]["items"] if len(replies) == 1 else replies[1]["ok"]
        try:
            return Outcome(seen(items_of(shown)))
        except Failed as error:
            return Outcome(_NOTHING, str(error))

    def further(self, left: Left, view: View) -> str:
        size = sum(
            len(content)
            for path, content in ({} if isinstance(left, Path) else left.files()).items()
            if "segment" in path or "manifest" in path
        )
        if size > self._bytes_max:
            return f"{size} bytes of log and manifests; the bound is {self._bytes_max}"
        return super().further(left, view)

    def _further(self, directory: Path, view: View) -> str:
        assert isinstance(view, QueueView)
        handle = self._made % 9000 + 1
        told = self.host.ask(self._open(handle, directory), _LIMIT_S)
        if "error" in told:
            return f"open raised {told['error']['type']}"

        def make(method: str, *args: object) -> object:
            call = Call(handle, method, args)
            return result_of(call, self.host.ask(call.request(), _LIMIT_S))

        try:
            problem = _go_on(make, view)
            shown = make("items")
            make("close")
        except (CallError, Failed) as error:
            return f"used after its recovery: {error}"
        if problem:
            return problem
        for request in self._look(directory):
            self.host.send(request)
        again = self._answer()
        assert isinstance(shown, list)
        if again.error or again.view != seen(shown):
            return f"opened again it shows {again.error or again.view}, not {short(shown)}"
        return ""


def _go_on(make: Callable[..., object], view: QueueView) -> str:
    """What goes wrong when the queue is used; empty when nothing does."""
    seq = make("enqueue", b"after the crash")
    high = max((it.seq for it in view.items), default=0)
    if isinstance(seq, str):
        return "" if seq == "FULL" else f"after its recovery enqueue gives {seq}"
    if not isinstance(seq, int) or seq <= high:
        return f"after its recovery an item has the number {seq}, and {high} is in use"
    waiting = {it.seq for it in view.items if it.state == "available"} | {seq}
    claimed = make("claim", 60_000)
    if not isinstance(claimed, Claimed) or claimed.seq not in waiting:
        return f"after its recovery claim gives {short(claimed)}, not one of {sorted(waiting)}"
    if (said := make("ack", claimed.seq, claimed.receipt)) != "OK":
        return f"after its recovery the ack of a claim gives {said}"
    left = [it for it in _items(make("items")) if it.seq not in (seq, claimed.seq)]
    kept = [it for it in view.items if it.seq != claimed.seq]
    return "" if left == kept else f"after an ack it shows {short(left)}, not {short(kept)}"


def _items(found: object) -> list[Item]:
    assert isinstance(found, list)
    return found


def bytes_max(limits: Mapping[str, object]) -> float:
    """What log and manifests may take under these limits; infinite without them (L12)."""
    segments, size = limits.get("segments_max"), limits.get("segment_bytes")
    if not isinstance(segments, int) or not isinstance(size, int):
        return math.inf
    return 2 * segments * size + _MANIFESTS_BYTES


class QueueExplorer(Explorer):
    """Explores scripts of one queue, all with the same limits."""

    def __init__(
        self, target: Target, base: Path, bounds: Bounds, left: Callable[[], float],
        script: QueueScript,
    ) -> None:  # fmt: skip
        super().__init__(target, base, bounds, left)
        self._script = script

    def new_checker(self, frequency: float, boot: int) -> Checker:
        return QueueChecker(self.target, self._script, boot)
