"""One script on one target: recorded, every image of it judged by the oracle.

Rules of this file
  * Images are judged group by group (by the number of acknowledged words), so that the first
    failure is one of the shortest history. The budget of a recording is shared out among groups;
    what one does not use the next may.
  * The first image of every outcome in a group, and of every way in which its files end, is also
    used after its recovery.
  * With `recoveries`, some images are recovered under strace as well and crash again within their
    recovery (depth 2). What the first recovery has shown as absent may not come back (D29).
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from lychgate_conformance._after_crash import View
from lychgate_conformance._oracle import TooMany
from lychgate_conformance._target import Target
from lychgate_conformance._verdict import Inconclusive, NotClaimed, NotMeasured
from lychgate_conformance.blackbox._checker import STORE, Checker, Outcome, write_image
from lychgate_conformance.blackbox._effects import NotUnderstood
from lychgate_conformance.blackbox._images import Bounds, Met, Partial, groups, host_crashes, kills
from lychgate_conformance.blackbox._record import Recording, Unexplained, record
from lychgate_conformance.blackbox._script import (
    Script,
    Tale,
    Told,
    checked,
    place_acks,
)
from lychgate_conformance.blackbox._strace import Event, TraceError
from lychgate_conformance.blackbox._traced import Traced
from lychgate_conformance.lab._image import Image, image_of
from lychgate_conformance.lab._models import PORTABLE

_CALL_LIMIT_S = 60.0
_LOOK_AHEAD = 8
"""So many times more images than can be judged are built, to choose from."""


@dataclass(slots=True)
class Recorded:
    """A recording and what it obliges to."""

    recording: Recording
    story: Tale
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Failure:
    """An image on which the store is not as it may be."""

    script: Script
    recording: Recording
    story: Tale
    met: Met
    acked: int
    outcome: Outcome
    host_crash: bool
    depth: int = 1
    start: Image | None = None


@dataclass(slots=True)
class Tally:
    """What was looked at."""

    points: int = 0
    met: int = 0
    """Pairs of an image and a number of acknowledged words."""
    distinct: int = 0
    further: int = 0
    recoveries: int = 0
    successions: int = 0
    partial: Partial = field(default_factory=Partial)
    seconds: float = 0.0

    def __str__(self) -> str:
        text = (
            f"{self.distinct:,} images ({self.met:,} with acknowledgements) "
            f"of {self.points} crash points"
        )
        if self.recoveries:
            text += f", {self.recoveries} recoveries crashed again"
        if self.successions:
            text += f", {self.successions} kills after which another went on"
        return f"{text}; PARTIAL: {self.partial}" if str(self.partial) else text


class Explorer:
    """Explores scripts on one target."""

    def __init__(
        self, target: Target, base: Path, bounds: Bounds, wait: Callable[[], float] | None = None
    ) -> None:
        self.target = target
        self.base = base
        self.bounds = bounds
        self.tally = Tally()
        self._checkers: dict[tuple[float, int], Checker] = {}
        self._made = 0
        self.left = wait or (lambda: _CALL_LIMIT_S)

    def checker(self, frequency: float, boot: int) -> Checker:
        """The long-lived adapter for these options, in this boot."""
        key = frequency, boot
        if key not in self._checkers:
            self._checkers[key] = self.new_checker(frequency, boot)
        return self._checkers[key]

    def new_checker(self, frequency: float, boot: int) -> Checker:
        return Checker(self.target, frequency, boot)

    def end(self) -> None:
        for checker in self._checkers.values():
            checker.end()
        self._checkers.clear()

    # --- recording ----------------------------------------------------------------------------

    def run(self, script: Script) -> Recorded:
        """Record a script in a new directory."""
        checker = self.checker(script.frequency, 0)
        words = tuple(w for w in script.words if w.kind != "close" or checker.offers("close"))
        if any(w.kind == "sync" for w in words) and not checker.offers("sync"):
            raise NotClaimed("the backend has no sync()")
        world = self.world()
        return self._record(replace(script, words=words), world)

    def world(self) -> Path:
        """An empty directory."""
        self._made += 1
        world = self.base / f"world-{self._made}"
        world.mkdir()
        return world

    def _record(self, script: Script, world: Path) -> Recorded:
        adapters: dict[int, Traced] = {}
        told: list[Told] = []
        try:
            for place, word in enumerate(script.words):
                if word.worker not in adapters:
                    output = world.with_suffix(f".trace-{word.worker}")
                    adapters[word.worker] = Traced(self.target, output)
                host = adapters[word.worker].host
                if word.kind == "exit":
                    host.exit(self.left())
                    told.append(Told(word, None, {"ok": None}))
                    continue
                call, request = script.request(word, place, world / STORE, told)
                told.append(checked(word, call, host.ask(request, self.left())))
            events = [it for one in adapters.values() for it in one.finish(self.left())]
        finally:
            for one in adapters.values():
                one.end()
        stdouts = {worker: one.stdout for worker, one in adapters.items()}
        recording = self.apply(events, world, image_of({}), list(stdouts.values()))
        lines = [(it.adapter, it.at) for it in recording.spoken]
        placed = place_acks(lines, told, list(stdouts))
        story = script.story(placed, self.target.claims)
        return Recorded(recording, story, events)

    def apply(
        self, events: list[Event], world: Path, start: Image, stdouts: list[str]
    ) -> Recording:
        """The recording of a world, which is then given up. NotMeasured when there is none."""
        try:
            return record(events, world, start, stdouts, os.getcwd())
        except (NotUnderstood, TraceError, Unexplained) as error:
            raise NotMeasured(f"the recording cannot be followed: {error}") from error
        finally:
            shutil.rmtree(world, ignore_errors=True)

    # --- judging ------------------------------------------------------------------------------

    def host_crashes(self, script: Script, recoveries: int = 0) -> Failure | None:
        """The first failure of any host crash; None when there is none."""
        recorded = self.run(script)
        starts: list[tuple[Met, int]] = []
        failure = self.judge(script, recorded, host_crash=True, boot=1, starts=starts)
        if failure is None and recoveries:
            failure = self._again(script, recorded, _spread(starts, recoveries))
        return failure

    def process_kills(self, script: Script) -> Failure | None:
        """The first failure of any kill, by the images of one recording."""
        return self.judge(script, self.run(script), host_crash=False, boot=0)

    def judge(
        self,
        script: Script,
        recorded: Recorded,
        *,
        host_crash: bool,
        boot: int,
        starts: list[tuple[Met, int]] | None = None,
        depth: int = 1,
        start: Image | None = None,
        since: int = 0,
    ) -> Failure | None:
        """The first failure after at least `since` acknowledged words."""
        recording, story = recorded.recording, recorded.story
        checker = self.checker(script.frequency, boot)
        parts = {k: found for k, found in groups(recording, story).items() if k >= since}
        budget = self.bounds.images_max if depth == 1 else self.bounds.again_max
        for number, (acked, points) in enumerate(parts.items()):
            self.left()  # Inconclusive when the case has no time any more
            self.tally.points += len(points)
            share = budget // (len(parts) - number)
            if host_crash:
                met = host_crashes(recording, points, PORTABLE, self.bounds, self.tally.partial)
            else:
                met = kills(recording, points, self.bounds, self.tally.partial)
            chosen = self._distinct(met, share)
            budget -= len(chosen)
            allows = partial(story.allows, acked=acked, host_crash=host_crash)
            try:
                failure = self._judge_group(checker, chosen, allows, starts, acked)
            except TooMany as error:
                raise Inconclusive(str(error)) from error
            if failure is not None:
                bad, outcome = failure
                return Failure(
                    script, recording, story, bad, acked, outcome, host_crash, depth, start
                )
        return None

    def _distinct(self, met: Iterator[Met], share: int) -> list[Met]:
        """So many distinct images: all, or half of them the first ones and half a sample."""
        found: dict[tuple[object, ...], Met] = {}
        for one in met:
            found.setdefault((one.image.paths, one.image.contents, one.image.groups), one)
            if len(found) >= _LOOK_AHEAD * share:
                break
        images = list(found.values())
        if len(images) <= share:
            return images
        self.tally.partial.add("more images than there is time for, sampled")
        first = images[: share // 2]
        rest = range(share // 2, len(images))
        chosen = sorted(random.Random(self.bounds.seed).sample(rest, share - len(first)))
        return [*first, *(images[place] for place in chosen)]

    def _judge_group(
        self,
        checker: Checker,
        chosen: list[Met],
        allows: Callable[[View], bool],
        starts: list[tuple[Met, int]] | None,
        acked: int,
    ) -> tuple[Met, Outcome] | None:
        firsts: dict[tuple[object, ...], tuple[Met, Outcome]] = {}
        before = checker.done
        by_image = iter(chosen)
        worst: tuple[Met, Outcome] | None = None
        for _, outcome in checker.outcomes(met.image for met in chosen):
            met = next(by_image)
            self.tally.met += 1
            if outcome.error or not allows(outcome.view):
                if worst is None or _size(met.image) < _size(worst[0].image):
                    worst = met, outcome
            firsts.setdefault((outcome, met.image.paths, _tails(met.image)), (met, outcome))
        self.tally.distinct += checker.done - before
        if worst is not None:
            return worst
        for met, outcome in list(firsts.values())[: self.bounds.further_max]:
            self.tally.further += 1
            if problem := checker.further(met.image, outcome.view):
                return met, Outcome(outcome.view, problem)
        if starts is not None:
            starts += [(met, acked) for met, _ in firsts.values()]
        return None

    # --- depth 2 ------------------------------------------------------------------------------

    def _again(
        self, script: Script, first: Recorded, starts: list[tuple[Met, int]]
    ) -> Failure | None:
        """Crash within the recovery of some images, and within the first calls after it."""
        recovery, seen_at = script.recovery()
        checker = self.checker(script.frequency, 1)
        worlds = [self.world() for _ in starts]
        for world, (met, _) in zip(worlds, starts, strict=True):
            world.rmdir()
            write_image(met.image, world)
        output = self.base / f"recoveries-{self._made}.trace"
        adapter = Traced(self.target, output, checker.prefix())
        tales: list[list[Told]] = []
        try:
            for world in worlds:
                tale: list[Told] = []
                for place, word in enumerate(recovery.words):
                    if word.kind == "close" and not checker.offers("close"):
                        break
                    call, request = script.request(word, 900 + place, world / STORE, tale)
                    tale.append(checked(word, call, adapter.host.ask(request, self.left())))
                tales.append(tale)
            events = adapter.finish(self.left())
        finally:
            adapter.end()
        said = -1
        for world, tale, (met, acked) in zip(worlds, tales, starts, strict=True):
            recording = self.apply(events, world, met.image, [adapter.stdout])
            lines = [(it.adapter, it.at) for it in recording.spoken]
            before = len(lines) - sum(map(len, tales)) if said < 0 else said
            said = before + len(tale)
            placed = place_acks(lines[before:said], tale, [1])
            story = first.story.second(placed, acked, seen_at)
            self.tally.recoveries += 1
            failure = self.judge(
                recovery,
                Recorded(recording, story),
                host_crash=True,
                boot=2,
                depth=2,
                start=met.image,
            )
            if failure is not None:
                return failure
        return None


def _tails(image: Image) -> tuple[object, ...]:
    """How the files end: empty, in a newline, in a NUL, or in something else."""
    return tuple(
        _TAILS.get(content[-1:], "other") if isinstance(content, bytes) else ""
        for content in image.contents
    )


_TAILS = {b"": "empty", b"\n": "newline", b"\0": "NUL"}


def _size(image: Image) -> tuple[int, int]:
    """Smaller images are easier to read."""
    files = image.files()
    return len(files), sum(map(len, files.values()))


def _spread(starts: list[tuple[Met, int]], count: int) -> list[tuple[Met, int]]:
    """So many of them, of as many kinds of names as there are, the last ones first."""
    kinds: dict[tuple[str, ...], list[tuple[Met, int]]] = {}
    for start in reversed(starts):
        kinds.setdefault(start[0].image.paths, []).append(start)
    found: list[tuple[Met, int]] = []
    while len(found) < count and any(kinds.values()):
        found += [some.pop(0) for some in kinds.values() if some]
    return found[:count]
