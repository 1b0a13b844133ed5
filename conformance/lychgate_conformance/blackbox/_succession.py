"""A worker is killed within a call, another one goes on, and then the host crashes (D32, D19).

What the first left in the cache is there for the second, and need not be on the disk: the name of a
renamed file, say, under which the second then makes its own bytes durable.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from lychgate_conformance._verdict import BackendDied, NotMeasured
from lychgate_conformance.blackbox._checker import STORE
from lychgate_conformance.blackbox._explore import Explorer, Failure, Recorded
from lychgate_conformance.blackbox._places import Place, happened
from lychgate_conformance.blackbox._script import Script, Told, Word, checked, place_acks
from lychgate_conformance.blackbox._strace import Call, Event
from lychgate_conformance.blackbox._traced import Traced
from lychgate_conformance.lab._image import image_of


def crashes_after_kills(
    explorer: Explorer, before: Script, after: Script, kills_max: int
) -> Failure | None:
    """Kill the first worker at each call of its last word, let the others go on, crash the host."""
    places = last_places(explorer.run(before))
    if len(places) > kills_max:
        explorer.tally.partial.add(f"{kills_max} of {len(places)} calls to be killed at")
        places = random.Random(explorer.bounds.seed).sample(places, kills_max)
    missed = []
    for place in places:
        recorded = _succeed(explorer, before, after, place)
        if recorded is None:
            missed.append(str(place))
            continue
        explorer.tally.successions += 1
        script = Script((*before.words, *after.words), before.frequency)
        explorer.bounds = replace(explorer.bounds, images_max=explorer.bounds.again_max)
        since = len(before.words)
        failure = explorer.judge(script, recorded, host_crash=True, boot=1, since=since)
        if failure is not None:
            return failure
    if missed:
        raise NotMeasured(f"these kills did not happen: {', '.join(missed[:5])}")
    return None


def last_places(recorded: Recorded) -> list[Place]:
    """The calls of the last word that changed something, as strace counts them."""
    told = recorded.story.told
    counts: Counter[tuple[int, str]] = Counter()
    numbers: dict[tuple[int, int], int] = {}
    for event in recorded.events:
        if isinstance(event, Call):
            counts[event.pid, event.name] += 1
            numbers[event.pid, event.line] = counts[event.pid, event.name]
    return [
        Place(step.call.name, numbers[step.call.pid, step.call.line])
        for step in recorded.recording.steps
        if told[-2].at < step.begin < told[-1].at
    ]


def _succeed(
    explorer: Explorer, before: Script, after: Script, place: Place
) -> Recorded | None:
    """The recording of a kill and of what came after it; None when the kill did not happen."""
    world = explorer.world()
    told: list[Told] = []
    first = Traced(explorer.target, world.with_suffix(".first"), inject=(place.injection,))
    second = None
    try:
        for number, word in enumerate(before.words):
            call, request = before.request(word, number, world / STORE, told)
            try:
                reply = first.host.ask(request, explorer.left())
            except BackendDied:
                told.append(Told(word, call, None))
                break
            told.append(checked(word, call, reply))
        ended = first.killed()
        if not happened(ended, place) or told[-1].reply is not None:
            return None
        told.append(Told(Word(1, "exit"), None, {"ok": None}))
        second = Traced(explorer.target, world.with_suffix(".second"))
        for number, word in enumerate(after.words, 100):
            call, request = after.request(word, number, world / STORE, told)
            told.append(checked(word, call, second.host.ask(request, explorer.left())))
        events: list[Event] = [*ended, *second.finish(explorer.left())]
    finally:
        first.end()
        if second is not None:
            second.end()
    recording = explorer.apply(events, world, image_of({}), [first.stdout, second.stdout])
    lines = [(it.adapter, it.at) for it in recording.spoken]
    placed = place_acks(lines, told, [1, after.words[0].worker])
    dead = {it.pid for it in ended}
    steps = [it.end for it in recording.steps if it.call.pid in dead]
    cut = next(place for place, it in enumerate(placed) if it.reply is None)
    placed[cut] = replace(placed[cut], at=max([*(it - 1 for it in steps), placed[cut - 1].at]))
    return Recorded(recording, before.story(placed, explorer.target.claims))
