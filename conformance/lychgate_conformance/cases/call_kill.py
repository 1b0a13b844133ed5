"""Level 2: a process is killed at every call that changes the store.

`L2-CUT` takes the images from a recording: the files as they are at entry and exit of each call,
with every prefix of the write in flight. `L2-KILL` kills: one run for each call, those on a
connection to a server included.
"""

from __future__ import annotations

from lychgate_conformance._case import case
from lychgate_conformance._stage import Stage
from lychgate_conformance.cases._crash import process_kills, real_kills

KILL = "stores, survives_process_kill, caller_ids"
CUT = f"{KILL}, uses_path"
TWO = f"{CUT}, multi_process"
BATCH_S = 3600.0
_LIMIT_S = 240.0


@case("L2-CUT-001", "cut at every call while dead tasks are added", "D10, D11, D17", CUT, _LIMIT_S)
def adding_dead(stage: Stage) -> None:
    process_kills(stage, "open dead:a dead:b dead:c")


@case(
    "L2-CUT-002", "cut at every call while dead tasks are removed", "D12, D17, D18", CUT, _LIMIT_S
)
def removing_dead(stage: Stage) -> None:
    process_kills(stage, "open dead:a dead:b dead:c undead:a+c dead:d undead:b")


@case(
    "L2-CUT-003", "cut at every call while tasks are added and removed", "W1, W3, W8", CUT, _LIMIT_S
)
def tasks(stage: Stage) -> None:
    process_kills(stage, "open task:a task:b done:a task:b task:c close", BATCH_S)


@case("L2-CUT-004", "cut at every call while a task moves to the dead ones", "U3", CUT, _LIMIT_S)
def give_up(stage: Stage) -> None:
    process_kills(stage, "open task:a task:b dead:a done:a", BATCH_S)


@case(
    "L2-CUT-005", "cut at every call while a process takes over what another left", "W2, W5, W11",
    f"{CUT}, survives_restart", _LIMIT_S,
)  # fmt: skip
def take_over(stage: Stage) -> None:
    process_kills(stage, "open task:a dead:a exit 2/open 2/task:b 2/done:a 2/close", BATCH_S)


@case("L2-CUT-006", "cut at every call of two processes", "D13, D24, D31", TWO, _LIMIT_S)
def two_processes(stage: Stage) -> None:
    process_kills(stage, "open 2/open dead:a 2/dead:b undead:a 2/dead:c dead:d")


@case(
    "L2-KILL-001", "killed at every call while dead tasks are written", "D10, D17", KILL, _LIMIT_S
)
def killed_dead(stage: Stage) -> None:
    real_kills(stage, "open dead:a dead:b undead:a dead:c")


@case(
    "L2-KILL-002", "killed at every call while tasks are written and given up", "W3, W8, U3", KILL,
    _LIMIT_S,
)  # fmt: skip
def killed_tasks(stage: Stage) -> None:
    real_kills(stage, "open task:a task:b dead:a done:a close", BATCH_S)
