"""Work on names one after the other, or several at a time in processes of their own."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from typing import TypeVar

R = TypeVar("R")


def each(
    names: Sequence[str], work: Callable[[str], R], jobs: int, budget_s: float | None
) -> Iterator[R]:
    """What `work` gives for each name, as it is done; no name is begun after the budget.

    With more than one job, `work` is a function that another process can import.
    """
    assert jobs >= 1
    deadline = time.monotonic() + (math.inf if budget_s is None else budget_s)
    waiting = (name for name in names if time.monotonic() <= deadline)
    if jobs == 1:
        yield from map(work, waiting)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawn) as pool:
        running: set[Future[R]] = set()
        while True:
            running |= {pool.submit(work, name) for name in islice(waiting, jobs - len(running))}
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                yield one.result()
