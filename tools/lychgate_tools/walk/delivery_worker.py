"""One process with its delivery queue, and the call that is under way in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest import mock

from lychgate import StorageError
from lychgate._delivery import DeliveryPrograms
from lychgate._delivery_answers import Claimed, Enqueued
from lychgate._delivery_codec import State
from lychgate._delivery_errors import DeliveryCorrupt, Result
from lychgate._delivery_layout import EMPTY, Fill, Limits
from lychgate._delivery_ledger import Ledger
from lychgate._op import Op, Program
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.walk.delivery_cells import payload_of
from lychgate_tools.walk.delivery_view import DIRECTORY

Change = tuple[int, str]
"""A number, and the state that its item goes over to."""


class Queue(DeliveryPrograms):
    """The engine, with everything admitted: that an admitted item finds room is DeliverySpace's."""

    def _recount(self) -> None:
        self._worst, self._stale = EMPTY, False

    def _admitted(self, size: int) -> Fill | None:
        return EMPTY


@dataclass
class Call:
    """One call, between two steps. `change` is None for one that changes no item."""

    entry: str
    change: Change | None
    program: Program[Any]
    pending: Op[Any]


@dataclass(frozen=True)
class Ended:
    """A call that has returned: what it gave, or the error that it raised."""

    call: Call
    outcome: object

    def wrong_answer(self) -> bool:
        """Whether a change gave anything but success, or success with another item."""
        if self.call.change is None or isinstance(self.outcome, Exception):
            return False
        sequence: int | None = self.call.change[0]
        number = sequence
        if isinstance(self.outcome, Enqueued):
            number = self.outcome.sequence
        elif isinstance(self.outcome, Claimed) and self.outcome.claim is not None:
            number = self.outcome.claim.sequence
        return result_of(self.outcome) is not Result.OK or number != sequence


def result_of(answer: object) -> object:
    """The Result in an answer."""
    return getattr(answer, "result", answer)


class DeliveryWorker:
    """A process that runs. `queue` is None where it has no instance: none yet, or none any more."""

    def __init__(self, fs: SimFs, limits: Limits) -> None:
        self.fs = fs
        self._limits = limits
        self.queue: Queue | None = None
        self.call: Call | None = None

    def kill(self) -> None:
        """No program of this process takes another step."""
        self.fs.kill()
        if self.call is not None:
            self.call.program.close()
            self.call = None

    # --- calls ----------------------------------------------------------------------------------

    def open(self) -> None:
        self.queue = Queue(DIRECTORY, self._limits, self.fs)
        self._begin("open", None, self.queue.open())

    def begin(self, entry: str) -> None:
        """Begin a call that changes no item."""
        queue = self._instance()
        programs: dict[str, Callable[[], Program[Any]]] = {
            "recover": queue.recover,
            "compact": lambda: queue._in_turn(queue._compact),
            "close": queue.close,
        }
        self._begin(entry, None, programs[entry]())

    def begin_change(self, change: Change) -> object:
        """Begin the call that makes a change; its answer if it takes no step."""
        s, t = change
        queue = self._instance()
        item = queue._ledger.items.get(s)
        chosen = None if item is None or item.state is State.QUARANTINED else item
        with mock.patch.object(Ledger, "choose", return_value=chosen):
            if s > queue._ledger.high:
                return self._begin("enqueue", change, queue.enqueue(payload_of(s)))
            if t == "c":
                return self._begin("claim", change, queue.claim(1))
            if t == "p":
                return self._begin("retry", change, queue.retry(s, 0, None))
            if t == "-":
                return self._begin("ack", change, queue.ack(s, None))
            return self._begin("quarantine", change, queue.quarantine(s, t, None))

    def _instance(self) -> Queue:
        assert self.queue is not None, "there is an instance"
        return self.queue

    def _begin(self, entry: str, change: Change | None, program: Program[Any]) -> object:
        assert self.call is None, "one call at a time"
        try:
            self.call = Call(entry, change, program, program.send(None))
        except StopIteration as stop:
            return stop.value
        return None

    def abandon(self) -> None:
        """Take a call away before its next step, and with it what it has left in memory."""
        if self.call is not None:
            self.call.program.close()
            queue = self._instance()
            queue._poisoned = queue._closed = False
            self.call = None

    # --- steps ----------------------------------------------------------------------------------

    def perform(self) -> Ended | None:
        """Take the step that is next; the call, if that was its end."""
        assert self.call is not None
        try:
            result = self.call.pending.perform(self.fs)
        except OSError as error:
            return self.resume(None, error)
        return self.resume(result, None)

    def resume(self, result: object, error: OSError | None) -> Ended | None:
        """Give the call its step's result; the call, if that was its end."""
        call = self.call
        assert call is not None
        try:
            if error is None:
                call.pending = call.program.send(result)
            else:
                call.pending = call.program.throw(error)
            return None
        except StopIteration as stop:
            outcome: object = stop.value
        except (StorageError, DeliveryCorrupt) as raised:
            outcome = raised
        self.call = None
        if call.entry == "open" and isinstance(outcome, Exception):
            self.queue = None
        return Ended(call, outcome)
