"""SQLite's own files through the black-box crash explorer: the SQL backend as a program on a disk.

Small bounds: `lychgate conform sqlite --level 2 --level 3` does the same with larger ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lychgate_conformance._target import load_target
from lychgate_conformance.blackbox._explore import Explorer
from lychgate_conformance.blackbox._images import Bounds
from lychgate_conformance.blackbox._script import Script
from lychgate_conformance.blackbox._strace import strace_path

pytestmark = pytest.mark.skipif(
    strace_path() is None, reason="needs strace: install the package of that name"
)


def test_what_was_answered_outlives_every_crash(tmp_path: Path) -> None:
    """Q1, Q7, D17: kills and power failures, from the first call that makes the directory.
    `-shm`, the shared mapping, is rebuilt: absent, zeroed, as is.
    """
    bounds = Bounds(images_max=80, family_max=30, torn_max=20, complete_max=500)
    explorer = Explorer(load_target("sqlite"), tmp_path, bounds)
    script = Script.of("open task:a dead:a done:a undead:a")
    try:
        assert explorer.host_crashes(script) is None
        assert explorer.process_kills(script) is None
        assert explorer.tally.distinct > 100
    finally:
        explorer.end()
