"""Claims, fences, heartbeats and sweeps on every engine: the actions of Sql.tla (Q4-Q7, U7)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

import pytest
from sql.conftest import MakeSql
from sql.database import ENDS, ask, do, make_stale, rows, sweep

from lychgate import ClaimLost, Sql, SqlError
from lychgate._sql_options import driver_of
from lychgate._sql_schema import apply
from lychgate_tools.sql_server import SqlServer

def claim_from(make: MakeSql, url: str, **options: Any) -> tuple[Sql, Sql, str]:
    """A worker that was taken for dead, the one that has its task now, and the task."""
    slow, quick = make(**options), make(**options)
    task_id = slow.add_task("task")
    make_stale(url, slow)
    sweep(quick)
    assert [it[0] for it in quick.pending_tasks()] == [task_id]
    return slow, quick, task_id


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("rejoined", [False, True])
def test_a_lost_claim_ends_nothing(make: MakeSql, url: str, end: str, rejoined: bool) -> None:
    """Q6: finish, retry and bury by a worker that was taken for dead are refused, and show."""
    slow, quick, task_id = claim_from(make, url)
    if rejoined:
        sweep(slow)
        assert slow.stats()["taken_for_dead"] == 1
    before = rows(url)
    with pytest.raises(ClaimLost):
        ENDS[end](slow, task_id)
    assert rows(url) == before and slow.list_dead_tasks() == []
    assert slow.stats()["claims_lost"] == 1
    ENDS[end](quick, task_id)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("ended", ENDS)
def test_a_late_end_finds_it_ended(make: MakeSql, url: str, end: str, ended: str) -> None:
    """Q6, Q7: one terminal state; a late retry brings back nothing."""
    slow, quick, task_id = claim_from(make, url)
    ENDS[ended](quick, task_id)
    before = (rows(url), len(quick.list_dead_tasks()))
    with pytest.raises(ClaimLost):
        ENDS[end](slow, task_id)
    assert (rows(url), len(quick.list_dead_tasks())) == before


@pytest.mark.parametrize("end", ENDS)
def test_swept_and_not_claimed_yet(make: MakeSql, url: str, end: str) -> None:
    """Q6: what was taken away and waits is not the old owner's to end."""
    slow, quick = make(), make()
    task_id = slow.add_task("task")
    make_stale(url, slow)
    sweep(quick)
    with pytest.raises(ClaimLost):
        ENDS[end](slow, task_id)
    assert rows(url) == {task_id: (None, 1)}


@pytest.mark.parametrize("end", ENDS)
def test_a_worker_may_claim_its_own_task_again(make: MakeSql, url: str, end: str) -> None:
    """Q6, Q10: taken for dead in a run, registered anew, and quicker than the others: the run goes
    on under the new claim, is not begun a second time, and its end counts."""
    slow, quick = make(), make()
    task_id = slow.add_task("task")
    make_stale(url, slow)
    sweep(quick)
    sweep(slow)
    assert slow.pending_tasks() == [] and slow.stats()["claimed"] == 1
    ENDS[end](slow, task_id)
    assert len(slow.list_dead_tasks()) == (end == "bury")
    assert rows(url) == ({task_id: (None, 0)} if end == "retry" else {})
    assert len(quick.pending_tasks()) == (end == "retry")


def test_a_claim_waits_for_ends(make: MakeSql, url: str) -> None:
    """Q6, Q10: a worker claims a task anew while a run of it ends with the token of before. Neither
    does the end take the new claim with it, nor is the task given out that has ended."""
    slow, quick = make(), make()
    task_id = slow.add_task("task")
    make_stale(url, slow)
    sweep(quick)
    sweep(slow)
    claimed: list[object] = []
    claim = threading.Thread(target=lambda: claimed.extend(slow.pending_tasks()))

    def ends(db: object, token: object) -> bool:
        claim.start()
        claim.join(0.2)
        assert claim.is_alive(), "it waits"
        return False

    with pytest.raises(ClaimLost):
        slow._worker.end(task_id, "finish", ends)
    claim.join()
    assert [it[0] for it in claimed] == [task_id]  # type: ignore[index]  # a list of tuples
    slow.remove_task(task_id)
    assert rows(url) == {}


def test_fresh_workers_keep_their_tasks(make: MakeSql, url: str) -> None:
    """Q6, Q10: a sweep takes from stale workers only, by the database's clock."""
    one, other = make(stale_threshold=90.0), make(stale_threshold=90.0)
    task_id = one.add_task("task")
    make_stale(url, one, seconds=60.0)
    other.tick(1e12)  # its own clock is far ahead
    assert rows(url)[task_id][0] == one._worker.name
    make_stale(url, one, seconds=60.0)
    other.tick(2e12)
    assert rows(url)[task_id][0] is None
    assert other.stats()["workers_swept"] == 1 and other.stats()["tasks_orphaned"] == 1


def test_a_heartbeat_revives_what_is_not_swept(make: MakeSql, url: str) -> None:
    """Q6: stale and not swept is as good as new."""
    one, other = make(), make()
    task_id = one.add_task("task")
    make_stale(url, one)
    assert one.tick(1e12) == 1e12 + 30
    sweep(other)
    assert rows(url)[task_id][0] == one._worker.name


