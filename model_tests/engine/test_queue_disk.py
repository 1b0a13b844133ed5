"""Queues of real processes over real files: signals, kills, restarts, forks (U3, U7, U9, W13)."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lychgate import aio
from lychgate._backend import AsyncBackend, Backend, probe
from lychgate._disk import Disk

# One worker process. `kind` chooses the queue, `orders` what it does; each order is a word.
_WORKER = """
import asyncio, logging, os, signal, sys, time
from pathlib import Path
from lychgate import aio
from lychgate._aio_queue import Queue as AioQueue
from lychgate._disk import Disk
from lychgate._queue import Queue
from lychgate._queue_core import Limits
from lychgate._task import task

logging.disable(logging.CRITICAL)
kind, path, *orders = sys.argv[1:]
path = Path(path)

signal.alarm(120)  # no worker outlives a test that was itself killed

def say(*words):
    os.write(1, (" ".join(words) + "\\n").encode())  # one call: two threads may say something

@task(name="mark")
def mark(label):
    with open(path / "ran", "a") as file:
        file.write(label + "\\n")

@task(name="stuck")
def stuck():
    say("stuck")
    time.sleep(60)

@task(name="patient")
async def patient():
    say("patient")
    while not (path / "go").exists():
        await asyncio.sleep(0.005)
    mark("patient")

@task(name="stuck_loop")
async def stuck_loop():
    say("stuck")
    await asyncio.sleep(60)

@task(name="killer")
def killer():
    os.kill(os.getpid(), signal.SIGKILL)

def announced(queue):
    stop = queue.stop
    queue.stop = lambda: (stop(), say("stopping"))
    return queue

TASKS = {"stuck": stuck, "patient": patient, "stuck_loop": stuck_loop, "killer": killer}
grace = 0.05 if "hasty" in orders else 30.0
limits = Limits(concurrency=2, grace=grace, crashes_max=2)

def enqueued():
    for order in orders:
        if order.startswith("mark"):
            for number in range(int(order[4:])):
                yield mark, f"{number}"
        elif order in TASKS:
            yield TASKS[order],

async def main():
    async with AioQueue(await aio.Disk.open(path / "store"), limits) as queue:
        for target, *args in enqueued():
            say("added", await queue.enqueue(target, *args))
        await announced(queue).run(until_idle="forever" not in orders)

if kind == "asyncio":
    asyncio.run(main())
else:
    with Queue(Disk(path / "store"), limits) as queue:
        for target, *args in enqueued():
            say("added", queue.enqueue(target, *args))
        announced(queue).run(until_idle="forever" not in orders)
say("end")
"""


@pytest.fixture(params=["sync", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def worker(kind: str, path: Path, *orders: str) -> Iterator[subprocess.Popen[str]]:
    """A worker process that is gone at the end, whatever happens."""
    command = [sys.executable, "-c", _WORKER, kind, str(path), *orders]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(word):
            return
    raise AssertionError(f"the worker ended before it said {word}")


def run_worker(kind: str, path: Path, *orders: str) -> int:
    with worker(kind, path, *orders) as process:
        process.communicate()
        return process.returncode


def ran(path: Path) -> list[str]:
    return (path / "ran").read_text().split() if (path / "ran").exists() else []


def live(path: Path) -> list[Any]:
    with Disk(path / "store") as store:
        return [task for _, task, _ in store.pending_tasks()]


def dead(path: Path) -> list[tuple[str, str]]:
    with Disk(path / "store") as store:
        return [(task.task_class, task.error_class) for task in store.list_dead_tasks()]


def test_sigterm_lets_running_tasks_end(kind: str, tmp_path: Path) -> None:
    """U9: no more work is taken, what runs may end, the rest is the next start's."""
    with worker(kind, tmp_path, "patient", "patient", "mark3", "forever") as process:
        read_until(process, "patient")
        read_until(process, "patient")
        process.send_signal(signal.SIGTERM)
        read_until(process, "stopping")
        (tmp_path / "go").touch()
        read_until(process, "end")
        assert process.wait() == 0
    assert ran(tmp_path) == ["patient", "patient"]
    assert [task["task"] for task in live(tmp_path)] == ["mark"] * 3
    assert run_worker(kind, tmp_path) == 0
    assert sorted(ran(tmp_path)[2:]) == ["0", "1", "2"] and live(tmp_path) == []


