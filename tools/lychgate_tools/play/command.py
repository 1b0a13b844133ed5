"""`lychgate play`: drive a small store step by step, crash it, and see which promise breaks.

Moves come from a person, one to a line, from a pipe, or from `--moves`. Nothing but memory is
touched: files, processes and crashes are simulated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from lychgate_conformance.lab._hunt import ENGINE, MUTANTS, find_mutant, target_named
from lychgate_conformance.lab._models import MODELS, find_model
from lychgate_conformance.lab._plan import Setting
from lychgate_conformance.lab._replay import command
from lychgate_conformance.lab._starts import find_start
from lychgate_conformance.lab._workload import parse_workload
from lychgate_tools.play.game import END, Game
from lychgate_tools.play.screen import HELP, board, judgement, question, seen_text
from lychgate_tools.ui import ExitCode, Subparsers, UserError, add_command, print_json, unknown

_DEFAULT = "two;0;add:a/remove:p"

_EXAMPLE = """lychgate play
  lychgate play --mutant no-fsync-data
  lychgate play 'two;0;add:a|list/remove:p' --model ext4-ordered
  lychgate play --moves 'n n c 1' --json

moves:
""" + HELP


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "play", "drive a small store, crash it, see which promise breaks", _EXAMPLE
    )
    parser.add_argument(
        "workload",
        nargs="?",
        metavar="WORKLOAD",
        help=f"start;frequency;steps, as for `explore --workload` (default: {_DEFAULT})",
    )
    parser.add_argument("--mutant", metavar="NAME", help="an engine with this planted fault")
    parser.add_argument(
        "--model", default="portable", metavar="NAME", help=f"one of {', '.join(MODELS)}"
    )
    parser.add_argument("--kills", type=int, default=1, help="processes killed, at most (1)")
    parser.add_argument("--moves", metavar="MOVES", help="these moves, then stop")
    parser.add_argument("--hints", action="store_true", help="say before the choice what breaks")


def run(args: argparse.Namespace) -> int:
    game = _game(args)
    talk = _Talk(game, hints=args.hints, silent=args.json)
    words = _asked(talk) if args.moves is None else iter(args.moves.split())
    if args.json and args.moves is None:
        words = (line.strip() for line in sys.stdin)
    talk.show()
    for word in words:
        if not talk.hear(word):
            break
    if args.json:
        seen = None if game.seen is None else seen_text(game.seen)
        found = {"moves": game.moves, "broken": game.broken or None, "seen": seen}
        print_json({**found, "replay": command(game.plan())})
    return ExitCode.SHORT if game.broken else ExitCode.OK


def _game(args: argparse.Namespace) -> Game:
    known = [ENGINE, *(one.name for one in MUTANTS)]
    if args.mutant is not None and args.mutant not in known:
        raise unknown("mutant", args.mutant, known)
    text = args.workload
    if text is None:
        planted = args.mutant not in (None, ENGINE)
        text = find_mutant(args.mutant).workload if planted else _DEFAULT
    try:
        workload, model = parse_workload(text), find_model(args.model)
        find_start(workload.start)
        return Game(target_named(args.mutant or ENGINE, Setting()), workload, model, args.kills)
    except ValueError as error:
        raise UserError(str(error), ExitCode.USAGE) from error


def _asked(talk: _Talk) -> Iterator[str]:
    """The words that somebody types, or that come down a pipe."""
    while True:
        prompt = "which? " if talk.is_choosing else "move? "
        if sys.stdin.isatty():
            print(prompt, end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        yield line.strip()


class _Talk:
    """What is said to each word."""

    def __init__(self, game: Game, *, hints: bool, silent: bool) -> None:
        self.game = game
        self.hints = hints
        self.silent = silent
        self._left: list[str] = []
        """Digests of the images that can be chosen now, while a crash waits for its image."""

    @property
    def is_choosing(self) -> bool:
        return bool(self._left)

    def show(self) -> None:
        if not self.silent:
            self._say(*board(self.game))

    def hear(self, word: str) -> bool:
        """Answer one word; False when the game is over."""
        try:
            return self._hear(word)
        except ValueError as error:
            if not sys.stdin.isatty():
                raise UserError(f"move {word!r}: {error}", ExitCode.USAGE) from error
            self._say(f"  {error}; ? for help")
            return True

    def _hear(self, word: str) -> bool:
        game = self.game
        if word == "q":
            return False
        if word in ("?", "h", "help"):
            self._say(*HELP.splitlines())
        elif word == "t":
            self._say(*(f"  worker {who}  {step}" for who, step, _ in game.told()))
        elif word == "p":
            self._say(f"  {command(game.plan())}")
        elif word == "u" and self.is_choosing:
            self._left = []
            self.show()
        elif self.is_choosing:
            self._choose(word)
        elif word == "c":
            self._ask()
        else:
            self._move(word)
        return not game.is_over

    def _move(self, word: str) -> None:
        game = self.game
        if word == "u":
            game.take_back()
        elif word == "e":
            game.play(END)
            self._judged()
        elif word in ("n", "r"):
            before = game.durability()
            while game.choices():
                game.play(0)
                if word == "n" and game.durability() != before:
                    break
        elif not word or word.isdigit():
            game.play(int(word or "1") - 1)
        else:
            raise ValueError(f"no move is called {word!r}")
        if game.broken and word != "e":
            self._judged()
        elif not game.is_over:
            self.show()

    def _ask(self) -> None:
        left = self.game.left()
        self._left = [it.image.digest() for it in left]
        self._say(*question(left, self.game.cache(), self.hints))

    def _choose(self, word: str) -> None:
        if not word.isdigit() or not 1 <= int(word) <= len(self._left):
            raise ValueError(f"choose 1 to {len(self._left)}, or u to go on without a crash")
        self.game.play(self._left[int(word) - 1])
        self._left = []
        self._judged()
        if not self.game.is_over:
            self.show()

    def _judged(self) -> None:
        self._say(*judgement(self.game))
        if self.game.broken:
            self._say(f"again: {command(self.game.plan())}")

    def _say(self, *lines: str) -> None:
        if not self.silent:
            for line in lines:
                print(line, flush=True)