def test_the_callers_clock_may_jump(make: MakeSql) -> None:
    """Q6: set back or ahead, it makes a heartbeat early, never one that does not come."""
    worker = make()
    assert worker.tick(5000.0) == 5030.0 and worker.tick(5029.0) == 5030.0
    assert worker.tick(5030.0) == 5060.0
    assert worker.tick(1000.0) == 1030.0, "set back: at once"


def test_a_stale_worker_claims_nothing(make: MakeSql, url: str) -> None:
    """Q6: the claim looks at its own worker's row, whatever the worker thinks."""
    worker, other = make(), make()
    other.add_task("due", 1.0)
    make_stale(url, worker)
    assert worker._worker._pool.transact(
        "claim", lambda db: worker._db.claim(db, worker._worker.name, 9, 1)
    ) == []
    assert len(other.pending_tasks()) == 1


def test_an_unknown_worker_owns_nothing(make: MakeSql, url: str) -> None:
    """Q4, Q6: an immediate task of a worker that was swept: a fresh name, then it is its own."""
    slow, quick = make(), make()
    make_stale(url, slow)
    sweep(quick)
    before = slow._worker.name
    task_id = slow.add_task("task")
    after = slow._worker.name
    assert after != before and rows(url) == {task_id: (after, 1)}
    slow.remove_task(task_id)


def test_a_failing_heartbeat_stops_claims(make: MakeSql, monkeypatch: pytest.MonkeyPatch) -> None:
    """Q6: no claim until a heartbeat succeeds again."""
    worker = make()
    worker.add_task("due", 1.0)

    def fails(db: object, me: str) -> bool:
        raise SqlError("heartbeat", "test", "down", "wait", True)

    with monkeypatch.context() as patch:
        patch.setattr(worker._db, "beat", fails)
        with pytest.raises(SqlError):
            worker.tick(1e12)
        with pytest.raises(SqlError):
            worker.pending_tasks()
    assert len(worker.pending_tasks()) == 1


def test_a_graceful_stop_gives_back_at_once(make: MakeSql, url: str) -> None:
    """Q10, U7: another worker claims it at once, and the stop does not count."""
    one, other = make(), make()
    task_id = one.add_task("task")
    one.close()
    assert rows(url) == {task_id: (None, 0)}
    assert ask(url, "SELECT count(*) FROM lychgate_workers") == [(1,)]
    assert [it[0] for it in other.pending_tasks()] == [task_id]


def test_a_start_takes_orphans(make: MakeSql, url: str) -> None:
    """Q10: the first claim has what a dead worker left."""
    dead = make()
    task_id = dead.add_task("task")
    make_stale(url, dead)
    assert [it[0] for it in make().pending_tasks()] == [task_id]


def test_a_killer_ends_as_a_dead_task(make: MakeSql, url: str) -> None:
    """U7: claims_max workers in a row vanish with it; the next claim buries it."""
    task_id = make().add_task({"task": "shop.kill", "attempts": 3}, 1.0)
    for _ in range(3):
        victim = make(claims_max=3)
        assert [it[0] for it in victim.pending_tasks()] == [task_id]
        make_stale(url, victim)
    last = make(claims_max=3)
    assert last.pending_tasks() == [] and rows(url) == {}
    (dead,) = last.list_dead_tasks()
    assert (dead.task_class, dead.attempts) == ("shop.kill", 3)
    assert dead.error_class == "lychgate.WorkerDied" and "3 workers" in dead.error_message
    assert last.stats()["killers_buried"] == 1


def test_the_innocent_are_told_from_the_guilty(make: MakeSql, url: str) -> None:
    """U7: after two deaths the tasks of a batch are claimed one at a time, fresh ones go on."""
    make().add_task("killer", 1.0, "k")
    for n in range(4):
        make().add_task(n, 2.0 + n, f"t{n}")
    for _ in range(2):
        victim = make()
        assert len(victim.pending_tasks()) == 5
        make_stale(url, victim)
    make().add_task("fresh", 9.0, "f")
    while "k" in rows(url):
        worker = make()
        while claimed := worker.pending_tasks():
            assert len([it for it in claimed if it[0] != "f"]) <= 1
            if claimed[0][0] == "k":
                make_stale(url, worker)
                break
            for it in claimed:
                worker.remove_task(it[0])
    dead = make().list_dead_tasks()
    assert [it.task_id for it in dead] == ["k"] and set(rows(url)) <= {"f", "t0", "t1", "t2", "t3"}


def test_a_run_that_ended_starts_the_count_again(make: MakeSql, url: str) -> None:
    """U2, U7: a retry says that the worker lived."""
    worker = make(claims_max=1)
    task_id = worker.add_task("task")
    for _ in range(4):
        worker.add_task("task", 1.0, task_id)
        assert rows(url) == {task_id: (None, 0)}
        assert len(worker.pending_tasks()) == 1


