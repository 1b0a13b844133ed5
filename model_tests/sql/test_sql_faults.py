"""What goes wrong around a database: a typed error with a remedy, nothing lost (Q3, F2, F3)."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest
from sql.conftest import MakeSql
from sql.database import ask, do

from lychgate import ConfigError, LychgateError, Refused, SchemaError, Sql, SqlError
from lychgate._sql_options import driver_of
from lychgate._sql_schema import VERSION, apply, statements, status
from lychgate_tools.cli import main
from lychgate_tools.sql_server import SqlServer


def test_no_tables(bare_url: str) -> None:
    """Q3: the error names the command; opening makes nothing."""
    with pytest.raises(SchemaError, match="lychgate sql apply"):
        Sql(bare_url)
    assert status(driver_of(bare_url, str)) == 0


def test_the_migration(bare_url: str) -> None:
    """Q3: applied, and applied again; a version that is not ours is refused on both sides."""
    driver = driver_of(bare_url, str)
    assert apply(driver) == (0, VERSION) and apply(driver) == (VERSION, VERSION)
    Sql(bare_url).close()
    do(bare_url, "UPDATE lychgate_schema SET version = 99")
    with pytest.raises(SchemaError, match="upgrade lychgate"):
        Sql(bare_url)
    with pytest.raises(SchemaError, match="upgrade lychgate"):
        apply(driver)
    do(bare_url, "UPDATE lychgate_schema SET version = 0")
    with pytest.raises(SchemaError, match="lychgate sql apply"):
        Sql(bare_url)
    do(bare_url, "DELETE FROM lychgate_schema")
    with pytest.raises(SchemaError, match="0 rows"):
        Sql(bare_url)


def test_migrations_at_once(bare_url: str) -> None:
    """Q3: several deployments that apply at once do so once."""
    found: list[object] = []

    def work() -> None:
        try:
            found.append(apply(driver_of(bare_url, str))[0])
        except LychgateError as error:
            found.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, found)) == ["0", "1", "1", "1"]


def test_the_command(
    bare_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q3: print, status and apply, their exit codes, and no password on the screen."""
    assert main(["sql", "status", bare_url]) == 1
    monkeypatch.setenv("LYCHGATE_SQL_URL", bare_url)
    assert main(["sql", "apply"]) == 0 and main(["sql", "apply", "--json"]) == 0
    assert main(["sql", "status"]) == 0
    engine = driver_of(bare_url, str).name
    capsys.readouterr()
    assert main(["sql", "print", "--engine", engine]) == 0
    assert capsys.readouterr().out == "".join(f"{it};\n" for it in statements(engine))
    do(bare_url, "UPDATE lychgate_schema SET version = 99")
    assert main(["sql", "status"]) == 1 and main(["sql", "apply"]) == 1
    assert main(["sql", "print", "--since", "7"]) == 4
    assert main(["sql", "status", "mysql://x"]) == 4
    monkeypatch.delenv("LYCHGATE_SQL_URL")
    assert main(["sql", "apply"]) == 4
    assert main(["sql", "status", "postgresql://me:secret@/x?host=/nowhere"]) == 3
    assert main(["sql", "status", "mariadb://me:secret@/x?unix_socket=/nowhere"]) == 3
    captured = capsys.readouterr()
    assert "secret" not in captured.out + captured.err


