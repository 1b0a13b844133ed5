"""The SQL backend beside its model: module Sql, on SQLite in this process or a server (Q4-Q7).

Workers are `Sql` objects on one database; each step of the model is one call of theirs, made on the
real statements. Compared are the tables, what each worker holds, and whether it is unsure.

Rules of this file
  * SQLite has one writing transaction at a time, so a claim or sweep is one step here: the
    graph is that of `sql_graph.atomic`.
  * Time is moved by writing it: a unit of the model's clock is a long time, and steps of the clock
    set heartbeats and due times to what the model says they are.
  * A lost answer is a connection that breaks after the COMMIT, a Rollback one that breaks before.
  * What the model leaves to the queue (RunOk, RunFails) has no call; a start's sweep is a step.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from lychgate._backend import ClaimLost
from lychgate._records import JSON
from lychgate._sql import Sql
from lychgate._sql_driver import Connection
from lychgate._sql_errors import SqlError
from lychgate._sql_options import driver_of
from lychgate._sql_pool import Pool
from lychgate._sql_schema import apply
from lychgate._sql_store import Token
from lychgate._sql_worker import Held, Worker
from lychgate_tools.tlc import cfg
from lychgate_tools.walk.beside import changed, compare_views
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.sql_driver import UNIT_S, Breaks, Walked, due_at
from lychgate_tools.walk.sql_graph import due
from lychgate_tools.walk.tour import Mismatch

_CLOCK = {"Advance", "JumpBack", "Drift", "ChangeLimit"}
_QUEUE = {"RunOk", "RunFails"}


class SqlWorld:
    """The engine in one state of the graph."""

    def __init__(self, side: Side, state: int) -> None:
        self._side = side
        self._graph = side.graph
        self._workers: dict[Any, Sql] = {}
        self._names: dict[Any, str] = {}
        side.clear()
        up, listed = self._value(state, "up"), self._value(state, "listed")
        for w in sorted(up | listed, key=str):
            self._register(w)
            if w not in listed:
                side.do("DELETE FROM lychgate_workers WHERE id = :me", me=self._names[w])
            if w not in up:
                del self._workers[w]
        for w, sql in self._workers.items():
            sql._worker._unsure = w in self._value(state, "unsure")
            for i, count in self._value(state, "held")[w].items():
                if count:
                    sql._worker._held[str(i)] = Held(Token(self._names[w], count))
        for i in self._value(state, "here"):
            self._side.do(
                "INSERT INTO lychgate_tasks (id, owner_id, serialized_task, codec, due_at, "
                "claim_count, created_at) VALUES (:id, :owner, :data, 'json', 0, :n, 0)",
                id=str(i),
                owner=self._names.get(self._value(state, "owner")[i]),
                data=str(self._value(state, "tries")[i]).encode(),
                n=self._value(state, "n")[i],
            )
        for i in self._value(state, "dead"):
            self._bury_row(str(i))
        self._set_clock(state)

    def _value(self, state: int, variable: str) -> Any:
        return self._graph.value(state, variable)

    def _bury_row(self, key: str) -> None:
        self._side.do(
            "INSERT INTO lychgate_dead_tasks (task_id, task_class, serialized_task, codec, "
            "failed_execution_count, failure_class, failure_message, failed_at, created_at) "
            "VALUES (:id, '', :data, 'json', 0, '', '', 0, 0)",
            id=key,
            data=b"0",
        )

    def _register(self, w: Any) -> None:
        sql = copy.copy(self._side.template)
        sql._worker = Worker(sql._pool, sql._db, sql._options, sql._facts, sql._stats)
        sql._worker.register()
        self._workers[w] = sql
        self._names[w] = sql._worker.name

    def _set_clock(self, state: int) -> None:
        now = time.time()
        for w in self._value(state, "listed"):
            self._side.do(
                "UPDATE lychgate_workers SET heartbeat_at = :at WHERE id = :me",
                at=now - (self._value(state, "age")[w] + 0.25) * UNIT_S,
                me=self._names[w],
            )
        for i in self._value(state, "here"):
            self._side.do(
                "UPDATE lychgate_tasks SET due_at = :at WHERE id = :id",
                at=due_at(self._value(state, "wait")[i]),
                id=str(i),
            )

    def close(self) -> None:
        self._workers.clear()

    # --- following an edge ----------------------------------------------------------------------

    def step(self, source: int, action: str, target: int) -> None:
        if action in _CLOCK:
            self._set_clock(target)
        elif action not in _QUEUE:
            getattr(self, f"_do_{action}")(source, target)

    def _who(self, source: int, target: int, *variables: str) -> Any:
        """The one worker whose value of one of these variables the step changes."""
        found: set[Any] = set()
        for name in variables:
            before, after = self._value(source, name), self._value(target, name)
            if isinstance(before, frozenset):
                found |= before ^ after
            else:
                found |= set(changed(before, after))
        (who,) = found
        return who

    def _lost(self, source: int, target: int) -> bool:
        return bool(self._value(source, "losses") != self._value(target, "losses"))

    def _call(self, call: Callable[[], object], breaks: str = "") -> None:
        """Make a call; `breaks` says where the connection does, and the caller must see it."""
        pool = self._side.template._pool
        if not breaks:
            call()
            return
        connection, _ = pool._take("walk")  # a new one, if the last one has broken
        pool._give(Breaks(connection, breaks), True)
        try:
            call()
        except SqlError as error:
            if error.definite != (breaks == "rows"):
                raise Mismatch(f"{error} says definite={error.definite}") from error
            return
        raise Mismatch("the connection broke, and nobody was told")

    def _do_Start(self, source: int, target: int) -> None:
        w = self._who(source, target, "up")
        old = self._names.get(w)
        if old is not None:  # its sweep, as far as the model has it in this step
            value = {"me": old}
            self._side.do("UPDATE lychgate_tasks SET owner_id = NULL WHERE owner_id = :me", **value)
            self._side.do("DELETE FROM lychgate_workers WHERE id = :me", **value)
        self._register(w)

    def _do_Beat(self, source: int, target: int) -> None:
        self._workers[self._who(source, target, "age")]._worker._beat()

    def _do_Rejoin(self, source: int, target: int) -> None:
        w = self._who(source, target, "listed")
        worker = self._workers[w]._worker
        worker._beat()
        worker._unsure = False  # nothing is its own under the fresh name
        self._names[w] = worker.name

    def _do_Reconcile(self, source: int, target: int) -> None:
        self._workers[self._who(source, target, "unsure")]._worker._reconcile()

    def _do_Stop(self, source: int, target: int) -> None:
        self._workers.pop(self._who(source, target, "up"))._worker.stop()

    def _do_Kill(self, source: int, target: int) -> None:
        del self._workers[self._who(source, target, "up")]

    _do_RunKills = _do_Kill

    def _do_EnqueueNow(self, source: int, target: int) -> None:
        (i,) = self._value(target, "used") - self._value(source, "used")
        w = self._value(target, "owner")[i]
        breaks = "commit" if self._lost(source, target) else ""
        self._call(lambda: self._workers[w].add_task(0, None, str(i)), breaks)

    def _do_EnqueueUnowned(self, source: int, target: int) -> None:
        (i,) = self._value(target, "used") - self._value(source, "used")
        w = min(self._value(source, "up") - self._value(source, "listed"), key=str)
        with mock.patch.object(Worker, "_take", lambda self, key: None):  # a claim: another step
            self._workers[w].add_task(0, None, str(i))

    def _do_EnqueueLater(self, source: int, target: int) -> None:
        (i,) = self._value(target, "used") - self._value(source, "used")
        w = min(self._value(source, "up"), key=str)
        self._workers[w].add_task(0, due_at(self._value(target, "wait")[i]), str(i))

    # --- transactions that read first -----------------------------------------------------------

    def _do_ClaimCommit(self, source: int, target: int) -> None:
        gone = self._value(source, "here") - self._value(target, "here")
        taken = changed(self._value(source, "owner"), self._value(target, "owner"))
        if taken:
            w = self._value(target, "owner")[taken[0]]
        else:  # all are worn out: who claimed them cannot be told, and any may
            w = min(self._may_claim(source), key=str)
        breaks = "commit" if self._lost(source, target) else ""
        self._call(lambda: self._workers[w]._worker.claim(JSON), breaks)
        if gone and not taken and self._lost(source, target):
            self._workers[w]._worker._unsure = False
            for it in self._value(target, "unsure") - self._value(source, "unsure"):
                self._workers[it]._worker._unsure = True

    def _may_claim(self, state: int) -> set[Any]:
        fresh = {w for w, age in self._value(state, "age").items() if age <= self._side.threshold}
        there = self._value(state, "up") & self._value(state, "listed")
        return set(fresh & there) - set(self._value(state, "unsure"))

    def _do_ClaimRollback(self, source: int, target: int) -> None:
        w = min(self._may_claim(source), key=str)
        self._call(lambda: self._workers[w]._worker.claim(JSON), "rows")

    def _do_SweepCommit(self, source: int, target: int) -> None:
        w = min(self._value(source, "up"), key=str)
        self._workers[w]._worker.sweep()

    def _do_SweepRollback(self, source: int, target: int) -> None:
        w = min(self._value(source, "up"), key=str)
        self._call(self._workers[w]._worker.sweep, "rows")

    # --- ends -----------------------------------------------------------------------------------

    def _end(self, w: Any, i: Any, how: str, source: int) -> Callable[[], object]:
        sql, key = self._workers[w], str(i)
        if how == "finish":
            return lambda: sql.remove_task(key)
        if how == "bury":
            return lambda: sql.add_dead_task(key, 0, None, "", 0)
        tries = self._value(source, "tries")[i] + 1
        return lambda: sql.add_task(tries, due_at(self._side.delay), key)

    def _ends(self, source: int, target: int, how: str) -> None:
        """An end that succeeds: the row's owner makes it."""
        before, after = self._value(source, "owner"), self._value(target, "owner")
        (i,) = changed(before, after)
        breaks = "commit" if self._lost(source, target) else ""
        self._call(self._end(before[i], i, how, source), breaks)

    def _do_Finish(self, source: int, target: int) -> None:
        self._ends(source, target, "finish")

    def _do_Retry(self, source: int, target: int) -> None:
        self._ends(source, target, "retry")

    def _do_Bury(self, source: int, target: int) -> None:
        self._ends(source, target, "bury")

    def _do_Leave(self, source: int, target: int) -> None:
        w = self._who(source, target, "held")
        (i,) = changed(self._value(source, "held")[w], self._value(target, "held")[w])
        self._call(self._end(w, i, "bury", source), "rows")

    def _do_Refused(self, source: int, target: int) -> None:
        w = self._who(source, target, "want")
        (i,) = changed(self._value(source, "want")[w], self._value(target, "want")[w])
        how = self._value(source, "want")[w][i]
        held = self._workers[w]._worker._held.get(str(i))
        is_there = i in self._value(source, "here")
        try:
            self._end(w, i, how, source)()
        except ClaimLost:
            return
        if is_there or held is None or not held.unsure:
            raise Mismatch(f"{w} ends {i} ({how}), which is not its own")

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, state: int) -> None:
        compare_views(self._engine(), self._model(state))
        self._check_idle_claims(state)

    def _check_idle_claims(self, state: int) -> None:
        """What the model has no edge for: a claim of a worker that is taken for dead, or may be; a
        claim where nothing is due. The statement itself must give nothing."""
        fresh = {w for w, age in self._value(state, "age").items() if age <= self._side.threshold}
        alive = fresh & self._value(state, "listed")
        is_due = bool(due(self._graph, state))
        for w, sql in self._workers.items():
            if w in alive and is_due:
                continue
            name = sql._worker.name
            if rows := sql._pool.transact("claim", lambda db: sql._db.claim(db, name, 9, 1)):
                raise Mismatch(f"{w} claims {rows[0].key}, and the model has no such step")

    def _model(self, state: int) -> dict[str, object]:
        view: dict[str, object] = {
            "dead": frozenset(str(i) for i in self._value(state, "dead")),
            "listed": frozenset(map(str, self._value(state, "listed"))),
        }
        for w in self._value(state, "listed"):
            view[f"age of {w}"] = self._value(state, "age")[w]
        for i in self._value(state, "here"):
            owner = self._value(state, "owner")[i]
            view[f"row {i}"] = (
                str(owner) if owner in self._names else None,
                self._value(state, "n")[i],
                self._value(state, "wait")[i],
                self._value(state, "tries")[i],
            )
        for w in self._value(state, "up"):
            held = self._value(state, "held")[w]
            view[f"held by {w}"] = frozenset((str(i), n) for i, n in held.items() if n)
            view[f"{w} is unsure"] = w in self._value(state, "unsure")
        return view

    def _engine(self) -> dict[str, object]:
        now, ask = time.time(), self._side.ask
        who = {name: str(w) for w, name in self._names.items()}
        workers = dict(ask("SELECT id, heartbeat_at FROM lychgate_workers"))
        dead = [row[0] for row in ask("SELECT task_id FROM lychgate_dead_tasks")]
        if len(dead) != len(set(dead)):
            raise Mismatch(f"a task is dead twice: {dead}")
        view: dict[str, object] = {
            "dead": frozenset(dead),
            "listed": frozenset(who[name] for name in workers),
        }
        for name, at in workers.items():
            view[f"age of {who[name]}"] = int((now - at) / UNIT_S)
        rows = ask("SELECT id, owner_id, claim_count, due_at, serialized_task FROM lychgate_tasks")
        for key, owner, count, due, data in rows:
            wait = max(0, int((due - now) / UNIT_S + 1))
            is_own = owner is not None
            view[f"row {key}"] = (who.get(owner), count, 0 if is_own else wait, int(data))
        for w, sql in self._workers.items():
            held = sql._worker._held.items()
            name = sql._worker.name
            tokens = ((key, it.token) for key, it in held if not it.left)
            view[f"held by {w}"] = frozenset((k, t.count) for k, t in tokens if t.owner == name)
            view[f"{w} is unsure"] = sql._worker._unsure
        return view


