"""Mutants of the delivery queue: enqueuing, claiming and ending, in one process."""

from __future__ import annotations

from pathlib import Path

from lychgate_conformance.adapters.sqlite_queue import Answer, SqliteQueue
from lychgate_conformance.mutants._base import mutant

# --- enqueuing --------------------------------------------------------------------------------


@mutant("queue-cuts-at-nul", "L0-QPUT-001")
class CutsAtNul(SqliteQueue):
    """Takes a payload for text that ends with a NUL."""

    def enqueue(self, payload: bytes) -> Answer:
        return super().enqueue(payload.partition(b"\0")[0])


@mutant("queue-greets", "L0-QPUT-002")
class Greets(SqliteQueue):
    """Puts an item of its own into a new queue."""

    def open_database(self, directory: Path) -> None:
        super().open_database(directory)
        if not self.items():
            self.enqueue(b"hello")


@mutant("queue-numbers-again", "L0-QPUT-003 L1-QOPEN-003")
class NumbersAgain(SqliteQueue):
    """Takes the next number from the highest that is left."""

    def enqueue(self, payload: bytes) -> Answer:
        answer = super().enqueue(payload)
        if "seq" in answer:
            (high,) = self.db.execute(
                "SELECT coalesce(max(seq), 0) FROM items WHERE seq != ?", (answer["seq"],)
            ).fetchone()
            self.db.execute("UPDATE items SET seq = ? WHERE seq = ?", (high + 1, answer["seq"]))
            answer["seq"] = high + 1
        return answer


@mutant("queue-number-for-refusal", "L0-QPUT-004 L0-QROOM-001 L0-QROOM-002")
class NumberForRefusal(SqliteQueue):
    """Uses a number for every call, refused or not."""

    def enqueue(self, payload: bytes) -> Answer:
        self.db.execute("INSERT OR IGNORE INTO sqlite_sequence VALUES ('items', 0)")
        self.db.execute("UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'items'")
        return super().enqueue(payload)


@mutant("queue-lock-beside", "L0-QPUT-005")
class LockBeside(SqliteQueue):
    """Keeps its lock beside its directory."""

    def take_lock(self, directory: Path) -> int:
        beside = directory.with_suffix(".lock")
        beside.mkdir(exist_ok=True)
        return super().take_lock(beside)


@mutant("queue-deduplicates", "L0-QPUT-006")
class Deduplicates(SqliteQueue):
    """Takes a second item with the same payload for the first."""

    def enqueue(self, payload: bytes) -> Answer:
        row = self.db.execute("SELECT seq FROM items WHERE payload = ?", (payload,)).fetchone()
        return super().enqueue(payload) if row is None else {"result": "OK", "seq": row[0]}


@mutant("queue-one-for-all", "L0-QPUT-007")
class OneForAll(SqliteQueue):
    """Keeps its items beside its directory, where another queue has them too."""

    def open_database(self, directory: Path) -> None:
        super().open_database(directory.parent)


# --- claiming ---------------------------------------------------------------------------------


@mutant("queue-lease-ignored", "L0-QCLAIM-001 L0-QCLAIM-010 L0-QSEQ-001")
class LeaseIgnored(SqliteQueue):
    """Gives an item out again whatever its lease."""

    def choose(self) -> tuple[int, bytes, int] | None:
        query = "SELECT seq, payload, attempts FROM items WHERE state != 'quarantined' LIMIT 1"
        found: tuple[int, bytes, int] | None = self.db.execute(query).fetchone()
        return found


@mutant("queue-newest-first", "L0-QCLAIM-002")
class NewestFirst(SqliteQueue):
    """Claims the newest item."""

    def choose(self) -> tuple[int, bytes, int] | None:
        query = """SELECT seq, payload, attempts FROM items
            WHERE state != 'quarantined' AND until_ms <= ? ORDER BY seq DESC LIMIT 1"""
        found: tuple[int, bytes, int] | None = self.db.execute(query, (self.now(),)).fetchone()
        return found


