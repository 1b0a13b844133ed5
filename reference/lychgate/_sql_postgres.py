"""PostgreSQL through psycopg 3 (the optional extra `postgres`).

    postgresql://user@host/database     and whatever else libpq takes in a URI

Rules of this file
  * The claim looks at its own worker's row first and locks it: a sweep that is under way is waited
    for, and one that comes later passes over it (Sql.tla, ClaimBegin and SweepBegin).
  * Its order begins with owner_id, which is NULL throughout: PostgreSQL takes the order of an index
    only as it stands there, and would sort the whole backlog otherwise.
  * Every statement here is made for an index, and sessions say so: a planner without statistics, or
    with those of an empty table, would read and sort the backlog at each claim.
  * statement_timestamp() is the database's clock: it stands still all through a statement, so that
    an index can be used. now() would be the beginning of the transaction.
  * A session that stands idle inside a transaction is ended by the server, so that a worker which
    is frozen there does not hold its rows for ever. A server that the network has lost is noticed
    by the system's own probes.
  * Whatever a role or database has for defaults, a session sets what it rests on.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from lychgate._errors import ConfigError
from lychgate._sql_driver import (
    NONE,
    UNREADABLE_URL,
    Failure,
    Row,
    Values,
    Words,
    pyformat,
    url_parts,
    without_secrets,
)

_NOW = "CAST(extract(epoch FROM statement_timestamp()) AS double precision)"

_ARM = """
  SELECT t.id FROM lychgate_tasks AS t
  WHERE t.owner_id IS NULL AND t.due_at <= {now} AND t.claim_count %s
    AND EXISTS (SELECT 1 FROM me)
  ORDER BY %s LIMIT :%s FOR UPDATE OF t SKIP LOCKED"""

_CLAIM = f"""
WITH me AS MATERIALIZED (
  SELECT id FROM lychgate_workers
  WHERE id = :me AND heartbeat_at >= {{now}} - CAST(:stale AS double precision) FOR SHARE),
due AS MATERIALIZED ({_ARM % ("< 2", "t.owner_id, t.due_at, t.id", "batch")}),
suspect AS MATERIALIZED ({_ARM % (">= 2", "t.due_at, t.id", "suspects")})
UPDATE lychgate_tasks AS t SET owner_id = :me, claim_count = t.claim_count + 1
FROM (SELECT id FROM due UNION ALL SELECT id FROM suspect) AS picked
WHERE t.id = picked.id
RETURNING t.id, t.serialized_task, t.codec, t.publish_at, t.due_at, t.claim_count""".replace(
    "{now}", _NOW
)

_ALONE = """
SELECT pg_advisory_xact_lock(
  7599365, CAST(CAST(CAST('lychgate_dead_tasks' AS regclass) AS oid) AS integer))"""

_SETTINGS = """
SELECT set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('enable_indexscan', 'on', false),
       set_config('jit', 'off', false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('extra_float_digits', '1', false),
       set_config('idle_in_transaction_session_timeout', '60000', false),
       set_config('lock_timeout', '30000', false),
       set_config('statement_timeout', '60000', false),
       set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on'
                       ELSE current_setting('synchronous_commit') END, false)"""


class PostgresConnection:
    """One session."""

    def __init__(self, inner: psycopg.Connection[Row]) -> None:
        self._inner = inner

    def _execute(self, statement: str, values: Values) -> psycopg.Cursor[Row]:
        return self._inner.execute(pyformat(statement).encode(), dict(values))

    def rows(self, statement: str, values: Values = NONE) -> list[Row]:
        return self._execute(statement, values).fetchall()

    def change(self, statement: str, values: Values = NONE) -> int:
        return self._execute(statement, values).rowcount

    def begin(self, write: bool) -> None:
        self._inner.execute("BEGIN")

    def commit(self) -> None:
        self._inner.execute("COMMIT")

    def rollback(self) -> None:
        self._inner.execute("ROLLBACK")

    def close(self) -> None:
        self._inner.close()


class Postgres:
    """The driver for one database."""

    name = "postgres"
    words = Words(
        now=_NOW,
        share=" FOR SHARE",
        skip=" FOR UPDATE SKIP LOCKED",
        claim=_CLAIM,
        alone=_ALONE,
    )

    def __init__(self, url: str, connect_timeout: int) -> None:
        self._url = url
        self.shown = without_secrets(url_parts(url))
        defaults = {"connect_timeout": connect_timeout, **_PROBES}
        given = _parameters(url)
        self._options = {name: value for name, value in defaults.items() if name not in given}

    def connect(self) -> PostgresConnection:
        inner = psycopg.connect(self._url, autocommit=True, **self._options)
        try:
            inner.execute(_SETTINGS)
        except BaseException:
            inner.close()
            raise
        return PostgresConnection(inner)

    def migrating(self) -> AbstractContextManager[PostgresConnection]:
        return closing(self.connect())

    def failure(self, error: Exception) -> Failure | None:
        if not isinstance(error, psycopg.Error):
            return None
        text = str(error).strip().partition("\n")[0] or type(error).__name__
        state = error.sqlstate or next((it for said, it in _SAID.items() if said in text), "")
        if state in _SCHEMA:
            return Failure(state, text, "apply the migrations", schema=True)
        if state in _AGAIN:
            return Failure(state, text, "call again", again=True)
        if isinstance(error, psycopg.DataError) or state == "54000":
            return Failure(state or "data", text, "give it in smaller parts", refused=True)
        is_lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and (
            not state or state[:2] in ("08", "57", "28", "3D")
        )
        if is_lost:
            remedy = _REMEDIES.get(state, f"see that {self.shown} is up and call again")
            return Failure(state or "connection", text, remedy, lost=True)
        return Failure(state, text, _REMEDIES.get(state, "mend the cause and call again"))


def _parameters(url: str) -> dict[str, Any]:
    """What the URL says. Raises ConfigError."""
    try:
        return conninfo_to_dict(url)
    except psycopg.Error as error:
        text = str(error).strip()  # of other errors it may show the password
        what = f"this URL is none: {text}" if "query parameter" in text else UNREADABLE_URL
        raise ConfigError(what) from None


_PROBES: dict[str, Any] = {
    "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}  # fmt: skip
"""Seconds until a silent connection is probed, between probes, their number; and milliseconds for
which what was sent may stay without a sign."""

_SAID = {
    "password authentication failed": "28P01",
    "no password supplied": "28P01",
    "no pg_hba.conf entry": "28000",
    "too many connections": "53300",
    "too many clients": "53300",
    "connection slots are reserved": "53300",
    "does not exist": "3D000",
}
"""psycopg has no code for what a server says to who wants to connect; other languages than English
get the general remedy."""

_SCHEMA = frozenset({"42P01", "3F000", "42703"})
_AGAIN = frozenset({"40001", "40P01"})
_REMEDIES = {
    "42501": "grant this role SELECT, INSERT, UPDATE and DELETE on the tables named lychgate_…",
    "53100": "free space on the server's device and call again",
    "53300": "raise max_connections or lower pool_size, and call again",
    "55P03": "another session holds the rows for long; end it and call again",
    "57014": "the server is too slow, or another session holds the rows; call again",
    "25006": "this server takes no changes: name the primary",
    "28P01": "mend user or password",
    "28000": "mend user or password, or let them in by pg_hba.conf",
    "3D000": "name a database and a role that exist",
}
