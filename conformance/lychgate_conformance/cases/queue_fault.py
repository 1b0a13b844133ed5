"""Level 4 of the delivery profile: calls fail while a queue works.

An error may say that it may have happened; the queue may then refuse everything until it is opened
anew (L11). What it answers after that has to be explained by what it answered before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lychgate_conformance._stage import Stage
from lychgate_conformance.blackbox._faults import Fault, Site, failing, short_writes
from lychgate_conformance.blackbox._record import Recording
from lychgate_conformance.cases._fault import try_faults
from lychgate_conformance.cases._queues import queue_case
from lychgate_conformance.cases.queue_crash import COMPACT, ENDS, script

FAULTS = "uses_path, survives_restart, survives_process_kill"
_LIMIT_S = 240.0


def _opening(sites: Sequence[Site], recording: Recording) -> Iterable[Fault]:
    return failing(it for it in sites if it.word == 0)


def _working(sites: Sequence[Site], recording: Recording) -> Iterable[Fault]:
    return failing(it for it in sites if it.word > 0)


@queue_case("L4-QOPEN-001", "a call fails while a queue is opened that another has left",
            "L4, L10, L11, F2", FAULTS, _LIMIT_S)  # fmt: skip
def opening(stage: Stage) -> None:
    before = script(stage, "open put:a claim put:b exit")
    try_faults(stage, script(stage, "open put:c claim items"), _opening, before)


@queue_case("L4-QWORK-001", "a call fails while items are enqueued and come to their ends",
            "L2, L5, L11, F2", FAULTS, _LIMIT_S)  # fmt: skip
def working(stage: Stage) -> None:
    try_faults(stage, script(stage, ENDS), _working)


@queue_case("L4-QROOM-001", "a call fails while a queue makes room", "L7, L10, L11, F2", FAULTS,
            _LIMIT_S)  # fmt: skip
def making_room(stage: Stage) -> None:
    try_faults(stage, script(stage, COMPACT, small=True), _working)


@queue_case("L4-QSHORT-001", "a write of a queue is cut short", "L2, L4, L11, F2", FAULTS,
            _LIMIT_S)  # fmt: skip
def short(stage: Stage) -> None:
    try_faults(stage, script(stage, "open put:a put:b*3000 claim ack:a put:c"), short_writes)
