"""What the SQL backend says to the database: each method is the inside of one transaction.

Rules of this file
  * The names are those of Sql.tla's actions. Every end of a task is fenced: owner and claim count
    must be those of the token (Q6). A method says what the database found, and decides nothing.
  * Rows of workers are locked before rows of tasks, the dead tasks after both, and several of a
    kind in the order of their ids: so nobody waits in a circle.
  * Statements are portable; what is not is in `Words`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lychgate._sql_driver import Connection, Row, Values, Words

MANY = 200
"""Values in one IN list."""


@dataclass(frozen=True, slots=True)
class Token:
    """What makes a task a worker's own: it ends a task that still has this owner and count."""

    owner: str
    count: int


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A claimed task as it is stored."""

    key: str
    data: bytes
    codec: str
    publish_at: float | None
    due_at: float
    count: int


@dataclass(frozen=True, slots=True)
class DeadRow:
    """A dead task to be stored. Text is in its stored form."""

    key: str
    task_class: str
    data: bytes
    codec: str
    attempts: int
    failure_class: str
    failure_message: str
    enqueued_at: float | None


_DEAD_COLUMNS = (
    "task_id, task_class, failed_execution_count, serialized_task, codec, failure_class, "
    "failure_message, failed_at, enqueued_at"
)


class Statements:
    """The statements of one engine."""

    def __init__(self, words: Words, stale: float) -> None:
        self._words = words
        self._stale = stale
        say = words.spelled
        self._register = say("INSERT INTO lychgate_workers VALUES (:me, {now}, {now})")
        self._beat = say("UPDATE lychgate_workers SET heartbeat_at = {now} WHERE id = :me")
        self._stale_workers = say(
            "SELECT id FROM lychgate_workers WHERE heartbeat_at < {now} - :stale ORDER BY id{skip}"
        )
        self._add = say(_ADD)
        self._take = say(_TAKE)
        self._retry = say(_RETRY)
        self._bury = say(_BURY)

    # --- workers ------------------------------------------------------------------------------

    def register(self, db: Connection, me: str) -> None:
        db.change(self._register, {"me": me})

    def beat(self, db: Connection, me: str) -> bool:
        """False: there is no such worker, it was taken for dead."""
        return db.change(self._beat, {"me": me}) == 1

    def sweep(self, db: Connection) -> tuple[int, int]:
        """Orphan the tasks of stale workers, and forget these; how many workers and tasks."""
        victims = [row[0] for row in db.rows(self._stale_workers, {"stale": self._stale})]
        orphans = 0
        for victim in victims:
            value = {"owner": victim}
            orphans += db.change(
                "UPDATE lychgate_tasks SET owner_id = NULL WHERE owner_id = :owner", value
            )
            db.change("DELETE FROM lychgate_workers WHERE id = :owner", value)
        return len(victims), orphans

    def stop(self, db: Connection, me: str) -> int:
        """Give back what is owned, uncounted, and leave; how many tasks."""
        value = {"me": me}
        db.change("DELETE FROM lychgate_workers WHERE id = :me", value)
        return db.change(
            "UPDATE lychgate_tasks SET owner_id = NULL, claim_count = claim_count - 1 "
            "WHERE owner_id = :me",
            value,
        )

    def owned(self, db: Connection, me: str) -> dict[str, Token]:
        """The tasks that the database says are this worker's, with the tokens that end them."""
        sql = "SELECT id, claim_count FROM lychgate_tasks WHERE owner_id = :me"
        return {row[0]: Token(me, row[1]) for row in db.rows(sql, {"me": me})}

    def give_back(self, db: Connection, me: str, keys: Iterable[str]) -> None:
        for key in sorted(keys):
            db.change(
                "UPDATE lychgate_tasks SET owner_id = NULL WHERE id = :id AND owner_id = :me",
                {"id": key, "me": me},
            )

    # --- tasks --------------------------------------------------------------------------------

    def add(
        self, db: Connection, me: str, key: str, data: bytes, codec: str, publish_at: float | None
    ) -> tuple[str | None, int] | None:
        """Insert, or replace what nobody owns: the row's owner and count. None: another owns it."""
        values = {"me": me, "id": key, "data": data, "codec": codec, "publish": publish_at}
        found = db.rows(self._add, values)
        return (found[0][0], int(found[0][1])) if found else None

    def take(self, db: Connection, me: str, key: str) -> int | None:
        """Claim this one task; its count, None when it is not to be had."""
        found = db.rows(self._take, {"me": me, "id": key})
        return int(found[0][0]) if found else None

    def claim(self, db: Connection, me: str, batch: int, suspects: int) -> list[TaskRow]:
        """A batch of due tasks, oldest first (Q5)."""
        values = {"me": me, "stale": self._stale, "batch": batch, "suspects": suspects}
        found = [task_row(row) for row in db.rows(self._words.claim, values)]
        return sorted(found, key=lambda row: (row.due_at, row.key))

    def finish(self, db: Connection, key: str, token: Token) -> bool:
        return db.change(f"DELETE FROM lychgate_tasks WHERE {_FENCE}", _fence(key, token)) == 1

    def retry(
        self,
        db: Connection,
        key: str,
        token: Token,
        data: bytes,
        codec: str,
        publish_at: float | None,
    ) -> bool:
        values = {"data": data, "codec": codec, "publish": publish_at, **_fence(key, token)}
        return db.change(self._retry, values) == 1

    def take_unowned(self, db: Connection, key: str) -> list[Row] | None:
        """Delete a task that nobody owns: what it was, or nothing where there is no such task.

        None: another has it. What was added or given back between two looks is looked at again.
        """
        where = "lychgate_tasks WHERE id = :id AND owner_id IS NULL"
        while True:
            gone = self._delete(db, where, "owner_id, publish_at", {"id": key})
            if gone:
                return gone
            left = db.rows("SELECT owner_id FROM lychgate_tasks WHERE id = :id", {"id": key})
            if not left:
                return []
            if left[0][0] is not None:
                return None

    def exists(self, db: Connection, key: str) -> bool:
        return bool(db.rows("SELECT 1 FROM lychgate_tasks WHERE id = :id", {"id": key}))

    def _delete(self, db: Connection, where: str, columns: str, values: Values) -> list[Row]:
        """Delete rows of a table; what they were."""
        return db.rows(f"DELETE FROM {where} RETURNING {columns}", values)

    # --- dead tasks ---------------------------------------------------------------------------

    def bury(self, db: Connection, row: DeadRow, token: Token | None) -> bool:
        """Into the dead tasks and out of the tasks. False: the row is not this token's (Q7).

        Without a token the task may be missing, but not another's.
        """
        if token is None:
            gone = self.take_unowned(db, row.key)
        else:
            fence = _fence(row.key, token)
            where = f"lychgate_tasks WHERE {_FENCE}"
            gone = self._delete(db, where, "owner_id, publish_at", fence) or None
        if gone is None:
            return False
        owner, publish = gone[0] if gone else (None, None)
        self.add_dead(db, row, owner, publish)
        return True

    def add_dead(
        self, db: Connection, row: DeadRow, owner: str | None = None, publish: float | None = None
    ) -> None:
        """The record alone."""
        self._alone(db)
        values: dict[str, object] = {
            "id": row.key, "class": row.task_class, "data": row.data, "codec": row.codec,
            "owner": owner, "publish": publish, "attempts": row.attempts,
            "failure": row.failure_class, "message": row.failure_message,
            "enqueued": row.enqueued_at,
        }  # fmt: skip
        db.change(self._bury, values)

    def _alone(self, db: Connection) -> None:
        """Changes of the dead tasks come one after the other, and so do their numbers: else a page
        could show a later record before an earlier one, and a removal's count fit no order."""
        if self._words.alone:
            db.rows(self._words.alone)

    def dead(self, db: Connection, limit: int | None, offset: int) -> list[Row]:
        """A page of dead tasks in the order of their adding."""
        if limit is None:
            limit = 2**62
        return db.rows(
            f"SELECT {_DEAD_COLUMNS} FROM lychgate_dead_tasks ORDER BY id "
            "LIMIT :limit OFFSET :offset",
            {"limit": min(limit, 2**62), "offset": min(offset, 2**62)},
        )

    def newest_dead(self, db: Connection, key: str) -> list[Row]:
        return db.rows(
            f"SELECT {_DEAD_COLUMNS} FROM lychgate_dead_tasks WHERE task_id = :id "
            "ORDER BY id DESC LIMIT 1",
            {"id": key},
        )

    def drop_dead(self, db: Connection, keys: Sequence[str]) -> int:
        """Delete every record of these ids; how many ids had one."""
        self._alone(db)
        count = 0
        ordered = sorted(set(keys))
        for start in range(0, len(ordered), MANY):
            names = {f"k{n}": key for n, key in enumerate(ordered[start : start + MANY])}
            listed = ", ".join(f":{name}" for name in names)
            where = f"lychgate_dead_tasks WHERE task_id IN ({listed})"
            gone = self._delete(db, where, "task_id", names)
            count += len({row[0] for row in gone})
        return count

    def expire(self, db: Connection, period: float) -> tuple[int, float | None]:
        """Delete the dead tasks of `period` seconds ago and earlier (D35): how many, and for how
        many seconds the oldest that is left is dead."""
        self._alone(db)
        say = self._words.spelled
        old = "DELETE FROM lychgate_dead_tasks WHERE failed_at <= {now} - :period"
        count = db.change(say(old), {"period": period})
        ((age,),) = db.rows(say("SELECT {now} - MIN(failed_at) FROM lychgate_dead_tasks"))
        return count, None if age is None else float(age)


