"""`Nil` stores nothing, whatever it is asked (D4)."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from lychgate._backend import AsyncBackend, Backend, probe
from lychgate._nil import AioNil, Nil


def answers(result: Any) -> Any:
    return asyncio.run(result) if inspect.iscoroutine(result) else result


def check(nil: Any) -> None:
    first, second = answers(nil.add_task({"a": 1})), answers(nil.add_task(object(), 5.0))
    assert first != second and answers(nil.add_task(1, None, "mine")) == "mine"
    assert answers(nil.pending_tasks()) == []
    assert answers(nil.remove_task(first)) is None
    assert answers(nil.add_dead_task(first, {}, ValueError(), "work", 1)) is None
    assert answers(nil.list_dead_tasks()) == answers(nil.list_dead_tasks(1, 2)) == []
    assert answers(nil.find_dead_task(first)) is None
    assert answers(nil.remove_dead_tasks([first])) == 0
    assert answers(nil.tick(0.0)) is None
    assert answers(nil.sync()) is None
    assert answers(nil.stats()) == {}
    assert answers(nil.close()) is None


def test_nil() -> None:
    """D2, D4: any options, all methods, nothing kept."""
    nil: Backend = Nil(path="p", prefix="q", fsync_frequency=-1, anything=object())
    check(nil)


def test_aio_nil() -> None:
    """D2, D4: the same as coroutines."""
    nil: AsyncBackend = AioNil(path="p", anything=object())
    check(nil)


def test_nil_can_do_all_that_is_optional() -> None:
    """D2."""
    able = probe(Nil())
    assert able.tick and able.sync and able.stats and able.close and not able.claims
