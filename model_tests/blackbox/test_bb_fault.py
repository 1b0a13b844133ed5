"""Calls that are made to fail: the table, the plan, what counts as happened, and what is judged.

Small plans: the cases of level 4 do the same with larger ones.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lychgate_conformance._claims import Claims
from lychgate_conformance._host import Hosts
from lychgate_conformance._runner import Patience
from lychgate_conformance._stage import Clock
from lychgate_conformance._target import load_target
from lychgate_conformance.blackbox._attached import family
from lychgate_conformance.blackbox._errnos import FAILING, STAYING, errnos_of
from lychgate_conformance.blackbox._explore import Explorer
from lychgate_conformance.blackbox._fault_verdict import Broken, judge
from lychgate_conformance.blackbox._faulted import Faulter
from lychgate_conformance.blackbox._faults import Fault, Limit, Site, failing, ordered, short_writes
from lychgate_conformance.blackbox._images import Bounds
from lychgate_conformance.blackbox._script import Script, Story, Told, parse_words
from lychgate_conformance.blackbox._strace import Call, strace_path

needs_strace = pytest.mark.skipif(
    strace_path() is None, reason="needs strace: install the package of that name"
)

SMALL = Bounds(images_max=60, family_max=16, torn_max=6, complete_max=200, further_max=1)
DURABLE = "lychgate_conformance.mutants._durable:Durable"
FAULTS = "lychgate_conformance.mutants.faults"
Faulters = Callable[..., Faulter]


@pytest.fixture
def faulters(tmp_path: Path) -> Iterator[Faulters]:
    """Makes faulters that leave nothing behind."""
    made: list[tuple[Faulter, Hosts]] = []

    def make(spec: str, records: bool = False, other: bool = False) -> Faulter:
        target = load_target(spec)
        pool = target.new_pool()
        assert pool is not None
        explorer = Explorer(target, tmp_path, SMALL)
        made.append((Faulter(explorer, pool, records=records, other=other), pool))
        return made[-1][0]

    yield make
    for faulter, pool in made:
        faulter.end()
        faulter.explorer.end()
        pool.end()


def fault_of(faulter: Faulter, script: Script, call: str, role: str, errno: str) -> Fault:
    """The first fault of a script with these words."""
    found, _ = faulter.study(script)
    wanted = (it for it in failing(found) if it.kind[1:] == (call, role, errno))
    return next(wanted)


def broken(faulter: Faulter, script: Script, fault: Fault) -> Broken | None:
    found = faulter.run(script, fault)
    assert found is not None, faulter.missed
    return judge(faulter.explorer, faulter.ground, found)


# --- the table and the plan ---------------------------------------------------------------------


def call(name: str, *args: str) -> Call:
    return Call(1, name, args, 0, "", 0, 0, 1)


def names(it: Call) -> list[str]:
    return [errno.name for errno in errnos_of(it)]


def test_errors_depend_on_the_arguments() -> None:
    """F2: what cannot fail that way is not made to."""
    assert "ENOSPC" in names(call("openat", "AT_FDCWD", '"a"', "O_RDWR|O_CREAT", "0600"))
    assert "ENOSPC" not in names(call("openat", "AT_FDCWD", '"a"', "O_RDONLY"))
    assert names(call("flock", "3", "LOCK_UN")) == []
    assert names(call("flock", "3", "LOCK_EX|LOCK_NB"))[0] == "EAGAIN"
    assert "EAGAIN" not in names(call("flock", "3", "LOCK_EX"))
    assert names(call("fcntl", "3", "F_GETFD")) == []
    assert "ENOLCK" in names(call("fcntl", "3", "F_SETLK", "{l_type=F_WRLCK}"))
    assert names(call("close", "3")) == [], "strace would leave it open"


def test_what_stays_is_in_the_table() -> None:
    assert set(FAILING) >= STAYING and "write" not in STAYING, "answers are written, too"


def test_the_first_of_every_kind_comes_first() -> None:
    """Whatever is left out, nothing of a kind that was not tried at all."""
    found = [
        Site(call("fsync", "3"), when, when - 1, "dead", "dead" if when < 4 else "undead")
        for when in range(1, 6)
    ]
    plan = ordered(failing(found), 7)
    first = [it for it in plan[:2] if it.kind[-1] == "EIO"]
    assert {it.kind[0] for it in first} == {"dead", "undead"}
    assert plan == ordered(failing(found), 7) and len(plan) == 5 * 4


def test_a_budget_is_shared_out_among_the_cases_that_are_left() -> None:
    """What a case does not use the next ones may; without a budget nothing more is tried."""
    assert Patience(None).share_s(3) is None and not Clock(60.0).has_share()
    share_s = Patience(3600.0).share_s(3)
    assert share_s is not None and 0 < share_s <= 1200
    clock = Clock(0.0, share_s=share_s)
    assert clock.has_share() and clock.left() > 0, "and the case's own time grows with it"


# --- words that raise ---------------------------------------------------------------------------


def told(text: str, answers: list[object]) -> list[Told]:
    found = []
    for place, word in enumerate(parse_words(text)):
        asked, _ = Script(()).request(word, place, Path("/nowhere"))
        found.append(Told(word, asked, answers[place]))
    return found


OK: object = {"ok": None}


def raised(definite: bool | None) -> object:
    return {"error": {"type": "E", "bases": [], "text": "", "definite": definite, "errno": 5,
                      "trace": ""}}  # fmt: skip


@pytest.mark.parametrize(("definite", "counts"), [(True, {0}), (False, {0, 1}), (None, {0, 1})])
def test_an_error_is_held_to_what_it_says(definite: bool | None, counts: set[int]) -> None:
    """F2, D17: nothing happened, or it may have happened."""
    story = Story(told("open dead:a", [OK, raised(definite)]), Claims(), 0.0)
    assert {len(it.dead) for it in story.views(2, True)} == counts


def test_an_open_that_could_not_read_takes_over_a_part() -> None:
    """W14: one unreadable file never stops the others, and the next open finds it."""
    words = told("open task:a close open pending", [OK, {"ok": "a"}, OK, OK, {"ok": []}])
    assert Story(words, Claims(), 0.0).contradiction() is not None
    words[3] = Told(words[3].word, None, OK, alone=False)
    story = Story(words, Claims(), 0.0)
    assert story.contradiction() is None
    assert {len(it.pending) for it in story.views(5, False)} == {1}


# --- runs ---------------------------------------------------------------------------------------


@needs_strace
def test_a_failed_write_raises_and_the_store_goes_on(faulters: Faulters) -> None:
    """F2, D10: and what is told of it is that nothing happened."""
    faulter, script = faulters("disk"), Script.of("open dead:a dead:b")
    fault = fault_of(faulter, script, "write", "deferred-dead_tasks-*", "ENOSPC")
    found = faulter.run(script, fault)
    assert found is not None and found.struck == 1
    errors = [it.error for it in found.told if it.error is not None]
    assert [it["definite"] for it in errors] == [True] and errors[0]["errno"] == 28
    assert {it.word.kind for it in found.told[found.over :]} >= {"list", "dead", "task"}
    assert judge(faulter.explorer, faulter.ground, found) is None


@needs_strace
def test_a_fault_that_does_not_happen_does_not_count(faulters: Faulters) -> None:
    faulter, script = faulters(DURABLE), Script.of("open dead:a")
    faulter.study(script)
    fault = Fault("none", ("",), 0, inject=("rename:error=EIO:when=99",), errors=("EIO",))
    assert faulter.run(script, fault) is None
    assert faulter.missed == ["none"] and faulter.happened == 0


@needs_strace
def test_a_short_write_is_a_real_one(faulters: Faulters) -> None:
    """The file ends where it was cut, and no limit is left afterwards."""
    faulter, script = faulters(DURABLE), Script.of("open dead:a")
    found, recording = faulter.study(script)
    fault = next(it for it in short_writes(found, recording) if "-dead" in it.kind[2])
    result = faulter.run(script, fault)
    assert result is not None and result.told[1].error is not None
    assert judge(faulter.explorer, faulter.ground, result) is None
    assert faulter._host is not None
    soft, hard = resource.prlimit(faulter._host.pid, resource.RLIMIT_FSIZE)
    assert soft == hard


@needs_strace
def test_a_short_write_whose_rest_is_written(faulters: Faulters) -> None:
    """W8: as a signal leaves it; the process stands still until the limit is gone."""
    faulter = faulters(f"{FAULTS}:ShortWriteBegunAnew")
    script = Script.of("open dead:a")
    found, recording = faulter.study(script)
    plan = short_writes(found, recording, resumes=True)
    problem = broken(faulter, script, next(it for it in plan if "-dead" in it.kind[2]))
    assert problem is not None and "dead:a   ok   <- the fault" in str(problem)


@needs_strace
def test_what_a_failed_fsync_loses_is_lost_though_the_next_one_works(faulters: Faulters) -> None:
    """W9, F2: the cache shows it, the disk does not have it; the failure shows both."""
    faulter = faulters(f"{FAULTS}:FsyncTriedAgain", records=True)
    script = Script.of("open dead:a dead:b")
    problem = broken(faulter, script, fault_of(faulter, script, "fsync", "deferred-dead", "EIO"))
    assert problem is not None
    text = str(problem)
    assert "fails with EIO" in text.splitlines()[0] and "host crash: dead 'a' lost" in text
    assert "fsync(/store/deferred-dead) = EIO" in text and "image " in text


@needs_strace
def test_a_lock_that_is_left_taken_is_seen_by_another_process(faulters: Faulters) -> None:
    """D10, F2."""
    faulter = faulters(f"{FAULTS}:LockKeptAfterAnError", other=True)
    script = Script.of("open dead:a")
    problem = broken(faulter, script, fault_of(faulter, script, "fsync", "deferred-dead", "EIO"))
    assert problem is not None and "lock was left taken" in str(problem)


@needs_strace
def test_an_adapter_that_dies_has_failed(faulters: Faulters) -> None:
    """A crash is never an expected refusal."""
    faulter = faulters(f"{FAULTS}:DiesOfErrors")
    script = Script.of("open dead:a dead:b dead:c")
    limit = Limit(resource.RLIMIT_FSIZE, 0)
    fault = Fault("full", ("full",), 1, limit=limit, stays=True, errors=("EFBIG",))
    problem = broken(faulter, script, fault)
    assert problem is not None and "ended with it" in str(problem)
    assert "dead:c   died" in str(problem)


def test_a_family_is_the_process_and_what_it_started() -> None:
    assert family(os.getpid())[0] == os.getpid()
