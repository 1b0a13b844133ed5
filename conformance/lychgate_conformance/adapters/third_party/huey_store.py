"""huey: `SqliteStorage` and `FileStorage`, without its consumer."""

from __future__ import annotations

import secrets
from typing import Any, ClassVar

from lychgate_conformance.adapters.third_party._shelves import (
    CLAIMS,
    DURABLE,
    MODE,
    ONE_BY_ONE,
    Peer,
    Shelf,
    Shelved,
    load,
)

_MAPPING = (
    "two queues; `enqueue`, `enqueued_items`. A removed item is marked as done with `put_data` in"
    " the result store, as the consumer keeps results there, and passed over from then on"
)
_LIMITS = (
    "`dequeue` deletes a task before it runs, so a task whose worker dies is gone by design; the"
    " mapping does not use it. Nor the schedule: a `publish_at` is kept in the item. The queue"
    " never shrinks this way"
)


class HueyShelf:
    """A queue, and the marks of what is done."""

    def __init__(self, storage: Any) -> None:
        self.storage = storage

    def put(self, text: str) -> None:
        self.storage.enqueue(f"{secrets.token_hex(12)} {text}".encode("ascii"))

    def items(self) -> list[tuple[Any, str]]:
        waiting = [it.decode("ascii").partition(" ") for it in self.storage.enqueued_items()]
        done = {it if isinstance(it, str) else it.decode() for it in self.storage.result_items()}
        return [(mark, text) for mark, _, text in waiting if mark not in done]

    def drop(self, handle: Any) -> None:
        self.storage.put_data(handle, b"done")

    def close(self) -> None:
        self.storage.close()


class Sqlite(Shelved):
    """`SqliteStorage(fsync=True)`."""

    peer = Peer(
        name="huey SqliteStorage",
        distribution="huey",
        setting="`fsync=True`: WAL journal, `synchronous = FULL`",
        promises="for several processes and threads; with `fsync` writes are durable",
        mapping=_MAPPING,
        limits=_LIMITS,
        leaves_out={**ONE_BY_ONE, **MODE},
    )
    claims = {**CLAIMS, **DURABLE, "multi_process": True, "multi_thread": True}
    options: ClassVar[dict[str, object]] = {"fsync": True}

    def shelf(self, name: str) -> Shelf:
        file = f"{self.base}{name}.db"
        return HueyShelf(
            load("huey.storage").SqliteStorage(filename=file, timeout=30, **self.options)
        )


class SqliteDefault(Sqlite):
    """`SqliteStorage` as it comes."""

    peer = Peer(
        name="huey SqliteStorage",
        distribution="huey",
        setting="as it comes: WAL journal, SQLite's own `synchronous`",
        promises="for several processes and threads",
        mapping=_MAPPING,
        limits=_LIMITS,
        leaves_out={**ONE_BY_ONE, **MODE},
        like="Sqlite",
    )
    claims = {**CLAIMS, "multi_process": True, "multi_thread": True}
    options: ClassVar[dict[str, object]] = {}


class File(Shelved):
    """`FileStorage`."""

    peer = Peer(
        name="huey FileStorage",
        distribution="huey",
        setting="as it comes; it has no option for durable writes",
        promises="for several processes and threads, by a lock around every operation; its"
        " documentation advises against it in production",
        mapping=_MAPPING,
        limits=_LIMITS,
        leaves_out={**ONE_BY_ONE, **MODE},
    )
    claims = {**CLAIMS, "multi_process": True, "multi_thread": True}

    def shelf(self, name: str) -> Shelf:
        return HueyShelf(load("huey.storage").FileStorage(name, f"{self.base}{name}"))
