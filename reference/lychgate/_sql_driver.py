"""What the SQL backend asks of a database: a connection, and the ways in which engines differ.

Rules of this file
  * Statements are written once, with `:name` for values and `{…}` for the words of `Words` that
    engines spell in their own way. Only a driver module imports a driver.
  * A connection serves one thread at a time; `_sql_pool.py` sees to it (Q8).
  * A driver raises what its library raises. `failure` says what that means; `_sql_pool.py` makes
    the error that callers see.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

from lychgate._errors import ConfigError

Row = tuple[Any, ...]
Values = Mapping[str, object]

NONE: Values = {}


@cache
def pyformat(statement: str) -> str:
    """`:name` as drivers of the other style want it; there are only so many statements."""
    return re.sub(r":(\w+)", r"%(\1)s", statement.replace("%", "%%"))


@dataclass(frozen=True, slots=True)
class Words:
    """How one engine spells what the others spell otherwise."""

    now: str
    """Seconds since the Unix epoch by the database's clock, the same all through a statement."""
    share: str
    """After a SELECT: keep sweeps away from these rows until the transaction ends."""
    skip: str
    """After a SELECT: lock these rows, and pass over those that others have locked."""
    claim: str
    """The claim, in one statement (Q5)."""
    alone: str
    """Waits until no other transaction changes the dead tasks; may be nothing."""
    real: str = "double precision"
    """The type of times, in a CAST."""
    returning: bool = True
    """Whether a change gives back the rows it met. If not, `_sql_split.py` looks at them first,
    and `claim` is that look."""
    by_process: bool = False
    """Whether all connections of a process share their locks, so that none may be open while it
    forks (`_sql_fork.py`)."""

    def spelled(self, statement: str) -> str:
        """The statement in this engine's words."""
        for name in ("now", "share", "skip", "real"):
            statement = statement.replace("{" + name + "}", getattr(self, name))
        return statement


@dataclass(frozen=True, slots=True)
class Failure:
    """What an error of a driver means."""

    code: str
    text: str
    remedy: str
    schema: bool = False
    """The tables are missing, or not those of this version."""
    lost: bool = False
    """The connection is of no more use."""
    again: bool = False
    """Rolled back because of what others did at the time: to be tried again at once."""
    refused: bool = False
    """The values cannot be stored at all."""


class Connection(Protocol):
    """One session with a database."""

    def rows(self, statement: str, values: Values = NONE) -> list[Row]:
        """Run a statement; what it gives."""

    def change(self, statement: str, values: Values = NONE) -> int:
        """Run a statement; how many rows it changed."""

    def begin(self, write: bool) -> None:
        """Begin a transaction; with `write` one that never has to be upgraded from reading."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class Driver(Protocol):
    """One engine."""

    name: str
    words: Words

    def connect(self) -> Connection:
        """A new session."""

    def migrating(self) -> AbstractContextManager[Connection]:
        """A session to make the tables in, closed at the end of the block, which rolls back what
        was not committed. SQLite makes the database itself where there is none."""

    def failure(self, error: Exception) -> Failure | None:
        """What an error means; None for one that is not the driver's."""

    @property
    def shown(self) -> str:
        """Where the database is, without user and secrets."""


def url_parts(url: str) -> SplitResult:
    """The parts of a URL. Raises ConfigError, and shows none of it, for it may be the password."""
    try:
        return urlsplit(url)
    except ValueError:
        raise ConfigError(UNREADABLE_URL) from None


def without_secrets(parts: SplitResult) -> str:
    """The URL of a server as it may be shown: where it is, and not who asks."""
    host = parts.netloc.rpartition("@")[2]
    kept = "&".join(it for it in parts.query.split("&") if it.partition("=")[0] in _PLACES)
    return f"{parts.scheme}://{host}{parts.path}{'?' if kept else ''}{kept}"


def apply_command(driver: Driver) -> str:
    """What makes the tables, to be pasted into a shell."""
    return f"lychgate sql apply {shlex.quote(driver.shown)}"


UNREADABLE_URL = (
    "this URL cannot be read: percent-encode what is special in user and password (@ is %40)"
)
_PLACES = frozenset(
    {"host", "hostaddr", "port", "dbname", "service", "options", "unix_socket", "read_default_file"}
)
"""Parameters of a URL that say where tables are."""
