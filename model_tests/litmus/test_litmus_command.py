"""`lychgate litmus` without a disk: the command line, the verdicts, the page (F1, F3)."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._image import DIRECTORY, Image, Symlink, image_of
from lychgate_conformance.lab._litmus import Litmus, outside, simulate, start_of
from lychgate_conformance.lab._litmus_programs import LITMUS
from lychgate_conformance.lab._models import find_model
from lychgate_tools.cli import main
from lychgate_tools.litmus import jobs
from lychgate_tools.litmus.blocklog import Bounds
from lychgate_tools.litmus.filesystems import FILE_SYSTEMS, FileSystem
from lychgate_tools.litmus.judge import Judge
from lychgate_tools.litmus.page import page, read_page
from lychgate_tools.litmus.report import Run, details, text
from lychgate_tools.litmus.wire import image_from_json, image_to_json
from lychgate_tools.ui import UserError

PAGE = Path(__file__).parents[2] / "docs" / "litmus.md"
APPEND = next(litmus for litmus in LITMUS if litmus.name == "append-in-block")
TORN = image_of({"f": b"a" * 1000 + b"b" * 100})


def result(*states: jobs.State, untried: int = 0) -> jobs.Result:
    return jobs.Result(APPEND.name, "plain", 9, 4, untried, states)


def state(image: Image, *moments: int) -> jobs.State:
    return jobs.State(image, "", {moment: "none" for moment in moments})


def give(
    monkeypatch: pytest.MonkeyPatch, *results: jobs.Result, error: UserError | None = None
) -> None:
    """Have the command take these results for what the driver said."""

    def run(
        systems: list[FileSystem], programs: list[str], budget_s: float, seed: int
    ) -> Generator[tuple[FileSystem, jobs.Result | jobs.Ended], None, None]:
        for system in systems:
            for one in results:
                yield system, one
            yield system, jobs.Ended(1.5, error)

    monkeypatch.setattr(jobs, "run", run)
    monkeypatch.setattr(jobs, "missing", lambda system: "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["append-in-blck"], "did you mean append-in-block?"),
        (["--fs", "zfs"], "did you mean xfs?"),
        (["--budget", "0"], "more than 0"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """F3: exit code 4 and the remedy."""
    assert main(["litmus", *arguments]) == 4
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_programs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """F3: for people and for programs."""
    assert main(["litmus", "--list"]) == 0
    assert "append-in-block" in capsys.readouterr().out
    assert main(["litmus", "--list", "--json", "tail-repair"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert one["steps"] == "truncate f 1000; append f 100b"


def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """F3: not measured is exit code 2, and no page is written."""
    monkeypatch.setattr(jobs, "missing", lambda system: f"needs mkfs.{system.name}")
    assert main(["litmus", "--fs", "xfs", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["not_measured"] == {"xfs": "needs mkfs.xfs"}
    assert main(["litmus", "--write", str(tmp_path / "page.md")]) == 2
    captured = capsys.readouterr()
    assert "btrfs: NOT MEASURED: needs mkfs.btrfs" in captured.out
    assert "was not written" in captured.err and not list(tmp_path.iterdir())


@pytest.mark.parametrize("code", [2, 3])
def test_a_driver_that_fails_is_not_measured_or_a_fault(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F3: a kernel without btrfs is exit code 2; anything else that breaks is 3."""
    give(monkeypatch, error=UserError("it broke", code))
    assert main(["litmus", "append-in-block", "--fs", "btrfs"]) == code
    captured = capsys.readouterr()
    assert "it broke" in (captured.out if code == 2 else captured.err)


def test_a_machine_without_the_means_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    """F3: mkfs, and the rest as far as it can be seen beforehand."""
    monkeypatch.setattr(jobs, "_may_mount", lambda: False)
    assert "root" in jobs.missing(FILE_SYSTEMS["ext4"]) or "Linux" in jobs.missing(
        FILE_SYSTEMS["ext4"]
    )
    monkeypatch.setattr(jobs, "_may_mount", lambda: True)
    monkeypatch.setattr("os.access", lambda path, mode: True)
    absent = replace(FILE_SYSTEMS["xfs"], mkfs=("mkfs.nothing",))
    said = jobs.missing(absent)
    assert "mkfs.nothing (Debian package xfsprogs)" in said or "Linux" in said


