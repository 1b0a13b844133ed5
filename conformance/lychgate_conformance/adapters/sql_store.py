"""`sqlite`, `postgres`, `mariadb`: the SQL backend as a store that the suite can look into.

A worker's own view of an SQL store is its claims, which the suite's cases do not have (they expect
to see what waits, from any process). So here tasks are added without an owner, and `pending_tasks`
lists them all and claims none; and a dead task is a record of its own, which takes no waiting task
out. Everything else is the backend as it is: its statements, its pool, its errors. Claims, fences
and sweeps have tests of their own (`model_tests/sql`). Ids are limited to 255 bytes (Q2), so that
not any text is claimed.

    sqlite      one database file in the case's directory
    postgres    LYCHGATE_SQL_URL names the server; each directory and prefix is a schema there
    mariadb     the same, and a schema is a database
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote, urlsplit

from lychgate import Sql
from lychgate._backend import Pending
from lychgate._directory import make_directory
from lychgate._drive import run
from lychgate._names import check_prefix
from lychgate._osfs import OsFs
from lychgate._records import check_id, checked_time, decode_value
from lychgate._sql_driver import Connection
from lychgate._sql_options import driver_of
from lychgate._sql_records import dead_row, encoded, shown, stored_id
from lychgate._sql_schema import apply
from lychgate_conformance._verdict import UsageError

SERVER = "LYCHGATE_SQL_URL"
RUN = "LYCHGATE_SQL_RUN"
"""A word in the names of all schemas of one run, so that they can be dropped when it has ended."""


class SqlStore(Sql):
    """Every process sees every task, and none owns any."""

    claims: ClassVar[Mapping[str, object]] = {
        "fsync_policy": "always",
        "pending_scope": "all",
        "any_text": False,
        "survives_host_crash": True,
    }

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        self._mine()
        due = checked_time(publish_at)
        task_id = self._ids.next() if task_id is None else check_id(task_id)
        key = stored_id(task_id)
        codec, data = encoded(self._codec, task)
        self._pool.transact(
            "add_task", lambda db: self._db.add(db, "nobody", key, data, codec, due)
        )
        return task_id

    def pending_tasks(self) -> list[Pending]:
        self._mine()

        def work(db: Connection) -> list[Pending]:
            rows = db.rows(
                "SELECT id, codec, serialized_task, publish_at FROM lychgate_tasks "
                "ORDER BY due_at, id"
            )
            return [
                (
                    shown(key),
                    decode_value(self._codec, codec, bytes(data)),
                    None if at is None else float(at),
                )
                for key, codec, data, at in rows
            ]

        return self._read("pending_tasks", work)

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        self._mine()
        key = stored_id(task_id)
        row = dead_row(self._codec, key, context, exception, task_class, attempts)
        self._pool.transact("add_dead_task", lambda db: self._db.add_dead(db, row))


class SqliteStore(SqlStore):
    """The store is a file below its path, and the two that SQLite keeps beside it."""

    claims: ClassVar[Mapping[str, object]] = {**SqlStore.claims, "uses_path": True}


def sqlite(path: str, prefix: str = "", fsync_frequency: float = 0.0) -> SqlStore:
    """A store in a file of this directory, with its tables."""
    directory = os.path.abspath(path)
    run(make_directory(directory), OsFs())  # SQLite makes its files' names durable, not this one
    url = f"sqlite:///{directory}/{check_prefix(prefix)}tasks.db"
    apply(driver_of(url, os.path.abspath))
    return SqliteStore(url)


def postgres(path: str, prefix: str = "", fsync_frequency: float = 0.0) -> SqlStore:
    """A store in a schema of the server, named after directory and prefix."""
    server, schema = _place(path, prefix, "postgresql")
    connection = driver_of(server, str).connect()
    try:
        connection.change(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    except Exception:  # another process made it at this very moment
        connection.rows(f"SELECT CAST('{schema}' AS regnamespace)")
    finally:
        connection.close()
    joint = "&" if "?" in server else "?"
    url = f"{server}{joint}options={quote(f'-csearch_path={schema}')}"
    apply(driver_of(url, str))
    return SqlStore(url)


def mariadb(path: str, prefix: str = "", fsync_frequency: float = 0.0) -> SqlStore:
    """A store in a database of the server, named after directory and prefix."""
    server, schema = _place(path, prefix, "mariadb")
    connection = driver_of(server, str).connect()
    try:
        connection.change(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    finally:
        connection.close()
    url = urlsplit(server)._replace(path=f"/{schema}").geturl()
    apply(driver_of(url, str))
    return SqlStore(url)


def _place(path: str, prefix: str, scheme: str) -> tuple[str, str]:
    """The server, and the name that a directory and prefix have there."""
    server = os.environ.get(SERVER)
    if server is None:
        raise UsageError(f"name the server: {SERVER}={scheme}://…")
    os.makedirs(path, exist_ok=True)  # empty: the suite looks for files there
    place = f"{os.path.abspath(path)}\0{prefix}".encode(errors="surrogatepass")
    return server, f"suite_{os.environ.get(RUN, '')}_{hashlib.sha256(place).hexdigest()[:20]}"
