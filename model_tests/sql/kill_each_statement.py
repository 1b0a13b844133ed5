"""A program: a worker's life, killed at every statement of it, each time checked by another.

    python kill_each_statement.py URL

For n = 1, 2, … it forks a worker that does one of everything and kills itself with SIGKILL after
its n-th word to the database, until one lives to the end: between any two words it was killed once.
What a worker had acknowledged it wrote into a pipe. Prints how many were killed; a traceback says
what a check found.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from sql.database import ask, do, make_stale_all

from lychgate import Sql, _sql

COUNTED = ("begin", "rows", "change", "commit")


class Killing:
    """A connection that ends its process after its n-th word."""

    said = 0

    def __init__(self, inner: Any, at: int) -> None:
        self._inner = inner
        self._at = at

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name not in COUNTED:
            return method

        def say(*args: Any) -> Any:
            result = method(*args)
            Killing.said += 1
            if Killing.said == self._at:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return say


def live(url: str, at: int, acknowledge: Any) -> None:
    """One of everything. Each call is announced, and acknowledged when it has returned."""
    make = getattr(_sql, "driver_of")

    def driver_of(*args: Any) -> Any:
        driver = make(*args)
        connect = driver.connect
        setattr(driver, "connect", lambda: Killing(connect(), at))
        return driver

    setattr(_sql, "driver_of", driver_of)
    worker = Sql(url)
    steps: list[tuple[str, str, Any]] = [
        ("add", "now", lambda: worker.add_task("n", None, "now")),
        ("add", "due", lambda: worker.add_task("d", 1.0, "due")),
        ("add", "bad", lambda: worker.add_task("b", 2.0, "bad")),
        ("retry", "now", lambda: worker.add_task("n2", 3.0, "now")),
        ("spoil", "bad", lambda: spoil(url)),
        ("claim", "", worker.pending_tasks),
        ("bury", "due", lambda: worker.add_dead_task("due", "d", ValueError("x"), "c", 1)),
        ("finish", "now", lambda: worker.remove_task("now")),
        ("add", "last", lambda: worker.add_task("l", None, "last")),
        ("tick", "", lambda: worker.tick(1e12)),
        ("close", "", worker.close),
    ]
    for verb, task_id, call in steps:
        acknowledge("begin", verb, task_id)
        call()
        acknowledge("done", verb, task_id)


def spoil(url: str) -> None:
    """Somebody damages a payload."""
    do(url, "UPDATE lychgate_tasks SET serialized_task = :d WHERE id = 'bad'", d=b"\xff")


def check(url: str, done: list[list[str]], open_call: list[str] | None) -> None:
    """What may be there after a death between `done` and the end of `open_call`."""
    tasks = {row[0] for row in ask(url, "SELECT id FROM lychgate_tasks")}
    dead = [row[0] for row in ask(url, "SELECT task_id FROM lychgate_dead_tasks")]
    assert len(dead) == len(set(dead)), "buried once"
    assert not tasks & set(dead), "one place for each"
    verbs = {(verb, task_id) for verb, task_id in done}
    for task_id in ("now", "due", "bad", "last"):
        where = (task_id in tasks) + (task_id in dead)
        if ("add", task_id) in verbs and ("finish", task_id) not in verbs:
            assert where == 1 or open_call == ["finish", task_id], f"lost: {task_id}"
        if ("finish", task_id) in verbs:
            assert where == 0, f"came back: {task_id}"
        if ("bury", task_id) in verbs:
            assert task_id in dead, f"not dead: {task_id}"
    # Another worker can have all that is left.
    make_stale_all(url)
    with Sql(url) as other:
        claimed = {it[0] for it in other.pending_tasks()}
        buried = {dead.task_id for dead in other.list_dead_tasks()}
        assert claimed | (buried & tasks) == tasks, f"out of reach: {tasks - claimed}"
        for task_id in claimed:
            other.remove_task(task_id)
        other.remove_dead_tasks(list(buried))
        assert ask(url, "SELECT count(*) FROM lychgate_tasks") == [(0,)]


def one(url: str, at: int) -> bool:
    """Fork, kill, check. Whether it was killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        code = 1
        try:
            live(url, at, lambda *what: os.write(writer, json.dumps(what).encode() + b"\n"))
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as lines:
        said = [json.loads(line) for line in lines]
    _, status = os.waitpid(pid, 0)
    ended = os.waitstatus_to_exitcode(status)
    assert ended in (0, -signal.SIGKILL), f"a worker failed at word {at}: {ended}"
    done = [what[1:] for what in said if what[0] == "done"]
    open_call = said[-1][1:] if said and said[-1][0] == "begin" else None
    check(url, done, open_call)
    return ended != 0


def main(url: str) -> None:
    killed = 0
    while one(url, killed + 1):
        killed += 1
    print(killed)


if __name__ == "__main__":
    main(sys.argv[1])
