"""The SQL backend (bench `sql`): claims from a large backlog, and by eight processes at once.

    a batch of claims from `size` tasks, beside the same from 1,000: an index makes it 1
    `size` tasks, 8,000 at most, claimed and ended by several processes, beside one: their batches
    are disjoint, or the bench fails

On SQLite, and on PostgreSQL and MariaDB where a server can be started here.

    python -m lychgate_tools.bench_sql URL       one of the processes
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

from lychgate import Sql
from lychgate._sql_options import driver_of
from lychgate._sql_schema import apply
from lychgate_tools.bench_measure import CHILD_TIMEOUT_S, Result, Side, compare
from lychgate_tools.bench_store import Plan
from lychgate_tools.sql_server import SERVERS
from lychgate_tools.ui import UserError

PROCESSES = (2, 4, 8)
SMALL = 1000
_TASKS_MAX = 8000
_ROUNDS = 9

_FILL = {
    "sqlite": """
WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < :last)
INSERT INTO lychgate_tasks SELECT printf('%08d', n), NULL, x'31', 'json', 1, n, 0, 1 FROM s""",
    "postgres": """
INSERT INTO lychgate_tasks
SELECT lpad(CAST(n AS text), 8, '0'), NULL, CAST('1' AS bytea), 'json', 1, n, 0, 1
FROM generate_series(0, CAST(:last AS integer)) AS n""",
    "mariadb": """
INSERT INTO lychgate_tasks
  (id, owner_id, serialized_task, codec, publish_at, due_at, claim_count, created_at)
SELECT lpad(seq, 8, '0'), NULL, '1', 'json', 1, seq, 0, 1
FROM seq_0_to_9999999 WHERE seq <= :last""",
}


def sql(plan: Plan) -> list[Result]:
    """Both comparisons on each engine that is here."""
    found: list[Result] = []
    for engine in ("sqlite", *SERVERS):
        if engine in SERVERS and SERVERS[engine].missing() is not None:
            continue
        with _places(engine, plan) as places:
            found.append(_backlog(engine, plan, places))
            found += _processes(engine, plan, places)
    return found


@contextmanager
def _places(engine: str, plan: Plan) -> Iterator[Iterator[str]]:
    """URLs of fresh databases with their tables."""
    if engine in SERVERS:
        with SERVERS[engine]() as server:
            yield (_made(server.new_schema()) for _ in repeat(None))
        return
    paths: list[Path] = []

    def fresh() -> Iterator[str]:
        while True:
            paths.append(plan.directory / f"bench-{len(paths)}.db")
            yield _made(f"sqlite:///{paths[-1]}")

    try:
        yield fresh()
    finally:
        for path in paths:
            for end in ("", "-wal", "-shm"):
                path.with_name(path.name + end).unlink(missing_ok=True)


def _made(url: str) -> str:
    apply(driver_of(url, str))
    return url


def filled(url: str, count: int) -> str:
    """The database, with so many tasks that are due."""
    driver = driver_of(url, str)
    connection = driver.connect()
    try:
        connection.change(_FILL[driver.name], {"last": count - 1})
        if driver.name == "postgres":
            connection.change("ANALYZE lychgate_tasks")
    finally:
        connection.close()
    return url


def _backlog(engine: str, plan: Plan, places: Iterator[str]) -> Result:
    plan.note(f"{engine}, {plan.size:,} tasks")
    small = min(SMALL, plan.size)
    with Sql(filled(next(places), plan.size)) as big, Sql(filled(next(places), small)) as few:
        found = compare(_claimer(big), _claimer(few), _ROUNDS)
    return Result(
        "sql", f"{engine}: claim of a batch, {plan.size:,} tasks", found.first,
        f"the same, {small:,} tasks", found.second, found.ratio,
    )  # fmt: skip


def _claimer(worker: Sql) -> Side:
    def side() -> float:
        start = time.perf_counter()
        claimed = worker.pending_tasks()
        seconds = time.perf_counter() - start
        assert claimed, "there is a backlog"
        worker._worker.stop()  # off the clock: all goes back
        worker._worker.register()
        return seconds

    return side


def _processes(engine: str, plan: Plan, places: Iterator[str]) -> list[Result]:
    count = min(plan.size, _TASKS_MAX)
    numbers = PROCESSES if count == _TASKS_MAX else PROCESSES[:1]
    seconds = {}
    for processes in (1, *numbers):
        plan.note(f"{engine}, {processes} processes")
        seconds[processes] = _drained(filled(next(places), count), processes, count)
    return [
        Result(
            "sql", f"{engine}: {count:,} tasks by {processes} processes", seconds[processes],
            "by one", seconds[1], seconds[processes] / seconds[1],
            note=f"batches were disjoint: each of {count:,} tasks was claimed once",
        )
        for processes in numbers
    ]  # fmt: skip


def _drained(url: str, processes: int, count: int) -> float:
    """Seconds from the first claim to the last; raises unless each task was claimed once."""
    command = [sys.executable, "-m", "lychgate_tools.bench_sql", url]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    said = []
    try:
        for child in children:
            assert child.stdout is not None
            child.stdout.readline()  # it is ready
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said = [json.loads(it.communicate(timeout=CHILD_TIMEOUT_S)[0]) for it in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    ids = [task_id for it in said for task_id in it["ids"]]
    if len(ids) != count or len(set(ids)) != count:
        raise UserError(f"{count} tasks, {len(ids)} claims of {len(set(ids))} tasks: not disjoint")
    return float(max(it["end"] for it in said) - min(it["start"] for it in said))


def main(url: str) -> None:
    """Claim and finish until nothing is left."""
    with Sql(url, batch_size=20) as worker:
        print("ready", flush=True)
        sys.stdin.readline()
        ids = []
        start = time.monotonic()
        while claimed := worker.pending_tasks():
            for task_id, _, _ in claimed:
                worker.remove_task(task_id)
                ids.append(task_id)
        print(json.dumps({"start": start, "end": time.monotonic(), "ids": ids}))


if __name__ == "__main__":
    main(sys.argv[1])
