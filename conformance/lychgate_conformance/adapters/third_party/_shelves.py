"""The seven methods on a store that can put, list and drop: what all mappings here share.

    facade            shelf `tasks`                   shelf `dead`
    add_task          put the new one, then drop      -
                      what had its id before
    remove_task       drop                            -
    pending_tasks     list, the newest of each id     -
    add_dead_task     -                               put
    list, find        -                               list
    remove_dead_tasks -                               drop, one by one

Rules
  * A shelf is a thin layer over one queue, table or directory of the store, made of calls that the
    store documents. Everything that is kept is kept by the store; nothing is cached here unless a
    shelf says so.
  * Each line of JSON is one item. What a reader cannot decode is passed over, as a consumer would.
  * The steps are in such an order that a crash between two calls of the store is a crash of the
    whole call: it happened or it did not. Dropping several dead tasks in one call is the
    exception, and the cases about it are left out (`ONE_BY_ONE`), as are those in which several
    workers change one id at random.
"""

from __future__ import annotations

import importlib
import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Protocol

Row = dict[str, Any]

ONE_BY_ONE = {
    case_id: "one call of the facade is several of the store, so what a crash or another worker"
    " sees between them is the mapping's"
    for case_id in (
        *("L1-KILL-006", "L1-KILL-009", "L1-RACE-002", "L1-RACE-004", "L1-RACE-009"),
        *("L1-THR-004", "L1-THR-005", "L2-CUT-002", "L3-DLQ-002", "L4-DEAD-002"),
        *("L5-ADD-002", "L5-READ-001", "L5-REM-002"),
    )
}
MODE = {"L0-FILE-003": "the store makes its files as the umask says and promises nothing else"}

CLAIMS: Mapping[str, object] = {
    "pending_scope": "all",
    "uses_path": True,
    "reclaims_space": False,
    "multi_process": False,
    "multi_thread": False,
    "fork_safe": False,
    "survives_host_crash": False,
    "fsync_policy": "never",
}
"""Of every mapping, unless it says otherwise: processes may end and be killed, one at a time."""

DURABLE: Mapping[str, object] = {"survives_host_crash": True, "fsync_policy": "always"}


@dataclass(frozen=True, slots=True)
class Peer:
    """What a page says of one store under one setting."""

    name: str
    distribution: str
    """The package that it comes in."""
    setting: str
    """How it is opened, and what that means for durability."""
    promises: str
    """What its documentation says, and so what is claimed."""
    mapping: str
    """How the seven methods reach it."""
    limits: str
    """What this mapping cannot show."""
    leaves_out: Mapping[str, str] = field(default_factory=dict)
    """Case id: why it would try the mapping, or a promise that nobody made."""
    like: str = ""
    """The class that differs in durability only, so that one of the two is run in full."""

    @property
    def version(self) -> str | None:
        """None when it is not installed."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return None


class Shelf(Protocol):
    """One list of items in the store."""

    def put(self, text: str) -> None: ...

    def items(self) -> list[tuple[Any, str]]:
        """What is there, oldest first: for each item something to drop it by, and its text."""

    def drop(self, handle: Any) -> None: ...

    def close(self) -> None: ...


class Shelved:
    """The facade. A store's class sets `peer` and `claims` and gives its two shelves."""

    peer: ClassVar[Peer]
    claims: ClassVar[Mapping[str, object]] = CLAIMS

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        if "/" in prefix or "\0" in prefix:
            raise ValueError("a prefix is the start of a file name")
        directory = Path(path).absolute()
        make_directory(directory)
        self.base = str(directory / prefix)
        self.tasks, self.dead = self.shelf("tasks"), self.shelf("dead")

    def shelf(self, name: str) -> Shelf:
        """A shelf in files whose names begin with `self.base`."""
        raise AssertionError("each store has its own")

    def add_task(
        self, task: Any, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        new = secrets.token_hex(12) if task_id is None else task_id
        text = json.dumps({"id": new, "task": task, "publish_at": publish_at}, allow_nan=False)
        old = self._handles(self.tasks, "id", {new}) if task_id is not None else []
        self.tasks.put(text)
        for handle in old:
            self.tasks.drop(handle)
        return new

    def remove_task(self, task_id: str) -> None:
        for handle in self._handles(self.tasks, "id", {task_id}):
            self.tasks.drop(handle)

    def pending_tasks(self) -> list[tuple[str, Any, float | None]]:
        newest = {row["id"]: row for _, row in rows(self.tasks)}
        return [(row["id"], row["task"], row["publish_at"]) for row in newest.values()]

    def add_dead_task(
        self, task_id: str, context: Any, exception: object, task_class: str, attempts: int
    ) -> None:
        try:
            message = str(exception)
        except Exception:  # it has no text
            message = ""
        record = {
            "task_id": task_id,
            "task_class": task_class,
            "attempts": attempts,
            "context": context,
            "error_class": type(exception).__qualname__,
            "error_message": message,
            "failed_at": time.time(),
            "enqueued_at": None,
        }
        self.dead.put(json.dumps(record, allow_nan=False))

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Row]:
        return [row for _, row in rows(self.dead)][offset:][:limit]

    def find_dead_task(self, task_id: str) -> Row | None:
        found = [row for _, row in rows(self.dead) if row["task_id"] == task_id]
        return found[-1] if found else None

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        wanted = frozenset(task_ids)
        found = [it for it in rows(self.dead) if it[1]["task_id"] in wanted] if wanted else []
        for handle, _ in found:
            self.dead.drop(handle)
        return len({row["task_id"] for _, row in found})

    def close(self) -> None:
        self.tasks.close()
        self.dead.close()

    @staticmethod
    def _handles(shelf: Shelf, name: str, wanted: set[str]) -> list[Any]:
        return [handle for handle, row in rows(shelf) if row[name] in wanted]


def rows(shelf: Shelf) -> list[tuple[Any, Row]]:
    """The items that can be decoded."""
    found = []
    for handle, text in shelf.items():
        try:
            row = json.loads(text)
        except ValueError:
            continue
        if isinstance(row, dict):
            found.append((handle, row))
    return found


def make_directory(directory: Path) -> None:
    """With everything above it, each name made durable: no store here does that for its caller."""
    for parent in reversed([it for it in (directory, *directory.parents) if not it.exists()]):
        parent.mkdir(exist_ok=True)
        fd = os.open(parent.parent, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def load(module: str) -> Any:
    """A module of a store; none of them is needed to import this package."""
    return importlib.import_module(module)