@pytest.mark.parametrize("how", ["stuck", "stuck_loop"])
def test_a_run_that_outstays_its_grace_does_not_count(kind: str, how: str, tmp_path: Path) -> None:
    """U7, U9: a deployment is not the task's failure, and no stuck task keeps the process."""
    with worker(kind, tmp_path, how, "hasty", "forever") as process:
        read_until(process, "stuck")
        process.send_signal(signal.SIGTERM)
        read_until(process, "end")
        assert process.wait() == 0
    (task,) = live(tmp_path)
    assert (task["attempts"], task["crashes"], task["running"]) == (0, 0, False)


def test_two_sigints_cut_the_grace(kind: str, tmp_path: Path) -> None:
    """U9: the first stops, the second does not wait; the count is taken back all the same."""
    with worker(kind, tmp_path, "stuck_loop", "mark1", "forever") as process:
        read_until(process, "stuck")
        process.send_signal(signal.SIGINT)
        read_until(process, "stopping")
        assert process.poll() is None, "thirty seconds of grace"
        process.send_signal(signal.SIGINT)
        assert process.wait() != 0
    tasks = {task["task"]: task for task in live(tmp_path)}
    assert (tasks["stuck_loop"]["attempts"], tasks["stuck_loop"]["running"]) == (0, False)


def test_a_killer_ends_among_the_dead(kind: str, tmp_path: Path) -> None:
    """U7: counted before it runs, found at the next start, dead at the limit; others run."""
    for orders in (("killer", "mark5"), ()):
        assert run_worker(kind, tmp_path, *orders) == -signal.SIGKILL
    assert run_worker(kind, tmp_path) == 0
    assert dead(tmp_path) == [("killer", "lychgate._queue_errors.WorkerDied")]
    assert set(ran(tmp_path)) == {"0", "1", "2", "3", "4"} and live(tmp_path) == []


@pytest.mark.parametrize("lines", [1, 20, 40])
def test_kill_anywhere(kind: str, lines: int, tmp_path: Path) -> None:
    """U1, U3: whatever was acknowledged has run after a restart."""
    acknowledged = 0
    with worker(kind, tmp_path, "mark40") as process:
        assert process.stdout is not None
        for _ in range(lines):
            acknowledged += process.stdout.readline().startswith("added")
        process.kill()
        acknowledged += process.stdout.read().count("added")
    assert run_worker(kind, tmp_path) == 0
    assert {int(label) for label in ran(tmp_path)} >= set(range(acknowledged))
    assert live(tmp_path) == [] and dead(tmp_path) == []


_FORK = """
import os, sys
from lychgate._disk import Disk
from lychgate._queue import Queue
from lychgate._task import task

seen = []

@task(name="work")
def work(who):
    seen.append(who)

queue = Queue(Disk(sys.argv[1]))
queue.enqueue(work, "parent")
child = os.fork()
if child == 0:
    assert queue.stats()["queue_backlog"] == 0
    queue.enqueue(work, "child")
    queue.run(until_idle=True)
    os._exit(0 if seen == ["child"] else 1)
assert os.waitpid(child, 0)[1] == 0
queue.run(until_idle=True)
assert seen == ["parent"], seen
assert queue._backend.pending_tasks() == []
queue.close()
"""


def test_disk_is_a_backend(tmp_path: Path) -> None:
    """D2: for the type checker as well, sync and asyncio, with everything that is optional."""

    def typed(disk: Disk, aio_disk: aio.Disk) -> tuple[Backend, AsyncBackend]:
        return disk, aio_disk

    with Disk(tmp_path / "store") as disk:
        able = probe(disk)
    assert able.tick and able.sync and able.stats and able.close and not able.claims
    assert typed.__name__ == "typed"


def test_fork(tmp_path: Path) -> None:
    """W13: parent and child each run their own tasks, once."""
    subprocess.run([sys.executable, "-c", _FORK, str(tmp_path / "store")], check=True)
