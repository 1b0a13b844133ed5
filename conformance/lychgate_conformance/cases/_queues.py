"""What the cases of the delivery profile have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from lychgate_conformance._case import Function, case
from lychgate_conformance._queue import LEASE_MS, Claimed, Item, Queue
from lychgate_conformance._store import Call
from lychgate_conformance._verdict import Failed

REASONS = ("no such address", "refused by the receiver", "")


def queue_case(
    case_id: str, title: str, requires: str, needs: str = "", limit_s: float = 60.0
) -> Callable[[Function], Function]:
    """Registers a function as a case of the profile; `needs` are claims beyond it."""
    return case(case_id, title, requires, needs, limit_s, "delivery")


def again(queue: Queue, claimed: Claimed) -> Claimed:
    """The same item claimed a second time, after its first claim was given back."""
    if (said := queue.retry(claimed.seq, claimed.receipt)) != "OK":
        raise Failed(f"retry of a claimed item gave {said}")
    return queue.take()


def only(queue: Queue) -> Item:
    """The one item that there is."""
    items = queue.items()
    if len(items) != 1:
        raise Failed(f"items shows {len(items)} items, and there is one")
    return items[0]


def standing(queue: Queue) -> list[tuple[int, str, int, str | None, bytes]]:
    """Every item with all of it but its time."""
    return [(it.seq, it.state, it.attempts, it.reason, it.payload) for it in queue.items()]


def bytes_below(path: Path) -> int:
    """The sizes of all files below a directory, added up."""
    return sum(it.stat().st_size for it in path.rglob("*") if it.is_file())


class Consumer:
    """Makes random calls; knows of the queue what a consumer would."""

    def __init__(self, queue: Queue, choose: Callable[[int], int]) -> None:
        self.queue = queue
        self._choose = choose
        self._made = 0
        self.claims: list[Claimed] = []
        """Every claim that was ever given, old ones included."""

    def call(self) -> Call:
        """The next call."""
        self._made += 1
        kind = self._choose(10)
        if kind < 3:
            return self.queue.call("enqueue", b"%d:" % self._made + bytes(self._choose(60)))
        if kind < 6 or not self.claims:
            return self.queue.call("claim", self._length())
        claimed = self.claims[-1 - self._choose(min(4, len(self.claims)))]
        receipt = claimed.receipt if self._choose(4) else None
        if kind == 6:
            return self.queue.call("ack", claimed.seq, receipt)
        if kind == 7:
            return self.queue.call("retry", claimed.seq, receipt, self._length() - 1_000)
        if kind == 8:
            reason = REASONS[self._choose(len(REASONS))]
            return self.queue.call("quarantine", claimed.seq, receipt, reason)
        return self.queue.call("items")

    def saw(self, answer: object) -> None:
        if isinstance(answer, Claimed):
            self.claims.append(answer)

    def _length(self) -> int:
        return (1_000, 60_000, LEASE_MS)[self._choose(3)]
