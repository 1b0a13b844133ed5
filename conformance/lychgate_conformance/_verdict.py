"""Verdicts, and the exceptions by which a case gives one.

Rules
  * A pass is only ever the absence of everything else: what was not tried is never a pass.
  * A time-out is inconclusive, not a failure, unless ending in time is what the case is about.
  * A backend that dies is a failure of the backend, never an expected refusal.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Verdict(enum.Enum):
    """How one case ended. The value is the word in every report."""

    PASS = "pass"
    FAIL = "fail"
    NOT_CLAIMED = "not claimed"  # the backend does not promise this: not tried, listed
    NOT_MEASURED = "NOT MEASURED"  # promised, but it cannot be tried here
    SKIPPED = "skipped by user"  # with the user's reason
    INCONCLUSIVE = "inconclusive"  # tried, and no answer within the time
    HARNESS_ERROR = "harness error"  # the suite itself failed


class ExitCode(enum.IntEnum):
    """What a whole run amounts to."""

    CONFORMANT = 0
    NOT_CONFORMANT = 1
    INCONCLUSIVE = 2
    FAULT = 3
    USAGE = 4


def exit_code(verdicts: Iterable[Verdict]) -> ExitCode:
    """The worst thing that was seen; a failure weighs more than not knowing."""
    seen = set(verdicts)
    if Verdict.FAIL in seen:
        return ExitCode.NOT_CONFORMANT
    if Verdict.HARNESS_ERROR in seen:
        return ExitCode.FAULT
    if Verdict.INCONCLUSIVE in seen or Verdict.NOT_MEASURED in seen:
        return ExitCode.INCONCLUSIVE
    if Verdict.PASS not in seen:  # nothing was tried at all: no promise was seen to hold
        return ExitCode.INCONCLUSIVE
    return ExitCode.CONFORMANT


class CaseEnd(Exception):
    """The root of what ends a case early; `verdict` is how it ended."""

    verdict: Verdict


class Failed(CaseEnd):
    """The backend broke a promise."""

    verdict = Verdict.FAIL


class BackendDied(Failed):
    """The process that held the backend ended inside a call that nobody told it to end in."""


class NotClaimed(CaseEnd):
    """The backend turned out not to offer what the case is about."""

    verdict = Verdict.NOT_CLAIMED


class NoConnection(NotClaimed):
    """Its store is neither below its path nor behind a connection: no call can be told to be on it.
    """


class NotMeasured(CaseEnd):
    """Promised, but this machine or this kind of backend does not allow to try it."""

    verdict = Verdict.NOT_MEASURED


class Inconclusive(CaseEnd):
    """No answer within the time."""

    verdict = Verdict.INCONCLUSIVE


class AdapterFault(Exception):
    """The backend cannot be tried at all: it does not load, or does not have the contract's shape.

    `trace` is the traceback of the cause, shown on request only.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


class UsageError(Exception):
    """Somebody asked for a case, level, claim or option that does not exist."""
