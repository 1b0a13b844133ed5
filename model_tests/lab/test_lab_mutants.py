"""Mutants of the engine: the lab kills every one, and the engine survives the same runs.

Every mutant is led: its entry names the part, the workload and the steps at which the run is
preempted, killed or made to fail. `lychgate mutants engine --search 60` gives no such hint.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from lychgate import _dead, _lines
from lychgate_conformance.lab._hunt import (
    MUTANTS,
    control,
    find_mutant,
    free,
    led,
    shrunk,
    target_named,
)
from lychgate_conformance.lab._mutant import Edit, Mutant, codes_of, planted
from lychgate_conformance.lab._plan import parse_plan
from lychgate_conformance.lab._replay import command, replay

ROOT = Path(__file__).resolve().parents[2]

RUNS = {(m.part, m.workload, m.focus): m for m in MUTANTS}
"""One mutant for every run that leads to one: the engine goes the same way."""

NOT_HERE = {
    "LockTimeoutChanges": "unlock-not-owned: the same fault, another property",
    "LockDeletedWhileHeld": "no fault of the engine: the race that no check closes (D24)",
    "LockNoCap": "liveness: TLC's business; the lab gives a sleeper no time of its own",
    "DeadTasksGhostRename": "ghost-inode: the same fault, another way to lose",
    "DeadTasksDirFsyncFailed": "mark-ignored: the same fault, another way to lose",
    "DeadTasksLockRestored": "no fault of the engine: somebody restores an old lock file (D24)",
    "DeadTasksOneFsync": "mark-ignored, with a repair in the place of the copy",
    "DeadTasksTornOnly": "mark-ignored, with a repair in the place of the copy",
    "DeadTasksRemountStale": "no fault of the engine: a limit (D29)",
    "DeadTasksErrorKeepsLock": "lock-kept-on-error: the same fault, in the composed module",
    "DeadTasksReaderBelieves": "no fault of the engine: a caller that believes too much (D34)",
    "DeadTasksAbstract": "no-dir-fsync, against the abstract promise",
    "DeadTasksRenameNotAtomic": "an assumption gone (F1): model posix-min",
    "DeadTasksFsyncLies": "an assumption gone (F1): knob +lying",
    "QueueUnwritten": "a memory without a store behind it; nothing was acknowledged (U1)",
    "QueueRunsTwice": "two runs at a time: the queue's own tests (U2)",
    "QueueDeadUnsynced": "no-fsync-data: the same fault, seen from above",
    "QueueNoRestart": "liveness: TLC's business",
    "WalForgetfulLoss": "forgetful: the same fault, another property",
    "WalStickyDir": "an assumption gone (F1, W9)",
    "WalTwins": "no fault of the engine: a limit (W12)",
    "WalRefinesUnsyncedName": "unsynced-name, against the abstract WAL",
    "WalRefinesBuffered": "ack-before-write, against the abstract WAL",
}
"""Negative models of the stores that no mutant of the list embodies, and why."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_killed(mutant: Mutant) -> None:
    """D20: a planted fault breaks a promise that some image, answer or lock shows."""
    kill = led(mutant)
    assert kill.finding is not None, f"{mutant.name} survives {mutant.workload}"
    assert kill.tool and kill.runs > 0


@pytest.mark.parametrize("mutant", RUNS.values(), ids=lambda mutant: mutant.name)
def test_the_engine_survives_the_same_run(mutant: Mutant) -> None:
    """No false alarm where the mutants are killed."""
    assert not control(mutant)


def test_there_are_many_and_every_one_says_what_it_breaks() -> None:
    """At least 60, names once, a requirement in every entry."""
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) >= 60 and len(set(names)) == len(names)
    for mutant in MUTANTS:
        assert "(" in mutant.about and mutant.about.endswith(")"), mutant.name


def test_every_negative_model_of_store_and_queue_has_its_mutant() -> None:
    """A fault that the spec rejects is planted in the engine too, or it is said why not."""
    manifest = tomllib.loads((ROOT / "spec" / "manifest.toml").read_text(encoding="utf-8"))
    broken = {
        model["name"]: model["module"]
        for model in manifest["model"]
        if model["expect"].startswith("violates")
    }
    embodied = {mutant.like for mutant in MUTANTS if mutant.like}
    assert embodied <= set(broken)
    stores = ("LockBroken", "DeadTasksBroken", "WalBroken", "WalRefinesBroken", "QueueBroken")
    wanted = {name for name, module in broken.items() if module in stores}
    assert wanted - embodied == set(NOT_HERE)


def test_a_mutant_is_put_in_and_taken_out() -> None:
    """The code is exchanged while it is planted, and only then."""
    mutant = find_mutant("repair-too-far")
    before = _lines.end_of_last_line.__code__
    with planted(mutant):
        assert _lines.end_of_last_line(b"a\nb\n") == 2
        assert getattr(_dead, "end_of_last_line")(b"a\nb\n") == 2  # seen by whoever imported it
    assert _lines.end_of_last_line.__code__ is before
    assert _lines.end_of_last_line(b"a\nb\n") == 4


@pytest.mark.parametrize(
    "edit, text",
    [
        (Edit("_dead.DeadStore.add", "no such text", ""), "stands 0 times"),
        (Edit("_dead.DeadStore.add", "await", ""), "times in _dead.DeadStore.add, not once"),
        (Edit("_dead.DeadStore.gone", "await", ""), "there is no _dead.DeadStore.gone any more"),
    ],
)
def test_a_mutant_that_fell_behind_is_an_error(edit: Edit, text: str) -> None:
    """When the engine changes, a mutant that no longer fits says so."""
    with pytest.raises(LookupError, match=text):
        codes_of(Mutant("stale", "(D1)", (edit,), "dead", "new;0;list"))
    with pytest.raises(ValueError, match="unknown mutant"):
        find_mutant("nobody")


def test_a_kill_is_shrunk_and_replayed() -> None:
    """The smallest schedule, and the one command that shows it; the engine goes another way."""
    kill = shrunk(led(find_mutant("no-fsync-data")))
    assert kill.finding is not None
    plan = parse_plan(str(kill.finding.plan))
    assert str(plan.workload) == "new;0;add:a"
    said: list[str] = []
    target = target_named(plan.target, plan.setting)
    assert replay(plan, target, said.append) == kill.finding.text
    assert command(plan).startswith("lychgate replay ") and said


def test_a_free_hunt_needs_no_hint() -> None:
    """The nightly run: all parts in order, and the first one shows a fault that is easy to see."""
    kill = free(find_mutant("repair-cuts-newline"), 600.0)
    assert kill.finding is not None and not kill.led and kill.part == "dead"