@mutant("queue-lease-for-ever", "L0-QCLAIM-003")
class LeaseForEver(SqliteQueue):
    """Never gives a claimed item to anybody else."""

    def choose(self) -> tuple[int, bytes, int] | None:
        query = """SELECT seq, payload, attempts FROM items
            WHERE state = 'waiting' AND until_ms <= ? ORDER BY seq LIMIT 1"""
        found: tuple[int, bytes, int] | None = self.db.execute(query, (self.now(),)).fetchone()
        return found

    def shown(self, item: Answer) -> Answer:
        return {**super().shown(dict(item)), **({"state": "leased"} if _claimed(item) else {})}


def _claimed(item: Answer) -> bool:
    return bool(item["state"] == "claimed")


@mutant("queue-one-receipt", "L0-QCLAIM-004")
class OneReceipt(SqliteQueue):
    """Takes an item's number for the receipt of each of its claims."""

    def claim(self, lease_ms: int) -> Answer:
        answer = super().claim(lease_ms)
        return answer if "seq" not in answer else {**answer, "receipt": answer["seq"]}

    def verdict(self, seq: int, receipt: int | None) -> str:
        return super().verdict(seq, None)


@mutant("queue-retry-to-the-end", "L0-QCLAIM-005")
class RetryToTheEnd(SqliteQueue):
    """Claims an item that was given back after all those that never were."""

    def choose(self) -> tuple[int, bytes, int] | None:
        query = """SELECT seq, payload, attempts FROM items
            WHERE state != 'quarantined' AND until_ms <= ? ORDER BY attempts, seq LIMIT 1"""
        found: tuple[int, bytes, int] | None = self.db.execute(query, (self.now(),)).fetchone()
        return found


@mutant("queue-lease-in-seconds", "L0-QCLAIM-006")
class LeaseInSeconds(SqliteQueue):
    """Takes milliseconds for seconds."""

    def claim(self, lease_ms: int) -> Answer:
        return super().claim(lease_ms * 1000)


@mutant("queue-delay-ignored", "L0-QCLAIM-007")
class DelayIgnored(SqliteQueue):
    """Gives an item back at once, whatever the delay."""

    def retry(self, seq: int, receipt: int | None, delay_ms: int) -> Answer:
        return super().retry(seq, receipt, 0)


@mutant("queue-attempts-forgotten", "L0-QCLAIM-008")
class AttemptsForgotten(SqliteQueue):
    """Counts the claims of an item anew when it is given back."""

    def retry(self, seq: int, receipt: int | None, delay_ms: int) -> Answer:
        change = "UPDATE items SET state = 'waiting', attempts = 0, until_ms = ? WHERE seq = ?"
        return self.end(seq, receipt, change, self.now() + delay_ms)


@mutant("queue-look-releases", "L0-QCLAIM-009")
class LookReleases(SqliteQueue):
    """Gives every claim back when somebody looks."""

    def items(self) -> list[Answer]:
        self.db.execute("UPDATE items SET state = 'waiting', until_ms = 0 WHERE state = 'claimed'")
        return super().items()


# --- ending -----------------------------------------------------------------------------------


@mutant("queue-ack-forgotten", "L0-QEND-001")
class AckForgotten(SqliteQueue):
    """Lets an item that was acked come back when its lease has run out."""

    def ack(self, seq: int, receipt: int | None) -> Answer:
        return {"result": self.verdict(seq, receipt)}


@mutant("queue-done-not-found", "L0-QEND-002")
class DoneNotFound(SqliteQueue):
    """Knows nothing of an item that was acked."""

    def verdict(self, seq: int, receipt: int | None) -> str:
        found = super().verdict(seq, receipt)
        gone = self.db.execute("SELECT 1 FROM items WHERE seq = ?", (seq,)).fetchone() is None
        return "NOT_FOUND" if gone else found


