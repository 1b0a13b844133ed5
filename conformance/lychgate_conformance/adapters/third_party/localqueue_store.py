"""localqueue: `SimpleQueue`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, ClassVar

from lychgate_conformance.adapters.third_party._shelves import (
    CLAIMS,
    DURABLE,
    MODE,
    ONE_BY_ONE,
    Peer,
    Shelf,
    Shelved,
    load,
    make_directory,
)

LEASE_S = 2.0
"""So long an item stays lent when a crash cuts a listing; the next opening waits for it."""
_RETRIES_MAX = 1_000_000
_MAPPING = (
    "two named queues in one database; `put`, `ack`. No call lists what waits: a listing takes"
    " every item with a lease (`get`) and gives it back (`nack`)"
)
_LIMITS = (
    "a listing hides its items from others for a moment, so several processes and threads, which"
    " localqueue promises, are not claimed for the mapping. `fail` is not used: its dead letters"
    " cannot be removed one by one, and hold no context. Its directory is made beforehand and its"
    " name durable, as localqueue itself does not"
)


class LeaseShelf:
    """One named queue."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        while queue.stats()["processing"]:
            time.sleep(0.01)
            queue.reclaim_expired_leases()

    def put(self, text: str) -> None:
        self.queue.put(text)

    def items(self) -> list[tuple[Any, str]]:
        jobs = self._taken()
        for job in jobs:
            self._give_back(job)
        return [(job.id, job.data) for job in jobs]

    def drop(self, handle: Any) -> None:
        for job in self._taken():
            if job.id == handle:
                self.queue.ack(job)
            else:
                self._give_back(job)

    def _taken(self) -> list[Any]:
        jobs: dict[int, Any] = {}
        while True:
            try:
                job = self.queue.get_nowait()
            except load("localqueue").Empty:
                return [jobs[key] for key in sorted(jobs)]
            jobs[job.id] = job  # again, with a new receipt, where its lease ran out meanwhile

    def _give_back(self, job: Any) -> None:
        try:
            self.queue.nack(job)
        except load("localqueue").LeaseExpired:
            return  # it has gone back by itself

    def close(self) -> None:
        self.queue.close()


class Durable(Shelved):
    """`SimpleQueue` with `DurabilityMode.DURABLE`."""

    peer = Peer(
        name="localqueue SimpleQueue",
        distribution="localqueue",
        setting="`DurabilityMode.DURABLE`: WAL journal, `synchronous = FULL`",
        promises="jobs survive restarts; stronger protection of recent commits in a host crash",
        mapping=_MAPPING,
        limits=_LIMITS,
        leaves_out={**ONE_BY_ONE, **MODE},
        like="Relaxed",
    )
    claims = {**CLAIMS, **DURABLE}
    mode: ClassVar[str] = "DURABLE"

    def shelf(self, name: str) -> Shelf:
        module = load("localqueue")
        policy = load("localqueue.policies").DeliveryPolicy(LEASE_S, _RETRIES_MAX)
        mode = getattr(load("localqueue.policies").DurabilityMode, self.mode)
        directory = Path(f"{self.base}queue")
        make_directory(directory)  # localqueue makes it, and not its name durable
        queue = module.SimpleQueue(str(directory), name, delivery=policy, durability=mode)
        return LeaseShelf(queue)


class Relaxed(Durable):
    """`SimpleQueue` as it comes."""

    peer = Peer(
        name="localqueue SimpleQueue",
        distribution="localqueue",
        setting="as it comes, `DurabilityMode.RELAXED`: WAL journal, `synchronous = NORMAL`",
        promises="jobs survive restarts; recent ones may be lost in a host crash",
        mapping=_MAPPING,
        limits=_LIMITS,
        leaves_out={**ONE_BY_ONE, **MODE},
    )
    claims = {**CLAIMS}
    mode: ClassVar[str] = "RELAXED"
