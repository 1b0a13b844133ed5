"""A delivery queue in a hundred lines on SQLite: one table, one transaction a call.

`python_adapter.py lychgate_conformance.adapters.sqlite_queue:SqliteQueue` makes an adapter of it.
It shares nothing with the engine's queue, so that what the suite finds in one and not in the other
is that one's. Numbers come from AUTOINCREMENT, which keeps the highest that was ever given;
`synchronous = EXTRA` makes a commit durable (see sqlite_store.py); the lock is a flock, for
SQLite's own would let a second instance in between two calls.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

Answer = dict[str, Any]

_TABLE = """CREATE TABLE IF NOT EXISTS items (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, payload BLOB NOT NULL, state TEXT NOT NULL,
    attempts INTEGER NOT NULL, until_ms INTEGER NOT NULL, reason TEXT
)"""
REASON_BYTES_MAX = 4096


class QueueError(Exception):
    """What keeps a queue from being used; `code` is one of docs/protocol.md."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.definite = True


class SqliteQueue:
    """The queue. `state` is waiting, claimed or quarantined."""

    claims: ClassVar[Mapping[str, object]] = {
        "profile": "delivery",
        "survives_host_crash": True,
        "uses_path": True,
        "limits": True,
    }

    def __init__(
        self,
        path: str,
        now_ms: int | None = None,
        items_max: int = 10_000,
        payload_bytes_max: int = 65_536,
        segment_bytes: int = 8_388_608,
        segments_max: int = 16,
    ) -> None:
        directory = Path(path).absolute()
        for parent in reversed([it for it in (directory, *directory.parents) if not it.exists()]):
            parent.mkdir(exist_ok=True)
            fd = os.open(parent.parent, os.O_RDONLY)
            os.fsync(fd)  # SQLite makes its files' names durable, not those of directories
            os.close(fd)
        self.now_ms = now_ms
        self.items_max, self.payload_bytes_max = items_max, payload_bytes_max
        self.reason_bytes_max = min(REASON_BYTES_MAX, payload_bytes_max)
        self.bytes_max = segment_bytes * segments_max
        self.lock = self.take_lock(directory)
        try:
            self.open_database(directory)
            if self.bytes_taken() > self.bytes_max:
                raise QueueError("bad_option", "what is there does not fit these limits")
        except BaseException:
            self.close()
            raise

    def take_lock(self, directory: Path) -> int:
        fd = os.open(directory / "queue.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise QueueError("locked", "another instance has the directory") from None
        return fd

    def open_database(self, directory: Path) -> None:
        self.db = sqlite3.connect(directory / "queue.db", isolation_level=None)
        self.db.execute("PRAGMA journal_mode = DELETE")
        self.db.execute("PRAGMA synchronous = EXTRA")
        self.db.execute(_TABLE)

    def clock(self, now_ms: int) -> None:
        """From now on the time is this."""
        self.now_ms = now_ms

    def now(self) -> int:
        return time.time_ns() // 1_000_000 if self.now_ms is None else self.now_ms

    def bytes_taken(self) -> int:
        """Bytes of all items, each with the longest reason that it may yet get."""
        query = "SELECT count(*), total(length(payload)) FROM items"
        count, size = self.db.execute(query).fetchone()
        return int(size) + int(count) * self.reason_bytes_max

    # --- the calls ----------------------------------------------------------------------------

    def enqueue(self, payload: bytes) -> Answer:
        if len(payload) > self.payload_bytes_max:
            return {"result": "TOO_LARGE"}
        (count,) = self.db.execute("SELECT count(*) FROM items").fetchone()
        size = len(payload) + self.reason_bytes_max
        if count >= self.items_max or self.bytes_taken() + size > self.bytes_max:
            return {"result": "FULL"}
        row = "INSERT INTO items (payload, state, attempts, until_ms) VALUES (?, 'waiting', 0, 0)"
        return {"result": "OK", "seq": self.db.execute(row, (payload,)).lastrowid}

    def choose(self) -> tuple[int, bytes, int] | None:
        """The item that is to be claimed: number, payload, claims so far."""
        query = """SELECT seq, payload, attempts FROM items
            WHERE state != 'quarantined' AND until_ms <= ? ORDER BY seq LIMIT 1"""
        found: tuple[int, bytes, int] | None = self.db.execute(query, (self.now(),)).fetchone()
        return found

    def claim(self, lease_ms: int) -> Answer:
        chosen = self.choose()
        if chosen is None:
            return {"result": "EMPTY"}
        seq, payload, attempts = chosen
        until = self.now() + lease_ms
        change = "UPDATE items SET state = 'claimed', attempts = ?, until_ms = ? WHERE seq = ?"
        self.db.execute(change, (attempts + 1, until, seq))
        receipt = attempts + 1
        found = {"seq": seq, "payload": payload, "receipt": receipt, "lease_until_ms": until}
        return {"result": "OK", **found}

    def verdict(self, seq: int, receipt: int | None) -> str:
        """Whether a consumer may say something of an item."""
        row = self.db.execute("SELECT state, attempts FROM items WHERE seq = ?", (seq,)).fetchone()
        if row is None:
            query = "SELECT seq FROM sqlite_sequence WHERE name = 'items'"
            (high,) = self.db.execute(query).fetchone() or (0,)
            return "ALREADY_DONE" if 0 < seq <= high else "NOT_FOUND"
        if row[0] == "quarantined":
            return "ALREADY_DONE"
        if receipt is not None and receipt != row[1]:
            return "CLAIM_LOST"
        return "OK" if row[0] == "claimed" else "NOT_CLAIMED"

    def end(self, seq: int, receipt: int | None, change: str, *values: object) -> Answer:
        """One statement on an item that the consumer has claimed."""
        result = self.verdict(seq, receipt)
        if result == "OK":
            self.db.execute(change, (*values, seq))
        return {"result": result}

    def ack(self, seq: int, receipt: int | None) -> Answer:
        return self.end(seq, receipt, "DELETE FROM items WHERE seq = ?")

    def retry(self, seq: int, receipt: int | None, delay_ms: int) -> Answer:
        change = "UPDATE items SET state = 'waiting', until_ms = ? WHERE seq = ?"
        return self.end(seq, receipt, change, self.now() + delay_ms)

    def quarantine(self, seq: int, receipt: int | None, reason: str) -> Answer:
        cut = reason.encode()[: self.reason_bytes_max].decode(errors="ignore")
        change = "UPDATE items SET state = 'quarantined', reason = ? WHERE seq = ?"
        return self.end(seq, receipt, change, cut)

    def items(self) -> list[Answer]:
        rows = self.db.execute("SELECT * FROM items ORDER BY seq").fetchall()
        names = ("seq", "payload", "state", "attempts", "until_ms", "reason")
        return [self.shown(dict(zip(names, row, strict=True))) for row in rows]

    def shown(self, item: Answer) -> Answer:
        """An item in the words of the protocol."""
        if item["state"] != "quarantined":
            held = {"claimed": "leased", "waiting": "delayed"}[item["state"]]
            item["state"] = held if item["until_ms"] > self.now() else "available"
        return item

    def close(self) -> None:
        if hasattr(self, "db"):
            self.db.close()
        os.close(self.lock)
