"""Schedules: one worker is stopped within one word, others go on, and then so does it.

    open 2/open dead:a | dead:b @7 | 2/undead:a
    open 2/open 3/open | dead:a @2,9 | 2/dead:b | 3/dead:c
    open 2/open dead:a | undead:a @5 | 2/dead:b | kill

Before the first bar is what came before; behind it the word of worker 1 and the calls on the store
before which it is stopped (`answer`: before its answer is written); then what others do at each of
these stops; `kill`: at the last one worker 1 is killed. `_troupe` plays them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lychgate_conformance.blackbox._pause import ANSWER, Stop
from lychgate_conformance.blackbox._script import Word, parse_words
from lychgate_conformance.lab._image import Image


@dataclass(frozen=True, slots=True)
class Schedule:
    """What is done, and where worker 1 is stopped."""

    before: tuple[Word, ...]
    word: Word
    stops: tuple[int, ...]
    during: tuple[tuple[Word, ...], ...]
    killed: bool = False
    frequency: float = 0.0

    @classmethod
    def of(cls, text: str, frequency: float = 0.0) -> Schedule:
        """The schedule of a text; ValueError when it is none."""
        before, *parts = (it.strip() for it in text.split("|"))
        killed = parts[-1:] == ["kill"]
        at, *during = parts[: len(parts) - killed] or [""]
        word, _, places = at.partition("@")
        stops = tuple(ANSWER if it.strip() == "answer" else int(it) for it in places.split(","))
        words = parse_words(word)
        if len(words) != 1 or words[0].worker != 1 or len(during) != len(stops):
            raise ValueError("a schedule is: words | one word @ stops | words for each stop")
        groups = tuple(map(parse_words, during))
        if any(it.worker == 1 for group in groups for it in group):
            raise ValueError("worker 1 stands while the others go on")
        return cls(parse_words(before), words[0], stops, groups, killed, frequency)

    def __str__(self) -> str:
        stops = ",".join("answer" if it == ANSWER else str(it) for it in self.stops)
        parts = [_text(self.before), f"{self.word} @{stops}", *map(_text, self.during)]
        return " | ".join([*parts, "kill"] if self.killed else parts)


def _text(words: Sequence[Word]) -> str:
    return " ".join(map(str, words))


@dataclass(slots=True)
class Played:
    """A schedule that was played."""

    schedule: Schedule
    lines: list[str] = field(default_factory=list)
    """What happened, for people."""
    stops: list[Stop] = field(default_factory=list)
    waited: int = 0
    """Words that had to wait until worker 1 went on, or was killed."""
    problem: str = ""
    image: Image | None = None
    """The files at the end, of a schedule with a problem."""

    @property
    def happened(self) -> bool:
        """Whether worker 1 has stood everywhere it was asked to."""
        return len(self.stops) == len(self.schedule.stops)
