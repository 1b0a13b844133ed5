"""Database servers of our own: in a temporary directory, on a Unix socket, as nobody special.

For tests, benchmarks and `conform postgres` or `mariadb`. Needs the server's programs (Debian:
postgresql; mariadb-server-core and mariadb-client-core, which start no service) and the driver.
Nothing of an installed server is touched, and nothing is left behind.

Rules of this file
  * Servers refuse to run as root, so root runs them as another user.
  * A server is ended by its own process id, by the signals that it documents: `FAST` is its
    shutdown, `CRASH` ends it and all sessions without one.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from lychgate._sql_options import driver_of
from lychgate_conformance.adapters.sql_store import RUN, SERVER
from lychgate_tools.ui import ExitCode, UserError

_START_S = 60.0
_USERS = ("postgres", "mysql", "nobody")


def _other_user() -> str | None:
    for name in _USERS:
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    return None


class SqlServer(ABC):
    """A server that runs inside a `with` block."""

    engine: ClassVar[str]
    driver: ClassVar[str]
    packages: ClassVar[str]
    FAST: ClassVar[int]
    CRASH: ClassVar[int]
    and_all_in_it: ClassVar[str] = ""
    """What `DROP SCHEMA` needs besides the name."""

    def __init__(self) -> None:
        why = self.missing()
        if why is not None:
            raise UserError(why, ExitCode.INCONCLUSIVE)
        self._user = _other_user() if os.geteuid() == 0 else None
        self.directory = Path(tempfile.mkdtemp(prefix=f"lychgate-{self.engine}-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._schemas = 0

    @classmethod
    def missing(cls) -> str | None:
        """Why no server can be started here; None when one can."""
        if cls.programs() is None:
            return f"no {cls.engine} server programs (Debian: apt-get install {cls.packages})"
        if find_spec(cls.driver) is None:
            return f"no {cls.driver} (pip install 'lychgate[{cls.engine}]')"
        if os.geteuid() == 0 and _other_user() is None:
            return "no user but root to run a server as"
        return None

    @classmethod
    @abstractmethod
    def programs(cls) -> Path | None:
        """Where the server's programs are."""

    @abstractmethod
    def _make(self) -> list[str]:
        """The command that makes an empty server in `directory`."""

    @abstractmethod
    def _serve(self) -> list[str]:
        """The command that runs it."""

    @abstractmethod
    def url(self, schema: str = ..., user: str = ...) -> str:
        """Where to find it; `schema` is where tables are looked for and made."""

    @property
    @abstractmethod
    def plain_url(self) -> str:
        """Where to find it, for who chooses a schema later."""

    def __enter__(self) -> Self:
        try:
            if self._user is not None:
                shutil.chown(self.directory, self._user)
            done = subprocess.run(
                self._make(), capture_output=True, text=True, user=self._user, cwd="/", check=False
            )
            if done.returncode:
                said = (done.stderr + done.stdout).strip()[-300:]
                raise UserError(f"{self.engine}: no server could be made: {said}")
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
            self.stop(self.CRASH)
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        assert self._process is None, "it runs already"
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                self._serve(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                user=self._user, cwd="/", start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                text = (self.directory / "log").read_text(errors="replace")
                raise UserError(f"{self.engine} did not start: {text.strip()[-300:]}")
            time.sleep(0.05)

    def _answers(self) -> bool:
        driver = driver_of(self.url(), str)
        try:
            driver.connect().close()
        except Exception as error:
            failure = driver.failure(error)
            if failure is None or not failure.lost:
                raise
            return False
        return True

    def stop(self, by: int | None = None) -> None:
        """End it, by a shutdown unless told otherwise."""
        assert self._process is not None, "it does not run"
        self._process.send_signal(self.FAST if by is None else by)
        self._process.wait()
        self._process = None

    def restart_immediately(self) -> None:
        """A crash of the server, and its recovery."""
        self.stop(self.CRASH)
        self.start()

    def new_schema(self) -> str:
        """A URL whose tables are nobody else's."""
        self._schemas += 1
        name = f"s{self._schemas}"
        connection = driver_of(self.url(), str).connect()
        try:
            connection.change(f"CREATE SCHEMA {name}")
        finally:
            connection.close()
        return self.url(name)


class PostgresServer(SqlServer):
    """PostgreSQL; its schemas are of one database."""

    engine = "postgres"
    driver = "psycopg"
    packages = "postgresql"
    FAST, CRASH = signal.SIGINT, signal.SIGQUIT
    and_all_in_it = " CASCADE"
    _SETTINGS: ClassVar = {
        "listen_addresses": "",
        "shared_buffers": "32MB",
        "max_connections": "100",
        "log_min_messages": "warning",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "autovacuum_naptime": "10s",
    }

    @classmethod
    def programs(cls) -> Path | None:
        config = shutil.which("pg_config")
        found = []
        if config is not None:
            done = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
            found.append(Path(done.stdout.strip()))
        found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        return next((path for path in found if (path / "initdb").exists()), None)

    def _program(self, name: str) -> str:
        where = self.programs()
        assert where is not None, "`missing` looked for it"
        return str(where / name)

    def _make(self) -> list[str]:
        data = str(self.directory / "data")
        command = [self._program("initdb"), "-D", data, "-A", "trust"]
        return [*command, "-U", "lychgate", "-E", "UTF8", "--no-locale", "--no-sync"]

    def _serve(self) -> list[str]:
        settings = {**self._SETTINGS, "unix_socket_directories": str(self.directory)}
        command = [self._program("postgres"), "-D", str(self.directory / "data")]
        return [*command, *(f"--{name}={value}" for name, value in settings.items())]

    def url(self, schema: str = "public", user: str = "lychgate") -> str:
        return (
            f"postgresql://{user}@/postgres?host={self.directory}"
            f"&options=-csearch_path%3D{schema}"
        )

    @property
    def plain_url(self) -> str:
        return f"postgresql://lychgate@/postgres?host={self.directory}"


class MariadbServer(SqlServer):
    """MariaDB; a schema is a database there."""

    engine = "mariadb"
    driver = "pymysql"
    packages = "mariadb-server-core mariadb-client-core"
    FAST, CRASH = signal.SIGTERM, signal.SIGKILL
    _SETTINGS = (
        "--skip-networking",
        "--innodb-buffer-pool-size=32M",
        "--max-allowed-packet=512M",
        "--max-connections=100",
        "--skip-log-bin",
    )

    @classmethod
    def programs(cls) -> Path | None:
        needed = ("mariadb-install-db", "my_print_defaults", "mariadbd")
        places = f"{os.environ.get('PATH', '')}:/usr/sbin"
        found = [shutil.which(name, path=places) for name in needed]
        return None if None in found else Path(str(found[-1]))

    def _make(self) -> list[str]:
        return [
            "mariadb-install-db", *self._places(), "--skip-test-db", "--skip-name-resolve",
            "--auth-root-authentication-method=normal",
        ]  # fmt: skip

    def _serve(self) -> list[str]:
        return [
            str(self.programs()), *self._places(), f"--socket={self.directory / 'socket'}",
            *self._SETTINGS,
        ]  # fmt: skip

    def _places(self) -> list[str]:
        """A server that starts removes the temporary files of others: so it has its own place."""
        where = self.directory
        return ["--no-defaults", f"--datadir={where / 'data'}", f"--tmpdir={where}"]

    def url(self, schema: str = "mysql", user: str = "root") -> str:
        return f"mariadb://{user}@localhost/{schema}?unix_socket={self.directory / 'socket'}"

    @property
    def plain_url(self) -> str:
        return self.url()


SERVERS: dict[str, type[SqlServer]] = {it.engine: it for it in (PostgresServer, MariadbServer)}
"""By the name of the engine; SQLite has none."""


@contextmanager
def server_for(backend: str) -> Iterator[None]:
    """For `conform postgres` and its like: a server of our own; LYCHGATE_SQL_URL names another, on
    which nothing of the run is left."""
    server = SERVERS.get(backend)
    if server is None:
        yield
        return
    if SERVER in os.environ:
        with _guest(server, secrets.token_hex(4)):
            yield
        return
    with server() as running:
        os.environ[SERVER] = running.plain_url
        try:
            yield
        finally:
            del os.environ[SERVER]


@contextmanager
def _guest(server: type[SqlServer], word: str) -> Iterator[None]:
    os.environ[RUN] = word
    try:
        yield
    finally:
        del os.environ[RUN]
        connection = driver_of(os.environ[SERVER], str).connect()
        try:
            found = connection.rows(
                "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE :word",
                {"word": f"suite\\_{word}\\_%"},
            )
            for (name,) in found:
                connection.change(f"DROP SCHEMA {name}{server.and_all_in_it}")
        finally:
            connection.close()
