"""The tables of the SQL backend, as migrations (Q2, Q3).

    lychgate_workers     who is alive: id, heartbeat_at, created_at
    lychgate_tasks       what waits or runs; owner_id is NULL while nobody has claimed it
    lychgate_dead_tasks  dead letters, each as its worker left it
    lychgate_schema      the version; one row

Rules of this file
  * The backend never runs DDL: `lychgate sql apply` does, with a role that may. A version that was
    ever shipped is never changed; a change of the tables is another entry at the end.
  * Text is kept as the inside of a JSON string in ASCII, so that every engine takes NUL and lone
    surrogates; payloads are bytes beside the name of their codec.
  * Times are seconds since the Unix epoch by the database's clock, but `publish_at` and `due_at`
    of a delayed task, which its producer set. `due_at` is never NULL: the index covers the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lychgate._errors import ConfigError
from lychgate._sql_driver import Connection, Driver, apply_command
from lychgate._sql_errors import SchemaError, SqlError
from lychgate._sql_pool import fault

_TABLES = """
CREATE TABLE lychgate_schema (
  version integer NOT NULL
);
CREATE TABLE lychgate_workers (
  id {text} PRIMARY KEY,
  heartbeat_at double precision NOT NULL,
  created_at double precision NOT NULL
);
CREATE INDEX lychgate_workers_heartbeat ON lychgate_workers (heartbeat_at);
CREATE TABLE lychgate_tasks (
  id {text} PRIMARY KEY,
  owner_id {text},
  serialized_task {bytes} NOT NULL,
  codec {text} NOT NULL,
  publish_at double precision,
  due_at double precision NOT NULL,
  claim_count integer NOT NULL,
  created_at double precision NOT NULL
);
CREATE INDEX lychgate_tasks_owner ON lychgate_tasks (owner_id);
CREATE INDEX lychgate_tasks_due ON lychgate_tasks (owner_id, due_at, id);
CREATE INDEX lychgate_tasks_suspect ON lychgate_tasks (due_at, id)
  WHERE owner_id IS NULL AND claim_count >= 2;
