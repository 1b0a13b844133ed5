"""Stores that are right pass, those that are not are shown with image, loss and deployments.

Small bounds: the cases of levels 2 and 3 do the same with larger ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lychgate_conformance._session import Command
from lychgate_conformance._target import Target, load_command, load_target
from lychgate_conformance._verdict import Failed, NotMeasured
from lychgate_conformance.adapters import HOME
from lychgate_conformance.blackbox import _strace
from lychgate_conformance.blackbox._explain import explain, image_lines
from lychgate_conformance.blackbox._explore import Explorer
from lychgate_conformance.blackbox._images import Bounds
from lychgate_conformance.blackbox._kill import Killer
from lychgate_conformance.blackbox._script import Script
from lychgate_conformance.blackbox._strace import strace_path
from lychgate_conformance.blackbox._succession import crashes_after_kills
from lychgate_conformance.blackbox._traced import need_strace
from lychgate_conformance.lab._image import image_of

pytestmark = pytest.mark.skipif(
    strace_path() is None, reason="needs strace: install the package of that name"
)

SMALL = Bounds(images_max=250, family_max=60, torn_max=30, complete_max=2000)
DURABLE = "lychgate_conformance.mutants._durable:Durable"
SQLITE = "lychgate_conformance.adapters.sqlite_store"
Explorers = Callable[[Target], Explorer]


@pytest.fixture
def explorers(tmp_path: Path) -> Iterator[Explorers]:
    """Makes explorers that leave nothing behind."""
    made: list[Explorer] = []

    def make(target: Target) -> Explorer:
        made.append(Explorer(target, tmp_path, SMALL))
        return made[-1]

    yield make
    for explorer in made:
        explorer.end()


@pytest.mark.parametrize("spec", ["disk", DURABLE, f"{SQLITE}:Rollback", f"{SQLITE}:Wal"])
def test_no_false_alarm(spec: str, explorers: Explorers) -> None:
    """D17, U3: the engine, a plain store, and SQLite with a rollback journal and with a WAL."""
    explorer = explorers(load_target(spec))
    script = Script.of("open task:a dead:a done:a dead:b undead:a")
    assert explorer.host_crashes(script, recoveries=2) is None
    assert explorer.process_kills(script) is None
    assert explorer.tally.distinct > 100 and explorer.tally.recoveries == 2


def test_sqlite_with_its_default_setting_loses_a_commit(explorers: Explorers) -> None:
    """D17: `synchronous = FULL` does not make the deletion of the journal durable."""
    explorer = explorers(load_target(f"{SQLITE}:RollbackFull"))
    failure = explorer.host_crashes(Script.of("open dead:a dead:b"))
    assert failure is not None
    text = explain(failure)
    assert "host crash: dead 'a' lost" in text
    assert "the unlinking of store/deferred-db-journal: unlink(" in text
    assert "hit under: portable, posix-min" in text
    assert f"image {failure.met.image.digest()[:16]}:" in text and "dead:b   (in flight)" in text


def test_a_failure_is_found_over_stdio_as_well(explorers: Explorers) -> None:
    """The same store behind an adapter, and the adapter's own claims."""
    words = (sys.executable, str(HOME / "python_adapter.py"), f"{SQLITE}:RollbackFull")
    explorer = explorers(load_command(Command(words)))
    failure = explorer.host_crashes(Script.of("open dead:a dead:b"))
    assert failure is not None and "journal" in explain(failure)


def test_a_successor_builds_on_a_name_that_is_not_durable(explorers: Explorers) -> None:
    """D32: the first worker is killed between its rename and the fsync of the directory."""
    explorer = explorers(load_target("lychgate_conformance.mutants.durable:TrustsTheName"))
    before, after = Script.of("open dead:a dead:b undead:a"), Script.of("2/open 2/dead:c 2/dead:d")
    failure = crashes_after_kills(explorer, before, after, 20)
    assert failure is not None
    lines = [line.strip() for line in explain(failure).splitlines()]
    assert "host crash: dead 'c' lost" in lines[0]
    place = lines.index("exit")
    assert lines[place - 1].startswith("rename(") and lines[place + 1] == "2/open"
    lost = lines[lines.index("lost with the crash:") + 1]
    assert lost.startswith("the rename to store/deferred-dead: rename(")


def test_without_strace_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_strace, "strace_path", lambda: None)
    with pytest.raises(NotMeasured, match="strace is not installed"):
        need_strace()


def test_a_mapped_store_is_not_measured(tmp_path: Path, explorers: Explorers) -> None:
    """Bytes that change without a call cannot be placed in time."""
    target = load_target("lychgate_conformance.mutants._durable:Mapped")
    with pytest.raises(NotMeasured, match="mmap .* a writable shared mapping"):
        explorers(target).host_crashes(Script.of("open dead:a"))


def test_what_an_adapter_offers_is_asked_once(explorers: Explorers) -> None:
    """A backend without `tick` is told from one with `sync`."""
    words = (sys.executable, str(HOME / "python_adapter.py"), f"{SQLITE}:Wal")
    checker = explorers(load_command(Command(words))).checker(0.0, 0)
    assert checker.offers("sync") and not checker.offers("tick")


def test_a_call_that_raises_is_a_failure(explorers: Explorers) -> None:
    """No script gives a reason to."""
    target = load_target("lychgate_conformance.mutants.tasks:UnknownIsAnError")
    with pytest.raises(Failed, match="done:nobody: remove_task raised"):
        explorers(target).run(Script.of("open done:nobody"))


def test_kills_happen_and_are_counted(explorers: Explorers) -> None:
    """A kill that did not happen is no pass."""
    target = load_target(DURABLE)
    pool = target.new_pool()
    assert pool is not None
    try:
        killer = Killer(target, pool, lambda: 30.0)
        try:
            script = Script.of("open dead:a undead:a")
            calls = killer.points(script)
            names = {it.partition("(")[0] for it in calls}
            assert {"openat", "write", "fsync", "rename", "the answer"} <= names
            checker = explorers(target).checker(0.0, 0)
            for number in range(1, len(calls) + 1, max(1, len(calls) // 6)):
                killed = killer.kill(script, number, checker)
                assert killed is not None and not killed.outcome.error
                assert killed.story.allows(killed.outcome.view, killed.acked, False)
            assert killer.kill(script, 999, checker) is None
            assert killer.missed == [999]
        finally:
            killer.end()
    finally:
        pool.end()


def test_an_image_as_text() -> None:
    image = image_of({"s/a": b"one\n\xff\xfe\n" + bytes(5), "s/b": b""})
    assert image_lines(image) == [
        "s/",
        "s/a  12 bytes",
        "  'one\\n'",
        "  hex ff fe 0a",
        "  5 NULs",
        "s/b  0 bytes",
    ]
