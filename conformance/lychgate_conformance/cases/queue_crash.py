"""Levels 2 and 3 of the delivery profile: kills and host crashes, at every call and every image.

The scripts of `L2-QCUT` and `L3-QCRASH` are recorded and every image is looked at; `L2-QHIT` kills
for real, once at each call. Compaction comes with limits that a few items fill.
"""

from __future__ import annotations

from lychgate_conformance._queue import BEGIN_MS
from lychgate_conformance._stage import Stage
from lychgate_conformance.blackbox._queue_script import KINDS, QueueScript
from lychgate_conformance.blackbox._script import words_of
from lychgate_conformance.cases._crash import crash_hosts, cut_processes, kill_processes
from lychgate_conformance.cases._queues import queue_case

CUT = "survives_process_kill, uses_path"
CRASH = "survives_host_crash, uses_path"
LIMITS = {"items_max": 8, "payload_bytes_max": 50, "segment_bytes": 400, "segments_max": 2}
"""Limits under which a few retries make a queue compact."""
ENDS = (
    "open put:a put:b claim ack:a put:c claim bury:b claim retry:c claim delay:c"
)
COMPACT = f"open put:a*40 put:b*40 claim {'retry:a claim ' * 5}ack:a put:c*40"
_LIMIT_S = 240.0


def script(stage: Stage, text: str, small: bool = False) -> QueueScript:
    """A script; `small`: under limits, for a queue that takes such."""
    limits = LIMITS if small and stage.claims.limits else {}
    now_ms = BEGIN_MS if stage.target.clock else None
    return QueueScript(words_of(text, KINDS), limits=limits, now_ms=now_ms)


@queue_case("L2-QCUT-001", "cut at every call while items are enqueued", "L2, L4", CUT, _LIMIT_S)
def cut_enqueuing(stage: Stage) -> None:
    cut_processes(stage, script(stage, "open put:a put:b*3000 put:c"))


@queue_case("L2-QCUT-002", "cut at every call while claims come to their ends", "L2, L5, L8", CUT,
            _LIMIT_S)  # fmt: skip
def cut_ending(stage: Stage) -> None:
    cut_processes(stage, script(stage, ENDS))


@queue_case("L2-QCUT-003", "cut at every call while room is made", "L7, L10, L12", CUT, _LIMIT_S)
def cut_compacting(stage: Stage) -> None:
    cut_processes(stage, script(stage, COMPACT, small=True))


@queue_case("L2-QCUT-004", "cut at every call while a queue is closed and opened", "L3, L4, L10",
            f"{CUT}, survives_restart", _LIMIT_S)  # fmt: skip
def cut_opening(stage: Stage) -> None:
    cut_processes(stage, script(stage, "open put:a claim close open put:b exit 2/open 2/put:c"))


@queue_case("L2-QHIT-001", "killed at every call while items are enqueued and ended", "L2, L4, L5",
            CUT, _LIMIT_S)  # fmt: skip
def hit_ending(stage: Stage) -> None:
    kill_processes(stage, script(stage, "open put:a put:b claim ack:a claim bury:b put:c"))


@queue_case("L2-QHIT-002", "killed at every call while room is made", "L7, L10", CUT, _LIMIT_S)
def hit_compacting(stage: Stage) -> None:
    kill_processes(stage, script(stage, COMPACT, small=True))


@queue_case("L3-QCRASH-001", "host crash while items are enqueued", "L2, L4", CRASH, _LIMIT_S)
def crash_enqueuing(stage: Stage) -> None:
    crash_hosts(stage, script(stage, "open put:a put:b*3000 put:c"))


@queue_case("L3-QCRASH-002", "host crash while claims come to their ends", "L2, L5, L8", CRASH,
            _LIMIT_S)  # fmt: skip
def crash_ending(stage: Stage) -> None:
    crash_hosts(stage, script(stage, ENDS))


@queue_case("L3-QCRASH-003", "host crash while a queue is made, closed and opened", "L4, L10",
            CRASH, _LIMIT_S)  # fmt: skip
def crash_opening(stage: Stage) -> None:
    crash_hosts(stage, script(stage, "open put:a close open claim put:b close open"))


@queue_case("L3-QCRASH-004", "host crash while room is made", "L7, L10, L12", CRASH, _LIMIT_S)
def crash_compacting(stage: Stage) -> None:
    crash_hosts(stage, script(stage, COMPACT, small=True))


@queue_case("L3-QCRASH-005", "host crash within the recovery of a queue from a host crash",
            "L4, L10, L11", CRASH, _LIMIT_S)  # fmt: skip
def crash_in_recovery(stage: Stage) -> None:
    crash_hosts(stage, script(stage, "open put:a claim put:b ack:a"), recoveries=5)


@queue_case("L3-QCRASH-006", "host crash while a process takes over a queue that another left",
            "L3, L4", f"{CRASH}, survives_restart", _LIMIT_S)  # fmt: skip
def crash_after_a_restart(stage: Stage) -> None:
    text = "open put:a put:b claim exit 2/open 2/ack:a 2/put:c 2/claim"
    crash_hosts(stage, script(stage, text))
