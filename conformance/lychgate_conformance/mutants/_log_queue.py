"""`LogQueue`: a delivery queue on one log, durable and in few words; the seams of its mutants.

    log     a line for each event: CRC, blank, JSON; first of all the highest number that was given
    lock    flock, held from opening to closing

An event is appended and fsynced before its answer. A log that has doubled is written anew beside
the old one and renamed. The suite must find nothing in it, and each mutant of `delivery_crash`
overrides one of its seams.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import time
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from lychgate_conformance.adapters.sqlite_queue import QueueError

Answer = dict[str, Any]
Event = list[Any]

LOG_BYTES_MAX = 1_000


class LogQueue:
    """One file and a lock."""

    claims: ClassVar[Mapping[str, object]] = {
        "profile": "delivery",
        "survives_host_crash": True,
        "uses_path": True,
    }

    def __init__(self, path: str, now_ms: int | None = None) -> None:
        self.directory = os.path.abspath(path)
        self.log = os.path.join(self.directory, "log")
        self.now_ms, self.size_max = now_ms, LOG_BYTES_MAX
        self.make_directory()
        self.lock = os.open(os.path.join(self.directory, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self.lock)
            raise QueueError("locked", "another instance has the directory") from None
        self.known: dict[int, Answer] = {}
        self.high = 0
        try:
            self.recover()
        except BaseException:
            os.close(self.lock)
            raise

    # --- seams --------------------------------------------------------------------------------

    def make_directory(self) -> None:
        """Every directory that is made is fsynced into its parent."""
        missing = []
        directory = self.directory
        while not os.path.isdir(directory):
            missing.append(directory)
            directory = os.path.dirname(directory)
        for directory in reversed(missing):
            os.makedirs(directory, mode=0o700, exist_ok=True)
            self.sync_directory(os.path.dirname(directory))

    def recover(self) -> None:
        """Replay the log, and drop what is torn at its end: what is shown is durable."""
        self.poisoned = True
        self.known, self.high = {}, 0
        fd = os.open(self.log, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            with open(self.log, "rb") as found:
                data = found.read()
            size = self.replay(data)
            if size < len(data):
                os.ftruncate(fd, size)
            self.sync_file(fd)
        finally:
            os.close(fd)
        self.sync_directory(self.directory)
        self.poisoned = False

    def replay(self, data: bytes) -> int:
        """Apply every whole event; where they end."""
        size = 0
        for line in data.splitlines(keepends=True):
            event = self.event(line)
            if event is None:
                break
            self.apply(event)
            size += len(line)
        return size

    def sync_directory(self, directory: str) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_file(self, fd: int) -> None:
        os.fsync(fd)

    def write(self, fd: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    def line(self, event: Event) -> bytes:
        body = json.dumps(event, separators=(",", ":")).encode("ascii")
        return b"%08x %b\n" % (zlib.crc32(body), body)

    def event(self, line: bytes) -> Event | None:
        """The event of a line, None when there is none."""
        body = line[9:-1]
        if not line.endswith(b"\n") or line[:9] != b"%08x " % zlib.crc32(body):
            return None
        found: Event = json.loads(body)
        return found

    def append(self, event: Event) -> None:
        """One event, durable, and only then known. What ends it early leaves the queue poisoned."""
        self.poisoned = True
        fd = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            self.write(fd, self.line(event))
            self.sync_file(fd)
            size = os.fstat(fd).st_size
        finally:
            os.close(fd)
        self.apply(event)
        if size > self.size_max:
            self.replace(self.snapshot())
            self.size_max = max(LOG_BYTES_MAX, 2 * os.path.getsize(self.log))
        self.poisoned = False

    def snapshot(self) -> list[Event]:
        return [["high", self.high], *(["item", seq, it] for seq, it in self.known.items())]

    def replace(self, events: Iterable[Event]) -> None:
        """Another log under the same name."""
        staging = f"{self.log}.new"
        fd = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self.write(fd, b"".join(map(self.line, events)))
            self.sync_file(fd)
        finally:
            os.close(fd)
        os.rename(staging, self.log)
        self.sync_directory(self.directory)

    def apply(self, event: Event) -> None:
        what, seq, *rest = event
        if what == "item":
            self.known[seq] = dict(rest[0])
        elif what == "ack":
            del self.known[seq]
        elif what != "high":
            self.known[seq] |= rest[0]
        self.high = max(self.high, seq)

    # --- the facade ---------------------------------------------------------------------------

    def sound(self) -> None:
        """Refuses everything once a write has failed: what the disk holds is not known (L11)."""
        if self.poisoned:
            raise QueueError("poisoned", "a write failed; open the queue anew")

    def clock(self, now_ms: int) -> None:
        self.now_ms = now_ms

    def now(self) -> int:
        return time.time_ns() // 1_000_000 if self.now_ms is None else self.now_ms

    def enqueue(self, payload: bytes) -> Answer:
        self.sound()
        seq = self.high + 1
        item = {"state": "waiting", "attempts": 0, "until_ms": 0, "reason": None}
        self.append(["item", seq, {**item, "payload": base64.b64encode(payload).decode("ascii")}])
        return {"result": "OK", "seq": seq}

    def claim(self, lease_ms: int) -> Answer:
        self.sound()
        now = self.now()
        for seq, it in sorted(self.known.items()):
            if it["state"] != "quarantined" and it["until_ms"] <= now:
                break
        else:
            return {"result": "EMPTY"}
        until, receipt = now + lease_ms, it["attempts"] + 1
        self.append(["set", seq, {"state": "claimed", "attempts": receipt, "until_ms": until}])
        payload = base64.b64decode(it["payload"])
        found = {"seq": seq, "payload": payload, "receipt": receipt, "lease_until_ms": until}
        return {"result": "OK", **found}

    def end(self, seq: int, receipt: int | None, event: Event) -> Answer:
        self.sound()
        it = self.known.get(seq)
        if it is None:
            return {"result": "ALREADY_DONE" if 0 < seq <= self.high else "NOT_FOUND"}
        if it["state"] == "quarantined":
            return {"result": "ALREADY_DONE"}
        if receipt is not None and receipt != it["attempts"]:
            return {"result": "CLAIM_LOST"}
        if it["state"] != "claimed":
            return {"result": "NOT_CLAIMED"}
        self.append(event)
        return {"result": "OK"}

    def ack(self, seq: int, receipt: int | None) -> Answer:
        return self.end(seq, receipt, ["ack", seq])

    def retry(self, seq: int, receipt: int | None, delay_ms: int) -> Answer:
        free = {"state": "waiting", "until_ms": self.now() + delay_ms}
        return self.end(seq, receipt, ["set", seq, free])

    def quarantine(self, seq: int, receipt: int | None, reason: str) -> Answer:
        aside = {"state": "quarantined", "reason": reason}
        return self.end(seq, receipt, ["set", seq, aside])

    def items(self) -> list[Answer]:
        self.sound()
        return [self.shown(seq, it) for seq, it in sorted(self.known.items())]

    def shown(self, seq: int, it: Answer) -> Answer:
        """An item in the words of the protocol."""
        state = it["state"]
        if state != "quarantined":
            held = {"claimed": "leased", "waiting": "delayed"}[state]
            state = held if it["until_ms"] > self.now() else "available"
        return {**it, "seq": seq, "state": state, "payload": base64.b64decode(it["payload"])}

    def close(self) -> None:
        os.close(self.lock)
