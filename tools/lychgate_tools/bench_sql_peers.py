"""Other Python queues on PostgreSQL beside the engine (bench `sql-peers`): claims and ends.

All work on one server with its defaults, so each commit is durable; each through its own calls,
with the driver psycopg, from one connection, in turn:

    procrastinate  JobManager.fetch_job, which takes one job at a time, and finish_job
    pgqueuer       Queries.dequeue, and log_jobs for one job

Measured are claims in batches as the engine's default has them, claims one at a time, and a task's
whole way: claimed in such a batch, and ended alone.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from lychgate import Sql
from lychgate._sql_options import driver_of
from lychgate._sql_schema import apply
from lychgate_tools.bench_measure import Result, Side, compare, timed, version_of
from lychgate_tools.bench_peers import INSTALL, PeerMissing
from lychgate_tools.bench_sql import filled
from lychgate_tools.bench_store import Plan
from lychgate_tools.sql_server import PostgresServer, SqlServer

_BATCH = 150
_ROUNDS = 7
_TASKS = 300
"""Of one side in one round."""
_BACKLOG = 3 * (_ROUNDS + 1) * _TASKS


@dataclass(frozen=True, slots=True)
class Peer:
    """`claim(n)` takes at most n tasks; `end(task)` ends one."""

    name: str
    claim: Callable[[int], Awaitable[list[Any]]]
    end: Callable[[Any], Awaitable[object]]


def peers(plan: Plan) -> list[Result]:
    """PeerMissing when there is no server, or no peer."""
    if (why := PostgresServer.missing()) is not None:
        raise PeerMissing(why)
    found: list[Result] = []
    with PostgresServer() as server, asyncio.Runner() as runner:
        for name, make in (("procrastinate", _procrastinate), ("pgqueuer", _pgqueuer)):
            plan.note(f"beside {name}")
            try:
                peer = make(server, runner)
            except ImportError:
                continue
            found += _beside(server, runner, peer)
    if not found:
        raise PeerMissing(f"procrastinate, pgqueuer: {INSTALL}")
    return found


def _beside(server: SqlServer, runner: asyncio.Runner, peer: Peer) -> list[Result]:
    url = server.new_schema()
    apply(driver_of(url, str))
    filled(url, _BACKLOG)
    results = []
    with Sql(url, batch_size=_BATCH) as many, Sql(url, batch_size=1) as single:
        for what, engine, batch, is_ended in (
            (f"claims, {_BATCH} at a time", many, _BATCH, False),
            ("claims, one at a time", single, 1, False),
            ("claimed by the batch, ended alone", many, _BATCH, True),
        ):
            theirs = _peers(runner, peer, batch, is_ended)
            times = compare(_own(engine, is_ended), theirs, _ROUNDS)
            label = f"{peer.name} {version_of(peer.name)}"
            results.append(Result(
                "sql-peers", f"{_TASKS} tasks: {what}", times.first, label, times.second,
                times.ratio, goal=1.0,
            ))  # fmt: skip
    return results


def _own(worker: Sql, is_ended: bool) -> Side:
    def turn() -> None:
        claimed = 0
        while claimed < _TASKS:
            found = worker.pending_tasks()
            assert found, "there is a backlog"
            claimed += len(found)
            for task_id, _, _ in found if is_ended else ():
                worker.remove_task(task_id)

    return timed(turn)


def _peers(runner: asyncio.Runner, peer: Peer, batch: int, is_ended: bool) -> Side:
    async def turn() -> None:
        claimed = 0
        while claimed < _TASKS:
            found = await peer.claim(batch)
            assert found, "there is a backlog"
            claimed += len(found)
            for task in found if is_ended else ():
                await peer.end(task)

    return timed(lambda: runner.run(turn()))


def _import(module: str) -> Any:  # the peers are optional
    return importlib.import_module(module)


def _procrastinate(server: SqlServer, runner: asyncio.Runner) -> Peer:
    procrastinate = _import("procrastinate")
    connector = procrastinate.PsycopgConnector(conninfo=server.new_schema(), min_size=1, max_size=1)
    app = procrastinate.App(connector=connector)
    done = _import("procrastinate.jobs").Status.SUCCEEDED

    async def begin() -> int:
        await app.open_async()
        await app.schema_manager.apply_schema_async()
        await app.configure_task("note").batch_defer_async(*({"n": n} for n in range(_BACKLOG)))
        return int(await app.job_manager.register_worker())

    worker = runner.run(begin())
    manager = app.job_manager

    async def claim(count: int) -> list[Any]:
        found = [await manager.fetch_job(queues=None, worker_id=worker) for _ in range(count)]
        return [job for job in found if job is not None]

    return Peer("procrastinate", claim, lambda job: manager.finish_job(job, done, True))


def _pgqueuer(server: SqlServer, runner: asyncio.Runner) -> Peer:
    driver, queries = _import("pgqueuer.db"), _import("pgqueuer.queries")
    psycopg = _import("psycopg")
    entry = {"note": queries.EntrypointExecutionParameter(concurrency_limit=0)}
    manager = uuid4()

    async def begin() -> Any:
        connection = await psycopg.AsyncConnection.connect(server.new_schema(), autocommit=True)
        made = queries.Queries(driver.PsycopgDriver(connection))
        await made.install(create_schema=False)
        await made.enqueue(["note"] * _BACKLOG, [b"1"] * _BACKLOG, [0] * _BACKLOG)
        return made

    queue = runner.run(begin())

    return Peer(
        "pgqueuer",
        lambda count: queue.dequeue(count, entry, manager, None, timedelta(seconds=30)),
        lambda job: queue.log_jobs([(job, "successful", None)]),
    )
