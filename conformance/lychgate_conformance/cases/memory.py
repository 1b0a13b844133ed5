"""Level 1: memory stays bounded, whatever the files hold; measured on a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lychgate_conformance._case import case
from lychgate_conformance._check import expect, expect_equal
from lychgate_conformance._layout import data_file, lines, seal
from lychgate_conformance._stage import ProcessWorker, Stage

LAYOUT = "stores, disk_layout"
MB = 1024 * 1024


@contextmanager
def at_most(worker: ProcessWorker, limit: int, what: str) -> Iterator[None]:
    """The worker's memory may grow by `limit` bytes in this block."""
    before = worker.peak_memory()
    yield
    grown = worker.peak_memory() - before
    expect(
        grown < limit, f"{what} took {grown // MB} MB of memory, expected less than {limit // MB}"
    )


@case("L1-MEM-001", "a tail of 200 MB of NULs takes no memory to speak of", "D28, F3", LAYOUT)
def huge_tail(stage: Stage) -> None:
    worker = stage.worker()
    store = worker.open()
    store.add_dead_task("a")
    with data_file(stage).open("ab") as file:
        file.truncate(file.tell() + 200 * MB)
    with at_most(worker, 64 * MB, "a tail of 200 MB"):
        expect_equal("dead tasks", store.dead_ids(), ["a"])
        store.add_dead_task("b")
        expect_equal("dead tasks", store.dead_ids(), ["a", "b"])


@case(
    "L1-MEM-002",
    "a page, a search and a removal in a large store take little memory",
    "D8, D12, D16",
    LAYOUT,
)
def large_store(stage: Stage) -> None:
    worker = stage.worker()
    store = worker.open()
    store.add_dead_task("job-00000", {"pad": "x" * 900})
    body = lines(data_file(stage))[0][9:-1]
    with data_file(stage).open("ab") as file:
        for n in range(1, 70_000):
            file.write(seal(body.replace(b"job-00000", b"job-%05d" % n)))
    with at_most(worker, 32 * MB, "a page of a store of 70 MB"):
        page = [it.task_id for it in store.list_dead_tasks(3, 60_000)]
        expect_equal("a page", page, ["job-60000", "job-60001", "job-60002"])
    with at_most(worker, 32 * MB, "a search in a store of 70 MB"):
        expect(store.find_dead_task("job-69999") is not None, "the last dead task is not found")
    with at_most(worker, 32 * MB, "a removal from a store of 70 MB"):
        expect_equal("the count", store.remove_dead_tasks(["job-00001"]), 1)
    expect_equal(
        "the first page",
        [it.task_id for it in store.list_dead_tasks(2)],
        ["job-00000", "job-00002"],
    )