CREATE TABLE lychgate_dead_tasks (
  id {serial},
  task_id {text} NOT NULL,
  task_class {text} NOT NULL,
  serialized_task {bytes} NOT NULL,
  codec {text} NOT NULL,
  owner_id {text},
  publish_at double precision,
  failed_execution_count bigint NOT NULL,
  failure_class {text} NOT NULL,
  failure_message {text} NOT NULL,
  failed_at double precision NOT NULL,
  enqueued_at double precision,
  created_at double precision NOT NULL
);
CREATE INDEX lychgate_dead_tasks_task ON lychgate_dead_tasks (task_id);
CREATE INDEX lychgate_dead_tasks_failed ON lychgate_dead_tasks (failed_at)
"""

_MARIADB_TABLES = """
CREATE TABLE IF NOT EXISTS lychgate_workers (
  id varbinary(255) PRIMARY KEY,
  heartbeat_at double NOT NULL,
  created_at double NOT NULL,
  KEY lychgate_workers_heartbeat (heartbeat_at)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS lychgate_tasks (
  id varbinary(1530) PRIMARY KEY,
  owner_id varbinary(255),
  serialized_task longblob NOT NULL,
  codec longtext CHARACTER SET ascii NOT NULL,
  publish_at double,
  due_at double NOT NULL,
  claim_count integer NOT NULL,
  created_at double NOT NULL,
  suspect boolean GENERATED ALWAYS AS (claim_count >= 2) STORED,
  KEY lychgate_tasks_owner (owner_id),
  KEY lychgate_tasks_due (owner_id, suspect, due_at, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE IF NOT EXISTS lychgate_dead_tasks (
  id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
  task_id varbinary(1530) NOT NULL,
  task_class longtext CHARACTER SET ascii NOT NULL,
  serialized_task longblob NOT NULL,
  codec longtext CHARACTER SET ascii NOT NULL,
  owner_id varbinary(255),
  publish_at double,
  failed_execution_count bigint NOT NULL,
  failure_class longtext CHARACTER SET ascii NOT NULL,
  failure_message longtext CHARACTER SET ascii NOT NULL,
  failed_at double NOT NULL,
  enqueued_at double,
  created_at double NOT NULL,
  KEY lychgate_dead_tasks_task (task_id),
  KEY lychgate_dead_tasks_failed (failed_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
CREATE TABLE lychgate_schema (version integer PRIMARY KEY) ENGINE = InnoDB AS SELECT 1 AS version
"""
# 1,530 bytes: an id of 255 bytes, each written as \u0000.

_TYPES: Mapping[str, Mapping[str, str]] = {
    "sqlite": {
        "text": "text",
        "bytes": "blob",
        "serial": "integer PRIMARY KEY AUTOINCREMENT",
    },
    "postgres": {
        "text": 'text COLLATE "C"',
        "bytes": "bytea",
        "serial": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    },
}

_MIGRATIONS: Mapping[str, Sequence[str]] = {
    "sqlite": (_TABLES,),
    "postgres": (_TABLES,),
    "mariadb": (_MARIADB_TABLES,),
}
"""The statements that lead from each version to the next, beginning with version 0: no tables."""

ENGINES = tuple(_MIGRATIONS)

(VERSION,) = {len(steps) for steps in _MIGRATIONS.values()}
"""The version that this backend works with."""

_EXISTS = {
    "sqlite": "SELECT 1 FROM sqlite_schema WHERE name = 'lychgate_schema'",
    "postgres": "SELECT 1 WHERE to_regclass('lychgate_schema') IS NOT NULL",
}
_NO_PLACE = "name a file or schema that exists, or can be made, and that this role may write"
_NO_RIGHTS = frozenset({"42501", "1044", "1142"})
_NO_OWNER = "run it with a role that may make tables here"
_ALONE = {
    "postgres": "SELECT pg_advisory_xact_lock(7599364)",
    "mariadb": "SELECT GET_LOCK(CONCAT('lychgate-', LEFT(SHA1(DATABASE()), 16)), 60)",
}
"""Keeps two migrations apart where BEGIN alone does not: to the end of transaction or session."""


def statements(engine: str, since: int = 0) -> list[str]:
    """The DDL from version `since` to this one, for people and for `apply`."""
    if engine not in _MIGRATIONS:
        raise ConfigError(f"no engine named {engine!r}; there are: {', '.join(ENGINES)}")
    found: list[str] = []
    for text in _MIGRATIONS[engine][since:]:
        for name, word in _TYPES.get(engine, {}).items():
            text = text.replace("{" + name + "}", word)
        found += [part.strip() for part in text.split(";")]
    if since == 0 and engine in _TYPES:
        found.append(f"INSERT INTO lychgate_schema (version) VALUES ({VERSION})")
    elif since < VERSION:
        found.append(f"UPDATE lychgate_schema SET version = {VERSION}")
    return found


def version_of(driver: Driver, connection: Connection) -> int:
    """The version of the tables; 0 when there are none."""
    if driver.name in _EXISTS and not connection.rows(_EXISTS[driver.name]):
        return 0  # elsewhere an error ends no transaction, and tells rights from tables
    try:
        found = connection.rows("SELECT version FROM lychgate_schema")
    except Exception as error:
        failure = driver.failure(error)
        if driver.name in _EXISTS or failure is None or not failure.schema:
            raise
        return 0
    if len(found) != 1:
        raise SchemaError(f"the table lychgate_schema has {len(found)} rows, not one: restore it")
    return int(found[0][0])


def check(driver: Driver, version: int) -> None:
    """Raise SchemaError, with the remedy, unless the backend can work with this version."""
    if version > VERSION:
        raise SchemaError(
            f"the schema has version {version}, this program knows {VERSION}: upgrade lychgate"
        )
    if version < VERSION:
        what = f"the schema has version {version}, not {VERSION}" if version else "no tables yet"
        raise SchemaError(f"{what}: run {apply_command(driver)}")


def apply(driver: Driver) -> tuple[int, int]:
    """Bring the tables to this version; the versions before and after. Safe to repeat.

    One transaction: all of it or nothing. MariaDB commits each statement by itself; there the
    version comes last, and what an interrupted run has made is passed over.
    Raises SqlError, and SchemaError for newer tables.
    """
    try:
        with driver.migrating() as connection:
            connection.begin(write=True)
            if driver.name in _ALONE and connection.rows(_ALONE[driver.name]) == [(0,)]:
                raise SqlError(
                    "the migration", "lock", "another one goes on for long", "call again", True
                )
            before = version_of(driver, connection)
            if before > VERSION:
                check(driver, before)
            for statement in statements(driver.name, before):
                connection.change(statement)
            connection.commit()
            return before, VERSION
    except Exception as error:
        failure = driver.failure(error)
        if failure is not None and (failure.schema or failure.code in _NO_RIGHTS):
            remedy = _NO_PLACE if failure.schema else _NO_OWNER
            raise SqlError("the migration", failure.code, failure.text, remedy, True) from error
        raise fault(driver, error, "the migration", definite=True) from error


def status(driver: Driver) -> int:
    """The version of the tables; 0 when there are none. Raises SqlError."""
    connection = None
    try:
        connection = driver.connect()
        return version_of(driver, connection)
    except Exception as error:
        if (failure := driver.failure(error)) is not None and failure.schema:
            return 0
        raise fault(driver, error, "the schema check", definite=True) from error
    finally:
        if connection is not None:
            connection.close()
