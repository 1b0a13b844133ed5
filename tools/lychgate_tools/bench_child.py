"""The jobs that `lychgate bench` measures in a process of their own, for their peak memory.

    python -m lychgate_tools.bench_child JOB PATH [ID]

Prints one JSON object. Opening is off the clock, except in the job that measures it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from lychgate import DeliveryQueue, Disk
from lychgate_tools.bench_measure import peak_bytes

PAGE = 50
SEGMENTS_MAX = 256  # of a delivery queue with a big log


def main(arguments: Sequence[str]) -> int:
    job, path, *rest = arguments
    start = time.perf_counter()
    if job == "open-delivery":
        DeliveryQueue(path, segments_max=SEGMENTS_MAX).close()
        return _say(time.perf_counter() - start)
    with Disk(path) as disk:
        if job != "open":
            start = time.perf_counter()
        if job == "remove":
            assert disk.remove_dead_tasks(rest) == len(rest), "the ids are there"
        elif job == "page":
            assert len(disk.list_dead_tasks(limit=PAGE)) == PAGE, "there is a page"
        seconds = time.perf_counter() - start
    return _say(seconds)


def _say(seconds: float) -> int:
    print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
