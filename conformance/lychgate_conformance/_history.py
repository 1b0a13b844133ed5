"""From calls and replies to the oracle's words, and the verdict on them.

A `History` is filled by a case: what each worker called, what came back and when. `judge` raises
`Failed` with the call that cannot be explained.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence

from lychgate_conformance import _oracle as oracle
from lychgate_conformance._claims import Claims
from lychgate_conformance._oracle import Did, Fate, Operation, Record
from lychgate_conformance._store import Call, CallError, Dead, Pending, value_of
from lychgate_conformance._verdict import Failed, Inconclusive
from lychgate_conformance._wire import ErrorText, Json, encode

_ERROR_NAMES = {"plain": "ValueError", "foreign": "ForeignError", "mute": "_MuteError"}


def body_of(value: object) -> str:
    """One canonical text for a JSON value."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"))


def record_of(dead: Dead) -> Record:
    error = dead.error_class.rpartition(".")[2]
    said = [dead.task_class, dead.attempts, dead.context, error, dead.error_message]
    return Record(dead.task_id, body_of(said))


def operation_of(call: Call) -> Operation:
    """What a call means. Ids are given by the caller: a history needs to know them."""
    args, kwargs = call.args, dict(call.kwargs)
    match call.method:
        case "add_task":
            publish_at = kwargs.get("publish_at")
            assert isinstance(kwargs["task_id"], str), "a history needs the caller's ids"
            assert publish_at is None or isinstance(publish_at, float)
            return oracle.AddTask(kwargs["task_id"], body_of(args[0]), publish_at)
        case "remove_task":
            return oracle.RemoveTask(str(args[0]))
        case "pending_tasks":
            return oracle.ListPending()
        case "add_dead_task":
            task_id, context, error, task_class, attempts = args
            assert isinstance(error, ErrorText)
            said = [task_class, attempts, context, _ERROR_NAMES[error.kind], error.message]
            return oracle.AddDead(Record(str(task_id), body_of(said)))
        case "list_dead_tasks":
            limit, offset = kwargs["limit"], kwargs["offset"]
            assert (limit is None or isinstance(limit, int)) and isinstance(offset, int)
            return oracle.ListDead(limit, offset)
        case "find_dead_task":
            return oracle.FindDead(str(args[0]))
        case _:
            assert call.method == "remove_dead_tasks", call.method
            task_ids = args[0]
            assert isinstance(task_ids, (list, tuple))
            return oracle.RemoveDead(frozenset(map(str, task_ids)))


def result_of(value: object) -> object:
    """A value as the oracle compares it."""
    if isinstance(value, Dead):
        return record_of(value)
    if isinstance(value, list):
        return tuple(
            record_of(it) if isinstance(it, Dead) else (it.task_id, body_of(it.task), it.publish_at)
            for it in value
            if isinstance(it, (Dead, Pending))
        )
    return value


class History:
    """What several workers did to one store."""

    def __init__(self, claims: Claims) -> None:
        self._rules = oracle.Rules.of(claims)
        self._dids: list[Did] = []
        self._last: dict[int, int] = {}
        self._errors: list[CallError] = []

    def begin(self, worker: int, alone: bool = True) -> None:
        """The worker has just opened the store."""
        now = time.monotonic_ns()
        self._dids.append(Did(worker, oracle.Begin(alone), now, now))
        self._last[worker] = now

    def end(self, worker: int) -> None:
        """The worker has just closed the store, or is dead by now."""
        now = time.monotonic_ns()
        self._dids.append(Did(worker, oracle.End(), now, now))

    def did(self, worker: int, call: Call, reply: Json) -> object:
        """A call and its reply. An error is an outcome too: definite, or not known to be."""
        begun, ended = reply["t"]
        self._last[worker] = ended
        operation = operation_of(call)
        try:
            value = value_of(call, reply)
        except CallError as error:
            self._errors.append(error)
            fate = Fate.FAILED if error.definite else Fate.MAYBE
            self._dids.append(Did(worker, operation, begun, ended, fate))
            return error
        result = result_of(value)
        if call.method == "add_task" and value != dict(call.kwargs)["task_id"]:
            raise Failed(f"add_task gave the id {value!r} for {call.kwargs!r}")
        self._dids.append(Did(worker, operation, begun, ended, Fate.RETURNED, result))
        return value

    def did_all(self, worker: int, calls: Sequence[Call], replies: Sequence[Json]) -> None:
        assert len(calls) == len(replies)
        for call, reply in zip(calls, replies, strict=True):
            self.did(worker, call, reply)

    def killed(self, worker: int, calls: Sequence[Call], replies: Sequence[Json]) -> None:
        """A worker that was killed within `calls`: the first call without a reply may have
        happened, those after it have not."""
        self.did_all(worker, calls[: len(replies)], replies)
        now = time.monotonic_ns()
        if len(replies) < len(calls):
            operation = operation_of(calls[len(replies)])
            self._dids.append(Did(worker, operation, self._last[worker], now, Fate.MAYBE))
        self.end(worker)

    def expect_no_errors(self) -> None:
        """Failed when a call raised; for cases in which none has a reason to."""
        if self._errors:
            raise Failed(f"{len(self._errors)} calls raised without a reason: {self._errors[0]}")

    def judge(self, initial: Iterable[oracle.State] = (oracle.State(),)) -> None:
        """Failed when no order of the calls explains what was seen."""
        try:
            found = oracle.outcomes(self._dids, self._rules, initial)
        except oracle.TooMany as error:
            raise Inconclusive(str(error)) from error
        if isinstance(found, oracle.Violation):
            raise Failed(str(found))
