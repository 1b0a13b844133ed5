"""What the cases of levels 2 and 3 have in common: explore a script, say what was looked at."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from lychgate_conformance._stage import Stage
from lychgate_conformance._verdict import Failed, Inconclusive, NotMeasured
from lychgate_conformance.blackbox._about import unseen
from lychgate_conformance.blackbox._evidence import evidence
from lychgate_conformance.blackbox._explain import explain
from lychgate_conformance.blackbox._explore import Explorer, Failure
from lychgate_conformance.blackbox._images import Bounds
from lychgate_conformance.blackbox._kill import Killed, Killer
from lychgate_conformance.blackbox._queue_checker import QueueExplorer
from lychgate_conformance.blackbox._queue_script import QueueScript
from lychgate_conformance.blackbox._reboot import can_reboot
from lychgate_conformance.blackbox._script import Script
from lychgate_conformance.blackbox._succession import crashes_after_kills
from lychgate_conformance.blackbox._traced import need_strace

BOUNDS = Bounds()
KILLS_MAX = 60
"""Real kills of one case; beyond it a seeded choice of the calls, and PARTIAL."""
SUCCESSIONS_MAX = 16
"""Kills of one case after which another worker goes on."""
_SHRINKS_MAX = 4
_SHRUNK = Bounds(images_max=1200, family_max=300)


def explore(
    stage: Stage, script: Script, go: Callable[[Explorer], Failure | None]
) -> None:
    """Run an exploration in the case's directory; Failed with all that is known of a failure."""
    need_strace()
    explorer = explorer_for(stage, script, replace(BOUNDS, seed=stage.rng.randrange(1 << 30)))
    try:
        failure = go(explorer)
        stage.notes.append(str(explorer.tally))
        if failure is not None:
            raise _found(stage, explorer, smallest(explorer, failure))
    finally:
        explorer.end()


def explorer_for(stage: Stage, script: Script, bounds: Bounds) -> Explorer:
    """What explores scripts of this kind."""
    if isinstance(script, QueueScript):
        return QueueExplorer(stage.target, stage.root, bounds, stage.clock.left, script)
    return Explorer(stage.target, stage.root, bounds, stage.clock.left)


def host_crashes(stage: Stage, text: str, frequency: float = 0.0, recoveries: int = 0) -> None:
    """Every image of a host crash, at any moment of a script."""
    crash_hosts(stage, Script.of(text, frequency), recoveries)


def crash_hosts(stage: Stage, script: Script, recoveries: int = 0) -> None:
    """The same of a script of any kind."""
    if not can_reboot():
        stage.notes.append("the boot id stays: mounts are not allowed here")
    explore(stage, script, lambda explorer: explorer.host_crashes(script, recoveries))


def successions(stage: Stage, before: str, after: str, frequency: float = 0.0) -> None:
    """A worker is killed at each call of its last word, another goes on, and the host crashes."""
    first, second = Script.of(before, frequency), Script.of(after, frequency)
    explore(
        stage,
        first,
        lambda explorer: crashes_after_kills(explorer, first, second, SUCCESSIONS_MAX),
    )


def process_kills(stage: Stage, text: str, frequency: float = 0.0) -> None:
    """The image at entry and exit of every call, with every prefix of the write in flight."""
    cut_processes(stage, Script.of(text, frequency))


def cut_processes(stage: Stage, script: Script) -> None:
    """The same of a script of any kind."""
    explore(stage, script, lambda explorer: explorer.process_kills(script))


def smallest(explorer: Explorer, failure: Failure) -> Failure:
    """The failure of a shorter script, where leaving words out still fails; a few are tried."""
    if failure.depth > 1 or any(it.reply is None for it in failure.story.told):
        return failure
    explorer.bounds = _SHRUNK
    best = failure
    words = failure.story.told[: failure.acked + 1]
    current = [it.word for it in words]
    for place in range(len(current) - 2, 0, -1)[:_SHRINKS_MAX]:
        shorter = replace(failure.script, words=tuple(current[:place] + current[place + 1 :]))
        if not any(word.kind == "open" for word in shorter.words):
            continue
        try:
            if best.host_crash:
                found = explorer.host_crashes(shorter)
            else:
                found = explorer.process_kills(shorter)
        except (Failed, Inconclusive, NotMeasured):
            continue
        if found is not None and found.acked < best.acked:
            best = found
            current = [it.word for it in found.story.told[: found.acked + 1]]
    return best


def real_kills(stage: Stage, text: str, frequency: float = 0.0) -> None:
    """SIGKILL at the entry of every call that changes the store, or is on a connection to it; one
    run for each."""
    kill_processes(stage, Script.of(text, frequency))


def kill_processes(stage: Stage, script: Script) -> None:
    """The same of a script of any kind."""
    explorer = explorer_for(stage, script, BOUNDS)
    killer = Killer(stage.target, stage.pool, stage.clock.left)
    try:
        calls = killer.points(script)
        if len(calls) <= len(script.words):  # answers only
            raise unseen(stage.claims, "the adapter")
        places = range(1, len(calls) + 1)
        chosen: Sequence[int] = places
        if len(places) > KILLS_MAX:
            chosen = random.Random(stage.rng.random()).sample(places, KILLS_MAX)
        for place in chosen:
            killed = killer.kill(script, place, explorer.checker(script.frequency, 0))
            if killed is not None:
                _judge(stage, explorer, killed)
        text = f"{killer.happened} kills of {len(places)} places"
        stage.notes.append(text if len(chosen) == len(places) else f"{text}; PARTIAL")
        if killer.missed:
            missed = ", ".join(map(str, killer.missed[:5]))
            raise NotMeasured(f"{text}; calls that were not reached: {missed}")
    finally:
        killer.end()
        explorer.end()


def _judge(stage: Stage, explorer: Explorer, killed: Killed) -> None:
    checker = explorer.checker(killed.story.frequency, 0)
    problem = killed.outcome.error
    if not problem and not killed.story.allows(killed.outcome.view, killed.acked, False):
        problem = "what is there is not what was acknowledged"
    problem = problem or checker.further(killed.left, killed.outcome.view)
    if problem:
        raise _found(stage, explorer, killed.failure(problem))


def _found(stage: Stage, explorer: Explorer, failure: Failure) -> Failed:
    """A failure as the end of a case, its image kept for the report."""
    boot = failure.depth if failure.host_crash else 0
    frequency = failure.script.frequency
    checker = explorer.checker(frequency, boot)
    if stage.claims.uses_path:  # else there are no files to be kept
        stage.image = evidence(failure.met.image, checker, frequency, boot)
    return Failed(explain(failure))
