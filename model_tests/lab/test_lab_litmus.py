"""Litmus programs: every measured state is in its model, and no model says more than its rules do
(F1)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lychgate_conformance.lab._enumerate import Enumerator, image_set
from lychgate_conformance.lab._explore import Explorer
from lychgate_conformance.lab._family import Limits
from lychgate_conformance.lab._image import Image, image_of
from lychgate_conformance.lab._litmus import (
    Litmus,
    Run,
    apply,
    bytes_of,
    outside,
    shown,
    simulate,
    start_of,
    states,
    step_of,
)
from lychgate_conformance.lab._litmus_programs import BTRFS, EXT4, LITMUS, XFS
from lychgate_conformance.lab._micro import ROOT, Kind, Recorder
from lychgate_conformance.lab._models import GARBAGE, find_model
from lychgate_conformance.lab._target import Target
from lychgate_conformance.lab._workload import parse_workload

CASES = [
    pytest.param(litmus, model, id=f"{litmus.name}, {model}")
    for litmus in LITMUS
    for model in sorted(litmus.allowed.keys() | litmus.measured.keys())
]


def at_the_end(litmus: Litmus, model: str, limits: Limits = Limits()) -> set[Image]:
    found = simulate(litmus).allowed_after(
        len(litmus.program()), Enumerator(find_model(model), limits)
    )
    assert not found.partial or model == "portable"
    return set(found.images())


def inode(disk: Recorder, name: str) -> int:
    return disk.nodes[ROOT].entries[name]


def take(text: str, disk: Recorder) -> None:
    for step in text.split(";"):
        apply(step_of(step), disk)


@pytest.mark.parametrize("litmus, model", CASES)
def test_litmus(litmus: Litmus, model: str) -> None:
    """F1: measured states are reachable, and nothing outside the model's rules is."""
    seen = {shown(image) for image in at_the_end(litmus, model)}
    if model in litmus.allowed:
        assert seen == states(litmus.allowed[model])
    if model in litmus.measured:
        assert states(litmus.measured[model]) <= seen


def test_there_are_enough_programs_each_with_a_name_of_its_own() -> None:
    """F1: at least 45 programs."""
    assert len({litmus.name for litmus in LITMUS}) == len(LITMUS) >= 45


@pytest.mark.parametrize("litmus", LITMUS, ids=lambda litmus: litmus.name)
def test_portable_holds_every_named_model(litmus: Litmus) -> None:
    """F1: a verdict under `portable` covers the deployments that it names (garbage apart)."""
    widest = at_the_end(litmus, "portable", Limits(torn_files_max=2))
    for model in (EXT4, XFS, BTRFS):
        narrow = at_the_end(litmus, model)
        assert narrow <= widest, (model, [shown(image) for image in narrow - widest])


def test_a_crash_during_a_step_may_leave_what_the_step_did_but_not_what_it_promised() -> None:
    """F1: a sync in flight forces nothing; when it has returned, it does."""
    run: Run = simulate(Litmus("", "f=1a", "append f 1b; fsync f"))
    judge = Enumerator(find_model(EXT4))
    seen = [{shown(i) for i in run.allowed_after(done, judge).images()} for done in range(3)]
    assert seen[0] == seen[1] == {"f=1a", "f=1a+1b", "f=1a+1."}
    assert seen[2] == {"f=1a+1b"}


def test_states_and_starts_are_written_as_they_are_read() -> None:
    """F1: names, directories, links, runs of letters and NULs."""
    for text in ("", "f=", "d d/f=3a g=2.+1b", "d d/g=1a f=d/g"):
        assert shown(start_of(text)) == text
    assert bytes_of("2a+1.") == b"aa\0"
    for wrong in ("append f", "append f 3", "jump f", "truncate f x"):
        with pytest.raises(ValueError):
            step_of(wrong)


def test_garbage_of_a_model_matches_any_bytes_and_nothing_else_does() -> None:
    """F1: a real stale block holds what it held, not the pattern that stands for it."""
    model = find_model("ext4-writeback")
    allowed = [image_of({"f": b"aa" + GARBAGE[:3]})]
    assert not outside(image_of({"f": b"aazzz"}), allowed, model)
    assert outside(image_of({"f": b"abzzz"}), allowed, model)
    assert outside(image_of({"f": b"aazz"}), allowed, model)
    assert outside(image_of({"f": b"aazzz"}), allowed, find_model(EXT4))


def test_old_bytes_return_when_a_second_crash_tears_an_append() -> None:
    """D29: the size of an append is lost, its bytes are not; a later torn append exposes them. An
    fsync between does not help, a truncation that is fsynced does."""
    for repaired in (False, True):
        disk = image_of({"f": b"old\n"}).mount()
        disk.write(inode(disk, "f"), 4, b"LOST!\n")
        first = next(
            image
            for image in image_set(disk, find_model("ext4-ordered")).images()
            if image.get("f") == b"old\n" and image.hidden
        )
        disk = first.mount()
        if repaired:
            take("truncate f 4; fsync f", disk)
        disk.write(inode(disk, "f"), 4, b"newer\n")
        after = {image.get("f") for image in image_set(disk, find_model("ext4-ordered")).images()}
        assert (b"old\nLOST!\n" in after) is not repaired


def test_blocks_that_are_given_away_early_lose_an_acknowledged_add() -> None:
    """D9, F1: why ext4 with data=writeback is refused: a compaction whose rename is lost."""
    for early in (False, True):
        model = replace(find_model("ext4-writeback"), frees_early=early)
        explorer = Explorer(Target(), model)
        explorer.explore(parse_workload("clean;0;add:a,remove:p"))
        found = {finding.kind for finding in explorer.totals.findings}
        assert found == ({"acknowledged-add-lost"} if early else set())


def test_a_lying_flush_forces_nothing() -> None:
    """F1: dropping the assumption of honest fsync shows what breaks."""
    disk = image_of({}).mount()
    take("create f; append f 100b; fsync f; fsyncdir .", disk)
    for model, lost in (("portable", False), ("portable+lying", True), ("xfs+lying", True)):
        seen = {shown(image) for image in image_set(disk, find_model(model)).images()}
        assert ("" in seen) is lost


def test_a_process_that_ends_loses_nothing_but_the_rest_of_its_write() -> None:
    """F1: SIGKILL in the middle of a write leaves a prefix of it."""
    disk = image_of({"f": b"a"}).mount()
    disk.create(ROOT, "x", Kind.FILE)
    disk.write(inode(disk, "f"), 1, b"bc")
    seen = {shown(image) for image in image_set(disk, find_model("process-kill")).images()}
    assert seen == {"f=1a x=", "f=1a+1b x=", "f=1a+1b+1c x="}
