"""The explorer on the engine, and on engines that are broken on purpose (issue: crash lab, item 3).

What `./test` runs is bounded by the number of workloads, not by time, so that it is the same
everywhere; `python -m lychgate_conformance.lab explore --budget 3600` runs the same for longer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lychgate import Disk, _ops
from lychgate._fs import Fs
from lychgate._op import Op
from lychgate_conformance.lab.__main__ import main
from lychgate_conformance.lab._campaign import PARTS, Part, Search, run_part
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._enumerate import image_set
from lychgate_conformance.lab._explore import Bounds, Explorer, Finding
from lychgate_conformance.lab._family import Limits
from lychgate_conformance.lab._image import Image
from lychgate_conformance.lab._models import MODELS, NUL, PORTABLE, find_model
from lychgate_conformance.lab._oracle import Oracle
from lychgate_conformance.lab._plan import Phase, Plan, parse_plan
from lychgate_conformance.lab._rate import measure
from lychgate_conformance.lab._recover import Outcome, Recovery
from lychgate_conformance.lab._replay import command, replay
from lychgate_conformance.lab._run import Run
from lychgate_conformance.lab._shrink import shrink
from lychgate_conformance.lab._starts import BOOT, DATA, STARTS, find_start
from lychgate_conformance.lab._sweep import faults_of
from lychgate_conformance.lab._target import PATH, PREFIX, Target, dead_record, task_record
from lychgate_conformance.lab._workload import generate, parse_workload

FEW = 3

KILLED_AT = frozenset(("SetMark", "AppendRecord", "RenameStaging", "FsyncDir", "UnlinkWal"))
"""Where processes are killed here; a nightly run kills them everywhere."""


def explored(
    target: Target, workload: str, bounds: Bounds = Bounds(), model: str = "portable"
) -> Explorer:
    explorer = Explorer(target, find_model(model), bounds)
    explorer.explore(parse_workload(workload))
    return explorer


def findings(target: Target, workload: str, bounds: Bounds = Bounds()) -> list[Finding]:
    return explored(target, workload, bounds).totals.findings


# --- the true engine --------------------------------------------------------------------------


@pytest.mark.parametrize("start", STARTS)
def test_every_start_survives_every_crash(start: str) -> None:
    """D9, D11, D16, D17, D28, W6, W7: sound, torn, empty and damaged files, every image."""
    totals = explored(Target(), f"{start};0;add:a,task:t,remove:p,list").totals
    assert not totals.findings
    assert totals.images > 1000 and totals.recoveries > 100


@pytest.mark.parametrize(
    "part",
    [part for part in PARTS if not (part.bounds.kills and part.faults)],
    ids=lambda part: part.name,
)
def test_the_first_workloads_of_every_part(part: Part) -> None:
    """D17, D29, D32, D34, W3, W5, W9, U3, U4, F2: a sample of what the nightly run goes through."""
    many = (
        part.bounds.kills or part.bounds.depth > 1 or part.faults != () or part.shapes != ((1,),)
    ) or part.knob == "+1"
    focus = KILLED_AT if part.bounds.kills else frozenset()
    result = run_part(
        replace(part, bounds=replace(part.bounds, preemptions=0, focus=focus)),
        Search(),
        1e9,
        length_max=sum(part.shapes[0]),
        workloads_max=1 if many else FEW,
    )
    assert not result.totals.findings, [str(found.plan) for found in result.totals.findings]
    assert result.totals.workloads > 0


@pytest.mark.parametrize("workload", ["two;0;add:a|remove:p", "two;0;add:a/remove:p"])
def test_all_schedules_with_one_preemption(workload: str) -> None:
    """D13, D15, D31: two fibers of one process, and two processes."""
    totals = explored(Target(), workload, Bounds(1)).totals
    assert not totals.findings and totals.states > 300


def test_handoff_and_retry_never_lose_a_task() -> None:
    """U3, U4: dead first, then removed; and the way back."""
    totals = explored(Target(), "two;0;task:t,giveup:t,retry:p,done:u").totals
    assert not totals.findings and totals.images > 300


def test_a_batched_wal_loses_no_more_than_it_says() -> None:
    """W3: with a frequency, what a sync covered is kept; the end of a process loses nothing."""
    assert not findings(Target(), "two;0.5;task:t,sync,task:w,done:t,sync")


def test_a_second_crash_during_recovery_brings_nothing_back() -> None:
    """D29: what was read as absent after the first crash stays absent after the second."""
    totals = explored(Target(), "clean;0;add:a", Bounds(depth=2, second_images=1)).totals
    assert not totals.findings and totals.runs > 5


def test_every_fault_of_an_add_and_a_task() -> None:
    """F2, W9, D19: each call fails in every way, then crashes at every step."""
    workload = parse_workload("clean;0;add:a,task:t,list")
    explorer = Explorer(Target())
    faults = list(faults_of(Target(), workload))
    explorer.explore(workload, [None, *faults])
    assert len(faults) > 200
    assert not explorer.totals.findings, [str(f.plan) for f in explorer.totals.findings]


@pytest.mark.parametrize("model", sorted(MODELS))
def test_the_engine_under_every_model(model: str) -> None:
    """F1: the named models, and garbage in blocks that were never written."""
    totals = explored(Target(), "torn-old;0;add:a,remove:p,task:t", model=model).totals
    if model == "posix-min":
        assert totals.findings  # rename in three steps: F1 assumes that it is one
    elif model == "ext4-writeback":
        # blocks of a file that a rename replaced are given to others before the rename is durable
        assert {found.kind for found in totals.findings} == {"acknowledged-add-lost"}
    else:
        assert not totals.findings, [str(found.plan) for found in totals.findings]


def test_a_lying_flush_is_noticed() -> None:
    """F1: the oracle is not blind: without honest fsync an acknowledged record is lost."""
    totals = explored(Target(), "new;0;add:a", model="portable+lying").totals
    assert "acknowledged-add-lost" in {found.kind for found in totals.findings}


def test_a_call_without_a_step_ends_no_run() -> None:
    """States are told apart by who went how often, too: some calls make no step at all."""
    quiet = explored(Target(), "new;0;pending,done:x,pending,sync,task:t").totals
    plain = explored(Target(), "new;0;task:t").totals
    assert quiet.steps == plain.steps + 4


def test_what_a_bound_cuts_is_named() -> None:
    """Never silently cut: preemptions, images, time."""
    totals = explored(Target(), "two;0;add:a|list", Bounds(preemptions=0)).totals
    assert totals.partial["0 preemptions"]
    few = Bounds(limits=Limits(images_max=1, sample=5))
    cut = explored(Target(), "new;0;add:a", few).totals.partial
    assert any("omissions" in text for text in cut)
    assert explored(Target(), "new;0;add:a", Bounds(seconds=-1.0)).totals.partial["out of time"]


# --- broken engines ---------------------------------------------------------------------------


class Silenced(Target):
    """An engine in which one step does nothing; faults of more kinds are in `test_lab_mutants`."""

    def __init__(self, op: type[Op[Any]]) -> None:
        super().__init__()
        self.op = op
        self.name = f"silent-{op.action}"

    @contextmanager
    def constants(self) -> Iterator[None]:
        def perform(_op: Op[Any], _fs: Fs) -> None:
            pass

        with pytest.MonkeyPatch.context() as patch, super().constants():
            patch.setattr(self.op, "perform", perform)
            yield


def test_a_finding_is_shrunk_and_replayed_by_one_command() -> None:
    """One command replays the smallest run; the replay shows every step and the image."""
    target, bounds = Silenced(_ops.FsyncData), Bounds(1)
    found = findings(target, "two;0;list,add:a/list", Bounds(0))
    small = shrink(next(f for f in found if f.kind == "acknowledged-add-lost"), target, bounds)
    assert str(small.plan.workload) == "new;0;add:a" and not any(small.plan.phases[0].choices)
    line = command(small.plan)
    assert line.startswith("lychgate replay ")
    said: list[str] = []
    text = replay(parse_plan(str(small.plan)), target, said.append)
    assert text.startswith("acknowledged-add-lost")
    assert any("AppendRecord" in entry for entry in said)
    assert any("the host crashes and leaves image" in entry for entry in said)
    with pytest.raises(LookupError):  # the true engine never leaves that image
        replay(small.plan, Target(), said.append)


def test_clean_up_that_awaits_in_a_crash_is_caught() -> None:
    """House rule: release is an explicit step, never run by a crash."""

    class Careless(Target):
        def make(self, facts: Any, frequency: float) -> Any:
            backend = super().make(facts, frequency)
            add = backend.add_dead_task

            async def awaits_in_finally(*args: Any) -> None:
                try:
                    await add(*args)
                finally:
                    await _ops.Sleep(0.0)

            setattr(backend, "add_dead_task", awaits_in_finally)
            return backend

    kinds = {found.kind for found in findings(Careless(), "new;0;add:a", Bounds(0, kills=1))}
    assert "clean-up-in-a-crash" in kinds


# --- workloads and plans ----------------------------------------------------------------------


def test_workloads_have_a_text_form() -> None:
    """One line says what a run does."""
    text = "torn-old;0.5;add:a,list|find:a/task:t,giveup:t,sync"
    assert str(parse_workload(text)) == text
    for bad in ("new;0", "new;0;add", "new;0;list:a", "new;x;list", "new;0;fly:a"):
        with pytest.raises(ValueError):
            parse_workload(bad)
    with pytest.raises(ValueError, match="unknown start"):
        find_start("nowhere")


def test_generation_is_complete_and_free_of_mirror_images() -> None:
    """All sequences up to a length; two workers are not told apart by their order."""
    words = ("add:a", "add:b", "list")
    single = [str(w) for w in generate(words, 2, ((1,),), ("new",), 0.0)]
    assert single == [
        "new;0;add:a,add:a",
        "new;0;add:a,add:b",
        "new;0;add:a,list",
        "new;0;list,add:a",
    ]
    pairs = [str(w) for w in generate(words, 2, ((1, 1),), ("new",), 0.0)]
    assert "new;0;add:a/list" in pairs and "new;0;list/add:a" not in pairs


def test_a_plan_has_a_text_form() -> None:
    """The text fixes workload, fault, choices and images."""
    found = findings(Silenced(_ops.FsyncDir), "two;0;remove:p")
    plan = found[0].plan
    assert parse_plan(str(plan)) == plan
    for bad in ("{}", "[]", '{"target":"engine"}'):
        with pytest.raises(ValueError):
            parse_plan(bad)


def test_images_give_the_same_on_real_files(tmp_path: Path) -> None:
    """An image written to a real directory is recovered there as on the simulated disk."""
    target, start = Target(), find_start("torn-old")
    oracle = Oracle(start.dead, start.tasks, 0.0)
    workload = parse_workload("torn-old;0;add:a,remove:p,task:t")
    run = Run(target, workload, Machine(start.image, boot=BOOT), oracle)
    recovery = Recovery(target, "boot-2")
    images: dict[Image, None] = {}
    with target.constants():
        while run.enabled():
            run.take(0)
            images.update(dict.fromkeys(image_set(run.machine.disk, PORTABLE).images()))
    chosen = random.Random(1).sample(list(images), 60)
    for number, image in enumerate(chosen):
        place = tmp_path / str(number)
        place.mkdir()
        image.write_to(place)
        with Disk(place / PATH.strip("/"), PREFIX, 0) as disk:
            tasks = [task_record(found) for found in disk.pending_tasks()]
            dead = [dead_record(found) for found in disk.list_dead_tasks()]
        assert recovery.outcome(image) == Outcome(tuple(dead), tuple(tasks)), image


def test_a_deleted_lock_file_leaves_a_race_that_the_lab_shows() -> None:
    """D24: the check protects later acquirers only; who holds the lock already is not protected."""
    bounds = Bounds(2, stop_at="removed-came-back")
    found = findings(Target(), "clean;0;remove:p|unlock-file/list", bounds)
    assert "removed-came-back" in {finding.kind for finding in found}


def test_a_lock_file_lost_while_nobody_holds_it_does_no_harm() -> None:
    """D24: whoever comes later finds that the path names another inode."""
    assert not findings(Target(), "two;0;list,lose-lock,remove:p/list", Bounds(1))


def test_the_queue_hands_over_without_a_gap() -> None:
    """U1, U3, U4, U7: enqueue, run, give up, bring back; the engine's own programs."""
    totals = explored(Target(), "new;0.5;put:j,flaky,wait,reopen,load,fail,back:j,run").totals
    assert not totals.findings and totals.images > 1000