@mutant("queue-retry-loses-payload", "L0-QEND-003 L0-QSEQ-001")
class RetryLosesPayload(SqliteQueue):
    """Gives an item back without what is to be sent."""

    def retry(self, seq: int, receipt: int | None, delay_ms: int) -> Answer:
        change = "UPDATE items SET state = 'waiting', payload = x'', until_ms = ? WHERE seq = ?"
        return self.end(seq, receipt, change, self.now() + delay_ms)


@mutant("queue-quarantine-empties", "L0-QEND-004")
class QuarantineEmpties(SqliteQueue):
    """Keeps the reason of a quarantine and not the payload."""

    def quarantine(self, seq: int, receipt: int | None, reason: str) -> Answer:
        change = "UPDATE items SET state = 'quarantined', payload = x'', reason = ? WHERE seq = ?"
        return self.end(seq, receipt, change, reason)


@mutant("queue-last-reason", "L0-QEND-005")
class LastReason(SqliteQueue):
    """Writes the reason of a second quarantine over the first."""

    def quarantine(self, seq: int, receipt: int | None, reason: str) -> Answer:
        answer = super().quarantine(seq, receipt, reason)
        self.db.execute("UPDATE items SET reason = ? WHERE seq = ?", (reason, seq))
        return answer


@mutant("queue-quarantine-acked", "L0-QEND-006")
class QuarantineAcked(SqliteQueue):
    """Lets an item that was set aside be acked."""

    def ack(self, seq: int, receipt: int | None) -> Answer:
        query = "SELECT state FROM items WHERE seq = ?"
        if self.db.execute(query, (seq,)).fetchone() == ("quarantined",):
            self.db.execute("DELETE FROM items WHERE seq = ?", (seq,))
            return {"result": "OK"}
        return super().ack(seq, receipt)


@mutant("queue-stale-receipt-acks", "L0-QEND-007 L1-QOPEN-007")
class StaleReceiptAcks(SqliteQueue):
    """Looks at no receipt."""

    def verdict(self, seq: int, receipt: int | None) -> str:
        return super().verdict(seq, None)


@mutant("queue-claim-expires", "L0-QEND-008 L1-QOPEN-005")
class ClaimExpires(SqliteQueue):
    """Takes the claim from a consumer when its lease runs out, though nobody else has it."""

    def verdict(self, seq: int, receipt: int | None) -> str:
        late = "UPDATE items SET state = 'waiting' WHERE state = 'claimed' AND until_ms <= ?"
        self.db.execute(late, (self.now(),))
        return super().verdict(seq, receipt)


@mutant("queue-ends-the-unclaimed", "L0-QEND-009")
class EndsTheUnclaimed(SqliteQueue):
    """Lets anybody end what nobody has claimed."""

    def verdict(self, seq: int, receipt: int | None) -> str:
        found = super().verdict(seq, receipt)
        return "OK" if found == "NOT_CLAIMED" else found


@mutant("queue-unknown-is-done", "L0-QEND-010")
class UnknownIsDone(SqliteQueue):
    """Takes every number that it does not know for one that is done."""

    def verdict(self, seq: int, receipt: int | None) -> str:
        found = super().verdict(seq, receipt)
        return "ALREADY_DONE" if found == "NOT_FOUND" else found


@mutant("queue-plain-reasons", "L0-QEND-011")
class PlainReasons(SqliteQueue):
    """Keeps the ASCII of a reason."""

    def quarantine(self, seq: int, receipt: int | None, reason: str) -> Answer:
        return super().quarantine(seq, receipt, reason.encode("ascii", "replace").decode())


@mutant("queue-receipt-or-nothing", "L0-QEND-012")
class ReceiptOrNothing(SqliteQueue):
    """Takes a call without a receipt for one with an old one."""

    def verdict(self, seq: int, receipt: int | None) -> str:
        return super().verdict(seq, -1 if receipt is None else receipt)
