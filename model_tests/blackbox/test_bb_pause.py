"""Level 5: workers are really stopped where it says, others really go on, and faults are found.

One schedule or two each; the cases of level 5 try every place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lychgate_conformance import Options, Verdict, load_target, run
from lychgate_conformance._target import Target, load_command
from lychgate_conformance._verdict import NotMeasured
from lychgate_conformance.blackbox import _syscalls
from lychgate_conformance.blackbox._pause import ANSWER, Tracer
from lychgate_conformance.blackbox._schedule import Schedule
from lychgate_conformance.blackbox._troupe import Troupe
from lychgate_conformance.mutants.foreign import build, installed, patched

DURABLE = "lychgate_conformance.mutants._durable:Durable"
MUTANTS = "lychgate_conformance.mutants.paused"

pytestmark = pytest.mark.skipif(not _syscalls.numbers(), reason="needs x86-64, ARM64 or RISC-V")
Troupes = Callable[[Target], Troupe]


@pytest.fixture
def troupes() -> Iterator[Troupes]:
    """Makes troupes that leave nothing behind."""
    ends: list[Callable[[], None]] = []

    def make(target: Target) -> Troupe:
        pool = target.new_pool()
        assert pool is not None
        troupe = Troupe(target, pool, lambda: 30.0)
        ends.extend((troupe.end, pool.end))
        return troupe

    yield make
    for end in ends:
        end()


@pytest.mark.parametrize(
    "text",
    [
        "open 2/open dead:a | dead:b @7 | 2/undead:a",
        "open 2/open 3/open | dead:a @2,9 | 2/dead:b | 3/dead:c 3/list",
        "open task:a | close @3 | 2/open | kill",
        " | open @1,answer | 2/open | ",
    ],
)
def test_a_schedule_is_its_text(text: str) -> None:
    assert str(Schedule.of(text)) == text


@pytest.mark.parametrize(
    "text", ["", "open", "open | dead:a", "open | 2/dead:a @1 | ", "open | dead:a @1 | dead:b"]
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Schedule.of(text)


def test_a_worker_stands_before_the_call_that_was_asked_for(troupes: Troupes) -> None:
    """D13: what others want meanwhile waits for the lock, and is done after it."""
    troupe = troupes(load_target(DURABLE))
    whole = troupe.play(Schedule.of("open | dead:a @answer | "))
    assert whole.happened and not whole.problem
    (last,) = whole.stops
    assert last.calls[-1] == "the answer" and last.number == len(last.calls)
    locked = next(n for n, it in enumerate(last.calls, 1) if it.startswith("flock("))
    for place, waited in ((locked, 0), (locked + 1, 1)):
        played = troupe.play(Schedule.of(f"open 2/open | dead:a @{place} | 2/dead:b"))
        assert played.happened and not played.problem and played.waited == waited
        assert len(played.stops[0].calls) == place
    order = [it for it in played.lines if it in ("dead:a", "2/dead:b", "2/dead:b   (waits)")]
    assert order == ["2/dead:b   (waits)", "dead:a", "2/dead:b"]


def test_a_stop_that_did_not_happen_is_told(troupes: Troupes) -> None:
    played = troupes(load_target(DURABLE)).play(Schedule.of("open 2/open | dead:a @99 | 2/dead:b"))
    assert not played.happened and not played.stops and not played.problem


def test_who_is_killed_where_it_stands_may_have_done_its_word(troupes: Troupes) -> None:
    """D17: with its last call done the record is there, before its first it is not."""
    troupe = troupes(load_target(DURABLE))
    seen = {}
    for place in ("1", "answer"):
        played = troupe.play(Schedule.of(f"open 2/open | dead:a @{place} | 2/list | kill"))
        assert played.happened and not played.problem
        seen[place] = next(it for it in played.lines if it.startswith("9/list"))
    assert seen == {"1": "9/list = []", "answer": "9/list = ['a']"}


def test_two_stops_show_two_holders_of_one_lock(troupes: Troupes) -> None:
    """D24: a lock file that is unlinked on release; the same schedule on a store that keeps it."""
    text = "open 2/open 3/open | dead:b @2,5 | 2/undead:a | 3/dead:c"
    played = troupes(load_target(f"{MUTANTS}:LockFileUnlinked")).play(Schedule.of(text))
    assert "no order of the calls explains" in played.problem and played.image is not None
    assert not troupes(load_target(DURABLE)).play(Schedule.of(text)).problem


def test_the_engine_and_the_control_are_not_blamed() -> None:
    """D13, D12, W11, D9: the cases themselves, a few of them."""
    cases = {"disk": ("L5-REM-001", "L5-WAL-002"), DURABLE: ("L5-INIT-001", "L5-KILL-001")}
    for spec, ids in cases.items():
        report = run(load_target(spec), Options(case_ids=ids))
        found = [(it.case.id, it.verdict, it.message) for it in report.results]
        assert [it for it in found if it[1] is not Verdict.PASS] == []
        assert all("schedules" in it.message for it in report.results)


def test_a_failure_names_the_schedule_that_shows_it() -> None:
    """D20: the replay plays one schedule, not all, and fails as before."""
    target = load_target(f"{MUTANTS}:GhostInode")
    (failed,) = run(target, Options(case_ids=("L5-ADD-002",))).results
    assert failed.verdict is Verdict.FAIL and "schedule: open" in failed.message
    place = failed.replay.index("--schedule") + 1
    options = Options(case_ids=("L5-ADD-002",), schedule=failed.replay[place])
    (again,) = run(target, options).results
    assert again.verdict is Verdict.FAIL
    assert again.message.splitlines()[0] == failed.message.splitlines()[0]
    assert " | dead:c @" in failed.replay[place] and "files at the end:" in again.message


def test_a_store_in_c_without_a_fault_is_not_blamed(tmp_path: Path) -> None:
    """D13: the shipped adapter; `mutants.foreign` has it with faults that level 5 finds."""
    if not installed("c"):
        pytest.skip("c is not installed: no cc on PATH")
    target = load_command(build("c", patched("c", ()), tmp_path))
    ids = ("L5-ADD-001", "L5-TWICE-001", "L5-KILL-001")
    report = run(target, Options(case_ids=ids))
    assert [it.verdict for it in report.results] == [Verdict.PASS] * len(ids)


def test_two_who_make_the_tables_of_sqlite_at_once(troupes: Troupes) -> None:
    """Q3, Q10: both switch to the write-ahead log; the one that SQLite refuses tries again."""
    troupe = troupes(load_target("sqlite"))
    whole = troupe.play(Schedule.of(" | open @answer | "))
    calls = whole.stops[0].calls
    first = next(n for n, it in enumerate(calls, 1) if "-wal" in it)
    for place in range(max(1, first - 12), first):
        played = troupe.play(Schedule.of(f" | open @{place} | 2/open"))
        assert not played.problem, (place, played.lines)


def test_a_machine_whose_calls_are_not_known_measures_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_syscalls, "numbers", dict)
    with pytest.raises(NotMeasured, match="have no numbers"):
        Tracer()


def test_a_word_without_a_call_on_the_store_is_not_measured() -> None:
    """A stop that cannot happen is no pass."""
    (found,) = run(
        load_target("lychgate_conformance.mutants._durable:Durable", {"uses_path": True}),
        Options(case_ids=("L5-ADD-001",), schedule="open 2/open | dead:a @99 | 2/list"),
    ).results
    assert found.verdict is Verdict.NOT_MEASURED and "before the stop" in found.message


def test_the_two_tables_of_numbers_agree_on_names() -> None:
    known = {name for name, _ in _syscalls.numbers("x86_64").values()}
    assert {name for name, _ in _syscalls.numbers("aarch64").values()} <= known
    assert _syscalls.numbers("vax") == {} and ANSWER < 1
    assert json.loads(json.dumps(_syscalls.numbers("riscv64")))["32"][0] == "flock"
