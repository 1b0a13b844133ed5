"""Level 4: each call fails with each error that it can have, once or from then on, and writes are
cut short.

A script is worked through once for each fault, by an adapter one of whose calls is made to fail. It
may raise; it may not die, lose or invent anything, say that nothing happened when something did, or
stay broken when the fault is over. Which errors there are stands in `blackbox/_errnos`. Where the
store lies behind a connection, the calls on it fail, and the connection is lost with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lychgate_conformance._case import case
from lychgate_conformance._stage import Stage
from lychgate_conformance.blackbox._calls import MUTATING
from lychgate_conformance.blackbox._faults import Fault, Site, failing, short_writes, used_up
from lychgate_conformance.blackbox._record import Recording
from lychgate_conformance.cases._fault import faults

FAULTS = "stores, caller_ids, survives_restart, survives_process_kill"
FILES = f"{FAULTS}, uses_path"
CRASH = f"{FILES}, survives_host_crash"
TASKS_CRASH = f"{CRASH}, not fsync_policy=never"
TWO = f"{FAULTS}, multi_process"
BATCH_S = 3600.0
"""So long a batch that nothing is fsynced unless somebody asks for it."""
_LIMIT_S = 240.0


def _opening(sites: Sequence[Site], recording: Recording) -> Iterable[Fault]:
    return failing(it for it in sites if it.word == 0)


def _working(sites: Sequence[Site], recording: Recording) -> Iterable[Fault]:
    return failing(it for it in sites if it.word > 0)


def _changing(sites: Sequence[Site], recording: Recording) -> Iterable[Fault]:
    found = failing(it for it in sites if it.word > 0 and it.call.name in MUTATING)
    return (it for it in found if not it.syncs)


def _staying(sites: Sequence[Site], recording: Recording) -> Iterable[Fault]:
    return failing(sites, stays=True)


def _syncing(sites: Sequence[Site], recording: Recording) -> Iterable[Fault]:
    return (it for it in failing(sites) if it.syncs)


@case("L4-OPEN-001", "a call fails while a store is made", "D9, D22, F2", FAULTS, _LIMIT_S)
def making(stage: Stage) -> None:
    faults(stage, "open dead:a task:a", _opening)


@case(
    "L4-OPEN-002", "a call fails while a process takes over what another left", "W2, W5, W14, F2",
    FAULTS, _LIMIT_S,
)  # fmt: skip
def taking_over(stage: Stage) -> None:
    before = "open task:a dead:a task:b done:a exit"
    faults(stage, "open pending list task:c", _opening, before=before)


@case("L4-DEAD-001", "a call fails while dead tasks are added", "D10, D17, F2", FAULTS, _LIMIT_S)
def adding_dead(stage: Stage) -> None:
    faults(stage, "open dead:a dead:b dead:c", _working)


@case(
    "L4-DEAD-002", "a call fails while dead tasks are removed", "D12, D17, D19, F2", FAULTS,
    _LIMIT_S,
)  # fmt: skip
def removing_dead(stage: Stage) -> None:
    before = "open dead:a dead:b dead:c exit"
    faults(stage, "open undead:a+c undead:missing dead:d undead:b", _working, before=before)


@case(
    "L4-DEAD-003", "a call fails while dead tasks are listed", "D13, D16, F2", FAULTS, _LIMIT_S
)
def listing_dead(stage: Stage) -> None:
    faults(stage, "open list list", _working, before="open dead:a dead:b exit")


@case(
    "L4-TASK-001", "a call fails while tasks are added and removed one by one", "W1, W8, W9, F2",
    FAULTS, _LIMIT_S,
)  # fmt: skip
def tasks_one_by_one(stage: Stage) -> None:
    faults(stage, "open task:a task:b pending done:a task:c", _working)


@case(
    "L4-TASK-002", "a call fails while tasks are batched, synced and closed", "D2, W3, W9, F2",
    FAULTS, _LIMIT_S,
)  # fmt: skip
def tasks_batched(stage: Stage) -> None:
    faults(stage, "open task:a task:b sync done:a close open pending", _working, BATCH_S)


@case("L4-MOVE-001", "a call fails while a task moves to the dead ones", "U3, F2", FAULTS, _LIMIT_S)
def give_up(stage: Stage) -> None:
    faults(stage, "open dead:a done:a", _working, before="open task:a task:b exit")


@case(
    "L4-STAY-001", "a call fails from one moment on while dead tasks come and go", "D10, D19, F2",
    FAULTS, _LIMIT_S,
)  # fmt: skip
def staying_dead(stage: Stage) -> None:
    faults(stage, "open dead:a dead:b undead:a dead:c", _staying)


@case(
    "L4-STAY-002", "a call fails from one moment on while tasks come and go", "W8, W9, F2", FAULTS,
    _LIMIT_S,
)  # fmt: skip
def staying_tasks(stage: Stage) -> None:
    faults(stage, "open task:a task:b done:a task:c", _staying)


@case(
    "L4-FULL-001", "nothing can be written, or nothing opened, and then it can again",
    "D10, W6, F2", FILES, _LIMIT_S,
)  # fmt: skip
def exhausted(stage: Stage) -> None:
    text = "open dead:a task:a undead:a done:a dead:b task:b"
    faults(stage, text, lambda sites, recording: used_up(sites))


@case("L4-SHORT-001", "a write of dead tasks is cut short", "D10, D11, D12, F2", FILES, _LIMIT_S)
def short_dead(stage: Stage) -> None:
    faults(stage, "open dead:a dead:b*5000 undead:a dead:c", short_writes)


@case("L4-SHORT-002", "a write of tasks is cut short", "W1, W6, W8, F2", FILES, _LIMIT_S)
def short_tasks(stage: Stage) -> None:
    faults(stage, "open task:a task:b*5000 done:a task:c", short_writes)


@case(
    "L4-SHORT-003", "a write is cut short, and the next one writes the rest", "D10, W1, W8, F2",
    FILES, _LIMIT_S,
)  # fmt: skip
def short_once(stage: Stage) -> None:
    text = "open dead:a task:a dead:b*5000 undead:a task:b"
    faults(stage, text, lambda sites, recording: short_writes(sites, recording, resumes=True))


@case(
    "L4-SYNC-001", "a sync of dead tasks fails, and then the host crashes", "D19, D29, D32, W9, F2",
    CRASH, _LIMIT_S,
)  # fmt: skip
def failed_sync_dead(stage: Stage) -> None:
    faults(stage, "open dead:a dead:b undead:a dead:c", _syncing, host_crash=True)


@case(
    "L4-SYNC-002", "a sync of tasks fails, and then the host crashes", "W3, W5, W9, F2",
    TASKS_CRASH, _LIMIT_S,
)  # fmt: skip
def failed_sync_tasks(stage: Stage) -> None:
    faults(stage, "open task:a task:b done:a task:c", _syncing, host_crash=True)


@case(
    "L4-SYNC-003", "a sync of a batch fails, and then the host crashes", "D2, W3, W9, F2",
    TASKS_CRASH, _LIMIT_S,
)  # fmt: skip
def failed_sync_batch(stage: Stage) -> None:
    faults(stage, "open task:a sync task:b sync task:c close", _syncing, BATCH_S, host_crash=True)


@case(
    "L4-CRASH-001", "a call fails, and then the host crashes", "D17, D18, U3, F2", TASKS_CRASH,
    _LIMIT_S,
)  # fmt: skip
def failed_and_crashed(stage: Stage) -> None:
    faults(stage, "open dead:a task:a dead:b undead:a done:a", _changing, host_crash=True)


@case(
    "L4-LOCK-001", "a call fails, and another process goes on at once", "D10, D13, D24, F2", TWO,
    _LIMIT_S,
)  # fmt: skip
def no_lock_left(stage: Stage) -> None:
    faults(stage, "open dead:a list undead:a", _working, other=True)
