"""MariaDB 10.6 and MySQL 8 through PyMySQL (the optional extra `mariadb`).

    mariadb://user:password@host:3306/database     also mysql://
    mariadb://user@localhost/database?unix_socket=/run/mysqld/mysqld.sock
    mariadb://host/database?read_default_file=/home/me/.my.cnf      keeps the password out of here

Rules of this file
  * READ COMMITTED: every fence is one statement that reads what is committed, so nothing needs a
    snapshot; and only under this level does InnoDB lock rows alone. REPEATABLE READ, its default,
    locks the gaps between them as well: a claim would hold up whoever adds a task beyond its batch.
  * The claim reads one index from its beginning, and every entry there is a row that it takes, so
    it locks its batch and nothing else. InnoDB has no partial indexes: `suspect` is a column that
    the table works out by itself. FORCE INDEX, since a plan must not hang on statistics.
  * Ids are VARBINARY: compared byte by byte, where text would forgive blanks at the end.
  * The clock is UTC_TIMESTAMP, which stands still all through a statement and knows no time zone.
  * What the server would refuse for its size is refused before it is sent: it hangs up on it, and a
    lost connection looks like something else.
"""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import SplitResult, parse_qsl, unquote

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions
from pymysql.cursors import Cursor

from lychgate._errors import ConfigError
from lychgate._sql_driver import (
    NONE,
    Failure,
    Row,
    Values,
    Words,
    pyformat,
    url_parts,
    without_secrets,
)

READ_TIMEOUT_S = 90
"""A silent server is taken for gone after so long; its own limits come first."""

_NOW = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)"

_ARM = """(
SELECT id, serialized_task, codec, publish_at, due_at, claim_count
FROM lychgate_tasks FORCE INDEX (lychgate_tasks_due)
WHERE owner_id IS NULL AND suspect = %s AND due_at <= {now}
  AND EXISTS (SELECT 1 FROM lychgate_workers
              WHERE id = :me AND heartbeat_at >= {now} - :stale LOCK IN SHARE MODE)
ORDER BY due_at, id LIMIT :%s FOR UPDATE SKIP LOCKED)"""

_CLAIM = f"{_ARM % (0, 'batch')} UNION ALL {_ARM % (1, 'suspects')}".replace("{now}", _NOW)

_SETTINGS = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
    "completion_type = 'NO_CHAIN', sql_safe_updates = 0, sql_select_limit = 18446744073709551615, "
    "innodb_lock_wait_timeout = 30"
    "/*M!100600 , idle_transaction_timeout = 60, max_statement_time = 60 */",
)


if TYPE_CHECKING:
    _Inner = pymysql.Connection[Cursor]
else:
    _Inner = pymysql.Connection  # no generic type outside of type checkers


def _text(value: Any) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


class _Client(_Inner):
    """PyMySQL leaves the socket of a server that is not there to the collector: not so here."""

    def connect(self, sock: socket.socket | None = None) -> None:
        if sock is None and self.unix_socket:
            try:
                sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                sock.settimeout(self.connect_timeout)
                sock.connect(self.unix_socket)
            except OSError as error:
                if sock is not None:
                    sock.close()
                text = f"no connection through {self.unix_socket!r} ({error.strerror or error})"
                raise pymysql.OperationalError(2002, text) from error
            self._secure = True  # as PyMySQL has it: passwords may go through
        super().connect(sock)


class MariadbConnection:
    """One session."""

    def __init__(self, inner: pymysql.Connection[Any]) -> None:
        self._inner = inner
        self._bytes_max = 2**30
        for setting in _SETTINGS:
            self.change(setting)
        ((self._bytes_max,),) = self.rows("SELECT @@max_allowed_packet")

    def _execute(self, statement: str, values: Values) -> Any:
        cursor = self._inner.cursor()
        query = cursor.mogrify(pyformat(statement), dict(values))
        if len(query) >= self._bytes_max:  # a character is a byte: text is stored as ASCII
            raise pymysql.DataError(
                1153, f"max_allowed_packet is {self._bytes_max}, this takes {len(query)} bytes"
            )
        cursor.execute(query)
        return cursor

    def rows(self, statement: str, values: Values = NONE) -> list[Row]:
        return list(self._execute(statement, values).fetchall())

    def change(self, statement: str, values: Values = NONE) -> int:
        return int(self._execute(statement, values).rowcount)

    def begin(self, write: bool) -> None:
        self.change("START TRANSACTION")

    def commit(self) -> None:
        self.change("COMMIT")

    def rollback(self) -> None:
        self.change("ROLLBACK")

    def close(self) -> None:
        self._inner.close()