_FENCE = "id = :id AND owner_id = :owner AND claim_count = :count"


def _fence(key: str, token: Token) -> dict[str, object]:
    return {"id": key, "owner": token.owner, "count": token.count}


def task_row(row: Row) -> TaskRow:
    key, data, codec, publish_at, due_at, count = row
    at = None if publish_at is None else float(publish_at)  # SQLite gives 5.0 back as 5 here
    return TaskRow(key, bytes(data), codec, at, float(due_at), count)


_ADD = """
INSERT INTO lychgate_tasks
  (id, owner_id, serialized_task, codec, publish_at, due_at, claim_count, created_at)
SELECT :id, mine.id, :data, :codec, CAST(:publish AS {real}),
       COALESCE(CAST(:publish AS {real}), {now}),
       CASE WHEN mine.id IS NULL THEN 0 ELSE 1 END, {now}
FROM (SELECT (SELECT id FROM lychgate_workers
              WHERE id = :me AND CAST(:publish AS {real}) IS NULL{share}) AS id) AS mine
WHERE true
ON CONFLICT (id) DO UPDATE SET serialized_task = excluded.serialized_task, codec = excluded.codec,
  publish_at = excluded.publish_at, due_at = excluded.due_at, claim_count = 0
WHERE lychgate_tasks.owner_id IS NULL
RETURNING owner_id, claim_count"""

_TAKE = """
UPDATE lychgate_tasks SET owner_id = :me, claim_count = claim_count + 1
WHERE id = :id AND owner_id IS NULL
  AND EXISTS (SELECT 1 FROM lychgate_workers WHERE id = :me{share})
RETURNING claim_count"""

_RETRY = f"""
UPDATE lychgate_tasks SET owner_id = NULL, claim_count = 0, serialized_task = :data,
  codec = :codec, publish_at = CAST(:publish AS {{real}}),
  due_at = COALESCE(CAST(:publish AS {{real}}), {{now}})
WHERE {_FENCE}"""

_BURY = """
INSERT INTO lychgate_dead_tasks
  (task_id, task_class, serialized_task, codec, owner_id, publish_at, failed_execution_count,
   failure_class, failure_message, failed_at, enqueued_at, created_at)
VALUES (:id, :class, :data, :codec, :owner, :publish, :attempts,
        :failure, :message, {now}, :enqueued, {now})"""
