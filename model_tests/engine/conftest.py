"""Fixtures of the engine's tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.faults import Store


@pytest.fixture(params=["sync", "asyncio"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner | None]:
    """How programs are driven: None for the calling thread, or a runner of an event loop."""
    if request.param == "sync":
        yield None
        return
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An open store in a directory of its own."""
    opened = Store(tmp_path / "storage").open()
    yield opened
    opened.kill()
