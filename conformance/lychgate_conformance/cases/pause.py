"""Level 5: a worker is stopped before each of its calls on the store while others go on.

Nothing is left to chance: what a race shows once in a thousand runs, one of these schedules shows
every time. `L5-TWICE` stops a worker twice, which is what it takes to see two holders of one lock;
`L5-KILL` kills the stopped worker when others have begun to wait for it. Calls on the store are
those on files below its path, or on its connections to a server.
"""

from __future__ import annotations

from lychgate_conformance._case import case
from lychgate_conformance._stage import Stage
from lychgate_conformance.cases._pause import need_sync, paused

MANY = "stores, multi_process, caller_ids, survives_restart"
KILL = f"{MANY}, survives_process_kill"
_LIMIT_S = 120.0
_TWO = "open 2/open dead:a dead:b"
_LEFT = "3/open 4/open 3/task:a 4/task:b 4/task:a 3/close 4/close"


@case("L5-ADD-001", "another adds while an add stands", "D13, D17, D31", MANY, _LIMIT_S)
def add_beside_add(stage: Stage) -> None:
    paused(stage, _TWO, "dead:c", "2/dead:d", "2/dead:d 2/list")


@case("L5-ADD-002", "another removes while an add stands", "D12, D13, D20", MANY, _LIMIT_S)
def remove_beside_add(stage: Stage) -> None:
    paused(stage, _TWO, "dead:c", "2/undead:a", "2/undead:a+b", "2/undead:c")


@case("L5-ADD-003", "another reads while an add stands", "D16, D31, D34", MANY, _LIMIT_S)
def read_beside_add(stage: Stage) -> None:
    paused(stage, _TWO, "dead:c", "2/list 2/list", "3/open 3/list 3/close")


@case("L5-REM-001", "another adds while a removal stands", "D12, D13, D20", MANY, _LIMIT_S)
def add_beside_remove(stage: Stage) -> None:
    paused(stage, _TWO, "undead:a", "2/dead:c", "2/dead:a")


@case("L5-REM-002", "another removes while a removal stands", "D12, D13", MANY, _LIMIT_S)
def remove_beside_remove(stage: Stage) -> None:
    paused(stage, _TWO, "undead:a", "2/undead:a", "2/undead:b")


@case("L5-REM-003", "another reads while a removal stands", "D12, D16, D18", MANY, _LIMIT_S)
def read_beside_remove(stage: Stage) -> None:
    paused(stage, _TWO, "undead:a", "2/list 2/list", "3/open 3/list 3/close")


@case("L5-READ-001", "others change what a reader stands in", "D16, D31", MANY, _LIMIT_S)
def change_beside_read(stage: Stage) -> None:
    paused(stage, _TWO, "list", "2/dead:c", "2/undead:a", "2/undead:a+b 2/dead:c")


@case("L5-INIT-001", "another opens while the first opening stands", "D9, D31, W2", MANY, _LIMIT_S)
def open_beside_first_open(stage: Stage) -> None:
    paused(stage, "", "open", "2/open 2/dead:a", "2/open 2/task:a", "2/open 2/dead:a 2/undead:a")


@case("L5-WAL-001", "another opens while a first task is added", "W2, W11", MANY, _LIMIT_S)
def open_beside_first_task(stage: Stage) -> None:
    paused(stage, "open", "task:a", "2/open 2/pending 2/close", "2/open 2/task:b")


@case("L5-WAL-002", "another opens and adds while a close stands", "W2, W11", MANY, _LIMIT_S)
def open_beside_close(stage: Stage) -> None:
    paused(stage, "open task:a done:a", "close", "2/open 2/task:b", "2/open 2/pending")


@case(
    "L5-WAL-003", "two take over at once what others left", "W2, W5, W12", MANY, _LIMIT_S
)
def open_beside_take_over(stage: Stage) -> None:
    paused(stage, _LEFT, "open", "2/open 2/pending", "2/open 2/task:c 2/done:a 2/close")


@case("L5-WAL-004", "another opens and adds while a task is done", "W2, W10", MANY, _LIMIT_S)
def open_beside_done(stage: Stage) -> None:
    paused(stage, "open task:a task:b", "done:a", "2/open 2/pending", "2/open 2/task:c")


@case("L5-WAL-005", "another adds the same task while an add stands", "W12, U2", MANY, _LIMIT_S)
def same_task_beside_add(stage: Stage) -> None:
    paused(stage, "open 2/open task:b", "task:a", "2/task:a", "2/task:a 2/done:a", "2/task:b")


@case("L5-SYNC-001", "another changes the store while a sync stands", "W3, D2", MANY, _LIMIT_S)
def change_beside_sync(stage: Stage) -> None:
    need_sync(stage)
    paused(stage, "open 2/open task:a dead:a", "sync", "2/task:b", "2/dead:b 2/undead:a")


@case(
    "L5-GIVE-001", "another uses the dead task while its task is still being removed", "U3, D31",
    MANY, _LIMIT_S,
)  # fmt: skip
def dead_beside_done(stage: Stage) -> None:
    paused(stage, "open 2/open task:a task:b dead:a", "done:a", "2/undead:a", "2/dead:b 2/list")


@case(
    "L5-TWICE-001", "an add stands twice, two others add: one lock", "D13, D24, D20", MANY, _LIMIT_S
)
def add_stopped_twice(stage: Stage) -> None:
    paused(stage, "open 2/open 3/open dead:a", "dead:b", "2/undead:a | 3/dead:c")


@case(
    "L5-TWICE-002", "a removal stands twice, two others add: one lock", "D12, D13, D24", MANY,
    _LIMIT_S,
)  # fmt: skip
def remove_stopped_twice(stage: Stage) -> None:
    paused(stage, "open 2/open 3/open dead:a", "undead:a", "2/dead:b | 3/dead:c")


@case("L5-KILL-001", "killed in an add that others wait for", "D10, D11, D17", KILL, _LIMIT_S)
def add_killed(stage: Stage) -> None:
    paused(stage, _TWO, "dead:c", "2/dead:d", killed=True)


@case("L5-KILL-002", "killed in a removal that others wait for", "D12, D17, D18", KILL, _LIMIT_S)
def remove_killed(stage: Stage) -> None:
    paused(stage, _TWO, "undead:a", "2/dead:c", killed=True)


@case("L5-KILL-003", "killed while two take over what others left", "W2, W5", KILL, _LIMIT_S)
def open_killed(stage: Stage) -> None:
    paused(stage, _LEFT, "open", "2/open 2/pending", killed=True)


@case("L5-KILL-004", "killed while it closes and another opens", "W2, W11", KILL, _LIMIT_S)
def close_killed(stage: Stage) -> None:
    paused(stage, "open task:a task:b", "close", "2/open 2/task:c", killed=True)


@case("L5-KILL-005", "killed while it adds a task and another opens", "W2, W6, W8", KILL, _LIMIT_S)
def task_killed(stage: Stage) -> None:
    paused(stage, "open task:a", "task:b", "2/open 2/task:c", killed=True)
