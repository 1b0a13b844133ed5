"""`lychgate explore`, `lychgate mutants engine`, `lychgate replay` of plans: output, exit codes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from lychgate_tools.cli import main
from lychgate_tools.ui import ExitCode, Progress

FAST = ["--workload", "new;0;list"]


def as_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_workload_is_explored(capsys: pytest.CaptureFixture[str]) -> None:
    """One line per part, then the verdict; images that differ are counted when asked for."""
    assert main(["explore", *FAST, "--distinct"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "images differ in content" in text and "nothing is broken" in text
    assert main(["explore", *FAST, "--distinct", "--json"]) == ExitCode.OK
    said = as_json(capsys)
    assert said["model"] == "portable" and not said["interrupted"] and said["parts_left"] == 0
    totals = said["totals"]
    assert 0 < totals["distinct"] <= totals["images"]


def test_a_broken_promise_ends_with_the_command_that_shows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """F1: under a lying flush something is lost; the plan alone replays it."""
    arguments = ["explore", "--workload", "new;0;task:t,sync", "--model", "xfs+lying"]
    assert main([*arguments, "--json"]) == ExitCode.SHORT
    (part,) = as_json(capsys)["parts"]
    finding = part["findings"][0]
    assert finding["replay"].startswith("lychgate replay ")
    assert json.loads(finding["plan"])["workload"] == "new;0;task:t"  # the smallest
    assert main(["replay", finding["plan"]]) == ExitCode.SHORT
    assert finding["text"] in capsys.readouterr().out
    assert main(["replay", finding["plan"], "--json"]) == ExitCode.SHORT
    assert as_json(capsys)["broken"] == finding["text"]
    assert main(arguments) == ExitCode.SHORT
    assert "\nreplay: lychgate replay '{" in capsys.readouterr().out


def test_an_interrupt_leaves_a_whole_summary(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C: what was done is told, and what was not is named."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "update", interrupt)
    assert main(["explore", "--part", "dead", "--part", "wal", "--json"]) == ExitCode.INTERRUPTED
    said = as_json(capsys)
    assert said["interrupted"] and said["parts_left"] == 1
    assert said["totals"]["workloads"] == 1 and "interrupted" in said["parts"][0]["partial"]


@pytest.mark.parametrize(
    "arguments, text",
    [
        (["explore", "--part", "kils"], "unknown part 'kils'"),
        (["explore", "--model", "ext5"], "unknown persistence model 'ext5'"),
        (["explore", "--model", "xfs+7"], "unknown knob '7'"),
        (["explore", "--workload", "new"], "a workload is"),
        (["explore", "--workload", "nowhere;0;list"], "unknown start 'nowhere'"),
        (["explore", "--workload", "new;0;fly"], "unknown step 'fly'"),
        (["explore", "--budget", "0"], "above 0"),
        (["mutants", "engine", "no-tail-repar"], "did you mean no-tail-repair?"),
        (["mutants", "engine", "--jobs", "0"], "at least 1"),
        (["mutants", "spec"], "invalid choice"),
        (["replay"], "name a report, a plan, or a mutant"),
        (["replay", "{"], "no plan"),
        (["replay", "{}"], "no plan"),
        (["replay", "--mutant", "nobody"], "no mutant named 'nobody'"),
    ],
)
def test_what_does_not_exist_is_one_line(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Usage: one line that names the remedy, exit code 4."""
    assert main(arguments) == ExitCode.USAGE
    said = capsys.readouterr()
    assert text in said.err and said.err.count("\n") == 1 and not said.out


def test_mutants_are_told_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """D11, W3: the requirement, the check that noticed, the work it took, the run."""
    names = ["no-tail-repair", "no-wal-fsync"]
    assert main(["mutants", "engine", *names, "--quick"]) == ExitCode.OK
    text = capsys.readouterr().out
    assert "D11" in text and "W3" in text and "2 of 2 mutants killed" in text
    assert main(["mutants", "engine", *names, "--json", "--quick", "--jobs", "2"]) == ExitCode.OK
    said = as_json(capsys)
    assert [row["mutant"] for row in said["mutants"]] == names
    for row in said["mutants"]:
        assert row["killed"] and row["images"] > 0 and row["replay"].startswith("lychgate replay")


def test_mutants_not_tried_and_survivors_fall_short(capsys: pytest.CaptureFixture[str]) -> None:
    """A budget that is over, or a search too short to find anything, is no success."""
    assert main(["mutants", "engine", "no-flag", "--budget", "-1"]) == ExitCode.SHORT
    assert "1 were not tried" in capsys.readouterr().out
    assert main(["mutants", "engine", "no-flag", "--search", "1e-9"]) == ExitCode.SHORT
    assert "SURVIVES: no-flag" in capsys.readouterr().out


def test_a_mutant_is_replayed_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """One short command: the smallest run that shows it, step by step; the engine passes it."""
    assert main(["replay", "--mutant", "repair-too-far", "--json"]) == ExitCode.SHORT
    said = as_json(capsys)
    assert said["target"] == "repair-too-far" and said["broken"] and said["run"]
    assert main(["replay", said["plan"], "--mutant", "engine"]) in (ExitCode.OK, ExitCode.SHORT)
    said_after = capsys.readouterr()
    assert "BROKEN" not in said_after.out
