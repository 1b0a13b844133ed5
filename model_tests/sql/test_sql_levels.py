"""The levels that look at calls, on real servers: one schedule, one lost answer, one refusal each.

`lychgate conform postgres` and `mariadb` try every place; these take a second.
"""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from lychgate import SqlError
from lychgate._sql_options import driver_of
from lychgate._sql_pool import Pool
from lychgate_conformance import load_target
from lychgate_conformance.blackbox._explore import Explorer
from lychgate_conformance.blackbox._fault_verdict import judge
from lychgate_conformance.blackbox._faulted import Faulter
from lychgate_conformance.blackbox._faults import failing
from lychgate_conformance.blackbox._images import Bounds
from lychgate_conformance.blackbox._script import Script
from lychgate_conformance.blackbox._strace import strace_path
from lychgate_tools.cli import main
from lychgate_tools.sql_server import SERVERS, SqlServer

SCHEDULE = "open 2/open | dead:a @5 | 2/dead:b"


@pytest.fixture(params=SERVERS)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an engine whose server `conform` finds."""
    server: SqlServer = request.getfixturevalue(request.param)
    monkeypatch.setenv("LYCHGATE_SQL_URL", server.plain_url)
    return server.engine


def test_a_worker_stands_within_its_transaction(engine: str) -> None:
    """Q5, D13: what others do meanwhile comes before it or after it. No schema is left."""
    before = schemas()
    assert main(["conform", engine, "--case", "L5-ADD-001", "--schedule", SCHEDULE]) == 0
    assert schemas() == before


def schemas() -> set[str]:
    """Of the server that the environment names."""
    connection = driver_of(os.environ["LYCHGATE_SQL_URL"], str).connect()
    try:
        return {it[0] for it in connection.rows(_SCHEMAS)}
    finally:
        connection.close()


_SCHEMAS = "SELECT schema_name FROM information_schema.schemata"


@pytest.mark.skipif(strace_path() is None, reason="needs strace: install the package of that name")
def test_the_answer_to_a_commit_is_lost(engine: str, tmp_path: Path) -> None:
    """Q9: nobody knows, and says so; the next call has a connection again."""
    target = load_target(engine)
    pool = target.new_pool()
    assert pool is not None
    explorer = Explorer(target, tmp_path, Bounds())
    faulter = Faulter(explorer, pool)
    try:
        script = Script.of("open dead:a")
        sites, _ = faulter.study(script)
        answered = [it for it in sites if it.word == 1 and it.call.name == "recvfrom"]
        fault = next(failing(answered[-1:]))
        found = faulter.run(script, fault)
        assert found is not None, faulter.missed
        assert judge(explorer, faulter.ground, found) is None
        lost = found.told[1].error
        assert lost is not None and lost["definite"] is False and found.struck == 1
        assert [it.error for it in found.told[2:]] == [None] * len(found.told[2:])
    finally:
        faulter.end()
        explorer.end()
        pool.end()


def test_no_socket_is_left(mariadb: SqlServer) -> None:
    """F2, Q9: PyMySQL opens it outside of its own net of errors; found by L4-OPEN-001."""

    def refused(*_: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    pool = Pool(driver_of(mariadb.plain_url, str), 1, 1.0, lambda: 1)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SqlError) as caught:
        patch.setattr(socket, "socket", refused)
        pool.transact("list", lambda db: None)
    assert caught.value.definite and "Too many open files" in str(caught.value)
