"""persist-queue: `SQLiteAckQueue`, and the file `Queue`."""

from __future__ import annotations

import os
from typing import Any

from lychgate_conformance.adapters.third_party._shelves import (
    CLAIMS,
    DURABLE,
    MODE,
    ONE_BY_ONE,
    Peer,
    Shelved,
    load,
)
from lychgate_conformance.adapters.third_party._turned import IN_MEMORY, Turned

_ACKED = 5


class AckShelf:
    """A queue in a database file of its own."""

    def __init__(self, file: str) -> None:
        directory, _, name = file.rpartition("/")
        self.queue = load("persistqueue").SQLiteAckQueue(
            directory, db_file_name=name, multithreading=True, timeout=30.0
        )

    def put(self, text: str) -> None:
        self.queue.put(text)

    def items(self) -> list[tuple[Any, str]]:
        waiting = [it for it in self.queue.queue() if int(it["status"]) < _ACKED]
        return [(it["id"], it["data"]) for it in waiting]

    def drop(self, handle: Any) -> None:
        self.queue.ack(id=handle)

    def close(self) -> None:
        self.queue.close()


class SqliteAck(Shelved):
    """`SQLiteAckQueue` as it comes."""

    peer = Peer(
        name="persist-queue SQLiteAckQueue",
        distribution="persist-queue",
        setting="as it comes: WAL journal and SQLite's own `synchronous`, which is FULL in most"
        " builds; it has no option for it",
        promises="thread-safe; each item is stored on disk and can be read after a restart. Host"
        " crashes are claimed on the word of SQLite, whose FULL means durable",
        mapping="two queues in two files; `put`, `ack(id=…)`, `queue()`",
        limits="`get`, which lends an item to a consumer until the next opening, is not used;"
        " several processes are not documented and not claimed",
        leaves_out={**ONE_BY_ONE, **MODE},
    )
    claims = {**CLAIMS, **DURABLE, "multi_thread": True}

    def shelf(self, name: str) -> AckShelf:
        return AckShelf(f"{self.base}{name}.db")


class FileShelf(Turned):
    """A `Queue` in a directory. What is taken and not marked as done is there again when the
    queue is opened the next time, so it is read by taking everything and opening it anew."""

    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)  # `tempdir` must exist; the default is elsewhere
        self.queue = self.open(directory)
        super().__init__([self.queue.get_nowait() for _ in range(self.queue.qsize())])
        self.close()
        self.queue = self.open(directory)

    def open(self, directory: str) -> Any:
        return load("persistqueue").Queue(directory, tempdir=directory)

    def append(self, text: str) -> None:
        self.queue.put(text)

    def take(self) -> None:
        self.queue.get_nowait()
        self.queue.task_done()

    def turn(self) -> None:
        self.queue.put(self.queue.get_nowait())  # both in one new `info` file

    def close(self) -> None:
        self.queue.headf.close()  # it has no `close`
        self.queue.tailf.close()


class File(Shelved):
    """The file `Queue`."""

    peer = Peer(
        name="persist-queue Queue",
        distribution="persist-queue",
        setting="as it comes, its temporary files beside the queue (`tempdir`); it has no option"
        " for durable writes",
        promises="each item is stored on disk to survive crashes; here read as crashes of the"
        " process",
        mapping="two queues in two directories; `put`, `get_nowait` with `task_done`",
        limits="it can be read only by taking: the mapping opens it twice, keeps what it holds in"
        " memory and moves items to the end to reach one in the middle. So one process and one"
        " thread, and no order",
        leaves_out={**ONE_BY_ONE, **MODE, **IN_MEMORY},
    )
    claims = {**CLAIMS, "list_order": "any"}

    def shelf(self, name: str) -> FileShelf:
        return FileShelf(f"{self.base}{name}")
