"""SQLite, the embedded engine: the standard library's driver (Q5).

    sqlite:///relative.db        sqlite:////absolute/path.db

Rules of this file
  * Every writing transaction begins with BEGIN IMMEDIATE: one writer at a time, and none that read
    first and finds itself unable to write. Who has to wait does so inside SQLite, BUSY_MS at most.
  * synchronous = FULL: in WAL mode, which the migration chooses, each commit is fsynced.
  * A database is never made by opening it: that is the migration's business (Q3). Its file is for
    its owner alone (D27).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from lychgate._sql_driver import NONE, Failure, Row, Values, Words

BUSY_MS = 30_000
"""How long a writer waits for others, in milliseconds."""

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
        self._inner = inner

    def rows(self, statement: str, values: Values = NONE) -> list[Row]:
        return self._inner.execute(statement, dict(values)).fetchall()

    def change(self, statement: str, values: Values = NONE) -> int:
        return self._inner.execute(statement, dict(values)).rowcount

    def begin(self, write: bool) -> None:
        self._inner.execute("BEGIN IMMEDIATE" if write else "BEGIN")

    def commit(self) -> None:
        self._inner.execute("COMMIT")

    def rollback(self) -> None:
        if self._inner.in_transaction:
            self._inner.execute("ROLLBACK")

    def close(self) -> None:
        self._inner.close()


class Sqlite:
    """The driver for one file."""

    name = "sqlite"
    words = Words(now=_NOW, share="", skip="", claim=_CLAIM, alone="")

    def __init__(self, path: str, resolve: Callable[[str], str]) -> None:
        self._path = resolve(path)  # once: chdir does not move it

    @property
    def shown(self) -> str:
        return f"sqlite:///{self._path}"

    def connect(self, create: bool = False) -> SqliteConnection:
        if create:  # for its owner only; SQLite gives the files beside it the same mode
            with suppress(OSError):  # SQLite says better what is in the way
                Path(self._path).touch(0o600)
        mode = "rwc" if create else "rw"
        inner = sqlite3.connect(
            f"file:{quote(self._path)}?mode={mode}",
            uri=True,
            isolation_level=None,  # transactions are begun where they are meant
            check_same_thread=False,  # one thread at a time: the pool sees to it
            timeout=BUSY_MS / 1000,
        )
        try:
            inner.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error:
            inner.close()
            raise
        return SqliteConnection(inner)

    def failure(self, error: Exception) -> Failure | None:
        if not isinstance(error, (sqlite3.Error, OverflowError)):
            return None
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        text = str(error)
        if isinstance(error, (OverflowError, sqlite3.DataError)) or code == "SQLITE_TOOBIG":
            return Failure(code, text, "give it in smaller parts", refused=True)
        if code == "SQLITE_CANTOPEN":
            remedy = f"make the database with: lychgate sql apply {self.shown}"
            return Failure(code, text, remedy, schema=True, lost=True)
        if text.startswith(("no such table", "no such column")):
            return Failure(code, text, "apply the migrations", schema=True)
        if code in _AGAIN:
            return Failure(code, text, "call again", again=True)
        main = "_".join(code.split("_")[:2])
        lost = main in ("SQLITE_IOERR", "SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_READONLY")
        return Failure(code, text, _REMEDIES.get(main, "mend the cause and call again"), lost=lost)


_AGAIN = frozenset({"SQLITE_PROTOCOL", "SQLITE_BUSY_RECOVERY", "SQLITE_BUSY_SNAPSHOT"})
"""Another process recovers the WAL of one that was killed, or is slow at opening it."""

_REMEDIES: Remedies = {
    "SQLITE_BUSY": "another process holds the database for long; end it and call again",
    "SQLITE_LOCKED": "another connection holds the table; call again",
    "SQLITE_FULL": "free space on the device and call again",
    "SQLITE_READONLY": "make the file and its directory writable for this user and call again",
    "SQLITE_PERM": "give this user access to the file and call again",
    "SQLITE_IOERR": "look at the kernel log: the device failed; committed tasks are kept",
    "SQLITE_NOTADB": "this file is no SQLite database: name another",
    "SQLITE_CORRUPT": "the database file is damaged: restore it from a copy",
    "SQLITE_AUTH": "give this user access to the file and call again",
}
