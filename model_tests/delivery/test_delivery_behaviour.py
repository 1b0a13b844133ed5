"""The delivery queue, call by call (L1-L15)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from delivery.delivery_behaviour import CHECKS


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_behaviour(check: Callable[[], None]) -> None:
    """L1, L3, L4, L5, L7, L8, L9, L10, L11, L15: each check says what it is about."""
    check()
