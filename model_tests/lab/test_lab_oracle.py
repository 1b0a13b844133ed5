"""The oracle: acknowledged holds, in flight may, nothing else (D16, D17, D29, D34, W3, U3)."""

from __future__ import annotations

from collections.abc import Sequence

from lychgate_conformance.lab._dead_history import (
    count_contradiction,
    find_contradiction,
    found,
    image_contradiction,
    list_contradiction,
    listed,
)
from lychgate_conformance.lab._oracle import ACKED, MAYBE, NO, OPEN_END, Change, Oracle, Record

A, B = ("a", 11), ("b", 12)
P, Q = ("p", 1), ("q", 2)


def oracle(frequency: float = 0.0) -> Oracle:
    return Oracle((P, Q), (("u", 3),), frequency)


def add(model: Oracle, record: Record, status: str = ACKED) -> None:
    model.finish(model.start_add(record), status)


def shown(model: Oracle, *records: Record, binding: bool = True) -> str:
    """What is said of an image that shows these records now."""
    return image_contradiction(model, records, binding).partition(":")[0]


def reads(model: Oracle, records: Sequence[Record], change: Change | None = None) -> str:
    """A list of the whole store returns these, and is remembered."""
    change = change or model.start_read()
    model.finish(change, ACKED)
    read = listed(change, records)
    text = list_contradiction(model, read, records, True)
    model.reads.append(read)
    return text.partition(":")[0]


def finds(model: Oracle, key: str, record: Record | None) -> str:
    """A find of this id returns this, and is remembered."""
    change = model.start_read()
    model.finish(change, ACKED)
    read = found(change, key, record)
    text = find_contradiction(model, read, record, True)
    model.reads.append(read)
    return text.partition(":")[0]


def removes(model: Oracle, key: str, count: int) -> str:
    """A removal of one id returns this count."""
    change = model.start_remove(key, False)
    model.finish(change, ACKED)
    change.count = count
    return count_contradiction(model, change, key, True).partition(":")[0]


def test_what_was_acknowledged_must_be_shown() -> None:
    """D17."""
    model = oracle()
    assert shown(model, P, Q) == ""
    assert shown(model, P) == "acknowledged-add-lost"
    add(model, A)
    assert shown(model, P, Q) == "acknowledged-add-lost"
    assert shown(model, P, Q, A) == ""
    assert shown(model, P, Q, A, A) == "duplicate-record"
    assert shown(model, P, Q, A, B) == "alien-record"


def test_file_order_is_the_order_of_acknowledgements() -> None:
    """D16: only where one ended before the other began."""
    model = oracle()
    assert shown(model, Q, P) == "order-changed"
    first, second = model.start_add(A), model.start_add(B)
    model.finish(second, ACKED)
    model.finish(first, ACKED)
    assert shown(model, P, Q, A, B) == shown(model, P, Q, B, A) == ""


def test_what_is_in_flight_may_be_shown_or_not() -> None:
    """D17: before and after a crash."""
    model = oracle()
    model.start_add(A)
    model.start_remove("p", False)
    for crashed in (False, True):
        if crashed:
            model.crash()
        for some in ((P, Q), (P, Q, A), (Q, A), (Q,)):
            assert shown(model, *some) == ""


def test_a_removed_record_never_comes_back() -> None:
    """D17; unless its add came later."""
    model = oracle()
    assert removes(model, "p", 1) == ""
    assert shown(model, P, Q) == "removed-came-back"
    again = ("p", 99)
    add(model, again)
    assert shown(model, Q, again) == "" and shown(model, Q) == "acknowledged-add-lost"


def test_a_removal_beside_an_add_may_miss_it() -> None:
    """D17: concurrent operations on one id."""
    for count, views in ((0, {(P, Q, A)}), (1, {(P, Q)})):
        model = oracle()
        remove = model.start_remove("a", False)
        add(model, A)
        model.finish(remove, ACKED)
        remove.count = count
        assert {view for view in ((P, Q, A), (P, Q)) if not shown(model, *view)} == views


def test_a_definite_failure_must_not_be_seen() -> None:
    """An error that says that nothing happened is held to it."""
    model = oracle()
    add(model, A, NO)
    assert shown(model, P, Q, A) == "definite-failure-visible"
    removal = model.start_remove("p", False)
    model.finish(removal, NO)
    assert shown(model, Q) == "acknowledged-add-lost"


def test_absent_after_a_failed_add_stays_absent() -> None:
    """D29, D34: what a read showed may vanish with the host, what it did not show may not come."""
    model = oracle()
    add(model, A, MAYBE)
    assert reads(model, (P, Q, A)) == ""
    assert shown(model, P, Q, binding=False) == shown(model, P, Q, A) == ""
    assert shown(model, P, Q) == "acknowledged-add-lost"  # by the end of a process alone
    model.rebooted()
    assert reads(model, (P, Q)) == ""
    for binding in (True, False):
        assert shown(model, P, Q, A, binding=binding) == "absent-came-back"
        assert shown(model.clone(), P, Q, A, binding=binding) == "absent-came-back"


def test_a_read_before_the_failure_says_nothing() -> None:
    """D29: the read must begin after the add has failed."""
    model = oracle()
    change = model.start_add(A)
    early = model.start_read()
    model.finish(change, MAYBE)
    assert reads(model, (P, Q), early) == ""
    assert shown(model, P, Q, A, binding=False) == ""


