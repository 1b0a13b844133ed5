"""A program: a queue over the SQL backend that runs until SIGTERM, for `lychgate soak` and tests.

    python -m lychgate_tools.soak_worker URL LOG

It says `up` when it takes tasks, and at its end, as JSON, what the queue counted. Every run of a
task appends a line to LOG: the task's number, this process, and whether it came before its time.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time

from lychgate import Limits, Queue, Registry, Sql

TASKS = Registry()
CONCURRENCY = 8
_log = -1


@TASKS.task(name="note")
def note(number: int, due: float | None) -> None:
    """Done: one line, written at once."""
    is_early = due is not None and time.time() < due
    os.write(_log, f"{number} {os.getpid()} {'early' if is_early else 'ok'}\n".encode())


@TASKS.task(name="fail", retry_in={ValueError: 0.05}, max_retries=1)
def fail(number: int) -> None:
    """Fails twice, and is dead."""
    raise ValueError(number)


def open_worker(url: str) -> Sql:
    """Quick to notice the dead, and patient with those that die."""
    return Sql(
        url, batch_size=50, claim_interval=0.05, heartbeat_interval=0.4, stale_threshold=2.0,
        claims_max=1000,
    )  # fmt: skip


def _say_up() -> None:
    """Once SIGTERM is a graceful stop: before that it would be a kill."""
    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        time.sleep(0.005)
    print("up", flush=True)


def main(url: str, log: str) -> None:
    global _log
    _log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    logging.disable(logging.CRITICAL)
    limits = Limits(concurrency=CONCURRENCY, grace=5.0)
    with Queue(open_worker(url), limits, registry=TASKS) as queue:
        threading.Thread(target=_say_up, daemon=True).start()
        queue.run()
        print(json.dumps(queue.stats()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
