"""Scripts of the delivery queue, and what they oblige to.

    open   close   exit (without closing)   claim   items
    put:KEY   put:KEY*3000 (a payload of so many bytes)
    ack:KEY   retry:KEY   delay:KEY (retry, and not before an hour)   bury:KEY (quarantine)

A key stands for the item that was put under it; what is said of it shows the receipt of its last
claim. The clock stands still, so that every lease of a script lasts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lychgate_conformance import _queue_oracle as oracle
from lychgate_conformance._after_crash import View
from lychgate_conformance._claims import Claims
from lychgate_conformance._queue import BEGIN_MS, LEASE_MS, Claimed, Item, open_request, result_of
from lychgate_conformance._queue_history import did_of
from lychgate_conformance._queue_oracle import Did, Rules, Span, State
from lychgate_conformance._store import Call
from lychgate_conformance._verdict import Failed
from lychgate_conformance._wire import Json, short
from lychgate_conformance.blackbox._script import Script, Tale, Told, Word, words_of

KINDS = (
    "open", "close", "exit", "claim", "items", "put", "ack", "retry", "delay", "bury",
)  # fmt: skip
STANDING: Span = (BEGIN_MS, BEGIN_MS)
ANY_TIME: Span = (0, 1 << 60)
NOBODY = 4711


@dataclass(frozen=True, slots=True)
class QueueView(View):
    """What somebody who opens the queue sees of it: items, and no tasks."""

    items: tuple[Item, ...] = ()


def seen(items: Sequence[Item]) -> QueueView:
    return QueueView((), frozenset(), tuple(items))


@dataclass(frozen=True, slots=True)
class QueueScript(Script):
    """Words for a queue with these limits; `now_ms` where it takes the time from the suite."""

    limits: Mapping[str, object] = field(default_factory=dict)
    now_ms: int | None = None

    def recovery(self) -> tuple[Script, int]:
        words = words_of("open items put:recovered claim items close", KINDS)
        return QueueScript(words, limits=self.limits, now_ms=self.now_ms), 2

    def request(
        self, word: Word, place: int, path: Path, told: Sequence[Told] = ()
    ) -> tuple[Call | None, Json]:
        handle = 1
        if word.kind == "open":
            return None, open_request(str(path), handle, self.now_ms, self.limits)
        call = Call(handle, *_call(word, place, told))
        return call, call.request()

    def story(
        self, told: Sequence[Told], claims: Claims, initial: frozenset[Any] | None = None
    ) -> QueueTale:
        story = QueueTale(told, claims, self.frequency, self.now_ms is not None)
        return story if initial is None else replace(story, initial=initial)

    def after_faults(self) -> tuple[Word, ...]:
        return words_of("close open items put:later claim items", KINDS)


def _call(word: Word, place: int, told: Sequence[Told]) -> tuple[str, tuple[object, ...]]:
    """The method and the arguments for a word. `place` makes every payload different."""
    match word.kind:
        case "put":
            return "enqueue", (b"%d:" % place + b"x" * word.size,)
        case "claim":
            return "claim", (LEASE_MS,)
        case "items" | "close":
            return word.kind, ()
    seq, receipt = _claim_of(word.keys[0], told)
    match word.kind:
        case "ack":
            return "ack", (seq, receipt)
        case "retry" | "delay":
            return "retry", (seq, receipt, LEASE_MS if word.kind == "delay" else 0)
        case _:
            assert word.kind == "bury", word.kind
            return "quarantine", (seq, receipt, f"no such address: {word.keys[0]}")


def _claim_of(key: str, told: Sequence[Told]) -> tuple[int, int | None]:
    """The number of the item that was put under a key, and the receipt of its last claim; a number
    that nobody has where no answer told it."""
    seq, receipt = 0, None
    for it in told:
        if it.call is None or it.reply is None or it.error is not None:
            continue
        answer = result_of(it.call, it.reply)
        if it.word.kind == "put" and it.word.keys == (key,) and isinstance(answer, int):
            seq = answer
        if isinstance(answer, Claimed) and answer.seq == seq:
            receipt = answer.receipt
    return seq or NOBODY, receipt


@dataclass(slots=True)
class QueueTale(Tale):
    """Words of a queue. Every answer is durable, that to a look as well: what was shown stays, what
    was shown as absent stays absent. So all crashes leave the same."""

    stands: bool
    """Whether the clock stands still; with another one any time is as good."""
    initial: frozenset[State] = frozenset((State(),))
    _known: dict[int, frozenset[State]] = field(default_factory=dict)

    @property
    def when(self) -> Span:
        return STANDING if self.stands else ANY_TIME

    def states(self, acked: int) -> frozenset[State]:
        """The states that a crash may leave after `acked` words, with the next one in flight."""
        if acked not in self._known:
            found = oracle.outcomes(self._dids(acked), Rules.of(self.claims), self.initial)
            if isinstance(found, oracle.Violation):
                raise Failed(f"an answer, before any crash: {found}")
            self._known[acked] = found
        return self._known[acked]

    def left(self) -> frozenset[State]:
        return self.states(len(self.told))

    def contradiction(self) -> oracle.Violation | None:
        dids = self._dids(len(self.told))
        found = oracle.outcomes(dids, Rules.of(self.claims), self.initial)
        return found if isinstance(found, oracle.Violation) else None

    def _dids(self, acked: int) -> Iterator[Did]:
        for place, told in enumerate(self.told[: acked + 1]):
            if told.call is None:
                continue
            did = did_of(told.call, told.reply if place < acked else None, self.when)
            if did is not None:
                yield did

    def allows(self, view: View, acked: int, host_crash: bool) -> bool:
        return bool(agreeing(self.states(acked), view, self.when))

    def difference(self, view: View, acked: int, host_crash: bool) -> str:
        assert isinstance(view, QueueView)
        states = self.states(acked)
        shown = {it.seq: it for it in view.items}
        best = min(states, key=lambda it: (len({e.seq for e in it.entries} ^ {*shown}), repr(it)))
        held = {it.seq: it for it in best.entries if it.seq is not None}
        parts = [f"{oracle.shown(it)} lost" for seq, it in held.items() if seq not in shown]
        parts += [
            f"item {seq} ({it.state}) came back or was never enqueued"
            for seq, it in shown.items()
            if seq not in held
        ]
        parts += [
            f"{oracle.shown(held[seq])} is shown as {it.state}, claimed {it.attempts} times, "
            f"payload {short(it.payload, 40)}, reason {short(it.reason, 40)}"
            for seq, it in shown.items()
            if seq in held and oracle.matched(State((held[seq],)), (it,), self.when) is None
        ]
        return "; ".join(parts) or "items in another order, or one twice"

    def second(self, told: Sequence[Told], acked: int, seen_at: int) -> QueueTale:
        return QueueTale(told, self.claims, self.frequency, self.stands, self.states(acked))


def agreeing(states: frozenset[State], view: View, when: Span) -> frozenset[State]:
    """The states that show this, with the numbers that it tells."""
    assert isinstance(view, QueueView)
    found = (oracle.matched(it, view.items, when) for it in states)
    return frozenset(it for it in found if it is not None)
