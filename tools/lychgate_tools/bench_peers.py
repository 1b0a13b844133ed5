"""Other Python queues beside the engine: every put of both is fsynced (bench `peers`).

The peers are an optional extra. Each is set up as its own documentation has it, but for the setting
that makes a commit durable where that is not the default:

    persist-queue  FIFOSQLiteQueue(auto_commit=True): WAL journal, SQLite's own synchronous=FULL
    litequeue      LiteQueue; its PRAGMA synchronous=NORMAL is set to FULL
    huey           SqliteStorage(fsync=True): WAL journal, synchronous=FULL
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lychgate import Disk
from lychgate_tools.bench_measure import Result, Side, compare, timed, version_of
from lychgate_tools.bench_store import (
    PREFIX,
    TASK,
    Plan,
    dead_adder,
    small_result,
    scratch,
)

INSTALL = 'not installed: pip install "lychgate[bench]"'


class PeerMissing(Exception):
    """A peer is not installed."""


def _import(module: str) -> Any:  # the peers have no types
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PeerMissing(str(error)) from error


def _persist_queue(path: Path) -> Callable[[], object]:
    queue = _import("persistqueue").FIFOSQLiteQueue(str(path), auto_commit=True)
    return lambda: queue.put(TASK)


def _litequeue(path: Path) -> Callable[[], object]:
    queue = _import("litequeue").LiteQueue(str(path / "queue.sqlite3"))
    queue.conn.execute("PRAGMA synchronous = FULL")
    return lambda: queue.put(json.dumps(TASK))


def _huey(path: Path) -> Callable[[], object]:
    storage = _import("huey.storage").SqliteStorage(
        filename=str(path / "queue.sqlite3"), fsync=True
    )
    return lambda: storage.enqueue(json.dumps(TASK).encode())


PEERS: dict[str, tuple[str, Callable[[Path], Callable[[], object]]]] = {
    "persist-queue": ("put", _persist_queue),
    "litequeue": ("put", _litequeue),
    "huey": ("enqueue", _huey),
}


def peers(plan: Plan) -> list[Result]:
    """The engine's durable calls beside those of the peers; PeerMissing when none is there."""
    results: list[Result] = []
    missing: list[str] = []
    with scratch(plan, "peers") as base:
        with Disk(base / "own") as dead, Disk(base / "each", PREFIX, 0) as each:
            add_dead: Side = timed(dead_adder(dead))
            add_task: Side = timed(lambda: each.add_task(TASK))
            for name, (verb, make) in PEERS.items():
                plan.note(f"beside {name}")
                place = base / name
                place.mkdir()
                try:
                    put = timed(make(place))
                except PeerMissing:
                    missing.append(name)
                    continue
                label = f"{name} {version_of(name)} {verb}, durable"
                for what, side in (
                    ("add_dead_task", add_dead),
                    ("add_task, fsync_frequency=0", add_task),
                ):
                    times = compare(side, put, plan.rounds, plan.each)
                    results.append(small_result("peers", what, label, times, goal=1.0))
    if not results:
        raise PeerMissing(INSTALL)
    if missing:
        plan.note(f"{', '.join(missing)} {INSTALL}")
    return results
