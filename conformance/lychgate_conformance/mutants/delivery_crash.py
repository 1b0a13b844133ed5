"""Mutants of a durable delivery queue: what only a kill or a crash at the right moment shows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from lychgate_conformance.adapters.sqlite_queue import Answer, SqliteQueue
from lychgate_conformance.mutants._base import mutant
from lychgate_conformance.mutants._log_queue import Event, LogQueue


class _Cached(LogQueue):
    """Events of some kinds stay in the cache."""

    cached: tuple[str, ...]

    def append(self, event: Event) -> None:
        self.unsynced = event[0] in self.cached
        super().append(event)
        self.unsynced = False

    def sync_file(self, fd: int) -> None:
        if not getattr(self, "unsynced", False):
            super().sync_file(fd)


@mutant("queue-items-not-fsynced", "L3-QCRASH-001")
class ItemsNotFsynced(_Cached):
    """Acknowledges an item that is in the cache only."""

    cached = ("item",)


@mutant("queue-acks-not-fsynced", "L3-QCRASH-002")
class AcksNotFsynced(_Cached):
    """Acknowledges an ack that is in the cache only."""

    cached = ("ack",)


@mutant("queue-claims-not-fsynced", "L3-QCRASH-006")
class ClaimsNotFsynced(_Cached):
    """Acknowledges claims and quarantines that are in the cache only."""

    cached = ("set",)


@mutant("queue-snapshot-not-fsynced", "L3-QCRASH-004")
class SnapshotNotFsynced(LogQueue):
    """Renames a snapshot before its bytes are durable."""

    def replace(self, events: Iterable[Event]) -> None:
        self.replacing = True
        super().replace(events)
        del self.replacing

    def sync_file(self, fd: int) -> None:
        if not hasattr(self, "replacing"):
            super().sync_file(fd)


@mutant("queue-names-not-durable", "L3-QCRASH-003")
class QueueNamesNotDurable(LogQueue):
    """Makes its log and never fsyncs the directory."""

    def sync_directory(self, directory: str) -> None:
        if directory != self.directory:
            super().sync_directory(directory)


@mutant("queue-old-log-deleted-first", "L2-QHIT-002")
class OldLogDeletedFirst(LogQueue):
    """Deletes the old log before the new one has its name."""

    def sync_file(self, fd: int) -> None:
        super().sync_file(fd)
        path = os.readlink(f"/proc/self/fd/{fd}")
        if path.endswith(".new"):
            os.unlink(path.removesuffix(".new"))


@mutant("queue-snapshot-forgets-claims", "L2-QCUT-003")
class SnapshotForgetsClaims(LogQueue):
    """Writes its log anew without the claims."""

    def snapshot(self) -> list[Event]:
        free = {"state": "waiting", "attempts": 0, "until_ms": 0}
        items = [["item", seq, {**it, **free}] for seq, it in self.known.items()]
        return [["high", self.high], *items]


@mutant("queue-footer-ignored", "L2-QCUT-001")
class FooterIgnored(LogQueue):
    """Takes every line that can be read for a whole one, whatever its checksum."""

    def event(self, line: bytes) -> Event | None:
        body = line[9:].rstrip(b"\n")
        try:
            found: Event = json.loads(body)
        except ValueError:
            return None
        return found

    def line(self, event: Event) -> bytes:
        if event[0] != "item":
            return super().line(event)
        item = dict(event[2])
        payload = item.pop("payload")
        begun = json.dumps(["item", event[1], {**item, "payload": ""}], separators=(",", ":"))
        rest = json.dumps(["set", event[1], {"payload": payload}], separators=(",", ":"))
        return b"".join(b"%08x %b\n" % (0, it.encode("ascii")) for it in (begun, rest))


@mutant("queue-torn-tail-kept", "L3-QCRASH-005")
class QueueTornTailKept(LogQueue):
    """Appends behind what is left of a torn event."""

    def replay(self, data: bytes) -> int:
        for line in data.splitlines(keepends=True):
            event = self.event(line)
            if event is not None:
                self.apply(event)
        return len(data)


@mutant("queue-torn-tail-fatal", "L2-QCUT-002")
class QueueTornTailFatal(LogQueue):
    """Cannot be opened when its last event is torn."""

    def replay(self, data: bytes) -> int:
        size = super().replay(data)
        if size < len(data):
            raise ValueError("the log is damaged")
        return size


@mutant("queue-two-events", "L2-QCUT-002")
class TwoEvents(LogQueue):
    """Writes a quarantine as two events, the second with the reason."""

    def quarantine(self, seq: int, receipt: int | None, reason: str) -> Answer:
        answer = super().quarantine(seq, receipt, "")
        if answer["result"] == "OK":
            self.append(["set", seq, {"reason": reason}])
        return answer


@mutant("queue-answered-before-written", "L2-QHIT-001")
class QueueAnsweredBeforeWritten(LogQueue):
    """Writes an ack with the next call."""

    waits: list[Event]

    def append(self, event: Event) -> None:
        for one in getattr(self, "waits", []):
            super().append(one)
        self.waits = []
        if event[0] != "ack":
            super().append(event)
            return
        self.waits = [event]
        self.known.pop(event[1])

    def apply(self, event: Event) -> None:
        if event[0] != "ack" or event[1] in self.known:
            super().apply(event)


@mutant("queue-rewritten-in-place", "L2-QCUT-004")
class RewrittenInPlace(LogQueue):
    """Writes its log anew in place, and whenever it is opened."""

    def replace(self, events: Iterable[Event]) -> None:
        fd = os.open(self.log, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            self.write(fd, b"".join(map(self.line, events)))
            self.sync_file(fd)
        finally:
            os.close(fd)

    def recover(self) -> None:
        super().recover()
        self.replace(self.snapshot())


@mutant("queue-sqlite-full", "L3-QCRASH-002")
class SqliteFull(SqliteQueue):
    """SQLite with a rollback journal whose deletion is not made durable."""

    def open_database(self, directory: Path) -> None:
        super().open_database(directory)
        self.db.execute("PRAGMA synchronous = NORMAL")
