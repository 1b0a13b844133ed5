"""The dead tasks of the SQL backend, for commands that run beside its workers.

Rules of this file
  * Rows are read in pages by their number, which only grows: one short transaction each, and what
    was added after the first is not met.
  * Changes of dead tasks come one after the other, as the backend's do (`Words.alone`).
  * A task that is brought back is stored with a time, so that it belongs to nobody and the next
    worker that claims has it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence

from lychgate import DeadTask, Refused, Sql
from lychgate._records import encode_value
from lychgate._sql_driver import Connection, Row
from lychgate._sql_options import driver_of
from lychgate._sql_pool import Pool
from lychgate._sql_records import dead_task, stored, stored_id
from lychgate._sql_schema import check, version_of
from lychgate_tools.dead.records import AS_STORED, Finding, Record, Ref, fault, mark_of_dead

_PAGE = 200
"""Rows in one transaction, and values in one IN list."""

_COLUMNS = (
    "id, task_id, task_class, failed_execution_count, serialized_task, codec, failure_class, "
    "failure_message, failed_at, enqueued_at"
)
_TABLE = "lychgate_dead_tasks"
_INT_MAX = 2**63 - 1


class SqlStore:
    """The dead-task table of one database."""

    afterwards = "workers take them up with their next claims"

    def __init__(self, url: str) -> None:
        self._url = url
        self._driver = driver_of(url, os.path.abspath)
        self.shown = self._driver.shown
        self._pool = Pool(self._driver, 1, 30.0, os.getpid)
        self._pool.transact("open", lambda db: check(self._driver, version_of(self._driver, db)))
        self._backend: Sql | None = None
        self.damaged = 0

    # --- reading ------------------------------------------------------------------------------

    def _rows(self, statement: str, values: dict[str, object]) -> list[Row]:
        return self._pool.transact("read", lambda db: db.rows(statement, values), write=False)

    def _all(self) -> Iterator[Row]:
        found = self._rows(f"SELECT COALESCE(MAX(id), 0) FROM {_TABLE}", {})
        after, last = 0, int(found[0][0])
        page = f"SELECT {_COLUMNS} FROM {_TABLE} WHERE id > :after AND id <= :last ORDER BY id"
        while rows := self._rows(f"{page} LIMIT {_PAGE}", {"after": after, "last": last}):
            yield from rows
            after = rows[-1][0]

    def records(self) -> Iterator[Record]:
        self.damaged = 0
        for row in self._all():
            record = _record(row)
            if record is None:
                self.damaged += 1
            else:
                yield record

    def load(self, ref: Ref) -> Record | None:
        rows = self._rows(f"SELECT {_COLUMNS} FROM {_TABLE} WHERE id = :id", {"id": ref.place})
        return _record(rows[0]) if rows else None

    def verify(self) -> Iterator[Finding]:
        for row in self._all():
            record = _record(row)
            what = "no dead task of this version" if record is None else fault(record.dead)
            if what is not None:
                yield Finding(f"{self.shown} {_TABLE}", row[0], len(bytes(row[4])), what)

    # --- changes ------------------------------------------------------------------------------

    def _alone(self, db: Connection) -> None:
        if self._driver.words.alone:
            db.rows(self._driver.words.alone)

    def remove(self, refs: Sequence[Ref]) -> int:
        count = 0
        for start in range(0, len(refs), _PAGE):
            values = {f"k{n}": ref.place for n, ref in enumerate(refs[start : start + _PAGE])}
            listed = ", ".join(f":{name}" for name in values)
            statement = f"DELETE FROM {_TABLE} WHERE id IN ({listed})"

            def work(db: Connection) -> int:
                self._alone(db)
                return db.change(statement, values)

            count += self._pool.transact("remove", work)
        return count

    def check(self, dead: DeadTask) -> None:
        _values(dead)

    def restore(self, batch: Sequence[DeadTask]) -> None:
        rows = [_values(dead) for dead in batch]
        statement = self._driver.words.spelled(_INSERT)

        def work(db: Connection) -> None:
            self._alone(db)
            for values in rows:
                db.change(statement, values)

        self._pool.transact("import", work)

    def revive(self, job: dict[str, object]) -> str:
        if self._backend is None:
            self._backend = Sql(self._url, pool_size=1)
        return self._backend.add_task(job, publish_at=time.time())

    def sync(self) -> None:
        if self._backend is not None:
            self._backend.tick(time.time())  # a rate may make this run last for hours

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
        self._pool.close()


def _record(row: Row) -> Record | None:
    try:
        dead = dead_task(AS_STORED, row[1:])
        return Record(dead, Ref(mark_of_dead(dead), int(row[0]), 0))
    except (Refused, TypeError, ValueError):
        return None  # somebody else wrote it


def _values(dead: DeadTask) -> dict[str, object]:
    """A record as the columns take it. Raises Refused."""
    codec, data = encode_value(AS_STORED, dead.context)
    if dead.attempts > _INT_MAX:
        raise Refused(f"attempts must be at most {_INT_MAX}")
    return {
        "id": stored_id(dead.task_id), "class": stored(dead.task_class), "data": data,
        "codec": codec, "attempts": dead.attempts, "failure": stored(dead.error_class),
        "message": stored(dead.error_message), "failed": dead.failed_at,
        "enqueued": dead.enqueued_at,
    }  # fmt: skip


_INSERT = f"""
INSERT INTO {_TABLE}
  (task_id, task_class, serialized_task, codec, failed_execution_count, failure_class,
   failure_message, failed_at, enqueued_at, created_at)
VALUES (:id, :class, :data, :codec, :attempts, :failure, :message, :failed, :enqueued, {{now}})"""
