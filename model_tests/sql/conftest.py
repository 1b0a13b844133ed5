"""Fixtures of the SQL backend's tests: a database of each engine with its tables made.

`url` runs a test on every engine. One server of an engine serves a whole session, each test has a
schema of its own in it; where no server can be started the reason is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lychgate import Sql
from lychgate._sql_options import driver_of
from lychgate._sql_schema import apply
from lychgate_tools.sql_server import SERVERS, SqlServer

MakeSql = Callable[..., Sql]


def _running(engine: str) -> SqlServer:
    """A server of this engine; where there can be none the test is skipped."""
    if (why := SERVERS[engine].missing()) is not None:
        pytest.skip(why)
    return SERVERS[engine]()


@pytest.fixture(scope="session")
def postgres() -> Iterator[SqlServer]:
    """A PostgreSQL server for the session."""
    with _running("postgres") as running:
        yield running


@pytest.fixture(scope="session")
def mariadb() -> Iterator[SqlServer]:
    """A MariaDB server for the session."""
    with _running("mariadb") as running:
        yield running


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> SqlServer:
    """The session's server of each engine that has servers."""
    running: SqlServer = request.getfixturevalue(request.param)
    return running


@pytest.fixture(params=SERVERS)
def own_server(request: pytest.FixtureRequest) -> Iterator[SqlServer]:
    """A server for a test that stops it."""
    with _running(request.param) as running:
        yield running


@pytest.fixture(params=["sqlite", *SERVERS])
def bare_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for tables, without any yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tasks.db'}"
    running: SqlServer = request.getfixturevalue(request.param)
    return running.new_schema()


@pytest.fixture
def url(bare_url: str) -> str:
    """A database with its tables."""
    apply(driver_of(bare_url, str))
    return bare_url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The same, SQLite only."""
    where = f"sqlite:///{tmp_path / 'tasks.db'}"
    apply(driver_of(where, str))
    return where


@pytest.fixture
def make(url: str) -> Iterator[MakeSql]:
    """Opens workers on the database; all are closed at the end."""
    opened: list[Sql] = []

    def one(**options: object) -> Sql:
        made = Sql(url, **options)  # type: ignore[arg-type]  # the tests give what fits
        opened.append(made)
        return made

    yield one
    for made in opened:
        made.close()