class Side:
    """Sql beside the engine: one database for all worlds, emptied for each.

    `url` is that of a server's; without one it is a file of our own.
    """

    rebuilds: frozenset[str] = frozenset()

    def __init__(self, graph: Graph, config: str, url: str | None = None) -> None:
        self.graph = graph
        directory = Path(tempfile.mkdtemp(prefix="lychgate-walk-"))
        self.threshold = int(cfg.constant(config, "Threshold") or 1)
        self.delay = int(cfg.constant(config, "Delay") or 0)
        place = url or f"sqlite:///{directory}/walk.db"
        driver = Walked(driver_of(place, str))
        with mock.patch("lychgate._sql.driver_of", lambda url, resolve: driver):
            apply(driver)
            self.template = Sql(
                place,
                batch_size=int(cfg.constant(config, "Batch") or 1),
                heartbeat_interval=self.threshold * UNIT_S,
                stale_threshold=(self.threshold + 0.75) * UNIT_S,
                claims_max=int(cfg.constant(config, "ClaimMax") or 1),
                pool_size=1,
            )
        self._own = driver.connect()
        weakref.finalize(self, _end, self._own, self.template._pool, directory)

    def starts(self) -> list[int]:
        """Any state can be built."""
        return list(range(len(self.graph.states)))

    def world(self, state: int) -> SqlWorld:
        return SqlWorld(self, state)

    def clear(self) -> None:
        for table in ("workers", "tasks", "dead_tasks"):
            self.do(f"DELETE FROM lychgate_{table}")

    def do(self, statement: str, **values: object) -> None:
        self._own.change(statement, values)

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._own.rows(statement)
        return rows


def _end(own: Connection, pool: Pool, directory: Path) -> None:
    own.close()
    pool.close()
    shutil.rmtree(directory, ignore_errors=True)