def test_no_ddl_is_run_by_the_backend(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Q3: everything but the migration is SELECT, INSERT, UPDATE, DELETE and settings."""
    driver = driver_of(url, str)
    connection = driver.connect()
    connection.close()
    connection_type = type(connection)
    said: list[str] = []
    for name in ("rows", "change"):
        inner = getattr(connection_type, name)

        def note(
            self: object, statement: str, values: object = None, *, inner: object = inner
        ) -> object:
            said.append(statement.lstrip("(\n ").split()[0].upper())
            return inner(self, statement, values or {})  # type: ignore[operator]  # the method

        monkeypatch.setattr(connection_type, name, note)
    with Sql(url) as worker:
        worker.add_task("t", 1.0, "t")
        worker.pending_tasks()
        worker.add_dead_task("t", 1, None, "", 1)
        worker.remove_dead_tasks(["t"])
        worker.tick(1e12)
    changes = {"SELECT", "INSERT", "UPDATE", "DELETE", "WITH"}
    assert changes - {"WITH"} <= set(said) <= changes | {"SET", "START", "COMMIT"}


def worker_role(server: SqlServer, url: str) -> str:
    """A role of no rights but to come in; the URL for it."""
    schema = re.findall(r"(?:%3D|/)(s\d+)", url)[-1]
    role = f"worker_{schema}"
    if server.engine == "postgres":
        do(url, f"CREATE ROLE {role} LOGIN")
        do(url, f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    else:
        do(url, f"CREATE USER {role}@localhost")
        do(url, f"GRANT SHOW VIEW ON {schema}.* TO {role}@localhost")
    return server.url(schema, role)


def grant(server: SqlServer, url: str, app: str) -> None:
    """DML on the tables."""
    role = app.partition("://")[2].partition("@")[0]
    where = role if server.engine == "postgres" else f"{role}@localhost"
    for table in ("schema", "workers", "tasks", "dead_tasks"):
        do(url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON lychgate_{table} TO {where}")


def test_a_role_without_ddl(server: SqlServer) -> None:
    """Q3: DML rights are enough for all but the migration."""
    url = server.new_schema()
    apply(driver_of(url, str))
    app = worker_role(server, url)
    with pytest.raises(SqlError, match="grant this role"):
        Sql(app)
    grant(server, url, app)
    with Sql(app) as worker:
        worker.add_task("t", 1.0, "t")
        assert len(worker.pending_tasks()) == 1
        worker.add_dead_task("t", 1, None, "", 1)
        assert worker.remove_dead_tasks(["t"]) == 1
    do(url, "UPDATE lychgate_schema SET version = 0")
    do(url, "DROP TABLE lychgate_dead_tasks")
    with pytest.raises(SqlError, match="a role that may make tables"):
        apply(driver_of(app, str))


def test_a_role_that_is_refused(mariadb: SqlServer) -> None:
    """Q3: an unknown role, a database that there is not, a role that may not enter it."""
    url = mariadb.new_schema()
    do(url, "CREATE USER outside@localhost IDENTIFIED BY 'secret'")
    for where, says in (
        (mariadb.url("s1", "nobody_at_all"), "mend user or password"),
        (mariadb.url("there_is_none"), "name a database that exists"),
        (mariadb.url("s1", "outside:wrong"), "mend user or password"),
        (mariadb.url("s1", "outside:secret"), "grant this role"),
    ):
        with pytest.raises(SqlError, match=says) as failed:
            Sql(where)
        assert failed.value.definite and "secret" not in str(failed.value)


@pytest.mark.parametrize(
    "url", ["postgresql://me:secret@/shop?host={}", "mariadb://me:secret@/shop?unix_socket={}/s"]
)
def test_unreachable(url: str, tmp_path: Path) -> None:
    """F2: no server there: definite, and the message says where it was looked for."""
    with pytest.raises(SqlError, match="is up and call again") as failed:
        Sql(url.format(tmp_path))
    assert failed.value.definite and "secret" not in str(failed.value)
    assert f"{url.partition(':')[0]}:///shop" in str(failed.value)


def test_a_server_that_crashes(own_server: SqlServer) -> None:
    """Q10, F2: errors while it is away, nothing lost, no connection leaked."""
    url = own_server.new_schema()
    apply(driver_of(url, str))
    with Sql(url) as worker:
        ids = {worker.add_task(n, 1.0 + n) for n in range(20)}
        claimed = worker.pending_tasks()
        worker.remove_task(claimed[0][0])
        own_server.stop()
        for _ in range(20):
            with pytest.raises(SqlError) as failed:
                worker.add_task("lost")
            assert failed.value.definite
        assert worker.stats()["connections"] <= 1
        own_server.start()
        worker.remove_task(claimed[1][0])
        pool = worker._pool
        for connection in [pool._take("test")[0] for _ in range(8)]:
            pool._give(connection, True)
        own_server.restart_immediately()
        worker.remove_task(claimed[2][0])  # all connections in the pool have died
        assert worker.stats()["connections"] == 1
        left = ids - {it[0] for it in claimed[:3]}
        assert {row[0] for row in ask(url, "SELECT id FROM lychgate_tasks")} == left
        assert worker.pending_tasks() == []


def test_a_server_that_crashes_under_load(own_server: SqlServer) -> None:
    """Q10: threads that add and finish meanwhile: what was acknowledged is there, once."""
    url = own_server.new_schema()
    apply(driver_of(url, str))
    worker = Sql(url, pool_size=4)
    added: list[str] = []
    finished: list[str] = []
    unsure: list[str] = []
    stop = threading.Event()

    def work(name: int) -> None:
        n = 0
        while not stop.is_set():
            n += 1
            task_id = f"{name}-{n}"
            try:
                worker.add_task(n, 3e9, task_id)
                added.append(task_id)
                if n % 2:
                    worker.remove_task(task_id)
                    finished.append(task_id)
            except SqlError as error:
                if not error.definite:
                    unsure.append(task_id)
            except LychgateError as error:
                raise AssertionError(task_id) from error

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        own_server.restart_immediately()
    stop.set()
    for thread in threads:
        thread.join()
    there = {row[0] for row in ask(url, "SELECT id FROM lychgate_tasks")}
    assert added and set(added) - set(finished) - set(unsure) <= there
    assert not set(finished) & there
    assert there <= set(added) | set(unsure)
    worker.close()


def test_a_frozen_session_is_ended(server: SqlServer) -> None:
    """Q6: the server does not wait for ever for a worker that stands idle in a transaction."""
    asked = {
        "postgres": "SELECT current_setting('idle_in_transaction_session_timeout'), "
        "current_setting('synchronous_commit')",
        "mariadb": "SELECT @@idle_transaction_timeout, @@innodb_flush_log_at_trx_commit",
    }
    connection = driver_of(server.url(), str).connect()
    found = connection.rows(asked[server.engine])
    connection.close()
    assert found == [{"postgres": ("1min", "on"), "mariadb": (60, 1)}[server.engine]]


def test_an_interrupted_migration(mariadb: SqlServer) -> None:
    """Q3: MariaDB commits each statement of a migration: begun and killed, it is completed."""
    for done in range(4):
        url = mariadb.new_schema()
        for statement in statements("mariadb")[:done]:
            do(url, statement)
        with pytest.raises(SchemaError, match="lychgate sql apply"):
            Sql(url)
        assert apply(driver_of(url, str)) == (0, VERSION)
        Sql(url).close()


def test_rows_that_another_session_holds(server: SqlServer) -> None:
    """F2: a time-out that says so, and nothing was changed; claims pass over them."""
    url = server.new_schema()
    driver = driver_of(url, str)
    apply(driver)
    waits = {"postgres": "SET lock_timeout = '50ms'", "mariadb": "SET innodb_lock_wait_timeout = 1"}
    with Sql(url, pool_size=1) as worker:
        held, free = worker.add_task("held", 1.0), worker.add_task("free", 2.0)
        worker._pool._idle[0].change(waits[server.engine])
        holder = driver.connect()
        holder.begin(True)
        holder.rows("SELECT 1 FROM lychgate_tasks WHERE id = :id FOR UPDATE", {"id": held})
        with pytest.raises(SqlError, match="another session holds the rows") as failed:
            worker.remove_task(held)
        assert failed.value.definite
        assert [it[0] for it in worker.pending_tasks()] == [free]
        holder.rollback()
        holder.close()
        worker.remove_task(held)


def test_more_than_a_packet(mariadb: SqlServer) -> None:
    """D25: what the server would hang up on is refused before it is sent, with the remedy."""
    url = mariadb.new_schema()
    apply(driver_of(url, str))
    with Sql(url) as worker:
        worker.sync()
        connection: Any = worker._pool._idle[0]
        connection._bytes_max = 1000
        with pytest.raises(Refused, match="raise max_allowed_packet"):
            worker.add_task("x" * 1000)
        worker.add_task("x")


# --- SQLite's own troubles ----------------------------------------------------------------------


def test_no_database_is_made_by_opening(tmp_path: Path) -> None:
    """Q3: a slip in the path makes no empty database."""
    with pytest.raises(SchemaError, match="lychgate sql apply"):
        Sql(f"sqlite:///{tmp_path}/other.db")
    assert list(tmp_path.iterdir()) == []


def test_things_in_place_of_a_database(tmp_path: Path) -> None:
    """F3: a directory, a text file, a missing directory, a file in place of one."""
    (tmp_path / "text").write_text("no database\n" * 100)
    for name, kind in (
        ("", SqlError), ("text", SqlError),
        ("gone/x.db", SchemaError), ("text/x.db", SchemaError),
    ):  # fmt: skip
        with pytest.raises(kind) as failed:
            Sql(f"sqlite:///{tmp_path}/{name}")
        assert ("lychgate sql apply" in str(failed.value)) is (kind is SchemaError)
        with pytest.raises(SqlError):
            apply(driver_of(f"sqlite:///{tmp_path}/{name}", str))


def test_a_full_disk(sqlite_url: str) -> None:
    """F2: the task is refused, what was there stays, and a later call works."""
    with Sql(sqlite_url) as worker:
        kept = worker.add_task("kept")
        (connection,) = worker._pool._idle
        pages = connection.rows("PRAGMA page_count")[0][0]
        connection.rows(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(SqlError, match="free space") as failed:
            worker.add_task("x" * 100_000)
        assert failed.value.definite
        connection.rows("PRAGMA max_page_count = 1000000")
        worker.add_task("x" * 100_000)
        worker.remove_task(kept)


def test_a_locked_database(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """F2, Q10: a writer that never ends: a time-out that says so; readers go on."""
    monkeypatch.setattr("lychgate._sql_sqlite.BUSY_MS", 50)
    with Sql(sqlite_url) as worker:
        holder = driver_of(sqlite_url, str).connect()
        holder.begin(True)
        with pytest.raises(SqlError, match="another process holds") as failed:
            worker.add_task("task")
        assert failed.value.definite and worker.list_dead_tasks() == []
        holder.rollback()
        worker.add_task("task")
        holder.close()


def test_a_payload_beyond_the_limit(sqlite_url: str) -> None:
    """D25: 128 MiB is the limit, and it is said before anything is written."""
    with Sql(sqlite_url) as worker:
        with pytest.raises(Refused, match="limit"):
            worker.add_task("x" * (128 * 2**20))
        assert ask(sqlite_url, "SELECT count(*) FROM lychgate_tasks") == [(0,)]


def test_a_driver_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q1: the message says what to install."""

    def import_module(name: str) -> None:
        raise ImportError("No module named 'psycopg'")

    monkeypatch.setattr("lychgate._sql_options.import_module", import_module)
    for scheme, extra in (("postgresql", "postgres"), ("mariadb", "mariadb"), ("mysql", "mariadb")):
        with pytest.raises(ConfigError, match=rf"pip install 'lychgate\[{extra}\]'"):
            Sql(f"{scheme}://host/name")


def test_the_pool_is_bounded(make: MakeSql) -> None:
    """Q8: who waits too long for a connection is told; errors give theirs back."""
    worker = make(pool_size=2, stale_threshold=1e300)
    pool = worker._pool
    assert pool._wait <= threading.TIMEOUT_MAX
    pool._wait = 0.05
    taken = [pool._take("test")[0], pool._take("test")[0]]
    with pytest.raises(SqlError, match="pool_size"):
        worker.add_task("task")
    for connection in taken:
        pool._give(connection, True)
    for _ in range(5):
        with pytest.raises(ZeroDivisionError):
            pool.transact("test", lambda db: 1 // 0)
    assert worker.stats()["connections"] == 2
    worker.add_task("task")
