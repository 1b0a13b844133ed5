"""Every sync, order and check of the delivery queue, left out, is noticed (L2-L12)."""

from __future__ import annotations

import pytest
from delivery.delivery_mutants import ALL, Planted

from lychgate._errors import LychgateError
from lychgate_conformance.lab._mutant import Mutant, planted


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.name)
def test_mutant_is_killed(mutant: Planted) -> None:
    """L2, L4, L7, L9, L10, L11: the hunt that passes on the engine fails on the mutant."""
    fault = Mutant(mutant.name, mutant.name, mutant.edits, "delivery", "", mutant.like)
    with planted(fault), pytest.raises((AssertionError, LychgateError, IndexError)):
        mutant.hunt()


def test_mutants_are_named_once() -> None:
    """L2: one name, one fault."""
    assert len({mutant.name for mutant in ALL}) == len(ALL) >= 45
