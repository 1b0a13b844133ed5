"""The same changes where a change gives nothing back: MariaDB and MySQL.

MariaDB returns rows from INSERT and DELETE but not from UPDATE, MySQL from none. So a change that
has to say what it met is a look that locks and a change of what it found, in one transaction:
nobody can come in between, and callers see no difference (`_sql_store.py`).

Rules of this file
  * The counts of such engines are of rows that became different, not of rows that were met.
"""

from __future__ import annotations

from lychgate._sql_driver import Connection, Row, Values
from lychgate._sql_store import MANY, Statements, TaskRow


class SplitStatements(Statements):
    """A look, and a change of what was seen."""

    def beat(self, db: Connection, me: str) -> bool:
        return super().beat(db, me) or self._is_listed(db, me)  # the clock may stand still

    def _is_listed(self, db: Connection, me: str) -> bool:
        """Whether this worker has its row, which no sweep takes from now on."""
        return bool(db.rows(self._words.spelled(_LISTED), {"me": me}))

    def add(
        self, db: Connection, me: str, key: str, data: bytes, codec: str, publish_at: float | None
    ) -> tuple[str | None, int] | None:
        owner = me if publish_at is None and self._is_listed(db, me) else None
        count = 0 if owner is None else 1
        values = {
            "id": key, "owner": owner, "data": data, "codec": codec, "publish": publish_at,
            "count": count,
        }  # fmt: skip
        if db.change(self._words.spelled(_INSERT), values) == 1:
            return owner, count
        is_anothers = db.rows(_OWNED, {"id": key})  # locked since the insert found it
        return None if is_anothers else (None, 0)

    def take(self, db: Connection, me: str, key: str) -> int | None:
        values = {"id": key, "me": me}
        if not self._is_listed(db, me) or not db.change(_TAKE, values):
            return None
        found = db.rows("SELECT claim_count FROM lychgate_tasks WHERE id = :id", values)
        return int(found[0][0])

    def claim(self, db: Connection, me: str, batch: int, suspects: int) -> list[TaskRow]:
        found = super().claim(db, me, batch, suspects)  # as they were, and locked
        for start in range(0, len(found), MANY):
            keys = {f"k{n}": row.key for n, row in enumerate(found[start : start + MANY])}
            listed = ", ".join(f":{name}" for name in keys)
            db.change(f"{_CLAIM} WHERE id IN ({listed})", {"me": me, **keys})
        return [
            TaskRow(it.key, it.data, it.codec, it.publish_at, it.due_at, it.count + 1)
            for it in found
        ]

    def _delete(self, db: Connection, where: str, columns: str, values: Values) -> list[Row]:
        found = db.rows(f"SELECT {columns} FROM {where} FOR UPDATE", values)
        if found:
            db.change(f"DELETE FROM {where}", values)
        return found


_LISTED = "SELECT 1 FROM lychgate_workers WHERE id = :me{share}"
_CLAIM = "UPDATE lychgate_tasks SET owner_id = :me, claim_count = claim_count + 1"
_OWNED = "SELECT 1 FROM lychgate_tasks WHERE id = :id AND owner_id IS NOT NULL"
_TAKE = f"{_CLAIM} WHERE id = :id AND owner_id IS NULL"
_INSERT = """
INSERT INTO lychgate_tasks
  (id, owner_id, serialized_task, codec, publish_at, due_at, claim_count, created_at)
VALUES (:id, :owner, :data, :codec, :publish, COALESCE(:publish, {now}), :count, {now})
ON DUPLICATE KEY UPDATE
  serialized_task = IF(owner_id IS NULL, VALUES(serialized_task), serialized_task),
  codec = IF(owner_id IS NULL, VALUES(codec), codec),
  publish_at = IF(owner_id IS NULL, VALUES(publish_at), publish_at),
  due_at = IF(owner_id IS NULL, VALUES(due_at), due_at),
  claim_count = IF(owner_id IS NULL, 0, claim_count)"""
