"""`lychgate soak`: workers on one database, replaced one after the other under load (Q10).

A producer enqueues immediate and delayed tasks, and some that fail to death, while worker after
worker is stopped gracefully or killed, in turn, and another started in its place. At the end every
task must have run or be dead, none before its time. A task may run twice, if its worker was killed
before the end of the run was committed, or was taken for dead; each such run is accounted for.

Exit codes: 0 nothing lost, nothing early, every second run explained; 1 not so; 2 no server can be
started here; 3 the database cannot be reached or refuses.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lychgate import ConfigError, Limits, Queue, SchemaError, SqlError
from lychgate._sql_options import driver_of
from lychgate._sql_schema import apply, check, status
from lychgate_tools.bench_measure import surroundings
from lychgate_tools.soak_worker import TASKS, fail, note, open_worker
from lychgate_tools.sql_server import SERVERS
from lychgate_tools.ui import ExitCode, Progress, Subparsers, UserError, add_command, print_json

_SUMMARY = "replace the workers of an SQL backend under load: nothing is lost, nothing early"
_EXAMPLE = """lychgate soak
  lychgate soak --engine mariadb --workers 8 --tasks 2000
  lychgate soak 'postgresql://app@db.example/test'

Without a URL a server is started in a temporary directory. The tables must be empty."""
_CHUNK = 100
_DELAY_S = 5.0
"""Delayed tasks are due within so many seconds of their enqueue."""
PATIENCE_S = 120.0
"""For the last tasks, once nobody is stopped any more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: `tasks` tasks, half of them delayed, a hundredth of them failing."""

    tasks: int = 10_000
    workers: int = 3
    replacements: int = 24
    """Every second one is a SIGKILL, the others are SIGTERM."""
    seed: int = 0

    @property
    def failing(self) -> int:
        return max(1, self.tasks // 100)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it. `runs` are of tasks that do not fail."""

    tasks: int
    runs: int
    lost: int
    early: int
    dead: int
    dead_twice: int
    kills: int
    stops: int
    twice_by_kill: int
    """Runs after which the worker was killed, and others ran the task."""
    twice_by_lost_claim: int
    """Runs whose worker was taken for dead meanwhile, and told so by ClaimLost."""
    twice_unexplained: int
    seconds: float

    @property
    def is_well(self) -> bool:
        return not (self.lost or self.early or self.dead_twice or self.twice_unexplained)


