"""A program: a queue over the SQL backend, run until SIGTERM.

    python queue_process.py URL LOG

Every run of a task appends a line to LOG: its number, and whether it came before its time.
"""

from __future__ import annotations

import logging
import os
import sys
import time

from lychgate import Limits, Queue, Registry, Sql

TASKS = Registry()
_log = -1


@TASKS.task(name="note")
def note(number: int, due: float | None) -> None:
    """Done: one line, written at once."""
    is_early = due is not None and time.time() < due
    os.write(_log, f"{number} {'early' if is_early else 'ok'}\n".encode())


@TASKS.task(name="fail", retry_in={ValueError: 0.05}, max_retries=1)
def fail(number: int) -> None:
    """Fails twice, and is dead."""
    raise ValueError(number)


def open_worker(url: str) -> Sql:
    """Quick to notice the dead, and patient with those that die."""
    return Sql(
        url, batch_size=20, claim_interval=0.05, heartbeat_interval=0.4, stale_threshold=1.5,
        claims_max=1000,
    )  # fmt: skip


def main(url: str, log: str) -> None:
    global _log
    _log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    logging.disable(logging.CRITICAL)
    with Queue(open_worker(url), Limits(concurrency=4, grace=5.0), registry=TASKS) as queue:
        print("up", flush=True)
        queue.run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