def test_find_gives_the_newest_record_of_its_id() -> None:
    """D26."""
    newer = ("p", 21)
    for key, record, text in (
        ("p", newer, ""),
        ("p", P, "older-record-found"),
        ("p", None, "acknowledged-add-lost"),
        ("q", newer, "wrong-record-found"),
    ):
        model = oracle()
        add(model, newer)
        assert finds(model, key, record) == text
    model = oracle()
    add(model, A, MAYBE)
    assert finds(model, "a", None) == ""
    assert finds(model, "a", A) == "absent-came-back"


def test_two_reads_agree_on_the_order_of_two_adds_at_once() -> None:
    """D16: no rule for one read alone can see this."""
    model = oracle()
    first, second = model.start_add(A), model.start_add(B)
    assert reads(model, (P, Q, B)) == ""
    model.finish(first, ACKED)
    model.finish(second, ACKED)
    assert shown(model, P, Q, A, B) == "order-changed"
    assert shown(model, P, Q, B, A) == shown(model, P, Q, A, B, binding=False) == ""


def test_the_count_of_a_remove() -> None:
    """D12."""
    for key, count, text in (
        ("p", 1, ""),
        ("p", 0, "wrong-count"),
        ("p", 2, "wrong-count"),
        ("x", 0, ""),
        ("x", 1, "wrong-count"),
    ):
        assert removes(oracle(), key, count) == text


def task(model: Oracle, serial: int, status: str = ACKED) -> Change:
    change = model.start_task("t", serial)
    model.finish(change, status)
    return change


def test_a_task_is_durable_at_its_ack_or_at_the_next_sync() -> None:
    """W3, W9."""
    for frequency, lost in ((0.0, "acknowledged-task-lost"), (0.5, "")):
        model = oracle(frequency)
        task(model, 11)
        rest = [("u", 3)]
        assert model.check_tasks(rest, True).partition(":")[0] == lost
        assert model.check_tasks(rest, False).startswith("acknowledged-task-lost")
        sync = model.start_read()
        model.finish(sync, ACKED)
        model.synced(sync, worker=7)
        assert model.check_tasks(rest, True).partition(":")[0] == lost
        model.synced(sync)
        assert model.check_tasks(rest, True).startswith("acknowledged-task-lost")


def test_a_call_past_due_makes_the_batch_durable() -> None:
    """W3: what a crash of the host may lose is bounded by the frequency."""
    for clock, lost in ((10.4, ""), (10.5, "acknowledged-task-lost")):
        model = oracle(0.5)
        model.written(task(model, 11), 10.0)
        later = model.start_task("w", 12)
        model.finish(later, ACKED)
        model.written(later, clock)
        assert model.check_tasks([("u", 3)], True).partition(":")[0] == lost
        assert model.check_tasks([("u", 3), ("t", 11)], True) == "", "the later one may be lost"


def test_a_replaced_task_shows_its_last_version() -> None:
    """U2, W12: the last one that is sure, or any that came later."""
    model = oracle()
    task(model, 11)
    task(model, 12)
    assert model.check_tasks([("u", 3), ("t", 12)], True) == ""
    assert model.check_tasks([("u", 3), ("t", 11)], True).startswith("task-came-back")
    task(model, 13, MAYBE)
    assert model.check_tasks([("u", 3), ("t", 13)], True) == ""
    assert model.check_tasks([("u", 3), ("t", 12)], True) == ""
    assert model.check_tasks([("u", 3), ("t", 99)], True).startswith("alien-task")
    assert model.check_tasks([("u", 3), ("t", 12), ("t", 13)], True).startswith("duplicate-task")


def test_a_removed_task_stays_removed_once_that_is_durable() -> None:
    """W3, W5."""
    for frequency, text in ((0.0, "task-came-back"), (0.5, "")):
        model = oracle(frequency)
        model.finish(model.start_done("u"), ACKED)
        assert model.check_tasks([("u", 3)], True).partition(":")[0] == text
        assert model.check_tasks([("u", 3)], False).startswith("task-came-back")


def test_a_worker_is_held_to_its_own_tasks_only() -> None:
    """W7: `pending_tasks` shows the files that this process owns."""
    model = oracle()
    task(model, 11)
    assert model.check_tasks([("t", 11)], False, frozenset(("t",)), OPEN_END) == ""
    assert model.check_tasks([], False, frozenset(("t",)), OPEN_END)


def test_a_task_on_its_way_is_in_one_of_the_stores() -> None:
    """U3, U4: whatever the order of the calls was."""
    model = oracle()
    model.finish(model.start_done("u", handoff=True), ACKED)
    assert model.check_custody((P, Q), (), True).startswith("custody-lost: u")
    assert model.check_custody((P, Q, ("u", 5)), (), True) == ""
    model.moved["p"] = "p-again"
    model.finish(model.start_remove("p", True), ACKED)
    assert model.check_custody((Q,), (("u", 3),), True).startswith("custody-lost: p")
    assert model.check_custody((Q,), (("u", 3), ("p-again", 9)), True) == ""


def test_a_clone_goes_its_own_way() -> None:
    """Two directions from one state do not disturb each other."""
    model = oracle()
    other = model.clone()
    assert other.signature() == model.signature()
    add(other, A)
    assert shown(model, P, Q) == "" and other.signature() != model.signature()
