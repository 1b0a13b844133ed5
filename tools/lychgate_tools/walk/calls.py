"""Calls on the dead-task store, as fibers make them, and what they must give their callers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lychgate import DeadTasksLockTimeout, StorageError
from lychgate._dead import Attempt, DeadStore
from lychgate._op import Op, Program
from lychgate._records import record_id
from lychgate_tools.tlc.values import render
from lychgate_tools.walk.cells import Cells, ids_in
from lychgate_tools.walk.tour import Mismatch


@dataclass
class Call:
    """One call of one fiber, between two steps."""

    op: str
    record: str
    program: Program[Any]
    pending: Op[Any]


def check_outcome(call: Call, job: Mapping[str, Any], outcome: object, cells: Cells) -> None:
    """What the caller gets is what the model's locals say."""
    if isinstance(outcome, DeadTasksLockTimeout):
        if call.pending.action != "Sleep":
            raise Mismatch(f"a time-out after {call.pending.action}")
        return
    if isinstance(outcome, StorageError) != job["err"]:
        raise Mismatch(f"{call.op} ends with {outcome!r}, in the model err is {job['err']}")
    if call.op == "list" and not job["err"]:
        buffer = cells.to_bytes(job["buf"])
        if outcome != ids_in(buffer):
            raise Mismatch(f"list gives {outcome}, in the model {render(job['buf'])}")


async def records_of(store: DeadStore) -> list[str]:
    found: list[str] = []

    def visit(body: bytes) -> bool:
        found.append((record_id(body) or b"").decode("ascii"))
        return True

    await store.scan(visit)
    return found


async def nothing(attempt: Attempt) -> None:
    """A call that only takes the lock and gives it back."""
