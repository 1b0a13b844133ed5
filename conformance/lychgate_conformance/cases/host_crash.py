"""Level 3: the host crashes at any moment, and leaves any image that `portable` allows.

Each case records a script of one or two workers under strace, builds every image that a crash may
leave at any call, and has a new process look at each of them (docs: crash handbook).
"""

from __future__ import annotations

from lychgate_conformance._case import case
from lychgate_conformance._stage import Stage
from lychgate_conformance.cases._crash import host_crashes, successions

CRASH = "stores, survives_host_crash, uses_path, caller_ids"
TASKS = f"{CRASH}, not fsync_policy=never"
TWO = f"{CRASH}, multi_process"
BATCH_S = 3600.0
"""So long a batch that nothing is fsynced unless somebody asks for it."""
_LIMIT_S = 240.0


@case(
    "L3-DLQ-001", "host crash while dead tasks are added", "D10, D17, D28", CRASH, _LIMIT_S
)
def adding_dead(stage: Stage) -> None:
    host_crashes(stage, "open dead:a dead:b dead:c")


@case("L3-DLQ-002", "host crash while dead tasks are removed", "D12, D17, D18", CRASH, _LIMIT_S)
def removing_dead(stage: Stage) -> None:
    host_crashes(stage, "open dead:a dead:b dead:c undead:a+c undead:b")


@case(
    "L3-DLQ-003", "host crash while long dead tasks are written", "D11, D17, D28", CRASH, _LIMIT_S
)
def long_dead(stage: Stage) -> None:
    host_crashes(stage, "open dead:a*9000 dead:b*5000 undead:a")


@case(
    "L3-DLQ-004", "host crash while ids are removed and added again", "D12, D17, D26", CRASH,
    _LIMIT_S,
)  # fmt: skip
def removed_and_added(stage: Stage) -> None:
    host_crashes(stage, "open dead:a undead:a dead:a undead:missing dead:b undead:a")


@case(
    "L3-INIT-001", "host crash while a store is made and used for the first time", "D9, D22, W2",
    TASKS, _LIMIT_S,
)  # fmt: skip
def first_use(stage: Stage) -> None:
    host_crashes(stage, "open task:a dead:a close open task:b")


@case(
    "L3-WAL-001", "host crash while tasks are added and removed, fsynced one by one", "W1, W3, W9",
    TASKS, _LIMIT_S,
)  # fmt: skip
def tasks_one_by_one(stage: Stage) -> None:
    host_crashes(stage, "open task:a task:b done:a task:c")


@case(
    "L3-WAL-002", "host crash while tasks are batched: what sync and close promise", "D2, W3, W9",
    TASKS, _LIMIT_S,
)  # fmt: skip
def tasks_batched(stage: Stage) -> None:
    host_crashes(stage, "open task:a task:b sync done:a task:c close", BATCH_S)


@case("L3-WAL-003", "host crash while a task is written again", "W12, U2", TASKS, _LIMIT_S)
def task_again(stage: Stage) -> None:
    host_crashes(stage, "open task:a task:b task:a done:b task:a")


@case(
    "L3-HANDOFF-001", "host crash while a task moves to the dead ones", "U3, D17", TASKS, _LIMIT_S
)
def give_up(stage: Stage) -> None:
    host_crashes(stage, "open task:a task:b dead:a done:a")


@case(
    "L3-HANDOFF-002", "host crash while a dead task is retried", "U4, D2, W3", TASKS, _LIMIT_S
)
def retry(stage: Stage) -> None:
    host_crashes(stage, "open dead:a dead:b task:again sync undead:a", BATCH_S)


@case(
    "L3-RECOVER-001", "host crash within the recovery from a host crash, dead tasks",
    "D11, D28, D29", CRASH, _LIMIT_S,
)  # fmt: skip
def crash_in_recovery_dead(stage: Stage) -> None:
    host_crashes(stage, "open dead:a dead:b undead:a", recoveries=5)


@case(
    "L3-RECOVER-002", "host crash within the recovery from a host crash, tasks", "W5, W6, W11",
    TASKS, _LIMIT_S,
)  # fmt: skip
def crash_in_recovery_tasks(stage: Stage) -> None:
    host_crashes(stage, "open task:a task:b done:a", recoveries=5)


@case(
    "L3-RECOVER-003", "host crash while a process takes over what another left", "W2, W5, W11",
    f"{TASKS}, survives_restart", _LIMIT_S,
)  # fmt: skip
def take_over(stage: Stage) -> None:
    host_crashes(stage, "open task:a dead:a task:b exit 2/open 2/pending 2/task:c 2/done:a")


@case(
    "L3-RECOVER-004", "host crash after a process died within a removal and another went on",
    "D19, D32", f"{TWO}, survives_process_kill", _LIMIT_S,
)  # fmt: skip
def died_and_succeeded(stage: Stage) -> None:
    successions(stage, "open dead:a dead:b undead:a", "2/open 2/dead:c 2/dead:d")


@case(
    "L3-TWO-001", "host crash while two processes use one dead-task store", "D13, D31, D32", TWO,
    _LIMIT_S,
)  # fmt: skip
def two_processes(stage: Stage) -> None:
    host_crashes(stage, "open 2/open dead:a 2/dead:b undead:a 2/dead:c dead:d")
