"""What the cases of level 5 have in common: every place to stop at, and what a finding shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lychgate_conformance._stage import Stage
from lychgate_conformance._verdict import Failed, Inconclusive, NotClaimed, NotMeasured
from lychgate_conformance.blackbox._about import unseen
from lychgate_conformance.blackbox._explain import image_lines
from lychgate_conformance.blackbox._pause import ANSWER
from lychgate_conformance.blackbox._schedule import Played, Schedule
from lychgate_conformance.blackbox._script import parse_words
from lychgate_conformance.blackbox._troupe import Troupe

PLACES_MAX = 24
"""Stops of one word that are tried with each thing that others do: a seeded choice where there are
more, and the rest as far as the case's share of a budget goes."""
PAIRS_MAX = 30
"""The same where a word is stopped twice."""
KILLS_MAX = 12
"""The same where the stopped worker is killed: each needs a new process."""
BATCH_S = 3600.0
_MAY_DO_NOTHING = ("sync", "close")
"""Words for which a store need not touch its files; they are stopped before their answer only."""
_NEAR = 2
"""A stop is looked for so many calls around its place when the history gets shorter."""


@dataclass(slots=True)
class _Tally:
    """What was looked at."""

    played: int = 0
    waited: int = 0
    missed: int = 0
    cut: int = 0
    """Places that were left out."""

    def __str__(self) -> str:
        text = f"{self.played} schedules, {self.waited} words waited"
        if self.missed:
            text += f"; in {self.missed} more the worker ended before its stop: not counted"
        return f"{text}; PARTIAL: {self.cut} more places to stop at" if self.cut else text


def paused(
    stage: Stage,
    before: str,
    word: str,
    *meanwhile: str,
    killed: bool = False,
    frequency: float = BATCH_S,
) -> None:
    """Stop worker 1 before each call of its word, and let others do each of `meanwhile` then.

    With a bar in it (`2/dead:b | 3/dead:c`) the worker is stopped twice.
    """
    troupe = Troupe(stage.target, stage.pool, stage.clock.left)
    tally = _Tally()
    try:
        if stage.schedule:
            _play(troupe, [Schedule.of(stage.schedule, frequency)], tally, stage)
            if not tally.played:
                raise NotMeasured("worker 1 has ended its word before the stop of the schedule")
        else:
            first = Schedule(parse_words(before), parse_words(word)[0], (ANSWER,), ((),))
            first = replace(first, frequency=frequency)
            plans = _plans(troupe, first, meanwhile, killed, tally, stage)
            _play(troupe, plans, tally, stage)
    except Inconclusive as error:
        raise Inconclusive(f"{error}; so far {tally}") from error
    finally:
        stage.notes.append(str(tally))
        troupe.end()


def _plans(
    troupe: Troupe,
    first: Schedule,
    meanwhile: Sequence[str],
    killed: bool,
    tally: _Tally,
    stage: Stage,
) -> Iterator[Schedule]:
    """Every schedule of a case, the early stops first."""
    counted = troupe.play(first)
    if counted.problem:
        raise Failed(explanation(counted))
    if not counted.stops:
        raise NotMeasured(f"the answer to {first.word} was not seen to be written")
    places = counted.stops[0].number
    if places == 1 and first.word.kind not in _MAY_DO_NOTHING:
        raise unseen(stage.claims, str(first.word), lazy=first.word.kind == "open")
    groups = [tuple(map(parse_words, text.split("|"))) for text in meanwhile]
    depth = len(groups[0])
    stops = list(itertools.combinations(range(1, places + 1), depth))
    most = KILLS_MAX if killed else PLACES_MAX if depth == 1 else PAIRS_MAX
    chosen = sorted(stage.rng.sample(stops, most)) if len(stops) > most else stops
    more = [it for it in stops if it not in set(chosen)]
    tally.cut = len(stops)
    for number, stop in enumerate([*chosen, *more]):
        if number >= len(chosen) and not stage.clock.has_share():
            return
        for group in groups:
            yield replace(first, stops=stop, during=group, killed=killed)
        tally.cut -= 1


def _play(
    troupe: Troupe, plans: Sequence[Schedule] | Iterator[Schedule], tally: _Tally, stage: Stage
) -> None:
    for plan in plans:
        played = troupe.play(plan)
        tally.waited += played.waited
        if played.problem:
            found = smallest(troupe, played)
            stage.replay = ("--schedule", str(_without_answer(found.schedule)))
            raise Failed(explanation(found))
        if played.happened:
            tally.played += 1
        else:
            tally.missed += 1


def smallest(troupe: Troupe, played: Played) -> Played:
    """The same failure by new processes, with a shorter history where that fails as well.

    Where worker 1 lives on, it is stopped before its answer too: so its last calls are shown.
    """
    schedule = played.schedule
    if not schedule.killed and ANSWER not in schedule.stops:
        stops, during = (*schedule.stops, ANSWER), (*schedule.during, ())
        schedule = replace(schedule, stops=stops, during=during)
    again = troupe.play(schedule, fresh=True)
    best = again if again.problem else played
    for place in reversed(range(len(best.schedule.before))):
        before = best.schedule.before
        if before[place].kind == "open":
            continue
        shorter = replace(best.schedule, before=(*before[:place], *before[place + 1 :]))
        for near in _near(shorter):
            tried = troupe.play(near)
            if tried.problem:
                best = tried
                break
    return best


def _near(schedule: Schedule) -> Iterator[Schedule]:
    first, *rest = schedule.stops
    for shift in sorted(range(-_NEAR, _NEAR + 1), key=abs):
        stops = tuple(it if it == ANSWER else it + shift for it in (first, *rest))
        if first == ANSWER or first + shift > 0:
            yield replace(schedule, stops=stops)


def _without_answer(schedule: Schedule) -> Schedule:
    """The schedule without the stop that only shows the last calls."""
    if len(schedule.stops) > 1 and schedule.stops[-1] == ANSWER and not schedule.during[-1]:
        return replace(schedule, stops=schedule.stops[:-1], during=schedule.during[:-1])
    return schedule


def explanation(played: Played) -> str:
    """A finding: the schedule, what happened, the files."""
    shown = _without_answer(played.schedule)
    lines = [played.problem, f"schedule: {shown}", "history:"]
    lines += [f"  {text}" for text in played.lines]
    if played.image is not None:
        lines += ["files at the end:", *(f"  {text}" for text in image_lines(played.image))]
    return "\n".join(lines)


def need_sync(stage: Stage) -> None:
    """NotClaimed when the backend has no `sync`."""
    if not stage.open().offers("sync"):
        raise NotClaimed("the backend has no sync()")
