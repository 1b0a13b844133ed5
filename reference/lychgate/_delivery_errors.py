"""Named results and errors of the delivery queue (L15).

What a caller can expect in the course of business is a `Result`. What says that the queue cannot
be used as it is, is an error; its `result` names it as well.
"""

from __future__ import annotations

from enum import Enum

from lychgate._errors import ConfigError, LychgateError


class Result(Enum):
    """What became of a call."""

    OK = "OK"
    EMPTY = "EMPTY"  # nothing can be claimed now
    FULL = "FULL"  # a limit is reached; nothing was taken, no number was used (L6, L9)
    TOO_LARGE = "TOO_LARGE"  # the payload is over its limit; nothing was taken
    NOT_FOUND = "NOT_FOUND"  # no item ever had this number
    NOT_CLAIMED = "NOT_CLAIMED"  # the item waits; claim it first
    ALREADY_DONE = "ALREADY_DONE"  # acked or quarantined before; nothing was changed (L8)
    CLAIM_LOST = "CLAIM_LOST"  # the receipt is that of an earlier claim
    # errors:
    CORRUPT = "CORRUPT"
    LOCKED = "LOCKED"
    POISONED = "POISONED"
    BUSY = "BUSY"
    LIMITS = "LIMITS"


class DeliveryError(LychgateError):
    """The root of the queue's own errors."""

    result: Result


class DeliveryLocked(DeliveryError):
    """Another instance has the directory (L3); close it first."""

    result = Result.LOCKED


class DeliveryBusy(DeliveryError):
    """Another call of this instance is under way: its owner makes them take turns (L13)."""

    result = Result.BUSY


class DeliveryPoisoned(DeliveryError):
    """An earlier write, sync or publication failed: call `recover` or open the queue anew (L11)."""

    result = Result.POISONED


class DeliveryLimits(DeliveryError, ConfigError):
    """What is in the directory does not fit these limits with its headroom (L12); raise them."""

    result = Result.LIMITS


class DeliveryCorrupt(DeliveryError):
    """The files are not what a crash can leave (L4). Nothing was changed.

    `path` is the file and `offset` the byte where it stops making sense; `lychgate inspect` shows
    what stands there.
    """

    result = Result.CORRUPT

    def __init__(self, path: str, offset: int, what: str) -> None:
        super().__init__(path, offset, what)
        self.path = path
        self.offset = offset
        self.what = what

    def __str__(self) -> str:
        return (
            f"{self.path} is damaged at byte {self.offset}: {self.what}; "
            "look at it with `lychgate inspect`, and restore it from a copy"
        )
