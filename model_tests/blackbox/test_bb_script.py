"""Scripts, and what the oracle allows after a crash in the middle of one (D17, W3, D29)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lychgate_conformance._claims import DISK
from lychgate_conformance._after_crash import View
from lychgate_conformance._wire import Json
from lychgate_conformance.blackbox._script import (
    Script,
    Story,
    Told,
    agreeing,
    call_of,
    parse_words,
    place_acks,
)

OK = {"ok": None}


def story(text: str, frequency: float = 0.0, **claims: object) -> Story:
    """A story in which every word was acknowledged, one micro-op each."""
    told = []
    for place, word in enumerate(Script.of(text).words):
        plain = word.kind in ("open", "exit")
        call = None if plain else call_of(word, place, 1)
        reply: Json = {"ok": word.keys[0]} if word.kind == "task" else OK
        if word.kind == "undead":
            reply = {"ok": len(word.keys)}
        told.append(Told(word, call, reply, place))
    return Story(told, replace(DISK, **claims), frequency)  # type: ignore[arg-type]  # by name


Ids = tuple[tuple[str, ...], tuple[str, ...]]
"""Dead and waiting ids."""


def ids(view: View) -> Ids:
    return tuple(it.task_id for it in view.dead), tuple(sorted(it[0] for it in view.pending))


def seen(found: Story, acked: int, host_crash: bool = True) -> set[Ids]:
    return {ids(it) for it in found.views(acked, host_crash)}


def test_words_and_their_text() -> None:
    text = "open 2/open task:a*9000 2/dead:b undead:a+b sync exit"
    assert str(Script(parse_words(text))) == text
    assert Script.of(text).workers == 2
    with pytest.raises(ValueError, match="unknown word 'add:a'"):
        parse_words("open add:a")


def test_the_word_in_flight_may_have_happened_or_not() -> None:
    """D17: before an add returns the record is there or not; afterwards it is there."""
    told = story("open dead:a dead:b")
    assert seen(told, 0) == {((), ())}
    assert seen(told, 1) == {((), ()), (("a",), ())}
    assert seen(told, 2) == {(("a",), ()), (("a", "b"), ())}
    assert seen(told, 3) == {(("a", "b"), ())}


def test_a_batched_task_is_durable_with_the_next_sync() -> None:
    """W3: what was acknowledged and not fsynced may be lost by the host, never by the process."""
    told = story("open task:a sync task:b", 3600.0)
    assert seen(told, 2) == {((), ()), ((), ("a",))}
    assert seen(told, 2, host_crash=False) == {((), ("a",))}
    assert seen(told, 3) == {((), ("a",)), ((), ("a", "b"))}
    assert seen(told, 4) == {((), ("a",)), ((), ("a", "b"))}
    assert seen(told, 4, host_crash=False) == {((), ("a", "b"))}


def test_the_sync_of_another_worker_promises_nothing() -> None:
    told = story("open 2/open task:a 2/sync", 3600.0)
    assert ((), ()) in seen(told, 4)


def test_policies_of_fsync() -> None:
    always = story("open task:a", 3600.0, fsync_policy="always")
    assert seen(always, 2) == {((), ("a",))}
    never = story("open task:a sync", 0.0, fsync_policy="never")
    assert seen(never, 3) == {((), ()), ((), ("a",))}


def test_a_handoff_never_loses_the_task() -> None:
    """U3: at every moment the task is waiting or dead."""
    told = story("open task:a dead:a done:a")
    for acked in range(2, 5):
        assert all("a" in (*dead, *tasks) for dead, tasks in seen(told, acked))


def test_what_a_recovery_showed_as_absent_stays_absent() -> None:
    """D29."""
    told = story("open dead:a dead:b")
    states = told.states(2, True)
    shown = next(it for it in told.views(2, True) if len(it.dead) == 1)
    (absent,) = agreeing(states, shown)
    assert [it.task_id for it in absent.dead] == ["a"]


def test_acknowledgements_are_the_last_lines_of_each_adapter() -> None:
    told = story("open 2/open dead:a 2/dead:b exit").told
    lines = [(0, 0), (1, 0), (0, 3), (1, 4), (0, 9), (1, 12)]
    assert [it.at for it in place_acks(lines, told, [1, 2])][:4] == [3, 4, 9, 12]


def test_acknowledged_words_by_log_length() -> None:
    told = story("open dead:a dead:b")
    assert [told.acked(upto) for upto in range(5)] == [0, 1, 2, 3, 3]
