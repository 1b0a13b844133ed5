"""`Queue`: one opened delivery queue as a case sees it, wherever it lives (L1, L15).

The calls of the profile, with the shape of every answer checked on the way. A result that business
brings (FULL, CLAIM_LOST) is an answer; what says that the queue cannot be used is a `CallError`.
A queue that takes the time from the suite is given it when it is opened, and never reads a clock;
with another one, time passes by waiting.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lychgate_conformance._store import Call, value_of
from lychgate_conformance._verdict import Failed
from lychgate_conformance._wire import Json, decode, encode, short

if TYPE_CHECKING:
    from lychgate_conformance._stage import Worker

BEGIN_MS = 1_800_000_000_000
"""What a clock that the suite sets shows when a case begins."""
LEASE_MS = 3_600_000
"""A lease or delay that no case outlives."""

FINISHED = ("OK", "ALREADY_DONE", "NOT_FOUND", "NOT_CLAIMED", "CLAIM_LOST")
STATES = ("available", "leased", "delayed", "quarantined")


@dataclass(frozen=True, slots=True)
class Claimed:
    """An item under a lease."""

    seq: int
    payload: bytes
    receipt: int | None
    until_ms: int


@dataclass(frozen=True, slots=True)
class Item:
    """An item that is not acked, as the queue shows it."""

    seq: int
    state: str
    attempts: int
    until_ms: int
    reason: str | None
    payload: bytes


class Queue:
    """The facade of one opened queue."""

    def __init__(self, worker: Worker, handle: int, now_ms: int | None) -> None:
        self._worker = worker
        self.handle = handle
        self._now_ms = now_ms

    def call(self, method: str, *args: object) -> Call:
        """A call, not made yet."""
        return Call(self.handle, method, args)

    def ask(self, call: Call) -> Json:
        """The reply to a call, whatever it is."""
        return self._worker.ask(call.request())

    def make(self, call: Call) -> object:
        return result_of(call, self.ask(call))

    def offers(self, method: str) -> bool:
        reply = self._worker.ask({"do": "has", "handle": self.handle, "method": method})
        return bool(reply["ok"])

    # --- the calls of the profile ---------------------------------------------------------------

    def enqueue(self, payload: bytes) -> int | str:
        """The item's number; FULL or TOO_LARGE when it is refused."""
        answer = self.make(self.call("enqueue", payload))
        assert isinstance(answer, (int, str))
        return answer

    def put(self, payload: bytes) -> int:
        """Enqueue what has to be accepted."""
        answer = self.enqueue(payload)
        if isinstance(answer, str):
            raise Failed(f"enqueue of {len(payload)} bytes gave {answer}")
        return answer

    def claim(self, lease_ms: int = LEASE_MS) -> Claimed | None:
        """The next item; None when there is none to be had now."""
        claimed = self.make(self.call("claim", lease_ms))
        assert claimed is None or isinstance(claimed, Claimed)
        return claimed

    def take(self, lease_ms: int = LEASE_MS) -> Claimed:
        """Claim what has to be there."""
        claimed = self.claim(lease_ms)
        if claimed is None:
            raise Failed("claim gave EMPTY, and there is an item that can be claimed")
        return claimed

    def ack(self, seq: int, receipt: int | None = None) -> str:
        return str(self.make(self.call("ack", seq, receipt)))

    def retry(self, seq: int, receipt: int | None = None, delay_ms: int = 0) -> str:
        return str(self.make(self.call("retry", seq, receipt, delay_ms)))

    def quarantine(self, seq: int, reason: str, receipt: int | None = None) -> str:
        return str(self.make(self.call("quarantine", seq, receipt, reason)))

    def items(self) -> list[Item]:
        """Every item that is not acked."""
        found = self.make(self.call("items"))
        assert isinstance(found, list)
        return found

    def recover(self) -> None:
        self.make(self.call("recover"))

    def close(self) -> None:
        self.make(self.call("close"))
        self._worker.ask({"do": "forget", "handle": self.handle})

    # --- time ---------------------------------------------------------------------------------

    @property
    def sets_time(self) -> bool:
        """Whether time passes by the suite's word, and costs nothing."""
        return self._now_ms is not None

    @property
    def short_ms(self) -> int:
        """A lease or delay that `pass_time` can outlast, and that a busy machine does not."""
        return 60_000 if self._now_ms is not None else 1_500

    @property
    def now_ms(self) -> int:
        """The queue's time: as it was set, or the system's."""
        return time.time_ns() // 1_000_000 if self._now_ms is None else self._now_ms

    def pass_time(self, length_ms: int) -> None:
        """Let so much time pass, and a little more where there is no clock to set."""
        if self._now_ms is None:
            time.sleep(length_ms / 1000 + 0.02)
            return
        self._now_ms += length_ms
        self.make(self.call("clock", self._now_ms))


