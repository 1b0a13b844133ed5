"""Mutants of the delivery queue: what only a failed call shows."""

from __future__ import annotations

import os

from lychgate_conformance.adapters.sqlite_queue import QueueError
from lychgate_conformance.mutants._base import mutant
from lychgate_conformance.mutants._log_queue import Event, LogQueue


@mutant("queue-unreadable-is-empty", "L4-QOPEN-001")
class QueueUnreadableIsEmpty(LogQueue):
    """Takes a log that it cannot read for an empty one."""

    def recover(self) -> None:
        try:
            super().recover()
        except OSError:
            os.close(os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
            self.known, self.high = {}, 0


@mutant("queue-error-swallowed", "L4-QWORK-001")
class QueueErrorSwallowed(LogQueue):
    """Knows of an event that it could not write."""

    def append(self, event: Event) -> None:
        try:
            super().append(event)
        except OSError:
            self.apply(event)
            self.poisoned = False


@mutant("queue-says-nothing-happened", "L4-QROOM-001")
class SaysNothingHappened(LogQueue):
    """Says of an event that may be written that nothing happened."""

    def append(self, event: Event) -> None:
        try:
            super().append(event)
        except OSError as error:
            raise QueueError("storage", str(error)) from error


@mutant("queue-goes-on-after-a-torn-write", "L4-QSHORT-001")
class GoesOnAfterATornWrite(LogQueue):
    """Appends behind what is left of an event that it could not write."""

    def append(self, event: Event) -> None:
        try:
            super().append(event)
        finally:
            self.poisoned = False
