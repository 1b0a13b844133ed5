"""The connections of one backend, and the one place where a transaction begins and ends.

    take -> BEGIN -> statements -> COMMIT -> give back
                        └ error: ROLLBACK, definite        └ no answer: indefinite

Rules of this file
  * A connection serves one transaction at a time: threads never share one (Q8). At most `size` are
    open; who comes when all are taken waits.
  * Until COMMIT is sent nothing has happened: whatever fails before is definite, and what the
    server rolled back because of others (a deadlock), or failed at BEGIN on a connection that had
    died in the pool, is tried again here.
  * A connection whose state is in doubt is closed, never given back.
  * After a fork the child leaves its parent's connections alone: it neither uses nor closes them,
    for a word on a shared socket would end the parent's session. SQLite's are not even open during
    a fork (`_sql_fork.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from lychgate._errors import ClosedError, LychgateError, Refused
from lychgate._sql_driver import Connection, Driver, apply_command
from lychgate._sql_errors import SchemaError, SqlError
from lychgate._sql_fork import watch

R = TypeVar("R")

_TRIES = 6
"""How often a transaction is begun that others make fail."""

_FORK_WAIT_S = 60.0
"""How long a fork waits for transactions that are under way."""


def fault(driver: Driver, error: Exception, step: str, definite: bool) -> Exception:
    """What to raise for an error: itself if it is ours or a defect, else what its driver says."""
    failure = None if isinstance(error, LychgateError) else driver.failure(error)
    if failure is None:
        return error
    if failure.refused:
        return Refused(f"the database cannot store this ({failure.text}): {failure.remedy}")
    if failure.schema:
        return SchemaError(
            f"{failure.text} ({failure.code}) in {step}: nothing was changed; "
            f"run {apply_command(driver)}"
        )
    return SqlError(step, failure.code, failure.text, failure.remedy, definite)


class _Unfinished(Exception):
    """A transaction failed before its commit and may be tried again."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class Pool:
    """Connections, and transactions on them."""

    def __init__(self, driver: Driver, size: int, wait: float, pid: Callable[[], int]) -> None:
        self.driver = driver
        self._size = size
        self._wait = min(wait, threading.TIMEOUT_MAX)
        self._pid = pid
        self._rests = driver.words.by_process
        self._has_inherited = False
        self._start()
        if self._rests:
            watch(self)

    def _start(self) -> None:
        self._born = self._pid()
        self._free = threading.Condition()
        self._idle: list[Connection] = []
        self._open = 0
        self._closed = False
        self._resting = False

    def forked(self) -> bool:
        """Whether this is a child of the process that opened the pool; it then begins anew."""
        if self._pid() == self._born:
            return False
        _ABANDONED.append(self._idle)
        self._has_inherited = self._rests and self._open > 0
        self._start()
        return True

    def rest(self) -> None:
        """Before a fork: wait for what is under way, and close everything."""
        with self._free:
            self._resting = True
            self._free.wait_for(lambda: self._open == len(self._idle), _FORK_WAIT_S)
        self._drop_idle()

    def go_on(self) -> None:
        """After the fork, in the parent."""
        with self._free:
            self._resting = False
            self._free.notify_all()

    def transact(self, step: str, work: Callable[[Connection], R], write: bool = True) -> R:
        """Run `work` in one transaction. Raises SqlError, SchemaError, Refused, ClosedError."""
        for left in reversed(range(_TRIES)):
            try:
                return self._once(step, work, write)
            except _Unfinished as unfinished:
                if left == 0:
                    raise fault(self.driver, unfinished.cause, step, True) from unfinished.cause
        raise AssertionError("the last try gives a result or raises")

    def _once(self, step: str, work: Callable[[Connection], R], write: bool) -> R:
        connection, is_new = self._take(step)
        is_sound, is_committing = False, False
        try:
            try:
                connection.begin(write)
            except Exception as error:
                if self._lost(error) and not is_new:
                    self._drop_idle()  # a server that has restarted has ended them all
                    raise _Unfinished(error) from error
                raise
            result = work(connection)
            is_committing = True
            connection.commit()
            is_sound = True
            return result
        except _Unfinished:
            raise
        except Exception as error:
            if not is_committing:
                is_sound = not self._lost(error) and self._rolled_back(connection)
            failure = self.driver.failure(error)
            if failure is not None and failure.again:
                is_sound = self._rolled_back(connection)
                raise _Unfinished(error) from error
            raise fault(self.driver, error, step, not is_committing) from error
        finally:
            self._give(connection, is_sound)

    def _lost(self, error: Exception) -> bool:
        failure = self.driver.failure(error)
        return failure is not None and failure.lost

    def _rolled_back(self, connection: Connection) -> bool:
        try:
            connection.rollback()
        except Exception:  # it is closed, which rolls back as well
            return False
        return True

    def _is_ready(self) -> bool:
        return not self._resting and (bool(self._idle) or self._open < self._size)

    def _take(self, step: str) -> tuple[Connection, bool]:
        with self._free:
            ready = self._free.wait_for(lambda: self._closed or self._is_ready(), self._wait)
            if self._closed:
                raise ClosedError("this backend was closed; open a new one")
            if self._has_inherited:
                what = "a transaction was under way when this process was forked"
                raise SqlError(step, "fork", what, "fork again, or start a new program", True)
            if not ready:
                what = f"all {self._size} connections were in use for {self._wait:g} s"
                raise SqlError(step, "pool", what, "raise pool_size", True)
            if self._idle:
                return self._idle.pop(), False
            self._open += 1
        try:
            return self.driver.connect(), True
        except BaseException as error:
            with self._free:
                self._open -= 1
                self._free.notify_all()
            if isinstance(error, Exception):
                failure = self.driver.failure(error)
                if failure is not None and failure.again:
                    raise _Unfinished(error) from error
                raise fault(self.driver, error, step, True) from error
            raise

    def _give(self, connection: Connection, is_sound: bool) -> None:
        with self._free:
            keep = is_sound and not self._closed
            if keep:
                self._idle.append(connection)
            else:
                self._open -= 1
            self._free.notify_all()  # a thread that waits, and a fork
        if not keep:
            _end(connection)

    def _drop_idle(self) -> None:
        with self._free:
            idle, self._idle = self._idle, []
            self._open -= len(idle)
            self._free.notify_all()
        for connection in idle:
            _end(connection)

    def close(self) -> None:
        """Close what is idle now, and the rest when it is given back."""
        with self._free:
            self._closed = True
        self._drop_idle()

    @property
    def open_count(self) -> int:
        """Connections open now."""
        return self._open


_ABANDONED: list[object] = []
"""A parent's connections in a forked child: kept, so that nothing closes them."""


def _end(connection: Connection) -> None:
    try:
        connection.close()
    except Exception:  # it is of no more use either way
        pass
