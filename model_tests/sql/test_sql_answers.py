"""Answers that never come, and burials that fail: nothing is lost, a second try is safe (Q5-Q7).

Each connection breaks at a commit, before it reached the database or after (`lose_next_answer`).
"""

from __future__ import annotations

import time

import pytest
from sql.conftest import MakeSql
from sql.database import ENDS, do, lose_next_answer, make_stale, rows, sweep

from lychgate import ClaimLost, SqlError


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("end", ENDS)
def test_an_end_without_an_answer(make: MakeSql, url: str, end: str, after: bool) -> None:
    """Q6, U3: the connection breaks at the commit: indefinite, and a second try is safe."""
    worker = make()
    task_id = worker.add_task("task")
    lose_next_answer(worker, after)
    with pytest.raises(SqlError) as failed:
        ENDS[end](worker, task_id)
    assert not failed.value.definite
    if end == "retry" and after:
        with pytest.raises(ClaimLost):  # it is given back, to whoever is quicker
            ENDS[end](worker, task_id)
    else:
        ENDS[end](worker, task_id)
    assert len(worker.list_dead_tasks()) == (end == "bury")
    assert set(rows(url)) == ({task_id} if end == "retry" else set())


@pytest.mark.parametrize("after", [False, True])
def test_an_enqueue_without_an_answer(make: MakeSql, url: str, after: bool) -> None:
    """Q5: the row may be there and this worker's, who does not know: it is given back."""
    worker = make()
    worker.sync()
    lose_next_answer(worker, after)
    with pytest.raises(SqlError) as failed:
        worker.add_task("task")
    assert not failed.value.definite
    other = make()
    assert other.pending_tasks() == []
    worker.tick(1.0)
    assert len(other.pending_tasks()) == after
    assert worker.stats().get("reconciled", 0) == after


@pytest.mark.parametrize("after", [False, True])
def test_a_claim_without_an_answer(make: MakeSql, url: str, after: bool) -> None:
    """Q5: the rows may be this worker's, who does not know: given back, and claimed again."""
    worker = make()
    for n in range(5):
        worker.add_task(n, 1.0)
    held = worker.add_task("held")
    lose_next_answer(worker, after)
    with pytest.raises(SqlError):
        worker.pending_tasks()
    assert len(worker.pending_tasks()) == 5
    assert rows(url)[held] == (worker._worker.name, 1), "what it knows it keeps"


def test_an_old_token_is_no_knowledge(make: MakeSql, url: str) -> None:
    """Q5, Q6: taken for dead, registered anew, and the answer to its claim of the same task lost:
    the token of the earlier claim does not keep the task from going back (found by the walk)."""
    worker, other = make(), make()
    task_id = worker.add_task("task")
    make_stale(url, worker)
    sweep(other)
    sweep(worker)
    lose_next_answer(worker, True)
    with pytest.raises(SqlError):
        worker.pending_tasks()
    worker.tick(1.0)
    assert rows(url) == {task_id: (None, 2)}


def test_a_burial_that_fails_goes_back(
    make: MakeSql, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U3, Q7: the queue lets go of it, the worker lives on: the task goes back, and runs again."""
    worker, other = make(), make()
    task_id = worker.add_task("task")

    def fails(*_: object) -> bool:
        raise SqlError("bury", "test", "down", "wait", True)

    with monkeypatch.context() as patch:
        patch.setattr(worker._db, "bury", fails)
        with pytest.raises(SqlError):
            worker.add_dead_task(task_id, "task", None, "c", 1)
    assert other.pending_tasks() == []
    worker.tick(time.time())
    assert [it[0] for it in other.pending_tasks()] == [task_id]
    with pytest.raises(ClaimLost):
        worker.add_dead_task(task_id, "task", None, "c", 1)


def test_an_unreadable_row_that_cannot_be_buried(
    make: MakeSql, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q7: it goes back and is claimed again; its neighbours are not held up."""
    worker = make()
    worker.add_task("good", 2.0, "good")
    worker.add_task("bad", 1.0, "bad")
    do(url, "UPDATE lychgate_tasks SET serialized_task = :d WHERE id = 'bad'", d=b"\xff")

    def fails(*_: object) -> bool:
        raise SqlError("bury", "test", "down", "wait", True)

    with monkeypatch.context() as patch:
        patch.setattr(worker._db, "bury", fails)
        assert [it[0] for it in worker.pending_tasks()] == ["good"]
    assert worker.pending_tasks() == [] and len(worker.list_dead_tasks()) == 1
