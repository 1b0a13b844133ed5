"""The manifest: slips are found, drift is named, recording changes the numbers and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lychgate_tools import manifest as manifests
from lychgate_tools.manifest import Model, parse, rewritten
from lychgate_tools.models import compare, measurements
from lychgate_tools.tlc.output import TraceState, Verdict
from lychgate_tools.ui import ExitCode, UserError

TEXT = '''# What TLC must say.

[[model]]
name = "Lock"  # the lock alone
module = "MC_Lock"
config = "models/Lock.cfg"
expect = "ok"
class = "quick"
distinct = 10  # with two workers
depth = 7
about = """
Several lines, with a number = 3
inside."""

[[model]]
name = "Broken"
module = "MC_Lock"
config = "models/Broken.cfg"
expect = "violates Mutex"
class = "quick"
about = "new"

[[unmodelled]]
step = "MakeDir"
reason = "directories are made once"
'''
OK = Verdict("ok", distinct=10, depth=7)
LOCK = parse(TEXT, "here").models[0]
BROKEN = parse(TEXT, "here").models[1]


def test_reads_everything() -> None:
    manifest = parse(TEXT, "here")
    assert [model.name for model in manifest.models] == ["Lock", "Broken"]
    assert (LOCK.distinct, LOCK.depth, LOCK.deadlock, LOCK.liveness) == (10, 7, True, False)
    assert manifest.unmodelled == {"MakeDir": "directories are made once"}


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        ("[[model]]", "[model", "not TOML"),
        ('class = "quick"', 'class = "fast"', "class is one of"),
        ('expect = "ok"', 'expect = "passes"', "expect is"),
        ("depth = 7", 'depth = "7"', "depth must be of type int"),
        ("depth = 7", "dephts = 7", "did you mean depth?"),
        ('module = "MC_Lock"\n', "", "lacks module"),
        ('name = "Broken"', 'name = "Lock"', "two models are named Lock"),
        ("reason =", "why =", "lacks step or reason"),
    ],
)
def test_slips_are_one_line(old: str, new: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(TEXT.replace(old, new, 1), "spec/manifest.toml")
    assert hint in caught.value.message
    assert caught.value.message.startswith("spec/manifest.toml")


def test_agreement_is_silence() -> None:
    assert compare(LOCK, OK) == []


@pytest.mark.parametrize(
    ("model", "verdict", "says"),
    [
        (LOCK, replace(OK, distinct=9), "distinct was 10, is 9"),
        (LOCK, replace(OK, depth=8), "depth was 7, is 8"),
        (replace(LOCK, depth=None), OK, "depth is 7 and not recorded"),
        (LOCK, Verdict("violates", violated="Mutex"), "expected ok, got violates Mutex"),
        (BROKEN, OK, "expected violates Mutex, got ok"),
        (BROKEN, Verdict("violates", violated="TypeOK"), "got violates TypeOK"),
        (BROKEN, Verdict("error", kind="parse", detail="at line 3"), "got error parse (at line 3)"),
    ],
)
def test_every_drift_is_named(model: Model, verdict: Verdict, says: str) -> None:
    """A spec that quietly shrinks, and a negative model that fails for another reason."""
    assert any(says in problem for problem in compare(model, verdict))


def test_length_of_a_counter_example() -> None:
    trace = tuple(TraceState("A", "M", {}) for _ in range(5))
    verdict = Verdict("violates", violated="Mutex", distinct=99, trace=trace)
    assert measurements(BROKEN, verdict) == {"trace_length": 5}
    assert compare(replace(BROKEN, trace_length=5), verdict) == []
    assert compare(replace(BROKEN, trace_length=4), verdict) == ["trace_length was 4, is 5"]


def test_recording_changes_numbers_only() -> None:
    """Comments, order and text stay; a missing number is added; expectations never move."""
    text = rewritten(TEXT, {"Lock": {"distinct": 12, "depth": 8}, "Broken": {"trace_length": 5}})
    assert "distinct = 12  # with two workers\ndepth = 8\n" in text
    assert 'class = "quick"\ntrace_length = 5\n' in text
    assert 'name = "Lock"  # the lock alone' in text
    assert "with a number = 3\ninside." in text
    undone = text.replace("= 12", "= 10").replace("depth = 8", "depth = 7")
    assert undone.replace("trace_length = 5\n", "") == TEXT


def test_recording_removes_a_stale_number() -> None:
    text = rewritten(TEXT, {"Lock": {"distinct": 12}})
    assert "depth" not in text.split("[[model]]")[1]


def test_unknown_model_suggests_the_nearest() -> None:
    manifest = parse(TEXT, "here")
    with pytest.raises(UserError) as caught:
        manifest.chosen(["Lokc"], "quick")
    assert "did you mean Lock?" in caught.value.message
    assert caught.value.code == ExitCode.USAGE
    assert [model.name for model in manifest.chosen(["Broken", "Broken"], "full")] == ["Broken"]
    assert manifest.chosen([], "full") == []


def test_manifest_that_is_not_there(tmp_path: object) -> None:
    with pytest.raises(UserError):
        manifests.load(__import__("pathlib").Path(str(tmp_path)) / "manifest.toml")
