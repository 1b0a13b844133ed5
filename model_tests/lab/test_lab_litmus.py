"""Litmus programs: every measured state is in its model, and no model says more than its rules do
(F1)."""

from __future__ import annotations

from itertools import groupby

import pytest
from lab.litmus_programs import (
    BTRFS,
    EXT4,
    LITMUS,
    XFS,
    Litmus,
    append,
    create_and_fsync,
    inode,
)
from lychgate_conformance.lab._enumerate import image_set
from lychgate_conformance.lab._image import Image, image_of
from lychgate_conformance.lab._micro import ROOT, Kind, Scope
from lychgate_conformance.lab._models import find_model


def shown(image: Image) -> str:
    """An image as text."""
    parts = []
    for path, content in zip(image.paths, image.contents, strict=True):
        parts.append(f"{path}={_bytes(content)}" if isinstance(content, bytes) else path)
    return " ".join(parts)


def _bytes(content: bytes) -> str:
    letters = "".join(
        "." if byte == 0 else chr(byte) if chr(byte) in "abcwx" else "~" for byte in content
    )
    if "~" in letters:  # garbage holds letters and NULs of its own
        start = letters.index("~")
        letters = letters[:start] + "~" * (len(letters) - start)
    return "+".join(f"{len(list(run))}{letter}" for letter, run in groupby(letters))


def states(text: str) -> set[str]:
    return {state.strip() for state in text.split("|")}


CASES = [
    pytest.param(litmus, model, id=f"{litmus.name}, {model}")
    for litmus in LITMUS
    for model in sorted(litmus.allowed.keys() | litmus.measured.keys())
]


@pytest.mark.parametrize("litmus, model", CASES)
def test_litmus(litmus: Litmus, model: str) -> None:
    """F1: measured states are reachable, and nothing outside the model's rules is."""
    disk = image_of(litmus.files).mount()
    litmus.program(disk)
    found = image_set(disk, find_model(model))
    assert not found.partial
    seen = {shown(image) for image in found.images()}
    if model in litmus.allowed:
        assert seen == states(litmus.allowed[model])
    if model in litmus.measured:
        assert states(litmus.measured[model]) <= seen


def test_portable_holds_every_named_model() -> None:
    """F1: a verdict under `portable` covers the deployments that it names (garbage apart)."""
    for litmus in LITMUS:
        disk = image_of(litmus.files).mount()
        litmus.program(disk)
        widest = set(image_set(disk, find_model("portable")).images())
        for model in (EXT4, XFS, BTRFS):
            narrow = set(image_set(disk, find_model(model)).images())
            assert narrow <= widest, (litmus.name, model, [shown(i) for i in narrow - widest])


def test_old_bytes_return_when_a_second_crash_tears_an_append() -> None:
    """D29: the size of an append is lost, its bytes are not; a later torn append exposes them. An
    fsync between does not help, a truncation that is fsynced does."""
    for repaired in (False, True):
        disk = image_of({"f": b"old\n"}).mount()
        append(disk, "f", b"LOST!\n")
        first = next(
            image
            for image in image_set(disk, find_model("ext4-ordered")).images()
            if image.get("f") == b"old\n" and image.hidden
        )
        disk = first.mount()
        if repaired:
            disk.truncate(inode(disk, "f"), 4)
            disk.sync(Scope.FILE, inode(disk, "f"))
        append(disk, "f", b"newer\n")
        after = {image.get("f") for image in image_set(disk, find_model("ext4-ordered")).images()}
        assert (b"old\nLOST!\n" in after) is not repaired


def test_a_lying_flush_forces_nothing() -> None:
    """F1: dropping the assumption of honest fsync shows what breaks."""
    disk = image_of({}).mount()
    create_and_fsync(disk)
    disk.sync(Scope.DIR)
    for model, lost in (("portable", False), ("portable+lying", True), ("xfs+lying", True)):
        seen = {shown(image) for image in image_set(disk, find_model(model)).images()}
        assert ("" in seen) is lost


def test_a_process_that_ends_loses_nothing_but_the_rest_of_its_write() -> None:
    """F1: SIGKILL in the middle of a write leaves a prefix of it."""
    disk = image_of({"f": b"a"}).mount()
    disk.create(ROOT, "x", Kind.FILE)
    append(disk, "f", b"bc")
    seen = {shown(image) for image in image_set(disk, find_model("process-kill")).images()}
    assert seen == {"f=1a x=", "f=1a+1b x=", "f=1a+1b+1c x="}
