"""A call of the engine that is under way on the simulated file system, between two of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lychgate import DeadTasksLockTimeout, StorageError
from lychgate._drive import Observer
from lychgate._op import Op, Program
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.trace.recorder import outcome_of


@dataclass
class Running:
    """One call: its program, and the step that it would take next."""

    op: str
    record: str
    program: Program[Any]
    pending: Op[Any]
    observe: Observer

    def advance(self, fs: SimFs) -> str | None:
        """Take the step and record it; how the call has ended, None while it goes on."""
        result: object = None
        error: OSError | None = None
        try:
            result = self.pending.perform(fs)
        except OSError as raised:
            error = raised
        self.observe(self.pending, result, error)
        try:
            if error is None:
                self.pending = self.program.send(result)
            else:
                self.pending = self.program.throw(error)
            return None
        except StopIteration:
            return outcome_of(None)
        except (DeadTasksLockTimeout, StorageError) as raised:
            return outcome_of(raised)