def test_a_fork_copies_memory() -> None:
    """D23, W13: the child has what its parent knew, and nothing that the parent learns later."""
    start = find_start("two")
    run = Run(
        Target(),
        parse_workload("two;0;fork,task:t,pending"),
        Machine(start.image, boot=BOOT),
        Oracle(start.dead, start.tasks, 0.0),
    )
    while run.enabled():
        run.take(0)
    parent, child = run.workers
    assert parent.backend is not child.backend
    assert parent.shown == {"t", "u", "v"} and child.shown == {"k"}


def test_old_blocks_of_another_file_are_a_tier_of_their_own() -> None:
    """F1, D28: where a file system may show old blocks of another file (ext4 with data=writeback),
    a removed record's line is valid there: a line's CRC does not say to which file it belongs."""
    line = find_start("clean").image.files()[DATA]
    stale = replace(PORTABLE, name="portable-foreign", fills=(NUL, line))
    explorer = Explorer(Target(), stale)
    explorer.explore(parse_workload("clean;0;remove:p,add:a"))
    assert {found.kind for found in explorer.totals.findings} == {"removed-came-back"}


def test_rates_are_measured_on_the_same_images() -> None:
    """The three rates come from one image set; no time is asserted."""
    rates = measure("clean;0;add:a")
    assert rates.images > 500 and 0 < rates.recoveries < rates.images
    assert min(rates.first_pass, rates.remembered, rates.cold, rates.loops) > 0


def test_the_command_replays_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit codes: 0 nothing found, 4 usage."""
    assert main(["workload", "new;0;list"]) == 0
    assert "0 findings" in capsys.readouterr().out
    assert main(["workload", "nowhere;0;list"]) == 4
    assert main(["replay", "{}"]) == 4
    assert "lab: this is no plan" in capsys.readouterr().err
    plan = Plan("engine", "portable", parse_workload("new;0;add:a"), None, (Phase((0,), None, ""),))
    assert main(["replay", str(plan)]) == 0