class Fleet:
    """Workers that are killed and stopped, and others in their place."""

    def __init__(self, url: str, log: Path, count: int) -> None:
        self._url, self._log = url, log
        self.killed: set[int] = set()
        self.stopped = 0
        self.claims_lost = 0
        self._workers = [self._new() for _ in range(count)]

    def _new(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "lychgate_tools.soak_worker", self._url, str(self._log)]
        return subprocess.Popen(
            command, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def replace(self, index: int, by: int) -> None:
        """End one, by SIGKILL or gracefully, and start another."""
        index %= len(self._workers)
        self._end(self._workers[index], by)
        self._workers[index] = self._new()

    def _end(self, worker: subprocess.Popen[str], by: int) -> None:
        assert worker.stdout is not None
        if worker.stdout.readline() != "up\n":
            raise UserError(f"a worker did not start: {worker.communicate()[1].strip()[-500:]}")
        worker.send_signal(by)
        try:
            said, errors = worker.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            raise UserError("a worker did not stop within 60 s of SIGTERM") from None
        if by == signal.SIGKILL:
            self.killed.add(worker.pid)
        elif worker.returncode:
            raise UserError(f"a worker failed: {errors.strip()[-500:]}")
        else:
            self.stopped += 1
            self.claims_lost += json.loads(said).get("queue_claims_lost", 0)

    def stop(self) -> None:
        """Stop them all, gracefully."""
        for worker in self._workers:
            self._end(worker, signal.SIGTERM)

    def kill(self) -> None:
        """Leave none behind, whatever happened."""
        for worker in self._workers:
            if worker.poll() is None:
                worker.kill()
            worker.communicate()


def soak(url: str, plan: Plan, log: Path, show: Callable[[float, str], None]) -> Outcome:
    """Run the plan on a database with empty tables. Raises SqlError and UserError."""
    if _left(url):
        raise UserError("there are tasks in this database: name one that is empty")
    begun = time.monotonic()
    chance = random.Random(plan.seed)
    failed: list[Exception] = []

    def produce() -> None:
        try:
            _produce(url, plan)
        except Exception as error:
            failed.append(error)

    producer = threading.Thread(target=produce, daemon=True)
    fleet = Fleet(url, log, plan.workers)
    try:
        producer.start()
        for turn in range(plan.replacements):
            show(turn, "")
            time.sleep(chance.uniform(0.05, 0.6))
            fleet.replace(turn, signal.SIGKILL if turn % 2 == 0 else signal.SIGTERM)
        producer.join()
        if failed:
            raise failed[0]
        _drain(url, lambda left: show(plan.replacements, f"{left} tasks left"))
        fleet.stop()
    finally:
        fleet.kill()
    seconds = time.monotonic() - begun
    return outcome(url, plan, fleet, log.read_text(encoding="ascii"), seconds)


def _produce(url: str, plan: Plan) -> None:
    """Enqueue in chunks. What is immediate is left to the workers: this process runs none."""
    chance = random.Random(plan.seed)
    for start in range(0, plan.tasks, _CHUNK):
        with Queue(open_worker(url), Limits(high_water=10**6), registry=TASKS) as queue:
            for number in range(start, min(start + _CHUNK, plan.tasks)):
                if number < plan.failing:
                    queue.enqueue(fail, number)
                elif number % 2:
                    due = time.time() + chance.uniform(0.5, _DELAY_S)
                    queue.enqueue(note, number, due, delay_until=due)
                else:
                    queue.enqueue(note, number, None)


def _left(url: str) -> int:
    return int(_ask(url, "SELECT count(*) FROM lychgate_tasks")[0][0])


def _drain(url: str, show: Callable[[int], None]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while left := _left(url):
        show(left)
        if time.monotonic() > deadline:
            sql = "SELECT owner_id, claim_count, due_at FROM lychgate_tasks LIMIT 3"
            raise UserError(
                f"{left} tasks are left after {PATIENCE_S:g} s: {_ask(url, sql)}", ExitCode.SHORT
            )
        time.sleep(0.1)


def _ask(url: str, statement: str) -> list[tuple[Any, ...]]:
    driver = driver_of(url, str)
    connection = driver.connect()
    try:
        return connection.rows(statement)
    finally:
        connection.close()


def outcome(url: str, plan: Plan, fleet: Fleet, log: str, seconds: float) -> Outcome:
    """What the tables and the log of runs say once all workers have ended."""
    runs: defaultdict[int, list[int]] = defaultdict(list)
    early = 0
    for line in log.splitlines():
        number, pid, when = line.split()
        runs[int(number)].append(int(pid))
        early += when == "early"
    by_kill = sum(pid in fleet.killed for pids in runs.values() for pid in pids[:-1])
    further = sum(len(pids) - 1 for pids in runs.values()) - by_kill
    dead = _ask(url, "SELECT task_id FROM lychgate_dead_tasks")
    return Outcome(
        tasks=plan.tasks,
        runs=sum(map(len, runs.values())),
        lost=plan.tasks - len(runs) - len(set(dead)),
        early=early,
        dead=len(set(dead)),
        dead_twice=len(dead) - len(set(dead)),
        kills=len(fleet.killed),
        stops=fleet.stopped,
        twice_by_kill=by_kill,
        twice_by_lost_claim=min(further, fleet.claims_lost),
        twice_unexplained=max(0, further - fleet.claims_lost),
        seconds=seconds,
    )


# --- the command --------------------------------------------------------------------------------


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "soak", _SUMMARY, _EXAMPLE)
    parser.add_argument("url", nargs="?", help="a database with empty tables (default: our own)")
    parser.add_argument("--engine", choices=("sqlite", *SERVERS), default="postgres",
                        help="without a URL: on what (default: %(default)s)")  # fmt: skip
    for name, what in (
        ("tasks", "tasks to enqueue, half of them delayed"),
        ("workers", "processes at a time"),
        ("replacements", "workers that are stopped or killed, in turn, and replaced"),
        ("seed", "for what is left to chance"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=getattr(Plan(), name), metavar="N",
            help=f"{what} (default: %(default)s)",
        )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    plan = Plan(args.tasks, args.workers, args.replacements, args.seed)
    if plan.tasks < 100 or plan.workers < 1 or plan.replacements < 0:
        raise UserError("at least 100 tasks, a worker, no replacement", ExitCode.USAGE)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="lychgate-soak-") as directory,
            _place(args, directory) as url,
            Progress("soak", plan.replacements, "replacements") as progress,
        ):
            outcome = soak(url, plan, Path(directory, "runs"), progress.update)
            where = surroundings(directory, [])
    except ConfigError as error:
        raise UserError(str(error), ExitCode.USAGE) from error
    except (SqlError, SchemaError) as error:
        raise UserError(str(error), ExitCode.FAULT) from error
    del where["command"]
    if args.json:
        said = {"where": where, "plan": asdict(plan), "outcome": asdict(outcome)}
        print_json({**said, "well": outcome.is_well})
    else:
        _show(args.url or args.engine, outcome, where)
    return ExitCode.OK if outcome.is_well else ExitCode.SHORT


@contextmanager
def _place(args: argparse.Namespace, directory: str) -> Iterator[str]:
    """A database with its tables."""
    if args.url is not None:
        driver = driver_of(args.url, str)
        check(driver, status(driver))
        yield args.url
    elif args.engine in SERVERS:
        with SERVERS[args.engine]() as server:
            url = server.new_schema()
            apply(driver_of(url, str))
            yield url
    else:
        url = f"sqlite:///{directory}/tasks.db"
        apply(driver_of(url, str))
        yield url


def _show(name: str, it: Outcome, where: dict[str, str]) -> None:
    for what, text in where.items():
        print(f"{what + ':':13}{text}")
    print(
        f"\n{it.tasks:,} tasks in {it.seconds:.1f} s, {it.tasks / it.seconds:,.0f} a second; "
        f"{it.kills} workers killed, {it.stops} stopped\n"
        f"lost {it.lost}, before their time {it.early}, dead {it.dead}, twice {it.dead_twice}\n"
        f"run once more: {it.twice_by_kill} after a kill, {it.twice_by_lost_claim} after a lost "
        f"claim, {it.twice_unexplained} without an explanation"
    )
    print("nothing was lost" if it.is_well else f"{name} breaks a promise")
