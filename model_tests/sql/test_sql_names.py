"""SQLite: no task is acknowledged in a file whose name a crash may lose (D9, D22, F2, Q3).

What the suite's level 4 finds by crashing (`L4-SYNC`), decision by decision.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sql.database import ask

from lychgate import SchemaError, Sql, SqlError
from lychgate._osfs import OsFs
from lychgate._sql_options import driver_of
from lychgate._sql_schema import VERSION, apply, status
from lychgate._sql_sqlite_names import APPLICATION_ID


@pytest.fixture
def broken_sync(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The next sync of a directory fails; what it was asked for, until the test empties it."""
    asked: list[str] = []
    real = OsFs.fsync_dir

    def fsync_dir(fs: OsFs, path: str) -> None:
        if asked:
            real(fs, path)
            return
        asked.append(path)
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    monkeypatch.setattr(OsFs, "fsync_dir", fsync_dir)
    return asked


def url_of(path: Path) -> str:
    return f"sqlite:///{path}"


def migrate(path: Path) -> tuple[int, int]:
    return apply(driver_of(url_of(path), str))


def test_a_new_database_without_a_durable_name(tmp_path: Path, broken_sync: list[str]) -> None:
    """D9, F2: the failed sync is told; the next migration makes the database anew, since a second
    sync of the same name would prove nothing."""
    path = tmp_path / "tasks.db"
    with pytest.raises(SqlError, match="kernel log") as failed:
        migrate(path)
    assert failed.value.definite and status(driver_of(url_of(path), str)) == 0
    in_doubt = os.stat(path)
    held = os.open(path, os.O_RDONLY)  # so that its inode's number is not given out again
    assert migrate(path) == (0, VERSION)
    assert not os.path.samestat(in_doubt, os.stat(path))
    os.close(held)
    made = path.stat()
    assert migrate(path) == (VERSION, VERSION) and os.path.samestat(made, path.stat())


def test_a_log_without_a_durable_name(tmp_path: Path, broken_sync: list[str]) -> None:
    """D22, F2: nothing is taken on a connection whose log could be lost; the log is made anew."""
    path = tmp_path / "tasks.db"
    broken_sync.append("not yet")
    migrate(path)
    with Sql(url_of(path)) as first:
        kept = first.add_task("kept")
    broken_sync.clear()
    with pytest.raises(SqlError, match="EIO"):
        Sql(url_of(path))
    assert sorted(it.name for it in tmp_path.iterdir()) == ["tasks.db"]
    with Sql(url_of(path)) as second:
        second.remove_task(kept)


def test_a_log_that_a_killed_process_left(tmp_path: Path) -> None:
    """D32, F2: it may have died after its sync had failed: what it committed is kept, its log is
    not gone on with; that of a living one is."""
    path, log = tmp_path / "tasks.db", tmp_path / "tasks.db-wal"
    migrate(path)
    died = f"import os, lychgate\nlychgate.Sql({url_of(path)!r}).add_task('kept')\nos._exit(0)"
    subprocess.run([sys.executable, "-c", died], check=True)
    left = os.open(log, os.O_RDONLY)
    with Sql(url_of(path)):
        assert not os.path.samestat(os.fstat(left), log.stat())
        mine = log.stat()
        with Sql(url_of(path)):
            assert os.path.samestat(mine, log.stat())
    os.close(left)
    assert ask(url_of(path), "SELECT count(*) FROM lychgate_tasks") == [(1,)]


def test_every_connection_syncs_before_its_first_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D22: with the log in place, and nothing in it that was not there."""
    path = tmp_path / "tasks.db"
    migrate(path)
    found: list[int] = []
    monkeypatch.setattr(
        OsFs,
        "fsync_dir",
        lambda fs, directory: found.append(os.stat(f"{path}-wal").st_size),
    )
    with Sql(url_of(path)) as worker:
        assert found == [0]
        worker.add_task("task")
        size = os.stat(f"{path}-wal").st_size
        with Sql(url_of(path)):
            assert size and found == [0, size]


def test_a_database_of_others_is_left_in_place(tmp_path: Path) -> None:
    """F3: neither an application's own database nor an empty file is made anew."""
    path, empty = tmp_path / "application.db", tmp_path / "empty.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE things (name)")
    other.execute("INSERT INTO things VALUES ('one')")
    other.commit()
    empty.touch()
    before = path.stat().st_ino, empty.stat().st_ino
    assert migrate(path) == migrate(empty) == (0, VERSION)
    assert (path.stat().st_ino, empty.stat().st_ino) == before
    assert other.execute("SELECT name FROM things").fetchall() == [("one",)]
    other.close()
    assert ask(url_of(path), "PRAGMA journal_mode") == [("wal",)]


def test_a_new_database_is_marked_and_private(tmp_path: Path) -> None:
    """D27: for its owner alone, with what somebody who died had begun taken away."""
    path = tmp_path / "tasks.db"
    for suffix in ("", "-journal", "-wal"):
        (tmp_path / f"tasks.db.new{suffix}").write_text("left by a process that was killed")
    migrate(path)
    assert ask(url_of(path), "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert path.stat().st_mode & 0o777 == 0o600
    assert [it.name for it in tmp_path.iterdir()] == ["tasks.db"]


def test_a_log_without_its_database(tmp_path: Path) -> None:
    """F3: its tasks are not thrown away, and not read into another database."""
    path, log = tmp_path / "tasks.db", tmp_path / "tasks.db-wal"
    log.write_bytes(b"tasks")
    with pytest.raises(SqlError, match="move that file away"):
        migrate(path)
    assert log.read_bytes() == b"tasks" and not path.exists()
    log.unlink()
    assert migrate(path) == (0, VERSION)


def test_a_directory_that_another_process_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D14, F2: the wait has an end and says why; afterwards all is well."""
    path = tmp_path / "tasks.db"
    migrate(path)
    monkeypatch.setattr("lychgate._sql_sqlite.BUSY_MS", 20)
    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(SqlError, match="another process"):
        Sql(url_of(path))
    os.close(holder)
    Sql(url_of(path)).close()


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    """F3: the same answer as for a missing file, and one for the migration."""
    path = tmp_path / "gone" / "tasks.db"
    with pytest.raises(SchemaError, match="lychgate sql apply"):
        Sql(url_of(path))
    with pytest.raises(SqlError, match="can be made"):
        migrate(path)
