"""Several real processes, killed at every word and at random moments (Q6, Q10, U3, U7)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from sql.database import ask
from sql.queue_process import TASKS, fail, note, open_worker

from lychgate import Limits, Queue
from lychgate_tools.sql_server import SqlServer

HERE = Path(__file__).parent
PATIENCE_S = 40.0


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A program of this directory, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(HERE / program), *arguments]
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def test_killed_at_every_statement(url: str) -> None:
    """Q6, Q7: after each word to the database: nothing lost, nothing twice."""
    process = start("kill_each_statement.py", url)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert int(output) >= 30, "kills"


class Fleet:
    """Workers that are killed and stopped, and others in their place."""

    def __init__(self, url: str, log: Path, count: int) -> None:
        self._url, self._log = url, log
        self.workers = [self._new() for _ in range(count)]

    def _new(self) -> subprocess.Popen[str]:
        return start("queue_process.py", self._url, str(self._log))

    def replace(self, index: int, by: int) -> None:
        """End one, by SIGKILL or gracefully, and start another."""
        worker = self.workers[index]
        assert worker.stdout is not None and worker.stdout.readline() == "up\n"
        worker.send_signal(by)
        worker.communicate()
        self.workers[index] = self._new()

    def drain(self) -> None:
        """Wait until no task is left."""
        deadline = time.monotonic() + PATIENCE_S
        while ask(self._url, "SELECT count(*) FROM lychgate_tasks") != [(0,)]:
            if time.monotonic() > deadline:
                left = ask(self._url, "SELECT owner_id, claim_count, due_at FROM lychgate_tasks")
                alive = ask(self._url, "SELECT * FROM lychgate_workers")
                raise AssertionError((left[:5], alive, time.time(), self.end()))
            time.sleep(0.1)

    def end(self) -> list[str]:
        """Stop them all, gracefully; whoever does not stop is killed. What they said."""
        for worker in self.workers:
            worker.send_signal(signal.SIGTERM)
        said = []
        for worker in self.workers:
            try:
                said.append(worker.communicate(timeout=30)[0])
            except subprocess.TimeoutExpired:
                worker.kill()
                said.append("did not stop: " + worker.communicate()[0])
        self.workers = []
        return said


def produce(url: str, immediate: int, delayed: int, failing: int) -> None:
    """Enqueue, and leave what is immediate to the others: this process runs none."""
    with Queue(open_worker(url), Limits(high_water=10**6), registry=TASKS) as queue:
        for number in range(immediate):
            queue.enqueue(note, number, None)
        for number in range(immediate, immediate + delayed):
            due = time.time() + random.uniform(0.5, 3.0)
            queue.enqueue(note, number, due, delay_until=due)
        for number in range(failing):
            queue.enqueue(fail, number)


def runs(log: Path) -> tuple[Counter[int], int]:
    """How often each task ran, and how many ran before their time."""
    lines = log.read_text().splitlines()
    return Counter(int(line.split()[0]) for line in lines), sum("early" in it for it in lines)


def test_workers_killed_at_random_moments(url: str, tmp_path: Path) -> None:
    """Q10, U3: every task runs, those that fail are dead once, and none is early."""
    log = tmp_path / "runs"
    produce(url, 150, 50, 10)
    fleet = Fleet(url, log, 2)
    with ExitStack() as stack:
        stack.callback(fleet.end)
        chance = random.Random(7)
        for turn in range(3):
            time.sleep(chance.uniform(0.05, 0.5))
            fleet.replace(turn % 2, signal.SIGKILL)
        fleet.drain()
    found, early = runs(log)
    assert set(found) == set(range(200)) and early == 0
    dead = ask(url, "SELECT task_id, count(*) FROM lychgate_dead_tasks GROUP BY task_id")
    assert len(dead) == 10 and {row[1] for row in dead} == {1}


def test_a_rolling_restart(server: SqlServer, tmp_path: Path) -> None:
    """Q10, U9: stopped gracefully one after the other, under load: no task is lost."""
    from lychgate._sql_options import driver_of
    from lychgate._sql_schema import apply

    url, log = server.new_schema(), tmp_path / "runs"
    apply(driver_of(url, str))
    with ExitStack() as stack:
        fleet = Fleet(url, log, 3)
        stack.callback(fleet.end)
        produce(url, 300, 60, 0)
        for index in range(3):
            fleet.replace(index, signal.SIGTERM)
        fleet.drain()
    found, early = runs(log)
    assert set(found) == set(range(360)) and early == 0
    assert ask(url, "SELECT count(*) FROM lychgate_workers") == [(0,)], "all have left"