class Mariadb:
    """The driver for one database."""

    name = "mariadb"
    words = Words(
        now=_NOW,
        share=" LOCK IN SHARE MODE",
        skip=" FOR UPDATE SKIP LOCKED",
        claim=_CLAIM,
        alone="SELECT version FROM lychgate_schema FOR UPDATE",
        real="double",
        returning=False,
    )

    def __init__(self, url: str, connect_timeout: int) -> None:
        parts = url_parts(url)
        self.shown = without_secrets(parts)
        self._options = _options(parts)
        self._connect_timeout = connect_timeout

    def connect(self) -> MariadbConnection:
        try:
            inner = _Client(
                **self._options,
                autocommit=True,  # transactions are begun where they are meant
                charset="utf8mb4",
                binary_prefix=True,
                connect_timeout=self._connect_timeout,
                read_timeout=READ_TIMEOUT_S,
                write_timeout=READ_TIMEOUT_S,
                conv={**conversions, FIELD_TYPE.VAR_STRING: _text},
            )
        except (OSError, RuntimeError) as error:  # a certificate; a way to log in
            raise ConfigError(f"PyMySQL cannot use what it was given: {error}") from error
        try:
            return MariadbConnection(inner)
        except BaseException:
            inner.close()
            raise

    def migrating(self) -> AbstractContextManager[MariadbConnection]:
        return closing(self.connect())

    def failure(self, error: Exception) -> Failure | None:
        if not isinstance(error, pymysql.Error):
            return None
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        said = str(error.args[1]) if len(error.args) > 1 else ""
        code, text = str(number or "connection"), said.strip() or "the connection is closed"
        if number in _SCHEMA:
            return Failure(code, text, "apply the migrations", schema=True)
        if number in _AGAIN:
            return Failure(code, text, "call again", again=True)
        if isinstance(error, pymysql.DataError):
            remedy = "raise max_allowed_packet" if number == 1153 else "give it in smaller parts"
            return Failure(code, text, remedy, refused=True)
        if number in _LOST or 2000 <= number < 3000 or isinstance(error, pymysql.InterfaceError):
            remedy = _REMEDIES.get(number, f"see that {self.shown} is up and call again")
            return Failure(code, text, remedy, lost=True)
        return Failure(code, text, _REMEDIES.get(number, "mend the cause and call again"))


def _options(parts: SplitResult) -> dict[str, Any]:
    """What PyMySQL takes, from a URL. Raises ConfigError."""
    database = unquote(parts.path[1:])
    words = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = [name for name in words if name not in _WORDS]
    try:
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"this URL's port is none: {error}") from error
    if not database or "/" in database or unknown:
        what = f"nothing is known of {', '.join(unknown)} in it" if unknown else "name a database"
        raise ConfigError(
            f"{what}: {parts.scheme}://user@host:3306/database?NAME=VALUE; "
            f"names: {', '.join(_WORDS)}"
        )
    found: dict[str, Any] = {**words, "database": database}
    for name, value in (("host", parts.hostname), ("user", parts.username), ("port", port)):
        if value is not None:
            found[name] = unquote(cast(str, value)) if name == "user" else value
    if parts.password is not None:
        found["password"] = unquote(parts.password)
    for name in words:
        if name in _FILES:
            try:
                Path(words[name]).expanduser().open("rb").close()
            except OSError as error:  # PyMySQL passes over a file that it cannot read
                raise ConfigError(f"{name} names {words[name]}: {error.strerror}") from error
    if "unix_socket" in words:  # it goes nowhere; and to load certificates takes PyMySQL 20 ms
        found["ssl_disabled"] = True
    return found


_FILES = ("read_default_file", "ssl_ca", "ssl_cert", "ssl_key")
_WORDS = ("unix_socket", "read_default_group", *_FILES)
_SCHEMA = frozenset({1146, 1054})
_AGAIN = frozenset({1213, 1020})
_LOST = frozenset({0, 1044, 1045, 1049, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1698, 1927})
_GRANT = "grant this role SELECT, INSERT, UPDATE and DELETE on the tables named lychgate_…"
_REMEDIES = {
    1021: "free space on the server's device and call again",
    1040: "raise max_connections or lower pool_size, and call again",
    1044: f"name a database that exists, or {_GRANT}",
    1045: "mend user or password",
    1049: "name a database that exists",
    1114: "free space on the server's device and call again",
    1142: _GRANT,
    1143: _GRANT,
    1205: "another session holds the rows for long; end it and call again",
    1226: "raise max_user_connections or lower pool_size, and call again",
    1290: "this server takes no changes: name the primary",
    1317: "the server is too slow, or was told to stop; call again",
    1665: "this server logs statements: set binlog_format to ROW or MIXED",
    1698: "mend user or password",
    1792: "this server takes no changes: name the primary",
    1969: "the server is too slow, or another session holds the rows; call again",
}
