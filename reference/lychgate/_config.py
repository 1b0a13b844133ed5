"""`configure`: the one entry that chooses a backend (D5).

    configure("disk", path="storage", prefix="deferred-", fsync_frequency=0.5)
    configure("sql", url="sqlite:///tasks.db")
    configure(None)                  # stores nothing, and takes the options of any other

That a store is made of two files is nobody's business: there is no option for one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

from lychgate._disk import Disk
from lychgate._errors import ConfigError
from lychgate._nil import Nil
from lychgate._sql import Sql

_OPTIONS: Mapping[object, tuple[str, ...]] = {
    "disk": ("path", "prefix", "fsync_frequency", "codec", "dead_tasks_retention_period"),
    "sql": (
        "url",
        "batch_size",
        "claim_interval",
        "heartbeat_interval",
        "stale_threshold",
        "claims_max",
        "pool_size",
        "codec",
        "dead_tasks_retention_period",
    ),
}


def checked(backend: object, options: Mapping[str, object]) -> None:
    """Raise ConfigError for a backend or an option that there is not."""
    if backend is None:
        return
    known = _OPTIONS.get(backend) if isinstance(backend, str) else None
    if known is None:
        names = ", ".join(repr(name) for name in _OPTIONS)
        raise ConfigError(f"there is no backend {backend!r}; choose {names} or None")
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ConfigError(
            f"{backend!r} has no option {', '.join(unknown)}; its options are {', '.join(known)}"
        )
    if backend == "sql" and "url" not in options:
        raise ConfigError("'sql' needs url, such as sqlite:///tasks.db or postgresql://host/name")


@overload
def configure(backend: Literal["disk"] = "disk", **options: Any) -> Disk: ...


@overload
def configure(backend: Literal["sql"], **options: Any) -> Sql: ...


@overload
def configure(backend: None, **options: Any) -> Nil: ...


@overload
def configure(backend: str | None = "disk", **options: Any) -> Disk | Sql | Nil: ...


def configure(backend: str | None = "disk", **options: Any) -> Disk | Sql | Nil:
    """Open the backend of that name. Raises ConfigError, StorageError, SqlError, SchemaError."""
    checked(backend, options)
    if backend == "sql":
        return Sql(**options)
    return Nil() if backend is None else Disk(**options)