def test_unreadable_rows(make: MakeSql, url: str) -> None:
    """Q7, U6: raw bytes and the reason, and the rest of the batch goes on."""
    worker = make()
    for n in range(3):
        worker.add_task(n, 1.0 + n, f"t{n}")
    do(url, "UPDATE lychgate_tasks SET serialized_task = :d WHERE id = 't1'", d=b"\xff{not json")
    assert [it[:2] for it in worker.pending_tasks()] == [("t0", 0), ("t2", 2)]
    (dead,) = worker.list_dead_tasks()
    assert dead.task_id == "t1" and getattr(dead.context, "data", b"") == b"\xff{not json"
    assert "decoded" in dead.error_message and set(rows(url)) == {"t0", "t2"}
    assert worker.stats()["unreadable_buried"] == 1


def test_claims_at_once_are_disjoint(make: MakeSql) -> None:
    """Q5, Q8, Q10: threads of several workers; every task claimed once, nobody sees BUSY."""
    producer = make()
    for n in range(200):
        producer.add_task(n, 1.0 + n % 7)
    workers = [make(batch_size=7) for _ in range(4)]
    seen: list[str] = []

    def work(worker: Sql) -> None:
        while batch := worker.pending_tasks():
            seen.extend(it[0] for it in batch)
            for it in batch[::2]:
                worker.remove_task(it[0])

    threads = [threading.Thread(target=work, args=(it,)) for it in workers for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 200 and set(Counter(seen).values()) == {1}


def test_threads_share_one_worker(make: MakeSql, url: str) -> None:
    """Q8: adding, finishing, burying and reconciling at once; the pool bounds the connections."""
    worker = make(pool_size=3)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(15):
                task_id = worker.add_task([number, n])
                if n % 3 == 0:
                    worker._worker._unsure = True
                    worker.tick(time.time())
                elif n % 3 == 1:
                    worker.add_dead_task(task_id, n, None, "c", 1)
                    worker.remove_task(task_id)
                else:
                    worker.remove_task(task_id)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and worker.stats()["connections"] <= 3
    assert {owner for owner, _ in rows(url).values()} == {worker._worker.name}
    assert len(rows(url)) == 30 and len(worker.list_dead_tasks()) == 30


def claim_after_add(worker: Sql, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As soon as this worker's next task is in the table, a claim of its own finds what it gives
    back here, and `add_task` goes on only then."""
    found: list[str] = []
    transact = worker._pool.transact

    def then_claim(step: str, work: Any, write: bool = True) -> Any:
        result = transact(step, work, write)
        if step == "add_task":
            sweep(worker)  # which gives a worker that was taken for dead a name
            found.extend(it[0] for it in worker.pending_tasks())
        return result

    monkeypatch.setattr(worker._pool, "transact", then_claim)
    return found


def test_a_claim_that_is_quicker_than_the_add(
    make: MakeSql, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q4, Q8: a thread claims a due task before another thread's add has returned: it holds it."""
    worker = make()
    found = claim_after_add(worker, monkeypatch)
    task_id = worker.add_task("due", 1.0)
    assert found == [task_id]
    worker.remove_task(task_id)
    assert rows(url) == {} and worker.stats().get("claims_lost", 0) == 0


def test_an_immediate_task_is_given_out_once(
    make: MakeSql, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q4, Q8: the same when its worker was taken for dead: who adds it has it, nobody else."""
    slow, quick = make(), make()
    make_stale(url, slow)
    sweep(quick)
    found = claim_after_add(slow, monkeypatch)
    task_id = slow.add_task("at once")
    assert found == [] and rows(url) == {task_id: (slow._worker.name, 1)}
    slow.remove_task(task_id)
    assert rows(url) == {} and slow.stats().get("claims_lost", 0) == 0


def test_an_add_that_is_done_does_not_fail(
    make: MakeSql, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q4, F2: taken for dead and cut off just after the insert: the task is stored, and it says so;
    an error that says "nothing was changed" would make a caller store it twice."""
    slow, quick = make(), make()
    make_stale(url, slow)
    sweep(quick)

    def fails(db: object, me: str) -> bool:
        raise SqlError("heartbeat", "test", "down", "wait", True)

    with monkeypatch.context() as patch:
        patch.setattr(slow._db, "beat", fails)
        task_id = slow.add_task("at once")
    assert [it[0] for it in quick.pending_tasks()] == [task_id]
    with pytest.raises(ClaimLost):
        slow.remove_task(task_id)


@pytest.mark.parametrize("end", ["finish", "bury"])
def test_a_task_that_comes_free_meanwhile(
    end: str, postgres: SqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q6, Q7: the owner gives it back between two looks: it goes, and nobody is told that it is
    another's."""
    url = postgres.new_schema()
    apply(driver_of(url, str))
    with Sql(url) as owner, Sql(url) as other:
        task_id = owner.add_task("task")
        delete = other._db._delete

        def then_stops(*args: Any) -> Any:
            gone = delete(*args)
            owner.close()
            return gone

        monkeypatch.setattr(other._db, "_delete", then_stops)
        ENDS[end](other, task_id)
        assert rows(url) == {} and len(other.list_dead_tasks()) == (end == "bury")
