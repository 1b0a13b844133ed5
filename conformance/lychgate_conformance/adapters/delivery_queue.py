"""`delivery`: the engine's `DeliveryQueue` in the words of the profile.

An example of the facade for a queue in Python: mappings as docs/protocol.md has them, errors with a
`code` of its table. `lychgate conform delivery` runs it in a process of the suite's;
`python_adapter.py lychgate_conformance.adapters.delivery_queue:Engine` speaks the protocol.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from lychgate import (
    ClosedError,
    ConfigError,
    DeliveryCorrupt,
    DeliveryLocked,
    DeliveryPoisoned,
    DeliveryQueue,
    LychgateError,
    Refused,
    StorageError,
)

Answer = dict[str, Any]

_CODES: tuple[tuple[type[LychgateError], str], ...] = (
    (DeliveryLocked, "locked"),
    (DeliveryPoisoned, "poisoned"),
    (DeliveryCorrupt, "corrupt"),
    (ClosedError, "closed"),
    (ConfigError, "bad_option"),
    (Refused, "refused"),
    (StorageError, "storage"),
)


class CodedError(Exception):
    """An error with its code; the cause is the engine's own."""

    def __init__(self, code: str, cause: LychgateError) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.code = code
        self.definite = cause.definite
        self.errno: int | None = getattr(cause, "errno", None)


def _coded(error: LychgateError) -> CodedError:
    code = next((code for kind, code in _CODES if isinstance(error, kind)), "internal")
    return CodedError(code, error)


class Engine:
    """A queue whose clock stands where it is set, or is the system's."""

    claims: ClassVar[Mapping[str, object]] = {
        "profile": "delivery",
        "survives_host_crash": True,
        "uses_path": True,
        "limits": True,
        "disk_bound": True,
    }

    def __init__(self, path: str, now_ms: int | None = None, **limits: Any) -> None:
        self._now_ms = now_ms
        try:
            self._queue = DeliveryQueue(path, clock=self._now, **limits)
        except LychgateError as error:
            raise _coded(error) from error

    def _now(self) -> float:
        if self._now_ms is None:
            return time.time()
        return (self._now_ms + 0.5) / 1000  # rounded down to the millisecond that was meant

    def clock(self, now_ms: int) -> None:
        """From now on the time is this."""
        self._now_ms = now_ms

    def _do(self, method: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return getattr(self._queue, method)(*args, **kwargs)
        except LychgateError as error:
            raise _coded(error) from error

    def enqueue(self, payload: bytes) -> Answer:
        answer = self._do("enqueue", payload)
        if answer.sequence is None:
            return {"result": answer.result.value}
        return {"result": "OK", "seq": answer.sequence}

    def claim(self, lease_ms: int) -> Answer:
        answer = self._do("claim", lease_ms)
        if answer.claim is None:
            return {"result": answer.result.value}
        claim = answer.claim
        try:
            payload = self._do("read", claim.sequence).payload
        except CodedError as error:
            error.definite = False  # nothing was read, but the item is claimed
            raise
        return {
            "result": "OK",
            "seq": claim.sequence,
            "payload": payload,
            "receipt": claim.receipt,
            "lease_until_ms": claim.until_ms,
        }

    def ack(self, seq: int, receipt: int | None) -> Answer:
        return {"result": self._do("ack", seq, receipt).value}

    def retry(self, seq: int, receipt: int | None, delay_ms: int) -> Answer:
        return {"result": self._do("retry", seq, delay_ms, receipt).value}

    def quarantine(self, seq: int, receipt: int | None, reason: str) -> Answer:
        return {"result": self._do("quarantine", seq, reason, receipt).value}

    def items(self) -> list[Answer]:
        return [
            {
                "seq": it.sequence,
                "state": it.state,
                "attempts": it.attempts,
                "until_ms": it.until_ms,
                "reason": it.reason if it.state == "quarantined" else None,
                "payload": self._do("read", it.sequence).payload,
            }
            for it in self._do("items")
        ]

    def stats(self) -> dict[str, int]:
        counts: dict[str, int] = self._do("stats")
        return counts

    def recover(self) -> None:
        self._do("recover")

    def close(self) -> None:
        self._do("close")
