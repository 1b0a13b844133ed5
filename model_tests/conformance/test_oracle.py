"""The oracle: which histories are allowed, what a crash leaves (D16, D17, D26, D29, D34, W12)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lychgate_conformance import _oracle as oracle
from lychgate_conformance._after_crash import after_host_crash, views
from lychgate_conformance._oracle import (
    AddDead,
    AddTask,
    Begin,
    Did,
    End,
    Fate,
    FindDead,
    ListDead,
    ListPending,
    Record,
    RemoveDead,
    RemoveTask,
    Rules,
    State,
    Violation,
)

RULES = Rules()
A, B, C = (Record(name, name) for name in "abc")
A2 = Record("a", "newer")


def did(
    begun: int,
    ended: int,
    operation: oracle.Operation,
    result: object = None,
    worker: int = 0,
    fate: Fate = Fate.RETURNED,
) -> Did:
    return Did(worker, operation, begun, ended, fate, result)


def allowed(history: Iterable[Did], rules: Rules = RULES) -> bool:
    return not isinstance(oracle.outcomes(history, rules), Violation)


def test_what_was_added_is_listed_in_order() -> None:
    """D16."""
    adds = [did(0, 1, AddDead(A)), did(2, 3, AddDead(B))]
    assert allowed([*adds, did(4, 5, ListDead(), (A, B))])
    assert not allowed([*adds, did(4, 5, ListDead(), (B, A))])
    assert not allowed([*adds, did(4, 5, ListDead(), (A,))])
    assert allowed([*adds, did(4, 5, ListDead(), (B, A))], Rules(list_order="any"))


@pytest.mark.parametrize(
    ("limit", "offset", "page"), [(1, 1, (B,)), (0, 0, ()), (None, 2, (C,)), (5, 9, ())]
)
def test_pages(limit: int | None, offset: int, page: tuple[Record, ...]) -> None:
    """D16."""
    adds = [did(i, i, AddDead(record)) for i, record in enumerate((A, B, C))]
    assert allowed([*adds, did(9, 9, ListDead(limit, offset), page)])
    assert not allowed([*adds, did(9, 9, ListDead(limit, offset), (A, B, C))])


def test_overlapping_adds_may_stand_in_either_order_but_not_in_both() -> None:
    """D31."""
    adds = [did(0, 9, AddDead(A)), did(1, 8, AddDead(B), worker=1)]
    assert allowed([*adds, did(10, 11, ListDead(), (A, B))])
    assert allowed([*adds, did(10, 11, ListDead(), (B, A))])
    both = [did(10, 11, ListDead(), (A, B)), did(12, 13, ListDead(), (B, A))]
    assert not allowed([*adds, *both])


def test_find_gives_the_newest_and_removal_takes_all() -> None:
    """D26."""
    adds = [did(0, 0, AddDead(A)), did(1, 1, AddDead(A2))]
    assert allowed([*adds, did(2, 2, FindDead("a"), A2)])
    assert not allowed([*adds, did(2, 2, FindDead("a"), A)])
    removal = did(3, 3, RemoveDead(frozenset({"a", "x"})), 1)
    assert allowed([*adds, removal, did(4, 4, ListDead(), ())])
    assert not allowed([*adds, replace(removal, result=2)])
    assert not allowed([*adds, removal, did(4, 4, ListDead(), (A2,))])


def test_a_call_in_flight_may_have_happened_or_not() -> None:
    """D17."""
    flight = did(2, 5, AddDead(B), fate=Fate.MAYBE)
    history = [did(0, 1, AddDead(A)), flight]
    assert allowed([*history, did(6, 7, ListDead(), (A,))])
    assert allowed([*history, did(6, 7, ListDead(), (A, B))])
    assert not allowed([*history, did(6, 7, ListDead(), (B,))])


def test_what_was_read_as_absent_after_its_failure_does_not_appear_later() -> None:
    """D29."""
    failed = did(0, 1, AddDead(A), fate=Fate.MAYBE)
    seen, unseen = did(2, 3, ListDead(), (A,)), did(2, 3, ListDead(), ())
    assert allowed([failed, unseen, replace(unseen, begun=4, ended=5)])
    assert not allowed([failed, unseen, replace(seen, begun=4, ended=5)])
    assert allowed([failed, seen, replace(seen, begun=4, ended=5)])


def test_a_call_that_certainly_failed_left_nothing() -> None:
    """D17, D19."""
    failed = did(0, 1, AddDead(A), fate=Fate.FAILED)
    assert allowed([failed, did(2, 3, ListDead(), ())])
    assert not allowed([failed, did(2, 3, ListDead(), (A,))])


def test_the_first_call_that_cannot_be_explained_is_named() -> None:
    found = oracle.outcomes([did(0, 1, AddDead(A)), did(2, 3, ListDead(), ())], RULES)
    assert isinstance(found, Violation)
    assert found.did.operation == ListDead()
    assert "dead=['a']" in str(found)


def test_a_history_of_which_too_little_is_known_is_given_up() -> None:
    """The search is bounded; it never takes the machine with it."""
    adds = [did(i, i, AddDead(Record(str(i), "x")), fate=Fate.MAYBE) for i in range(30)]
    with pytest.raises(oracle.TooMany):
        oracle.outcomes(adds, RULES)


# --- waiting tasks ----------------------------------------------------------------------------


def test_tasks_belong_to_whoever_added_them_until_he_is_gone() -> None:
    """W2, W7."""
    history = [did(0, 0, Begin()), did(0, 0, Begin(), worker=1), did(1, 1, AddTask("t", "x"))]
    mine, none = (("t", "x", None),), ()
    assert allowed(
        [*history, did(2, 2, ListPending(), mine), did(3, 3, ListPending(), none, worker=1)]
    )
    assert not allowed([*history, did(3, 3, ListPending(), mine, worker=1)])
    gone = [*history, did(2, 2, End()), did(3, 3, Begin(), worker=2)]
    assert allowed([*gone, did(4, 4, ListPending(), mine, worker=2)])
    assert not allowed([*gone, did(4, 4, ListPending(), none, worker=2)])
    assert allowed([*history, did(3, 3, ListPending(), mine, worker=1)], Rules(pending_scope="all"))


def test_a_removal_does_not_reach_the_same_id_of_another() -> None:
    """W12."""
    history = [
        did(0, 0, Begin()),
        did(0, 0, Begin(), worker=1),
        did(1, 1, AddTask("t", "x")),
        did(2, 2, AddTask("t", "y"), worker=1),
        did(3, 3, RemoveTask("t"), worker=1),
        did(4, 4, End()),
        did(4, 4, End(), worker=1),
        did(5, 5, Begin(), worker=2),
    ]
    assert allowed([*history, did(6, 6, ListPending(), (("t", "x", None),), worker=2)])
    assert not allowed([*history, did(6, 6, ListPending(), (), worker=2)])


def test_one_id_in_two_files_comes_back_once_as_either() -> None:
    """W12."""
    states = [State(tasks=frozenset({oracle.Task(n, "t", f"v{n}", None) for n in range(2)}))]
    assert {it.pending for it in views(states, RULES)} == {
        frozenset({("t", "v0", None)}),
        frozenset({("t", "v1", None)}),
    }


def test_workers_that_open_at_once_each_take_a_part() -> None:
    """W2, W11."""
    start = State(tasks=frozenset({oracle.Task(n, f"t{n}", "x", None) for n in range(2)}))
    opens = [did(0, 5, Begin(alone=False), worker=8), did(0, 5, Begin(alone=False), worker=9)]
    first, second = (("t0", "x", None),), (("t1", "x", None),)

    def seen(a: tuple[object, ...], b: tuple[object, ...]) -> bool:
        reads = [did(6, 6, ListPending(), a, worker=8), did(7, 7, ListPending(), b, worker=9)]
        return not isinstance(oracle.outcomes([*opens, *reads], RULES, [start]), Violation)

    assert seen(first, second) and seen(second, first) and seen((*first, *second), ())
    assert not seen(first, first)


def test_a_batch_of_due_tasks_may_be_any_part() -> None:
    """Q11."""
    rules = Rules(pending_scope="due_unclaimed")
    history = [did(0, 0, AddTask("t", "x")), did(1, 1, AddTask("u", "x"))]
    assert allowed([*history, did(2, 2, ListPending(), (("u", "x", None),))], rules)
    assert not allowed([*history, did(2, 2, ListPending(), (("v", "x", None),))], rules)


# --- crashes ----------------------------------------------------------------------------------


def test_a_host_crash_may_lose_what_was_not_durable_yet_and_nothing_else() -> None:
    """W3, D17."""
    history = [did(0, 1, AddDead(A)), did(2, 3, AddTask("t", "x")), did(4, 5, AddTask("u", "x"))]
    states = after_host_crash(history, RULES, durable=lambda it: it.ended <= 3)
    seen = views(states, RULES)
    assert {it.dead for it in seen} == {(A,)}
    t, u = ("t", "x", None), ("u", "x", None)
    assert {it.pending for it in seen} == {frozenset({t}), frozenset({t, u})}


def test_after_a_host_crash_a_read_binds_nothing_that_was_not_acknowledged() -> None:
    """D34."""
    flight = did(0, 9, AddDead(A), fate=Fate.MAYBE)
    history = [flight, did(1, 2, ListDead(), (A,), worker=1)]
    states = after_host_crash(history, RULES, durable=lambda it: True)
    assert {it.dead for it in states} == {(), (A,)}


def test_what_was_seen_absent_stays_absent_after_a_host_crash() -> None:
    """D29: an add that failed, and that a later read of the whole store did not show."""
    failed = did(0, 1, AddDead(A), fate=Fate.MAYBE)
    for read, left in (
        (did(2, 3, ListDead(), ()), {()}),
        (did(2, 3, FindDead("a"), None), {()}),
        (did(2, 3, ListDead(), (A,)), {(), (A,)}),
        (did(2, 3, ListDead(limit=0), ()), {(), (A,)}),
        (did(2, 3, FindDead("b"), None), {(), (A,)}),
        (did(1, 3, ListDead(), ()), {(), (A,)}),  # it began before the add had ended
    ):
        states = after_host_crash([failed, read], RULES, durable=lambda it: True)
        assert {it.dead for it in states} == left, read


# --- the search itself ------------------------------------------------------------------------

OPERATIONS: st.SearchStrategy[oracle.Operation] = st.sampled_from(
    [AddDead(A), AddDead(B), RemoveDead(frozenset("a")), ListDead(), FindDead("a")]
)


@st.composite
def histories(draw: st.DrawFn) -> list[Did]:
    """Up to five calls with any overlaps, fates and results."""
    found = []
    for worker in range(draw(st.integers(1, 5))):
        begun = draw(st.integers(0, 8))
        operation = draw(OPERATIONS)
        fate = draw(st.sampled_from([Fate.RETURNED, Fate.RETURNED, Fate.MAYBE, Fate.FAILED]))
        result: object = None
        if isinstance(operation, RemoveDead):
            result = draw(st.integers(0, 1))
        elif isinstance(operation, FindDead):
            result = draw(st.sampled_from([None, A]))
        elif isinstance(operation, ListDead):
            result = draw(st.sampled_from([(), (A,), (B,), (A, B), (B, A), (A, A)]))
        found.append(did(begun, begun + draw(st.integers(0, 6)), operation, result, worker, fate))
    return found


def brute_force(history: list[Did]) -> set[State]:
    """Every subset of the unsure calls, every order that respects time."""
    sure = [it for it in history if it.fate is Fate.RETURNED]
    unsure = [it for it in history if it.fate is Fate.MAYBE]
    ends: set[State] = set()
    for size in range(len(unsure) + 1):
        for chosen in itertools.combinations(unsure, size):
            for order in itertools.permutations([*sure, *chosen]):
                pairs = itertools.combinations(order, 2)
                if all(first.begun <= second.ended for first, second in pairs):
                    states = {State()}
                    for it in order:
                        states = {
                            after for state in states for after in oracle.steps(state, it, RULES)
                        }
                    ends |= states
    return ends


@settings(max_examples=150, deadline=None)
@given(histories())
def test_the_search_finds_what_trying_everything_finds(history: list[Did]) -> None:
    """The oracle's search against its definition."""
    found = oracle.outcomes(history, RULES)
    assert (set() if isinstance(found, Violation) else set(found)) == brute_force(history)
