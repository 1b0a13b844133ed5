"""The delivery queue on files that no crash leaves (L4, L10, F3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from delivery.delivery_damage import CHECKS, made, opened
from delivery.delivery_lab import LIMITS, Outcome

from lychgate._delivery_errors import DeliveryLimits
from lychgate._delivery_layout import Limits


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_damage_is_told(check: Callable[[], None]) -> None:
    """L4, L10: clear results, file and offset, nothing skipped in silence."""
    check()


def test_other_limits() -> None:
    """L12: reopening with other limits works if the headroom holds, and is refused if not."""
    files = made(["a", "b", "claim"])
    whole, _, _ = opened(files)
    assert isinstance(whole, Outcome) and len(whole.items) == 2
    small = Limits(items_max=9, payload_bytes_max=8, segment_bytes=200, segments_max=1)
    assert isinstance(opened(files, small)[0], DeliveryLimits)
    assert isinstance(opened(files, Limits(1, 8, 280, 2))[0], DeliveryLimits)
    narrow = Limits(items_max=9, payload_bytes_max=8, segment_bytes=140, segments_max=9)
    found, queue, after = opened(files, narrow)
    assert found == whole
    assert max(len(v) for k, v in after.items() if "segment" in k) <= 140
    assert queue.stats()["generations_recovered"] == 1, "written anew, though the end was clean"
    assert opened(files, LIMITS)[0] == whole