def open_request(path: str, handle: int, now_ms: int | None, options: Mapping[str, object]) -> Json:
    """The request that opens a queue; `now_ms` for one that takes the time from the suite."""
    extra = dict(options) if now_ms is None else {**options, "now_ms": now_ms}
    return {"do": "open", "handle": handle, "path": path, "extra": extra}


# --- shapes of answers ------------------------------------------------------------------------


def result_of(call: Call, reply: Json) -> object:
    """What a reply says, as the type that the method promises. CallError when it raised."""
    value = value_of(call, reply)
    match call.method:
        case "enqueue":
            return _enqueued(value)
        case "claim":
            return _claimed(value)
        case "ack" | "retry" | "quarantine":
            return _word(call.method, value, FINISHED)
        case "items":
            return items_of(value)
        case _:
            return None


def _word(method: str, value: Json, words: tuple[str, ...]) -> str:
    result = value.get("result") if isinstance(value, dict) else None
    if result not in words:
        raise Failed(f"{method} gave {short(decode(value))}; its results are {', '.join(words)}")
    return str(result)


def _enqueued(value: Json) -> int | str:
    result = _word("enqueue", value, ("OK", "FULL", "TOO_LARGE"))
    return _number("enqueue", value, "seq") if result == "OK" else result


def _claimed(value: Json) -> Claimed | None:
    if _word("claim", value, ("OK", "EMPTY")) == "EMPTY":
        return None
    receipt = value.get("receipt")
    return Claimed(
        _number("claim", value, "seq"),
        _payload("claim", value),
        None if receipt is None else _number("claim", value, "receipt"),
        _number("claim", value, "lease_until_ms"),
    )


def items_of(value: Json) -> list[Item]:
    """The items of a list on the wire. Failed when it is none."""
    if not isinstance(value, list):
        raise Failed(f"items gave {short(decode(value))} instead of a list")
    return [_item(it) for it in value]


def _item(value: Json) -> Item:
    state = value.get("state") if isinstance(value, dict) else None
    if state not in STATES:
        raise Failed(f"items has {short(decode(value))}; a state is one of {', '.join(STATES)}")
    reason = value.get("reason")
    if not (reason is None or isinstance(reason, str)):
        raise Failed(f"items has the reason {short(reason)}")
    return Item(
        _number("items", value, "seq"),
        str(state),
        _number("items", value, "attempts"),
        _number("items", value, "until_ms"),
        reason,
        _payload("items", value),
    )


def _number(method: str, value: Json, name: str) -> int:
    found = value.get(name)
    if not isinstance(found, int) or isinstance(found, bool):
        raise Failed(f"{method} gave the {name} {short(decode(found))}")
    return found


def _payload(method: str, value: Json) -> bytes:
    found = decode(value.get("payload"))
    if not isinstance(found, bytes):
        raise Failed(f"{method} gave the payload {short(encode(found))} instead of bytes")
    return found
