"""A PostgreSQL server of our own: in a temporary directory, on a Unix socket, as nobody special.

For tests, benchmarks and `conform postgres`. Needs the server's programs (Debian: postgresql) and
psycopg. Nothing of an installed cluster is touched, and nothing is left behind.

Rules of this file
  * The server refuses to run as root, so root runs it as another user.
  * It is ended by its own process id, by the signals that it documents: SIGINT is its fast
    shutdown, SIGQUIT its immediate one, which is a crash of all sessions.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from lychgate_conformance.adapters.sql_store import SERVER
from lychgate_tools.ui import ExitCode, UserError

_START_S = 60.0
_USERS = ("postgres", "nobody")
_SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "100",
    "log_min_messages": "warning",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum_naptime": "10s",
}


def missing() -> str | None:
    """Why no server can be started here; None when one can."""
    if _programs() is None:
        return "no PostgreSQL server programs (Debian: apt-get install postgresql)"
    try:
        import psycopg  # noqa: F401  # the driver's presence is the question
    except ImportError:
        return "no psycopg (pip install 'lychgate[postgres]')"
    if os.geteuid() == 0 and _other_user() is None:
        return "no user but root to run a server as"
    return None


def _programs() -> Path | None:
    config = shutil.which("pg_config")
    found = []
    if config is not None:
        done = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        found.append(Path(done.stdout.strip()))
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((path for path in found if (path / "initdb").exists()), None)


def _other_user() -> str | None:
    for name in _USERS:
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


@contextmanager
def server_for(wanted: bool) -> Iterator[None]:
    """For `conform postgres`: a server of our own, unless LYCHGATE_SQL_URL names one."""
    if not wanted or SERVER in os.environ:
        yield
        return
    with PostgresServer() as running:
        os.environ[SERVER] = running.plain_url
        try:
            yield
        finally:
            del os.environ[SERVER]


class PostgresServer:
    """A server that runs inside a `with` block."""

    def __init__(self) -> None:
        why = missing()
        if why is not None:
            raise UserError(why, ExitCode.INCONCLUSIVE)
        programs = _programs()
        assert programs is not None, "`missing` looked for it"
        self._programs = programs
        self._user = _other_user() if os.geteuid() == 0 else None
        self.directory = Path(tempfile.mkdtemp(prefix="lychgate-pg-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = 0

    def __enter__(self) -> Self:
        try:
            if self._user is not None:
                shutil.chown(self.directory, self._user)
            data = str(self.directory / "data")
            command = [str(self._programs / "initdb"), "-D", data, "-A", "trust"]
            command += ["-U", "lychgate", "-E", "UTF8", "--no-locale", "--no-sync"]
            done = subprocess.run(
                command, capture_output=True, text=True, user=self._user, cwd="/", check=False
            )
            if done.returncode:
                raise UserError(f"initdb failed: {done.stderr.strip()[-300:]}")
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        if self._process is not None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        assert self._process is None, "it runs already"
        settings = {**_SETTINGS, "unix_socket_directories": str(self.directory)}
        command = [str(self._programs / "postgres"), "-D", str(self.directory / "data")]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                user=self._user, cwd="/", start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = (self.directory / "log").read_text(errors="replace")
                raise UserError(f"PostgreSQL did not start: {text.strip()[-300:]}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(self.url(), connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def stop(self, by: int = signal.SIGINT) -> None:
        """End it: SIGINT is the fast shutdown, SIGQUIT the immediate one."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(by)
        self._process.wait()
        self._process = None

    def restart_immediately(self) -> None:
        """A crash of the server, and its recovery."""
        self.stop(signal.SIGQUIT)
        self.start()

    def url(self, schema: str = "public", user: str = "lychgate") -> str:
        """Where to find it; `schema` is where tables are looked for and made."""
        return (
            f"postgresql://{user}@/postgres?host={self.directory}"
            f"&options=-csearch_path%3D{schema}"
        )

    @property
    def plain_url(self) -> str:
        """Where to find it, for who chooses a schema later."""
        return f"postgresql://lychgate@/postgres?host={self.directory}"

    def new_schema(self) -> str:
        """A URL whose tables are nobody else's."""
        import psycopg

        self._schemas += 1
        name = f"s{self._schemas}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return self.url(name)
