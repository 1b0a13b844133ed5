"""What the cases of level 4 have in common: study a script, make its calls fail, judge each run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from lychgate_conformance._stage import Stage
from lychgate_conformance._verdict import Failed, Inconclusive, NotClaimed, NotMeasured
from lychgate_conformance.blackbox._about import unseen
from lychgate_conformance.blackbox._explore import Explorer
from lychgate_conformance.blackbox._fault_verdict import Broken, judge
from lychgate_conformance.blackbox._faulted import Faulter, Ground, leave
from lychgate_conformance.blackbox._faults import Fault, Site, ordered
from lychgate_conformance.blackbox._images import Bounds
from lychgate_conformance.blackbox._record import Recording
from lychgate_conformance.blackbox._script import Script
from lychgate_conformance.blackbox._traced import need_strace
from lychgate_conformance.cases._crash import explorer_for
from lychgate_conformance.lab._image import cached_image

FAULTS_MAX = 32
"""Faults of one case that a verdict needs, where there are so many. With a budget (`--budget`) as
many more are tried as there is time for."""
BOUNDS = Bounds(
    images_max=60, family_max=16, torn_max=6, complete_max=200, sample=6, further_max=1
)
"""Images of the host's crashes after one fault."""

_EARLIER = 9
_SHRINKS_MAX = 4
Choose = Callable[[Sequence[Site], Recording], Iterable[Fault]]


def faults(
    stage: Stage, text: str, choose: Choose, frequency: float = 0.0, before: str = "",
    host_crash: bool = False, other: bool = False,
) -> None:  # fmt: skip
    """Try the faults of a task store's script."""
    script, earlier = Script.of(text, frequency), Script.of(before, frequency)
    try_faults(stage, script, choose, earlier, host_crash, other)


def try_faults(
    stage: Stage, script: Script, choose: Choose, before: Script | None = None,
    host_crash: bool = False, other: bool = False,
) -> None:  # fmt: skip
    """Try the faults of a script, the most telling ones first; Failed by the first that breaks
    a promise. `before` is done by an earlier process, without a fault; `other`: another one goes
    on after the fault."""
    need_strace()
    explorer = explorer_for(stage, script, BOUNDS)
    faulter = None
    try:
        ground = _ground(stage, explorer, before) if before and before.words else Ground()
        pool = stage.pool if stage.target.command is None else None
        faulter = Faulter(explorer, pool, ground, records=host_crash, other=other)
        script = _offered(explorer, script)
        sites, recording = faulter.study(script)
        plan = ordered(choose(sites, recording), stage.rng.randrange(1 << 30))
        if not plan and not stage.claims.uses_path:
            raise unseen(stage.claims, script.words[0].kind, lazy=True)
        needed = min(len(plan), FAULTS_MAX // 2 if host_crash else FAULTS_MAX)
        tried = 0
        for tried, fault in enumerate(plan, 1):
            found = faulter.run(script, fault)
            if found is not None and (broken := judge(explorer, ground, found)) is not None:
                raise Failed(str(smallest(faulter, script, choose, broken)))
            if tried >= needed and not stage.clock.has_share():
                break
        stage.notes.append(_tally(faulter, tried, len(plan)))
        if not faulter.happened:
            raise NotMeasured(f"no fault happened: {'; '.join(faulter.missed[:3])}")
        if faulter.unclear == faulter.happened:
            raise NotMeasured("no run with a fault can be followed to crash the host after it")
    finally:
        if faulter is not None:
            faulter.end()
        explorer.end()


def smallest(faulter: Faulter, script: Script, choose: Choose, broken: Broken) -> Broken:
    """The same fault in a shorter script, where that still breaks a promise; a few are tried."""
    words = script.words[: broken.faulted.fault.word + 1]
    best = _alike(faulter, replace(script, words=words), choose, broken)
    if best is None:
        return broken
    for place in range(len(words) - 2, 0, -1)[:_SHRINKS_MAX]:
        shorter = words[:place] + words[place + 1 :]
        if words[place].kind != "open":
            again = _alike(faulter, replace(script, words=shorter), choose, best)
            if again is not None:
                best, words = again, shorter
    return best


def _alike(faulter: Faulter, script: Script, choose: Choose, broken: Broken) -> Broken | None:
    """What the same fault breaks in the last word of another script."""
    kind, last = broken.faulted.fault.kind, len(script.words) - 1
    try:
        found = choose(*faulter.study(script))
        for fault in (it for it in found if it.kind == kind and it.word == last):
            run = faulter.run(script, fault)
            again = judge(faulter.explorer, faulter.ground, run) if run is not None else None
            if again is not None:
                return again
    except (Failed, Inconclusive, NotMeasured):  # what was found stands without it
        pass
    return None


def _tally(faulter: Faulter, tried: int, planned: int) -> str:
    """How much was tried."""
    text = f"{faulter.happened} faults happened of {planned}"
    if faulter.unclear:
        text += f", {faulter.unclear} could not be followed to crash the host"
    if faulter.missed:
        text += f", {len(faulter.missed)} did not: {'; '.join(faulter.missed[:2])}"
    return text if tried == planned else f"{text}; PARTIAL: {tried} were tried"


def _ground(stage: Stage, explorer: Explorer, script: Script) -> Ground:
    """What a process leaves that has done a script; to the oracle it is another worker."""
    script = replace(script, words=tuple(replace(it, worker=_EARLIER) for it in script.words))
    if not stage.claims.uses_path:
        told = leave(explorer, stage.pool.take(), explorer.world(), script)
        return Ground(states=script.story(told, stage.claims).left(), before=script)
    recorded = explorer.run(script)
    return Ground(cached_image(recorded.recording.disk), recorded.story.left())


def _offered(explorer: Explorer, script: Script) -> Script:
    """The script without what the backend does not have."""
    checker = explorer.checker(script.frequency, 0)
    words = tuple(it for it in script.words if it.kind != "close" or checker.offers("close"))
    if any(it.kind == "sync" for it in words) and not checker.offers("sync"):
        raise NotClaimed("the backend has no sync()")
    return replace(script, words=words)
