"""Level 0: text of any kind, and 16 MB of it.

D25 lets a backend refuse what it cannot store, before it acknowledges. One that claims `any_text`
stores it; any other may refuse, but what it accepted it has to give back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lychgate_conformance._case import case
from lychgate_conformance._check import expect, expect_equal, expect_ids
from lychgate_conformance._stage import Stage
from lychgate_conformance._store import CallError
from lychgate_conformance._verdict import Failed
from lychgate_conformance._wire import short

SIZE_16_MB = 16 * 1024 * 1024


T = TypeVar("T")


def accepted(stage: Stage, what: str, call: Callable[[], T]) -> list[T]:
    """What a call gave, or nothing when it was refused; refusing breaks the claim `any_text`."""
    try:
        return [call()]
    except CallError as error:
        if stage.claims.any_text:
            raise Failed(f"{what} is refused, and any_text is claimed: {error}") from error
        return []


def keep_task_ids(stage: Stage, ids: list[str]) -> None:
    """Tasks with these ids wait, one each; then all but the first are removed."""
    store = stage.open()
    kept = []
    for task_id in ids:
        what = f"the task id {short(task_id, 60)}"
        if accepted(stage, what, partial(store.add_task, [task_id], task_id=task_id)):
            kept.append(task_id)
    waiting = {it.task_id: it.task for it in store.pending_tasks()}
    expect_ids("pending tasks", waiting, kept)
    for task_id in kept:
        expect_equal("a task", waiting[task_id], [task_id])
    for task_id in kept[1:]:
        store.remove_task(task_id)
    expect_ids("pending tasks after removals", store.pending_ids(), kept[:1])


def keep_dead_ids(stage: Stage, ids: list[str]) -> None:
    """The same for dead tasks, with class names of the same text."""
    store = stage.open()
    kept = []
    for task_id in ids:
        what = f"the dead task id {short(task_id, 60)}"
        call = partial(store.add_dead_task, task_id, {"id": task_id}, task_class=f"c{task_id}")
        if accepted(stage, what, call):
            kept.append(task_id)
    listed = {it.task_id: it for it in store.list_dead_tasks()}
    expect_ids("dead tasks", store.dead_ids(), kept)
    for task_id in kept:
        expect_equal("a context", listed[task_id].context, {"id": task_id})
        expect_equal("a class name", listed[task_id].task_class, f"c{task_id}")
        expect(store.find_dead_task(task_id) is not None, f"{short(task_id, 60)} is not found")
    if kept:
        count = store.remove_dead_tasks(kept[1:])
        expect_equal("the count", count, len(kept) - 1)
        expect_ids("dead tasks after removals", store.dead_ids(), kept[:1])


SEPARATORS = [
    "plain",
    "a:b",
    ":",
    "a%3Ab",
    "%",
    "%25",
    "two\nlines",
    "\n",
    "tab\t",
    "cr\r",
    "\0",
    "a\0b",
]
SEPARATORS += ["add:1", "rem:plain", "00000000:rem:plain", '{"task_id":"plain"}', "\\", '"', "\\n"]

UNICODE = [
    "é",
    "e\u0301",
    "日本",
    "\U0001f980",
    "\u202e",
    "\ufeff",
    "\u2028",
    "\u0085",
    "ß",
    "SS",
    "ǆ",
]
SURROGATES = ["\ud83d", "\udc00", "a\udfffb", "\ud83d\ud83d", "\udc80"]


@case(
    "L0-TEXT-001", "task ids may hold separators, newlines and NUL", "D25, W1", "stores, caller_ids"
)
def separators_in_task_ids(stage: Stage) -> None:
    keep_task_ids(stage, SEPARATORS)


@case(
    "L0-TEXT-002",
    "task ids of other scripts stay apart and are not normalised",
    "D25, W1",
    "stores, caller_ids",
)
def unicode_in_task_ids(stage: Stage) -> None:
    keep_task_ids(stage, UNICODE)


@case("L0-TEXT-003", "task ids may hold lone surrogates", "D25, W1", "stores, caller_ids")
def surrogates_in_task_ids(stage: Stage) -> None:
    keep_task_ids(stage, SURROGATES)


@case("L0-TEXT-004", "dead task ids and class names may hold separators, newlines and NUL", "D25")
def separators_in_dead_ids(stage: Stage) -> None:
    keep_dead_ids(stage, SEPARATORS)


@case("L0-TEXT-005", "dead task ids and class names of other scripts stay apart", "D25")
def unicode_in_dead_ids(stage: Stage) -> None:
    keep_dead_ids(stage, UNICODE)


@case("L0-TEXT-006", "dead task ids and class names may hold lone surrogates", "D25")
def surrogates_in_dead_ids(stage: Stage) -> None:
    keep_dead_ids(stage, SURROGATES)


@case("L0-TEXT-007", "payloads may hold any text", "D25, W1")
def any_payload(stage: Stage) -> None:
    store = stage.open()
    kept: dict[str, object] = {}
    for text in [*SEPARATORS, *UNICODE, *SURROGATES]:
        task: object = {text: [text]}
        what = f"a payload with {short(text, 60)}"
        for task_id in accepted(stage, what, partial(store.add_task, task)):
            kept[task_id] = task
    waiting = {it.task_id: it.task for it in store.pending_tasks()}
    expect_ids("pending tasks", waiting, kept)
    for task_id, task in kept.items():
        expect_equal("a task", waiting[task_id], task)


@case("L0-TEXT-008", "a task of 16 MB comes back whole", "D25", limit_s=120.0)
def big_task(stage: Stage) -> None:
    store = stage.open()
    small = store.add_task("small")
    big = "0123456789abcdef" * (SIZE_16_MB // 16)
    kept = accepted(stage, "a task of 16 MB", lambda: store.add_task(big))
    last = store.add_task("last")
    waiting = {it.task_id: it.task for it in store.pending_tasks()}
    expect_ids("pending tasks", waiting, [small, *kept, last])
    expect(all(waiting[it] == big for it in kept), "the big task came back changed")


@case("L0-TEXT-009", "a context of 16 MB comes back whole and can be removed", "D25", limit_s=120.0)
def big_context(stage: Stage) -> None:
    store = stage.open()
    store.add_dead_task("small")
    big = {"blob": "0123456789abcdef" * (SIZE_16_MB // 16)}
    if not accepted(stage, "a context of 16 MB", lambda: store.add_dead_task("big", big)):
        expect_equal("dead tasks", store.dead_ids(), ["small"])
        return
    store.add_dead_task("last")
    found = store.find_dead_task("big")
    expect(found is not None and found.context == big, "the big context came back changed")
    expect_ids("dead tasks", store.dead_ids(), ["small", "big", "last"])
    expect_equal("the count", store.remove_dead_tasks(["big"]), 1)
    expect_ids("dead tasks", store.dead_ids(), ["small", "last"])


@case(
    "L0-TEXT-010", "an id of thousands of characters stays whole", "D25, W1", "stores, caller_ids"
)
def long_ids(stage: Stage) -> None:
    ids = ["x" * 5000, "x" * 5000 + "y", "\n" * 3000, "日" * 4000]
    keep_task_ids(stage, ids)
