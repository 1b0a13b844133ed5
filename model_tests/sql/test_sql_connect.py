"""Connecting: URLs that cannot be meant, servers that refuse, and servers set in strange ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sql.database import ask, do

from lychgate import ConfigError, SchemaError, Sql, SqlError
from lychgate._sql_options import driver_of
from lychgate._sql_schema import apply
from lychgate_tools.cli import main
from lychgate_tools.sql_server import SqlServer


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mariadb://me:secret@[::1/shop", "percent-encode"),
        ("postgresql://me:secret@[::1/shop", "percent-encode"),
        ("postgresql://me:secret%zz@host/shop", "percent-encode"),
        ("postgresql://me:secret@host/shop?colour=red", 'parameter: "colour"'),
        ("mariadb://me:secret@host/shop?colour=red", "nothing is known of colour"),
        ("mariadb://me:secret@host/shop?read_default_file=/nowhere/my.cnf", "No such file"),
        ("mariadb://me:secret@host/shop?ssl_ca=/nowhere/ca.pem", "No such file"),
    ],
)
def test_urls_that_cannot_be_meant(url: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Q9: refused before anything is opened, as usage of the command, and no password is shown."""
    with pytest.raises(ConfigError, match=why) as failed:
        Sql(url)
    assert "secret" not in str(failed.value)
    assert main(["sql", "status", url]) == 4
    assert "secret" not in "".join(capsys.readouterr())


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    """Q9: what PyMySQL does not put into an error of its own is one of ours."""
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match="PyMySQL cannot use what it was given"):
        Sql(f"mariadb://me@127.0.0.1:1/shop?ssl_ca={tmp_path}/ca.pem")


def test_the_remedy_can_be_pasted(server: SqlServer) -> None:
    """Q3: the command leads to where the tables were looked for, and holds no secret."""
    url = server.new_schema()
    shown = driver_of(url.replace("@", ":secret@"), str).shown
    assert "secret" not in shown and str(server.directory) in shown
    with pytest.raises(SchemaError) as failed:
        Sql(url)
    assert f"lychgate sql apply '{shown}'" in str(failed.value), "quoted for a shell"
    user = "root" if server.engine == "mariadb" else "lychgate"
    assert apply(driver_of(shown.replace("://", f"://{user}@", 1), str)) == (0, 1)
    Sql(url).close()


def test_a_postgres_that_refuses(postgres: SqlServer) -> None:
    """F2: psycopg has no code for what is said before there is a session; the remedy fits."""
    do(postgres.url(), "CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")
    nobody, crowded = (postgres.url(user=name) for name in ("nobody", "crowded"))
    elsewhere = postgres.url().replace("/postgres?", "/elsewhere?")
    for url, remedy in (
        (nobody, "a role that exist"),
        (elsewhere, "name a database"),
        (crowded, "raise max_connections or lower pool_size"),
    ):
        with pytest.raises(SqlError, match=remedy) as failed:
            Sql(url)
        assert failed.value.definite


def test_a_postgres_with_other_defaults(postgres: SqlServer) -> None:
    """Q5: a session sets what it rests on: the plan of the claim, isolation, digits of times."""
    odd = {
        "enable_indexscan": "off", "jit": "on", "extra_float_digits": "-5",
        "default_transaction_isolation": "serializable",
    }  # fmt: skip
    url = postgres.new_schema()
    apply(driver_of(url, str))
    url += "".join(f"%20-c%20{name}%3D{value}" for name, value in odd.items())
    found = ask(url, f"SELECT {', '.join(f'current_setting({name!r})' for name in odd)}")
    assert found == [("on", "off", "1", "read committed")]
    with Sql(url) as worker:
        worker.add_task("task", 1796076351.4000118)
        do(url, "UPDATE lychgate_tasks SET due_at = 1")
        assert [at for _, _, at in worker.pending_tasks()] == [1796076351.4000118]


def test_a_mariadb_with_other_defaults(mariadb: SqlServer) -> None:
    """Q5: a session sets what it rests on; the migration passes a server that guards updates."""
    odd: dict[str, Any] = {
        "completion_type": "'RELEASE'", "sql_safe_updates": "1", "sql_select_limit": "3",
        "sql_mode": "'ANSI,NO_BACKSLASH_ESCAPES'",
    }  # fmt: skip
    url = mariadb.new_schema()
    for name, value in odd.items():
        do(url, f"SET GLOBAL {name} = {value}")
    try:
        apply(driver_of(url, str))
        with Sql(url) as worker:
            for number in range(5):
                worker.add_task(f'\\"{number}', 1.0)
            assert len(worker.pending_tasks()) == 5
            worker._worker._held.clear()  # as if the answer had been lost
            worker._worker._unsure = True
            assert worker.stats()["connections"] == 1 and len(worker.pending_tasks()) == 5
    finally:
        for name in odd:
            do(url, f"SET GLOBAL {name} = DEFAULT")
