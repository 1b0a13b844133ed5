"""The delivery queue in the crash lab: every image at every step, two crashes, faults (L2-L12).

The bound of L12 is asserted in every image, by the lab.
"""

from __future__ import annotations

import pytest
from delivery.delivery_lab import Broken, Lab, faults

LIFE = "open enqueue:a claim retry claim quarantine:no enqueue:b claim ack close open"
COMPACTION = (
    "open enqueue:a enqueue:b claim retry claim retry claim retry claim ack claim enqueue:c"
)


@pytest.mark.parametrize("script", [LIFE, COMPACTION])
def test_every_image_at_every_step(script: str) -> None:
    """L2, L5, L7, L10, L12: enqueue to quarantine, compaction, clean and unclean opens."""
    lab = Lab()
    run = lab.explore(script, depth=1)
    assert lab.images > 5_000 and lab.points > 30
    if script == COMPACTION:
        assert run.queue.stats()["compactions"] >= 1, "the script is long enough"


def test_killed_in_every_place() -> None:
    """L5, L11: a recovery by another process in the same boot, then power fails."""
    Lab().explore("open enqueue:a claim kill open claim retry kill open ack", depth=1)


@pytest.mark.parametrize("script", ["open enqueue:a", "open enqueue:a close open"])
def test_crashed_twice(script: str) -> None:
    """L4, L10, L12: the recovery, and what follows it, is crashed at every step as well."""
    lab = Lab(seconds_images=1)
    lab.explore(script, depth=2)
    assert lab.points > 100


@pytest.mark.parametrize(("script", "last"), [(LIFE, 1000), (COMPACTION, 24)])
@pytest.mark.parametrize("part", range(3))
def test_every_call_fails(script: str, last: int, part: int) -> None:
    """L11, F2: whatever fails, a recovery mends it and nothing that was answered is lost.

    Of the compaction the last calls, which no other script has.
    """
    lab = Lab(after_fault=4)
    calls = lab.calls(script)
    planned = [fault for fault in faults(calls) if fault.at > len(calls) - last]
    for fault in planned[part::3]:
        lab.explore(script, 1, fault)
    assert lab.images > 500


def test_the_oracle_notices() -> None:
    """L2: the lab is no yes-man: an item that nobody enqueued, and one that is gone, are told."""
    lab = Lab()
    run = lab.explore("open enqueue:a", depth=1)
    run.oracle.may[1] = {None}
    with pytest.raises(Broken, match="item 1"):
        lab.crash(run, excused=False)
