"""Calls of a delivery queue and their replies as the oracle's words, and the verdict on them."""

from __future__ import annotations

from collections.abc import Sequence

from lychgate_conformance import _queue_oracle as oracle
from lychgate_conformance._claims import Claims
from lychgate_conformance._oracle import Fate
from lychgate_conformance._queue import Queue, result_of
from lychgate_conformance._queue_oracle import Did, Operation, Span
from lychgate_conformance._store import Call, CallError
from lychgate_conformance._verdict import Failed
from lychgate_conformance._wire import Json


def operation_of(call: Call) -> Operation | None:
    """What a call means; None for one that changes and shows nothing."""
    args = call.args
    match call.method, args:
        case "enqueue", (bytes(payload),):
            return oracle.Enqueue(payload)
        case "claim", (int(lease_ms),):
            return oracle.Claim(lease_ms)
        case "ack", (int(seq), int() | None as receipt):
            return oracle.Finish("ack", seq, receipt)
        case "retry", (int(seq), int() | None as receipt, int(delay_ms)):
            return oracle.Finish("retry", seq, receipt, delay_ms=delay_ms)
        case "quarantine", (int(seq), int() | None as receipt, str(reason)):
            return oracle.Finish("quarantine", seq, receipt, reason=reason)
        case "items", ():
            return oracle.Look()
        case _:
            return None


def did_of(call: Call, reply: Json, when: Span) -> Did | None:
    """A call with its reply; without one, it may have happened."""
    operation = operation_of(call)
    if operation is None:
        return None
    if reply is None:
        return Did(operation, when, Fate.MAYBE)
    try:
        seen = result_of(call, reply)
    except CallError as error:
        return Did(operation, when, Fate.FAILED if error.definite else Fate.MAYBE)
    return Did(operation, when, Fate.RETURNED, tuple(seen) if isinstance(seen, list) else seen)


class History:
    """What was done to one queue, by whatever processes had it one after the other."""

    def __init__(self, claims: Claims) -> None:
        self._rules = oracle.Rules.of(claims)
        self.dids: list[Did] = []

    def make(self, queue: Queue, call: Call) -> object:
        """Make a call and note it. CallError when it raised."""
        before = queue.now_ms
        reply = queue.ask(call)
        self.note(call, reply, (before, queue.now_ms))
        return result_of(call, reply)

    def note(self, call: Call, reply: Json, when: Span) -> None:
        did = did_of(call, reply, when)
        if did is not None:
            self.dids.append(did)

    def killed(self, calls: Sequence[Call], replies: Sequence[Json], when: Span) -> None:
        """The first call without a reply may have happened, those after it have not."""
        for call, reply in zip(calls, [*replies, None], strict=False):
            self.note(call, reply, when)

    def judge(self) -> frozenset[oracle.State]:
        """The states that are possible now. Failed when what was seen cannot have happened."""
        found = oracle.outcomes(self.dids, self._rules)
        if isinstance(found, oracle.Violation):
            raise Failed(str(found))
        return found
