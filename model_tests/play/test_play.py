"""`lychgate play`: a person drives the simulated store, and is told what breaks (D10, D12, D17)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest

from lychgate_conformance.lab._hunt import target_named
from lychgate_conformance.lab._models import PORTABLE
from lychgate_conformance.lab._plan import Setting
from lychgate_conformance.lab._workload import parse_workload
from lychgate_tools.cli import main
from lychgate_tools.play.game import END, Game

ADD = "new;0;add:a"


def game_of(workload: str, mutant: str = "engine") -> Game:
    return Game(target_named(mutant, Setting()), parse_workload(workload), PORTABLE)


def run_on(game: Game) -> None:
    while game.choices():
        game.play(0)


def all_left(game: Game) -> Iterator[str]:
    """What is wrong with each thing that a crash may leave, before each step of a whole run."""
    while True:
        yield from (it.broken for it in game.left())
        if not game.choices():
            return
        game.play(0)


def test_no_crash_of_the_engine_breaks_a_promise() -> None:
    """D17: before each step of an add, whatever survives."""
    assert set(all_left(game_of(ADD))) == {""}


def test_a_planted_fault_is_seen_at_once_when_the_wrong_thing_survives() -> None:
    """D10, D17: an add that is acknowledged before its fsync."""
    game = game_of(ADD, "no-fsync-data")
    run_on(game)
    left = game.left()
    assert [bool(it.broken) for it in left] == sorted(bool(it.broken) for it in left)
    assert not left[0].broken and left[-1].broken.startswith("acknowledged-add-lost")
    game.play(left[-1].image.digest())
    assert game.broken == left[-1].broken and game.is_over
    assert not game.choices()
    with pytest.raises(ValueError, match="over"):
        game.play(0)
    game.take_back()
    assert not game.broken and not game.is_over
    game.play(left[0].image.digest())
    assert not game.broken and game.seen == left[0].outcome


def test_after_a_crash_the_game_goes_on_with_what_survived() -> None:
    """D17: and the next crash is judged by everything that was acknowledged before."""
    game = game_of(ADD)
    run_on(game)
    game.play(game.left()[0].image.digest())
    run_on(game)
    assert {it.broken for it in game.left()} == {""}
    assert all(("a", 11) in it.outcome.dead for it in game.left())


def test_the_end_of_all_processes_loses_nothing() -> None:
    """D17: it ends the game."""
    game = game_of(ADD)
    run_on(game)
    game.play(END)
    assert game.is_over and not game.broken
    assert game.seen is not None and game.seen.dead == (("a", 11),)


def test_a_killed_worker_leaves_the_others_at_work() -> None:
    """D18: a kill is a choice beside the steps, and there is one of it."""
    game = game_of("new;0;add:a/list")
    for _ in range(3):
        game.play(0)
    kills = [place for place, it in enumerate(game.choices()) if it.killed]
    game.play(kills[0])
    assert not any(it.killed for it in game.choices())
    assert {it.worker for it in game.choices()} == {1}
    run_on(game)
    assert not game.broken


def test_taking_back_gives_the_same_state_again() -> None:
    """A game is its moves."""
    game = game_of("two;0;add:a/remove:p")
    for _ in range(20):
        game.play(0)
    before, choices = game.durability(), game.choices()
    game.play(1)
    game.take_back()
    assert game.durability() == before and game.choices() == choices and len(game.moves) == 20
    with pytest.raises(ValueError, match="no move"):
        game_of(ADD).take_back()


# --- the command --------------------------------------------------------------------------------


def test_a_game_from_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Moves are read line by line; a broken promise is said in words and by the exit code."""
    moves = "?\n\nt\nr\nc\nu\nc\n2\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(moves))
    assert main(["play", ADD, "--mutant", "no-fsync-data", "--hints"]) == 1
    said = capsys.readouterr().out
    assert "SIGKILL before its first step" in said
    assert "What survives?" in said and "BROKEN acknowledged-add-lost" in said
    assert "\x1b" not in said and "which?" not in said


def test_a_game_can_be_replayed_as_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """The command that is printed shows the same violation."""
    moves = ["play", ADD, "--mutant", "no-fsync-data", "--json", "--moves", "r c 2"]
    assert main(moves) == 1
    told = json.loads(capsys.readouterr().out)
    plan = told["replay"].removeprefix("lychgate replay ").strip("'")
    assert main(["replay", plan, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["broken"] == told["broken"]


def test_it_fits_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """40 columns, whatever is shown."""
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["play", "--moves", "n n n r c 1 q"]) == 0
    long = [line for line in capsys.readouterr().out.splitlines() if len(line) > 40]
    assert not long


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--mutant", "no-fsync-dat"], "did you mean no-fsync-data?"),
        (["--model", "ext5"], "ext4-ordered"),
        (["nonsense"], "start;frequency;steps"),
        (["--moves", "99"], "no choice"),
        (["--moves", "jump"], "no move is called"),
        (["--moves", "c 99"], "choose 1 to"),
    ],
)
def test_mistakes_are_told(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the remedy, exit code 4."""
    assert main(["play", *words]) == 4
    assert text in capsys.readouterr().err
