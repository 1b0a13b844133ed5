"""What `configure("sql", …)` takes, checked before anything is opened (Q9)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from lychgate._errors import ConfigError
from lychgate._records import as_number
from lychgate._sql_driver import Driver
from lychgate._sql_sqlite import Sqlite

CONNECT_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Options:
    """Numbers that make sense together. Times are seconds."""

    batch_size: int
    claim_interval: float
    heartbeat_interval: float
    stale_threshold: float
    claims_max: int
    pool_size: int

    def __post_init__(self) -> None:
        for name in ("batch_size", "claims_max", "pool_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10_000:
                raise ConfigError(f"{name} must be a whole number from 1 to 10,000")
        for name in ("claim_interval", "heartbeat_interval", "stale_threshold"):
            number = as_number(getattr(self, name))
            if number is None or not math.isfinite(number) or number <= 0:
                raise ConfigError(f"{name} must be seconds, more than 0 and finite")
        if self.stale_threshold <= self.heartbeat_interval:
            raise ConfigError(
                "stale_threshold must be more than heartbeat_interval, better three times as much: "
                "else every worker is taken for dead between two heartbeats"
            )


def driver_of(url: object, resolve: Callable[[str], str]) -> Driver:
    """The driver for a URL. Raises ConfigError, naming what to install if that is missing."""
    if not isinstance(url, str) or "\0" in url:
        raise ConfigError("url must be text, such as sqlite:///tasks.db")
    scheme, found, rest = url.partition("://")
    if found and scheme == "sqlite":
        if not rest.startswith("/") or not rest[1:]:
            raise ConfigError("a SQLite URL is sqlite:///relative.db or sqlite:////absolute.db")
        return Sqlite(rest[1:], resolve)
    if found and scheme in _SERVERS:
        module_name, class_name, extra = _SERVERS[scheme]
        try:
            module = import_module(module_name)
        except ImportError as error:
            raise ConfigError(
                f"{class_name} needs a driver ({error}): pip install 'lychgate[{extra}]'"
            ) from error
        driver: Driver = getattr(module, class_name)(url, CONNECT_TIMEOUT_S)
        return driver
    raise ConfigError(
        f"no database is known by {repr(scheme + '://…') if found else 'this URL'}: use "
        "sqlite:///path, postgresql://host/database or mariadb://host/database"
    )


_POSTGRES = ("lychgate._sql_postgres", "Postgres", "postgres")
_MARIADB = ("lychgate._sql_mariadb", "Mariadb", "mariadb")
_SERVERS = {
    "postgresql": _POSTGRES,
    "postgres": _POSTGRES,
    "mariadb": _MARIADB,
    "mysql": _MARIADB,
}
"""Module, class and extra by the scheme of a URL: a driver is imported when it is needed."""
