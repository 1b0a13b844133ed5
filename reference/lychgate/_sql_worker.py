"""One worker of the SQL backend: its name, its heartbeats, and what it has in hand (Q6).

Rules of this file
  * A name is fresh whenever a worker registers: after it was taken for dead, and in a forked child.
    A token of an earlier name, or of an earlier claim, fails the fence.
  * An answer that never came is kept in mind. If it may have given this worker tasks, the worker
    gives back what it owns and does not hold (`reconcile`); if it may have ended one, a second end
    that finds nothing is no lost claim.
  * Claims, heartbeats and reconciling come one at a time. An id is held before its row is inserted,
    so that reconciling in another thread never gives it back.
  * No claim goes on while a task is being ended: what a claim finds in hand is in hand. Taken for
    dead while it runs a task, a worker may claim that very task anew; then the run that goes on is
    the run of the new claim, and the caller, who has the task, is not given it once more.
  * The database's clock decides. The caller's only says when the next heartbeat is sent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from lychgate._backend import ClaimLost
from lychgate._fs import Facts
from lychgate._records import Codec
from lychgate._sql_driver import Connection
from lychgate._sql_errors import SchemaError, SqlError
from lychgate._sql_options import Options
from lychgate._sql_pool import Pool
from lychgate._sql_records import shown, unreadable, worn_out
from lychgate._sql_store import Statements, TaskRow, Token
from lychgate._stats import Stats

R = TypeVar("R")

SUSPECT_CLAIMS = 2
"""Tasks that so many workers in a row vanished with are claimed one at a time (U7): a death then
counts against one of them, and the innocent of a batch are told from the guilty."""


@dataclass(slots=True)
class Held:
    """A task in this worker's hands.

    `unsure`: an end of it had no answer. `left`: its burial failed, and unless it is made after all
    the task goes back with the next reconciling, since the queue has let go of it (U3).
    """

    token: Token
    unsure: bool = False
    left: bool = False


class Worker:
    """Who the backend is for the database."""

    def __init__(
        self, pool: Pool, db: Statements, options: Options, facts: Facts, stats: Stats
    ) -> None:
        self._pool = pool
        self._db = db
        self._options = options
        self._facts = facts
        self._stats = stats
        self.name = ""
        self.turn = threading.RLock()  # claims, heartbeats, reconciling
        self._guard = threading.Lock()  # of `_held`
        self._calm = threading.Condition()  # of the next two
        self._ends = 0  # ends that are under way
        self._claiming = False
        self._held: dict[str, Held] = {}
        self._unsure = False  # the database may say that tasks are ours of which we do not know
        self._beaten_at = 0.0
        self._failing = False  # the last heartbeat failed

    # --- life ---------------------------------------------------------------------------------

    def register(self) -> None:
        """Become a worker under a fresh name."""
        name = f"{self._facts.pid()}-{self._facts.random(12).hex()}"
        self._pool.transact("register", lambda db: self._db.register(db, name))
        self.name = name
        self._beaten_at = self._facts.now()
        self._failing = False

    def registered(self) -> str:
        """The name, after registering where that has not been done."""
        if not self.name:
            with self.turn:
                if not self.name:
                    self.register()
        return self.name

    def keep_alive(self, now: float, at_once: bool = False) -> float:
        """Heartbeat and sweep if they are due, or the caller's clock was set back; when next."""
        interval = self._options.heartbeat_interval
        with self.turn:
            self.registered()
            if at_once or self._failing or not 0 <= now - self._beaten_at < interval:
                self._beat()
                self._beaten_at = now
                self.sweep()
            if self._unsure:
                self._reconcile()
            return self._beaten_at + interval

    def _beat(self) -> None:
        name = self.name
        self._failing = True  # and no claims until one succeeds
        if not self._pool.transact("heartbeat", lambda db: self._db.beat(db, name)):
            self._stats.count("taken_for_dead")
            self.register()
        self._failing = False

    def sweep(self) -> None:
        """Orphan what dead workers owned."""
        workers, tasks = self._pool.transact("sweep", self._db.sweep)
        self._stats.count("workers_swept", workers)
        self._stats.count("tasks_orphaned", tasks)

    def _reconcile(self) -> None:
        name = self.name

        def work(db: Connection) -> int:
            owned = self._db.owned(db, name)
            unknown = [key for key, token in owned.items() if not self._has(key, token)]
            self._db.give_back(db, name, unknown)
            return len(unknown)

        self._unsure = False  # before the look: an answer lost meanwhile sets it again
        try:
            self._stats.count("reconciled", self._pool.transact("reconcile", work))
        except BaseException:
            self._unsure = True
            raise

    def stop(self) -> None:
        """Give everything back, and leave."""
        with self.turn:
            if self.name:
                name = self.name
                count = self._pool.transact("close", lambda db: self._db.stop(db, name))
                self._stats.count("released", count)
                with self._guard:
                    self._held.clear()

    # --- tasks in hand ------------------------------------------------------------------------

    def _has(self, key: str, token: Token) -> bool:
        """Whether it knows of this claim; a token of an earlier one is worth nothing."""
        held = self._held.get(key)
        return held is not None and held.token == token and not held.left

    def _hold(self, key: str, token: Token) -> Held:
        held = Held(token)
        with self._guard:
            self._held[key] = held
        return held

    def _drop(self, key: str) -> None:
        with self._guard:
            self._held.pop(key, None)

    def _let_go(self, key: str, held: Held | None) -> None:
        """Drop this hold; one that a claim in another thread has put in its place stays."""
        with self._guard:
            if held is not None and self._held.get(key) is held:
                del self._held[key]

    def add(self, key: str, codec: str, data: bytes, publish_at: float | None) -> bool:
        """Insert a task, this worker's own if it is immediate (Q4). False: another has the id.

        As soon as it is inserted, a claim in another thread may find it.
        """
        name = self.registered()
        held = self._hold(key, Token(name, 1)) if publish_at is None else None
        try:
            found = self._pool.transact(
                "add_task", lambda db: self._db.add(db, name, key, data, codec, publish_at)
            )
        except BaseException as error:
            if held is not None:
                self._drop(key)
            self._note(error)
            raise
        if found != (name, 1):
            try:
                if held is not None and found is not None:
                    self._take(key)
            finally:
                self._let_go(key, held)
        return found is not None

    def _take(self, key: str) -> None:
        """The row has no owner, though it is to run at once: claim this one, if still to be had.

        An error here is none of the add, which is done: the task waits for a claim.
        """
        try:
            with self.turn:
                self.keep_alive(self._facts.now(), at_once=True)
                name = self.name
                count = self._pool.transact("take", lambda db: self._db.take(db, name, key))
                if count is not None:
                    self._hold(key, Token(name, count))
        except (SqlError, SchemaError) as error:
            self._note(error)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait for the ends that are under way, and keep further ones waiting."""
        with self._calm:
            self._calm.wait_for(lambda: not self._claiming)
            self._claiming = True
        try:
            with self._calm:
                self._calm.wait_for(lambda: not self._ends)
            yield
        finally:
            with self._calm:
                self._claiming = False
                self._calm.notify_all()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Wait for a claim that is under way; no other begins meanwhile."""
        with self._calm:
            self._calm.wait_for(lambda: not self._claiming)
            self._ends += 1
        try:
            yield
        finally:
            with self._calm:
                self._ends -= 1
                self._calm.notify_all()

    def claim(self, codec: Codec) -> list[TaskRow]:
        """A batch of due tasks that are this worker's from now on (Q5)."""
        with self._alone(), self.turn:
            self.keep_alive(self._facts.now())
            name = self.name
            suspects = int(not self._has_suspect(name))
            worn: list[TaskRow] = []

            def work(db: Connection) -> list[TaskRow]:
                rows = self._db.claim(db, name, self._options.batch_size, suspects)
                worn[:] = [row for row in rows if row.count > self._options.claims_max]
                for row in worn:
                    self._db.bury(db, worn_out(codec, row), Token(name, row.count))
                return [row for row in rows if row.count <= self._options.claims_max]

            try:
                rows = self._pool.transact("claim", work)
            except BaseException as error:
                self._note(error)
                raise
            self._stats.count("claimed", len(rows))
            self._stats.count("killers_buried", len(worn))
            return [row for row in rows if not self._had(row, name)]

    def _had(self, row: TaskRow, name: str) -> bool:
        """Hold a claimed task; whether the caller has it in hand, and will end it."""
        before = self._held.get(row.key)
        self._hold(row.key, Token(name, row.count))
        return before is not None and not (before.left or before.unsure)

    def _has_suspect(self, name: str) -> bool:
        with self._guard:
            tokens = [held.token for held in self._held.values()]
        return any(it.owner == name and it.count > SUSPECT_CLAIMS for it in tokens)

    def _note(self, error: BaseException) -> None:
        """After a call that may have given us a task: whatever is not surely nothing."""
        if not getattr(error, "definite", False):
            self._unsure = True

    def end(self, key: str, step: str, work: Callable[[Connection, Token], bool]) -> bool:
        """Finish, retry or bury a task that is in hand; False when it is not.

        Raises ClaimLost when it is ours no more (Q6).
        """
        with self._ending():
            held = self._held.get(key)
            if held is None:
                return False
            outcome = self._fenced(key, held, step, work)
            self._drop(key)
        if outcome == "done" or (outcome == "gone" and held.unsure):
            return True  # if it is gone, the end whose answer was lost was ours
        raise self.lost(key)

    def _fenced(
        self, key: str, held: Held, step: str, work: Callable[[Connection, Token], bool]
    ) -> str:
        def fenced(db: Connection) -> str:
            if work(db, held.token):
                return "done"
            return "taken" if self._db.exists(db, key) else "gone"

        try:
            return self._pool.transact(step, fenced)
        except SqlError as error:
            held.unsure = held.unsure or not error.definite
            if step == "bury":
                held.left = self._unsure = True
            raise

    def bury_unreadable(self, row: TaskRow) -> None:
        """Q7: raw bytes and reason. The rest of the batch goes on, whatever happens here."""
        dead = unreadable(row)
        try:
            self.end(row.key, "bury", lambda db, token: self._db.bury(db, dead, token))
            self._stats.count("unreadable_buried")
        except (ClaimLost, SqlError, SchemaError):
            self._drop(row.key)
            self._unsure = True  # if it is still ours it goes back, and is claimed again
            self._stats.count("unreadable_left")

    def lost(self, key: str) -> ClaimLost:
        """What to raise at a caller whose task is another's."""
        self._stats.count("claims_lost")
        return ClaimLost(
            f"task {shown(key)!r} is not this worker's any more: another has it, or has ended it; "
            "nothing was changed"
        )