def test_a_state_outside_its_model_ends_with_1_and_tells_everything(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F1: program, writes kept, the model's states."""
    torn = jobs.State(TORN, "", {1: "7 durable writes"})
    give(monkeypatch, result(state(APPEND.start(), 0, 1), torn, untried=3))
    assert main(["litmus", "append-in-block", "--fs", "xfs"]) == 1
    said = capsys.readouterr().out
    for words in (
        "OUTSIDE xfs: append-in-block on xfs: f=1000a+100b",
        "append f 500b",
        "after step 1 of 1",
        "7 durable writes",
        "f=1000a | f=1000a+500b",
        "PARTIAL, no time for 3",
    ):
        assert words in said
    assert "OUTSIDE portable" not in said  # a torn prefix is what it allows
    assert main(["litmus", "append-in-block", "--fs", "xfs", "--json"]) == 1
    (system,) = json.loads(capsys.readouterr().out)["file_systems"]
    (program,) = system["programs"]
    assert program["seen"] == ["f=1000a", "f=1000a+100b"]
    assert program["never_seen"] == ["f=1000a+500b"]
    assert [one["model"] for one in program["outside"]] == ["xfs"]


def test_an_image_that_cannot_be_mounted_is_outside_every_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F1: a file system that a crash makes unusable keeps no promise at all."""
    give(monkeypatch, result(jobs.State(None, "mnt: Structure needs cleaning", {0: "none"})))
    assert main(["litmus", "append-in-block", "--fs", "ext4"]) == 1
    assert "OUTSIDE any" in capsys.readouterr().out


def test_a_sync_that_returned_binds_earlier_images_too() -> None:
    """F1: the same state may be right before an fsync returned and wrong after it."""
    litmus = next(one for one in LITMUS if one.name == "append-fsync")
    for moment, wrong in ((1, 0), (2, 2)):  # in its model and in portable
        judge = Judge(litmus, FILE_SYSTEMS["ext4"])
        judge.take(replace(result(state(litmus.start(), moment)), program=litmus.name))
        assert len(judge.end().outside) == wrong


def test_states_of_a_model_that_were_never_seen_are_a_figure() -> None:
    """F1: garbage of a model counts as seen when real old bytes stand in its place."""
    judge = Judge(APPEND, FILE_SYSTEMS["ext4-writeback"])
    judge.take(result(state(image_of({"f": b"a" * 1000 + b"z" * 500}), 1)))
    verdict = judge.end()
    assert not verdict.outside and len(verdict.modelled) == 4
    assert verdict.unseen == {"f=1000a", "f=1000a+500b", "f=1000a+500."}
    assert "never seen" in details(verdict)


def test_images_travel_unchanged() -> None:
    """F1: names, bytes, links between the driver and the command."""
    contents = (DIRECTORY, b"ab\0\xff", b"ab\0\xff", Symlink("f"))
    linked = Image(("d", "f", "g", "s"), contents, ((1, 2),))
    assert image_from_json(json.loads(json.dumps(image_to_json(linked)))) == linked


# --- the page -----------------------------------------------------------------------------------


def test_a_page_says_what_was_seen_and_can_be_read_again() -> None:
    """F1, F3: states of the page are the states of the run."""
    judge = Judge(APPEND, FILE_SYSTEMS["ext4"])
    judge.take(result(state(APPEND.start(), 1), untried=2))
    empty = Litmus("nothing", "f=1a", "unlink f; fsyncdir .")
    second = Judge(empty, FILE_SYSTEMS["ext4"])
    second.take(replace(result(state(image_of({}), 2)), program="nothing"))
    run = Run(FILE_SYSTEMS["ext4"], (judge.end(), second.end()), 1.5)
    written = page([run], Bounds())
    assert list(read_page(written)) == [
        ("append-in-block", "ext4", ["f=1000a"]),
        ("nothing", "ext4", [""]),
    ]
    assert "| 2 | 1.5 s |" in written and "no time for 2" in text([run], Bounds())


def test_every_state_that_was_ever_written_down_is_in_its_model() -> None:
    """F1: what docs/litmus.md says was seen on real file systems, held against today's models."""
    programs = {litmus.name: litmus for litmus in LITMUS}
    rows = list(read_page(PAGE.read_text(encoding="utf-8")))
    assert {name for name, _, _ in rows} == programs.keys()
    assert {system for _, system, _ in rows} == FILE_SYSTEMS.keys()
    for name, system, states in rows:
        model = find_model(FILE_SYSTEMS[system].model)
        run = simulate(programs[name])
        allowed = set(run.allowed_after(len(run.ends) - 1, Enumerator(model)).images())
        for seen in states:
            assert not outside(start_of(seen), allowed, model), (name, system, seen)


@pytest.mark.parametrize(
    ("system", "model"), [("ext4", "xfs"), ("xfs", "btrfs"), ("btrfs", "ext4-ordered")]
)
def test_the_states_of_one_file_system_are_not_those_of_another(system: str, model: str) -> None:
    """F1: the models are told apart by what was seen, so that a wrong one would be noticed."""
    programs = {litmus.name: litmus for litmus in LITMUS}
    odd = []
    for name, of_system, states in read_page(PAGE.read_text(encoding="utf-8")):
        run = simulate(programs[name])
        found = run.allowed_after(len(run.ends) - 1, Enumerator(find_model(model)))
        allowed = set(found.images())
        if of_system == system:
            odd += [seen for seen in states if start_of(seen) not in allowed]
    assert len(odd) >= 3
