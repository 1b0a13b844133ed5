"""Backends with one planted fault each: the proof that the suite sees what it says it sees.

A mutant names the cases that must fail on it; every case has at least one. Each can be run:
`lychgate conform --mutant first-wins`, which is the backend
`lychgate_conformance.mutants.tasks:FirstWins`. Beside them stand the controls, in which nothing is
planted and nothing may be found.
"""

from __future__ import annotations

from lychgate_conformance.mutants._base import Mutant, all_mutants, find_mutant

CONTROLS = ("lychgate_conformance._control:Control", "lychgate_conformance.mutants._lines:LineDisk")
"""Backends that are right and are not the engine."""

QUEUES = (
    "lychgate_conformance.adapters.sqlite_queue:SqliteQueue",
    "lychgate_conformance.mutants._log_queue:LogQueue",
)
"""Delivery queues that are right and are not the engine's."""

__all__ = ["CONTROLS", "QUEUES", "Mutant", "all_mutants", "find_mutant"]
