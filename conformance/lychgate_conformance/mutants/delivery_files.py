"""Mutants of the delivery queue: restarts and kills, the lock on its directory, room."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from lychgate_conformance.adapters.sqlite_queue import Answer, QueueError, SqliteQueue
from lychgate_conformance.mutants._base import mutant

# --- restarts ---------------------------------------------------------------------------------


@mutant("queue-opening-releases", "L0-QSEQ-002 L1-QOPEN-001 L1-QOPEN-004 L1-QOPEN-008")
class OpeningReleases(SqliteQueue):
    """Gives every claim back when it is opened."""

    def open_database(self, directory: Path) -> None:
        super().open_database(directory)
        self.db.execute("UPDATE items SET state = 'waiting', until_ms = 0 WHERE state = 'claimed'")


@mutant("queue-exit-forgets", "L1-QOPEN-002 L1-QKILL-001 L1-QKILL-002 L1-QKILL-003")
class ExitForgets(SqliteQueue):
    """Commits when it is closed."""

    def open_database(self, directory: Path) -> None:
        super().open_database(directory)
        self.db.execute("BEGIN")

    def close(self) -> None:
        if self.db.in_transaction:
            self.db.execute("COMMIT")
        super().close()


@mutant("queue-lease-begins-anew", "L1-QOPEN-006")
class LeaseBeginsAnew(SqliteQueue):
    """Lets every lease begin anew when it is opened."""

    def open_database(self, directory: Path) -> None:
        super().open_database(directory)
        longer = "UPDATE items SET until_ms = until_ms + 30000 WHERE state = 'claimed'"
        self.db.execute(longer)


@mutant("queue-recover-expires", "L1-QOPEN-009")
class RecoverExpires(SqliteQueue):
    """Expires claims when it recovers."""

    def recover(self) -> None:
        self.db.execute("UPDATE items SET until_ms = 0 WHERE state = 'claimed'")


@mutant("queue-commits-late", "L1-QKILL-004")
class CommitsLate(SqliteQueue):
    """Commits with every second call."""

    def claim(self, lease_ms: int) -> Answer:
        if self.db.in_transaction:
            self.db.execute("COMMIT")
        self.db.execute("BEGIN")
        return super().claim(lease_ms)

    def enqueue(self, payload: bytes) -> Answer:
        answer = super().enqueue(payload)
        if self.db.in_transaction:
            self.db.execute("COMMIT")
        return answer


@mutant("queue-tidies-at-opening", "L1-QKILL-005")
class TidiesAtOpening(SqliteQueue):
    """Takes every item out and puts it back when it is opened, one by one."""

    def open_database(self, directory: Path) -> None:
        super().open_database(directory)
        rows = self.db.execute("SELECT * FROM items").fetchall()
        self.db.execute("DELETE FROM items")
        for row in rows:
            self.db.execute("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)", row)


# --- the lock ---------------------------------------------------------------------------------


@mutant("queue-unlocked", "L1-QLOCK-001 L1-QLOCK-002 L1-QLOCK-004")
class Unlocked(SqliteQueue):
    """Lets a second process in."""

    def take_lock(self, directory: Path) -> int:
        return os.open(directory / "queue.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


@mutant("queue-lock-stays", "L1-QLOCK-003")
class LockStays(SqliteQueue):
    """Takes a lock file that a dead process has left for a lock."""

    def take_lock(self, directory: Path) -> int:
        self.lock_file = directory / "queue.lock"
        try:
            return os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC)
        except FileExistsError:
            raise QueueError("locked", "another instance has the directory") from None

    def close(self) -> None:
        super().close()
        self.lock_file.unlink()


@mutant("queue-signs-before-locking", "L1-QLOCK-005")
class SignsBeforeLocking(SqliteQueue):
    """Writes its name into its directory before it has the lock."""

    def take_lock(self, directory: Path) -> int:
        (directory / "owner").write_text(str(os.getpid()))
        return super().take_lock(directory)


# --- room -------------------------------------------------------------------------------------


@mutant("queue-one-too-many", "L0-QROOM-001")
class OneTooMany(SqliteQueue):
    """Takes one item more than its limit."""

    def __init__(self, path: str, now_ms: int | None = None, **limits: Any) -> None:
        limits["items_max"] = limits.get("items_max", 10_000) + 1
        super().__init__(path, now_ms, **limits)


@mutant("queue-any-size", "L0-QROOM-002")
class AnySize(SqliteQueue):
    """Takes payloads of any size."""

    def enqueue(self, payload: bytes) -> Answer:
        self.payload_bytes_max = max(self.payload_bytes_max, len(payload))
        return super().enqueue(payload)


@mutant("queue-reason-uncut", "L0-QROOM-003")
class ReasonUncut(SqliteQueue):
    """Keeps a reason of any length."""

    def quarantine(self, seq: int, receipt: int | None, reason: str) -> Answer:
        self.reason_bytes_max = max(self.reason_bytes_max, len(reason.encode()))
        return super().quarantine(seq, receipt, reason)


class _Hoards(SqliteQueue):
    """Writes whatever happens into a history that nobody cleans."""

    def open_database(self, directory: Path) -> None:
        super().open_database(directory)
        self.db.execute("PRAGMA synchronous = OFF")  # no crash is tried on these

    def note(self, text: str) -> None:
        self.db.execute("CREATE TABLE IF NOT EXISTS history (text TEXT)")
        self.db.execute("INSERT INTO history VALUES (?)", (text * 30,))


@mutant("queue-keeps-acked", "L0-QROOM-004")
class KeepsAcked(_Hoards):
    """Keeps what is acked in its files for ever."""

    def ack(self, seq: int, receipt: int | None) -> Answer:
        self.note(f"acked {seq:10}")
        return super().ack(seq, receipt)


@mutant("queue-keeps-retries", "L0-QROOM-005")
class KeepsRetries(_Hoards):
    """Keeps the history of retries in its files for ever."""

    def retry(self, seq: int, receipt: int | None, delay_ms: int) -> Answer:
        self.note(f"given back {seq:10}")
        return super().retry(seq, receipt, delay_ms)


@mutant("queue-no-headroom", "L0-QROOM-006")
class NoHeadroom(SqliteQueue):
    """Accepts items without room for what may be said of them."""

    def bytes_taken(self) -> int:
        query = "SELECT total(length(payload)), total(length(reason)) FROM items"
        payloads, reasons = self.db.execute(query).fetchone()
        return int(payloads + reasons)

    def quarantine(self, seq: int, receipt: int | None, reason: str) -> Answer:
        if self.bytes_taken() + len(reason) > self.bytes_max:
            raise QueueError("full", "there is no room for the reason")
        return super().quarantine(seq, receipt, reason)


@mutant("queue-log-unbounded", "L0-QROOM-007")
class LogUnbounded(SqliteQueue):
    """Writes a segment that nobody bounds."""

    claims: ClassVar[Mapping[str, object]] = {**SqliteQueue.claims, "disk_bound": True}

    def take_lock(self, directory: Path) -> int:
        self.segment = directory / "segment-1.log"
        return super().take_lock(directory)

    def enqueue(self, payload: bytes) -> Answer:
        with self.segment.open("ab") as file:
            file.write(payload)
        return super().enqueue(payload)


@mutant("queue-full-drops", "L0-QROOM-008")
class FullDrops(SqliteQueue):
    """Makes room for a new item by dropping the oldest."""

    def enqueue(self, payload: bytes) -> Answer:
        answer = super().enqueue(payload)
        if answer["result"] == "FULL":
            self.db.execute("DELETE FROM items WHERE seq = (SELECT min(seq) FROM items)")
        return answer


@mutant("queue-limits-unchecked", "L0-QROOM-009")
class LimitsUnchecked(SqliteQueue):
    """Opens a queue under limits that its items do not fit."""

    def open_database(self, directory: Path) -> None:
        super().open_database(directory)
        self.bytes_max = max(self.bytes_max, self.bytes_taken())
