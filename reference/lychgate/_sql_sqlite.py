"""SQLite, the embedded engine: the standard library's driver (Q5).

    sqlite:///relative.db        sqlite:////absolute/path.db

Rules of this file
  * Every writing transaction begins with BEGIN IMMEDIATE: one writer at a time, and none that read
    first and finds itself unable to write. Who has to wait does so inside SQLite, BUSY_MS at most.
  * synchronous = FULL: in WAL mode, which the migration chooses, each commit is fsynced.
  * A database is never made by opening it: that is the migration's business (Q3).
  * A connection is given out when the names of its files are durable (`_sql_sqlite_names.py`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from urllib.parse import quote

from lychgate._sql_driver import NONE, Failure, Row, Values, Words
from lychgate._sql_sqlite_names import APPLICATION_ID, Names, Trouble, use_log

BUSY_MS = 30_000
"""How long a writer waits for others, in milliseconds."""

_SWITCHES_MAX = 100  # to the write-ahead log; more only where somebody never stops switching

Remedies = dict[str, str]

_NOW = "((julianday('now') - 2440587.5) * 86400.0)"

_ARM = """
    SELECT id FROM (SELECT id FROM lychgate_tasks INDEXED BY %s
      WHERE owner_id IS NULL AND due_at <= {now} AND claim_count %s
        AND EXISTS (SELECT 1 FROM lychgate_workers
                    WHERE id = :me AND heartbeat_at >= {now} - :stale)
      ORDER BY due_at, id LIMIT :%s)"""

_FRESH = _ARM % ("lychgate_tasks_due", "< 2", "batch")
_SUSPECT = _ARM % ("lychgate_tasks_suspect", ">= 2", "suspects")
_CLAIM = f"""
UPDATE lychgate_tasks SET owner_id = :me, claim_count = claim_count + 1
WHERE id IN ({_FRESH} UNION ALL {_SUSPECT})
RETURNING id, serialized_task, codec, publish_at, due_at, claim_count""".replace("{now}", _NOW)


class SqliteConnection:
    """One connection."""

    def __init__(self, inner: sqlite3.Connection) -> None:
        self.inner = inner

    def rows(self, statement: str, values: Values = NONE) -> list[Row]:
        return self.inner.execute(statement, dict(values)).fetchall()

    def change(self, statement: str, values: Values = NONE) -> int:
        return self.inner.execute(statement, dict(values)).rowcount

    def begin(self, write: bool) -> None:
        self.inner.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def commit(self) -> None:
        self.inner.execute("COMMIT")

    def rollback(self) -> None:
        if self.inner.in_transaction:
            self.inner.execute("ROLLBACK")

    def close(self) -> None:
        self.inner.close()


class Sqlite:
    """The driver for one file."""

    name = "sqlite"
    words = Words(now=_NOW, share="", skip="", claim=_CLAIM, alone="", by_process=True)

    def __init__(self, path: str, resolve: Callable[[str], str]) -> None:
        self._path = resolve(path)  # once: chdir does not move it
        self._names = Names(self._path, BUSY_MS / 1000)

    @property
    def shown(self) -> str:
        return f"sqlite:///{self._path}"

    def connect(self) -> SqliteConnection:
        names = self._names
        with names.alone():
            if names.has_log():  # of others, or of one that died before its name was durable
                with closing(self._session()) as visitor:  # takes it away, unless others have it
                    _begin_log(visitor)
            return self._settled(self._session())

    @contextmanager
    def migrating(self) -> Iterator[SqliteConnection]:
        names = self._names
        with names.alone():
            if names.exists() and self._is_hollow():
                names.remove()  # its name may not be durable, and no further sync makes it so
            if not names.exists():
                names.make()
            with closing(self._session()) as connection:
                _use_wal(connection)
                yield self._settled(connection)

    def _session(self) -> SqliteConnection:
        inner = sqlite3.connect(
            f"file:{quote(self._path)}?mode=rw",
            uri=True,
            isolation_level=None,  # transactions are begun where they are meant
            check_same_thread=False,  # one thread at a time: the pool sees to it
            timeout=BUSY_MS / 1000,
        )
        try:
            for name in ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON"):
                inner.execute(f"PRAGMA {name}")  # the latter two: what macOS calls durable
        except BaseException:
            inner.close()
            raise
        return SqliteConnection(inner)

    def _is_hollow(self) -> bool:
        """Whether this is a database of ours that nobody has made a table in."""
        with closing(self._session()) as visitor:
            ((application,),) = visitor.rows("PRAGMA application_id")
            return application == APPLICATION_ID and not _begin_log(visitor)

    def _settled(self, connection: SqliteConnection) -> SqliteConnection:
        """The connection, when its files have durable names; else it is closed."""
        try:
            _begin_log(connection)
            self._names.sync()
        except BaseException:
            connection.close()
            raise
        return connection

    def failure(self, error: Exception) -> Failure | None:
        if isinstance(error, Trouble):
            return Failure(error.code, error.text, error.remedy, error.is_missing, lost=True)
        if not isinstance(error, (sqlite3.Error, OverflowError)):
            return None
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        text = str(error)
        if isinstance(error, (OverflowError, sqlite3.DataError)) or code == "SQLITE_TOOBIG":
            return Failure(code, text, "give it in smaller parts", refused=True)
        if code == "SQLITE_CANTOPEN" and not self._names.exists():
            return Failure(code, text, "apply the migrations", schema=True, lost=True)
        if text.startswith(("no such table", "no such column")):
            return Failure(code, text, "apply the migrations", schema=True)
        if code in _AGAIN:
            return Failure(code, text, "call again", again=True)
        main = "_".join(code.split("_")[:2])
        remedy = _REMEDIES.get(main, "mend the cause and call again")
        return Failure(code, text, remedy, lost=main in _LOST)


def _begin_log(connection: SqliteConnection) -> bool:
    """A first look, which makes the write-ahead log; whether there are any tables."""
    return bool(connection.rows("SELECT 1 FROM sqlite_schema LIMIT 1"))


def _use_wal(connection: SqliteConnection) -> None:
    """The write-ahead log, for a database that was not made here. SQLite refuses to switch on the
    spot while anybody else uses the file: let them finish, and try again (Q10)."""
    for left in reversed(range(_SWITCHES_MAX)):
        try:
            use_log(connection.inner)
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or left == 0:
                raise
        connection.begin(write=True)  # waits, inside SQLite
        connection.rollback()


_AGAIN = frozenset({"SQLITE_PROTOCOL", "SQLITE_BUSY_RECOVERY", "SQLITE_BUSY_SNAPSHOT"})
"""Another process recovers the WAL of one that was killed, or is slow at opening it."""

_LOST = frozenset(
    {"SQLITE_IOERR", "SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_READONLY", "SQLITE_CANTOPEN"}
)
_REMEDIES: Remedies = {
    "SQLITE_BUSY": "another process holds the database for long; end it and call again",
    "SQLITE_LOCKED": "another connection holds the table; call again",
    "SQLITE_FULL": "free space on the device and call again",
    "SQLITE_READONLY": "make the file and its directory writable for this user and call again",
    "SQLITE_CANTOPEN": "see that it is a file that this user may read and write, its directory too",
    "SQLITE_PERM": "give this user access to the file and call again",
    "SQLITE_IOERR": "look at the kernel log: the device failed; committed tasks are kept",
    "SQLITE_NOTADB": "this file is no SQLite database: name another",
    "SQLITE_CORRUPT": "the database file is damaged: restore it from a copy",
    "SQLITE_AUTH": "give this user access to the file and call again",
}
