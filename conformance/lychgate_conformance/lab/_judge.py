"""The result of a facade call, held against the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lychgate_conformance.lab._calls import Call
from lychgate_conformance.lab._dead_history import (
    count_contradiction,
    find_contradiction,
    found,
    list_contradiction,
    listed,
)
from lychgate_conformance.lab._fiber import Worker
from lychgate_conformance.lab._oracle import ACKED, MAYBE, Change, Oracle, Record
from lychgate_conformance.lab._target import dead_record, task_record


def judge(
    oracle: Oracle,
    worker: Worker,
    call: Call,
    change: Change,
    result: Any,
    owned: frozenset[str] | None,
    cache_was_lost: bool,
) -> str:
    """Note that a call has returned; what is wrong with its result, empty when nothing is.

    `owned` are the tasks that the worker surely owns, None for all; `cache_was_lost` says that a
    failed sync has taken back what the kernel had.
    """
    if call.kind in ("list", "find", "remove"):
        oracle.finish(change, ACKED)
        return _judge_dead(oracle, call, change, result, not cache_was_lost)
    text, since = "", change.start
    if call.kind == "pending":
        tasks: list[Record] = [task_record(pending) for pending in result]
        text = oracle.check_tasks(tasks, cache_was_lost, owned, since)
        worker.shown = frozenset(key for key, _ in tasks)
    sure = call.kind != "done" or owned is None or call.key in owned
    oracle.finish(change, ACKED if sure else MAYBE)  # removing a task of others does nothing
    if call.kind in ("task", "done"):
        oracle.written(change, worker.fs.now())
    if call.kind == "task":
        worker.owned.add(call.key)
    if call.kind in ("sync", "close"):
        oracle.synced(change, worker.number, worker.opened if cache_was_lost else 0)
    if call.kind == "open":
        worker.opened = oracle.time
    if call.kind == "close":
        worker.owned.clear()  # whoever opens next may take the file over
        worker.shown = frozenset()
        if count := worker.fs.open_descriptors():
            return text or f"descriptor-leak: {count} open after close"
    return text


def _judge_dead(oracle: Oracle, call: Call, change: Change, result: Any, binding: bool) -> str:
    if call.kind == "remove":
        change.count = result
        return count_contradiction(oracle, change, call.key, binding)
    if call.kind == "list":
        shown = [dead_record(dead) for dead in result]
        read = listed(change, shown)
        text = list_contradiction(oracle, read, shown, binding)
    else:
        record = None if result is None else dead_record(result)
        read = found(change, call.key, record)
        text = find_contradiction(oracle, read, record, binding)
    oracle.reads.append(read)
    return text


def owned_twice(workers: Sequence[Worker], worker: Worker) -> str:
    """Two living processes that both show a task which neither of them added: a file left behind
    was taken over twice (W11). A death or failure in a merge may do that (W12)."""
    if any(one.fs.faulty or not one.alive for one in workers):
        return ""
    for other in workers:
        twice = worker.shown & other.shown - worker.owned - other.owned
        if other is not worker and twice:
            return f"owned-twice: {min(twice)}, by workers {other.number} and {worker.number}"
    return ""
