"""Lessons made once for all tests of a process, and which of them are made by default."""

from __future__ import annotations

import functools
import os

from lychgate_tools.page import lessons
from lychgate_tools.page.explain import Made, make
from lychgate_tools.page.lessons import BY_NAME, LESSONS

ALWAYS_BY_TLC = ("fibers-sharing-a-lock", "journal-with-recovery")
"""Of the lessons that TLC makes, those that every run of the tests makes; all of them with
LYCHGATE_EXAMPLES above its default."""

MORE = int(os.environ.get("LYCHGATE_EXAMPLES", "100")) > 100
NAMES = [
    it.name for it in LESSONS
    if MORE or it.name in ALWAYS_BY_TLC or not isinstance(it.source, lessons.Model)
]  # fmt: skip


@functools.cache
def made(name: str) -> Made:
    """A lesson, found by TLC or by the lab on the first call."""
    return make(BY_NAME[name])
