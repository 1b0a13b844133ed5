"""A database for a walk: connections that break where they are told to, and long seconds."""

from __future__ import annotations

import time
from typing import Any

from lychgate._sql_driver import Connection, Driver, Failure

UNIT_S = 1e6
"""A step of the model's clock, so long that no second matters."""


def due_at(wait: int) -> float:
    """When a task is due that has to wait for so many steps; half a step ago if it is none."""
    return time.time() + (wait - 0.5) * UNIT_S


class Breaks:
    """A connection that breaks: after a COMMIT, or at the first statement."""

    def __init__(self, inner: Connection, at: str) -> None:
        self._inner = inner
        self._at = at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def rows(self, *args: Any) -> Any:
        if self._at == "rows":
            raise Broken
        return self._inner.rows(*args)

    def commit(self) -> None:
        self._inner.commit()
        raise Broken


class Broken(Exception):
    """The answer does not come."""


class Walked:
    """A driver without the fsyncs that it can spare: no walk crashes the host."""

    _FAST = {
        "sqlite": "PRAGMA synchronous = OFF",
        "postgres": "SELECT set_config('synchronous_commit', 'off', false)",
    }

    def __init__(self, inner: Driver) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def connect(self) -> Any:
        connection = self._inner.connect()
        if self._inner.name in self._FAST:
            connection.rows(self._FAST[self._inner.name])
        return connection

    def failure(self, error: Exception) -> Failure | None:
        if isinstance(error, Broken):
            return Failure("test", "the connection broke", "call again", lost=True)
        return self._inner.failure(error)
