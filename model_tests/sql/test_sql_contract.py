"""The facade of the SQL backend, on every engine (D2, Q1-Q4, Q7, Q11)."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import pytest
from sql.conftest import MakeSql
from sql.database import ask

from lychgate import ClosedError, ConfigError, Refused, Sql, Undecodable, aio, configure

IDS = ["plain", "a:b%", "nul\0nul", "line\nline", "lone\ud800", "ünï", "\\", '"', "𝄞", "x" * 255]


def test_immediate_tasks_are_owned_and_delayed_ones_are_not(make: MakeSql, url: str) -> None:
    """Q4, Q11: pending_tasks is the claim of what is due and nobody's."""
    one, other = make(), make()
    now = time.time()
    mine = one.add_task({"n": 1})
    due = one.add_task({"n": 2}, publish_at=now - 5)
    later = one.add_task({"n": 3}, publish_at=now + 3600)
    assert other.pending_tasks() == [(due, {"n": 2}, now - 5)]
    assert one.pending_tasks() == [] and other.pending_tasks() == []
    owners = {row[0]: row[1] for row in ask(url, "SELECT id, owner_id FROM lychgate_tasks")}
    assert owners == {mine: one._worker.name, due: other._worker.name, later: None}


def test_the_oldest_come_first_in_bounded_batches(make: MakeSql) -> None:
    """Q5, Q9: order is due time, then id; a batch has batch_size tasks at most."""
    worker = make(batch_size=4)
    for n in (3, 1, 2, 0, 5, 4):
        worker.add_task(n, publish_at=100.0 + n // 2, task_id=f"t{n}")
    first, second = worker.pending_tasks(), worker.pending_tasks()
    assert [it[0] for it in first] == ["t0", "t1", "t2", "t3"]
    assert [it[0] for it in second] == ["t4", "t5"] and worker.pending_tasks() == []


@pytest.mark.parametrize("task_id", IDS)
def test_ids_of_any_text(make: MakeSql, task_id: str) -> None:
    """D25, Q2: NUL, newline, lone surrogates: stored, claimed, found and removed as they are."""
    worker = make()
    assert worker.add_task("task", 1.0, task_id) == task_id
    assert worker.pending_tasks() == [(task_id, "task", 1.0)]
    worker.add_dead_task(task_id, "task", ValueError(task_id), task_id, 2)
    dead = worker.find_dead_task(task_id)
    assert dead is not None
    assert (dead.task_id, dead.task_class, dead.error_message) == (task_id, task_id, task_id)
    assert worker.remove_dead_tasks([task_id, task_id, "other"]) == 1


@pytest.mark.parametrize("task_id", ["", "x" * 256, "é" * 128, 5, "\ud834\udd1e"])
def test_ids_that_are_refused(make: MakeSql, url: str, task_id: Any) -> None:
    """Q2, D25: nothing is written for an id that is empty, too long or no text."""
    worker = make()
    for call in (
        lambda: worker.add_task("task", None, task_id),
        lambda: worker.remove_task(task_id),
        lambda: worker.add_dead_task(task_id, 1, None, "", 0),
        lambda: worker.find_dead_task(task_id),
        lambda: worker.remove_dead_tasks([task_id]),
    ):
        with pytest.raises(Refused):
            call()
    assert ask(url, "SELECT count(*) FROM lychgate_tasks") == [(0,)]


@pytest.mark.parametrize(
    ("task", "due"), [(object(), None), ("t", -1.0), ("t", float("nan")), ("t", "soon")]
)
def test_tasks_that_are_refused(make: MakeSql, url: str, task: object, due: Any) -> None:
    """D25: refused before anything is written."""
    with pytest.raises(Refused):
        make().add_task(task, due)
    assert ask(url, "SELECT count(*) FROM lychgate_tasks") == [(0,)]


def test_large_and_odd_payloads(make: MakeSql) -> None:
    """D25, D30: 16 MB, every JSON value, text of any kind. LYCHGATE_LARGE_MB=100 has been tried."""
    worker = make()
    large = "x" * (int(os.environ.get("LYCHGATE_LARGE_MB", "16")) * 2**20)
    values: list[object] = [None, 2**80, -0.0, [], {}, {"": "\0\n\ud800é"}, large, 1.0]
    added = {worker.add_task(value, 1.0 + n): value for n, value in enumerate(values)}
    found = {task_id: task for task_id, task, _ in worker.pending_tasks()}
    assert repr(found) == repr(added)


def test_finishing_and_removing(make: MakeSql, url: str) -> None:
    """D2: an unknown id is no error; a delayed task may be cancelled by anybody."""
    one, other = make(), make()
    one.remove_task("unknown")
    mine = one.add_task("mine")
    one.remove_task(mine)
    one.remove_task(mine)
    other.remove_task(one.add_task("later", 1.0))
    assert ask(url, "SELECT count(*) FROM lychgate_tasks") == [(0,)]


def test_a_retry_gives_the_task_back(make: MakeSql) -> None:
    """Q4, U2: the same id, new payload and time, no owner."""
    one, other = make(), make()
    task_id = one.add_task({"attempts": 0})
    assert one.add_task({"attempts": 1}, 5.0, task_id) == task_id
    assert other.pending_tasks() == [(task_id, {"attempts": 1}, 5.0)]
    other.add_task({"attempts": 2}, None, task_id)
    assert one.pending_tasks() == [(task_id, {"attempts": 2}, None)]


def test_a_task_that_nobody_owns_can_be_replaced(make: MakeSql) -> None:
    """D2: a known id is replaced."""
    worker = make()
    worker.add_task("first", 3e9, "job")
    worker.add_task("second", 4.0, "job")
    assert worker.pending_tasks() == [("job", "second", 4.0)]


def test_dead_tasks(make: MakeSql) -> None:
    """D2, D16, D26, D30: pages in order, the newest of an id, what a record holds."""
    worker = make()
    for n in range(5):
        context = {"n": n, "enqueued_at": 7.5}
        worker.add_dead_task(f"d{n % 4}", context, KeyError("k"), "shop.send", n)
    listed = worker.list_dead_tasks()
    assert [it.task_id for it in listed] == ["d0", "d1", "d2", "d3", "d0"]
    assert worker.list_dead_tasks(2, 1) == listed[1:3] and worker.list_dead_tasks(0) == []
    assert worker.list_dead_tasks(limit=9, offset=99) == []
    newest = worker.find_dead_task("d0")
    assert newest == listed[4] and newest is not None and newest.attempts == 4
    assert (newest.error_class, newest.error_message) == ("KeyError", "'k'")
    assert newest.enqueued_at == 7.5 and abs(newest.failed_at - time.time()) < 3600
    assert worker.remove_dead_tasks([]) == 0
    assert worker.remove_dead_tasks(["d0", "d2", "none"]) == 2
    assert [it.task_id for it in worker.list_dead_tasks()] == ["d1", "d3"]
    assert worker.find_dead_task("d0") is None


def test_removal_of_many_dead_tasks(make: MakeSql) -> None:
    """D12: more ids than one statement takes values."""
    worker = make()
    for n in range(5):
        worker.add_dead_task(f"d{n}", n, None, "", 0)
    assert worker.remove_dead_tasks([f"d{n}" for n in range(1000)]) == 5


def test_error_text_is_cut(make: MakeSql) -> None:
    """D25: a message of any length never fails the write."""
    worker = make()
    worker.add_dead_task("d", 1, ValueError("x" * 10**6), "c", 1)
    dead = worker.find_dead_task("d")
    assert dead is not None and dead.error_message == "x" * 8192


@pytest.mark.parametrize("bad", [-1, 1.5, True, "1", None])
def test_counts_are_checked(make: MakeSql, bad: Any) -> None:
    """D2: attempts, offsets and limits are whole numbers."""
    worker = make()
    with pytest.raises(Refused):
        worker.add_dead_task("d", 1, None, "", bad)
    with pytest.raises(Refused):
        worker.list_dead_tasks(offset=bad)
    with pytest.raises(Refused):
        worker.remove_dead_tasks("d")
    assert worker.list_dead_tasks() == []


def test_closed(make: MakeSql) -> None:
    """D2: closing is safe to repeat, and everything else then says so."""
    worker = make()
    worker.sync()
    worker.close()
    worker.close()
    for call in (worker.pending_tasks, worker.sync, lambda: worker.tick(1.0)):
        with pytest.raises(ClosedError):
            call()


class Upper:
    """A codec of another name."""

    name = "upper"

    def dumps(self, value: object) -> bytes:
        return str(value).upper().encode()

    def loads(self, data: bytes) -> object:
        return data.decode()


def test_another_codec(make: MakeSql) -> None:
    """D30: bytes as the codec made them; a reader without it keeps them whole."""
    worker = make(codec=Upper())
    worker.add_task("text", 1.0, "t")
    assert worker.pending_tasks() == [("t", "TEXT", 1.0)]
    worker.add_dead_task("t", "dead", None, "c", 1)
    dead = make().find_dead_task("t")
    assert dead is not None and dead.context == Undecodable("upper", b"DEAD")


def test_one_entry_for_all_backends(url: str) -> None:
    """D5, Q9: configure opens it, and refuses what makes no sense before opening anything."""
    with configure("sql", url=url, batch_size=3, claim_interval=0.5) as worker:
        assert isinstance(worker, Sql) and worker.claim_interval == 0.5
    nonsense: list[dict[str, Any]] = [
        {"heartbeat_interval": 30, "stale_threshold": 30},
        {"batch_size": 0},
        {"batch_size": True},
        {"claim_interval": 0},
        {"claim_interval": float("inf")},
        {"pool_size": 2.5},
        {"heartbeat_interval": "30"},
        {"path": "storage"},
        {"url": "mysql://x"},
        {"url": "mariadb://x:port/y"},
        {"url": "mariadb://x/y?colour=red"},
        {"url": "oracle://x/y"},
        {"url": "tasks.db"},
        {"url": None},
        {"url": "sqlite://"},
    ]
    for options in nonsense:
        with pytest.raises(ConfigError):
            configure("sql", **{"url": url, **options})
    with pytest.raises(ConfigError):
        configure("sql")


def test_coroutines(url: str) -> None:
    """D2: the same under asyncio."""

    async def main() -> None:
        async with await aio.Sql.open(url) as worker, await aio.Sql.open(url) as other:
            task_id = await worker.add_task("t")
            await asyncio.gather(*(worker.add_task(n, 1.0) for n in range(20)))
            await worker.remove_task(task_id)
            claimed = await other.pending_tasks()
            assert sorted(str(task) for _, task, _ in claimed) == sorted(map(str, range(20)))
            await other.add_dead_task(claimed[0][0], 1, None, "", 1)
            assert len(await worker.list_dead_tasks()) == 1
            assert await worker.find_dead_task(claimed[0][0]) is not None
            assert await worker.remove_dead_tasks([claimed[0][0]]) == 1
            assert await worker.tick(0.0) is not None
            await worker.sync()
            assert (await worker.stats())["connections"] >= 1

    asyncio.run(main())
