"""The conformance suite itself (bench `suite`): how fast it kills, looks at images and records.

    a kill before a call, and a look at what is there   beside a bare start, the words, SIGKILL
    an image looked at by a long-lived adapter          beside the same adapter on an empty store
    a script recorded under strace                      beside the same script without
    a schedule of level 5, one worker stopped           beside the same words one after the other

Each for the disk backend in a process of Python's, and for the example adapter in C where there is
a C compiler: that one is all suite and next to no backend.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from lychgate_conformance import load_target
from lychgate_conformance._host import Hosts
from lychgate_conformance._session import Command
from lychgate_conformance._target import Target, load_command
from lychgate_conformance.adapters import HOME
from lychgate_conformance.blackbox._checker import Checker, request_to_open
from lychgate_conformance.blackbox._explore import Explorer
from lychgate_conformance.blackbox._images import Bounds, groups, kills
from lychgate_conformance.blackbox._kill import Killer
from lychgate_conformance.blackbox._schedule import Schedule
from lychgate_conformance.blackbox._script import Script, call_of
from lychgate_conformance.blackbox._strace import strace_path
from lychgate_conformance.blackbox._traced import new_host
from lychgate_conformance.blackbox._troupe import Troupe
from lychgate_conformance.lab._image import Image, image_of
from lychgate_tools.bench_measure import Result, compare, timed
from lychgate_tools.bench_store import Plan

SCRIPT = Script.of("open dead:a dead:b undead:a dead:c")
_STOPPED = Schedule.of("open 2/open dead:a | dead:b @3 | 2/dead:c")
_UNSTOPPED = Schedule.of("open 2/open dead:a dead:b 2/dead:c | list @answer | ")
_ROUNDS = 15
_IMAGES = 200
_LIMIT_S = 60.0


def suite(plan: Plan) -> list[Result]:
    """All four for each adapter."""
    rounds = min(_ROUNDS, plan.count)
    found: list[Result] = []
    for name, target in _targets(plan.directory):
        plan.note(name)
        pool = target.new_pool()
        assert pool is not None
        with ExitStack() as stack:
            stack.callback(pool.end)
            found.append(_kill(name, target, pool, rounds, stack))
            if strace_path() is not None:
                explorer = Explorer(target, plan.directory, Bounds())
                stack.callback(explorer.end)
                found.append(_record(name, target, explorer, rounds, plan.directory))
                found.append(_look(name, target, explorer, rounds, stack))
            found.append(_stop(name, target, pool, rounds, stack))
    (plan.directory / "c_adapter").unlink(missing_ok=True)
    return found


def _targets(directory: Path) -> Iterator[tuple[str, Target]]:
    yield "disk", load_target("disk")
    compiler = shutil.which("cc")
    if compiler is not None:
        program = directory / "c_adapter"
        source = str(HOME / "c_adapter.c")
        subprocess.run([compiler, "-O1", "-o", str(program), source], check=True)
        yield "C adapter", load_command(Command((str(program),)), base=str(directory))


def _kill(name: str, target: Target, pool: Hosts, rounds: int, stack: ExitStack) -> Result:
    killer = Killer(target, pool, lambda: _LIMIT_S)
    stack.callback(killer.end)
    checker = Checker(target, SCRIPT.frequency)
    stack.callback(checker.end)
    places = cycle(range(1, len(killer.points(SCRIPT)) + 1))
    first = timed(lambda: killer.kill(SCRIPT, next(places), checker))
    second = timed(partial(_bare, pool, killer.base))
    found = compare(first, second, rounds)
    note = f"{1 / found.first:,.0f} kills a second"
    goal = 1.5 if target.command is None else None
    return Result(
        "suite", f"{name}: a kill and a look", found.first, "start, the words, SIGKILL",
        found.second, found.ratio, goal=goal, note=note,
    )  # fmt: skip


def _bare(pool: Hosts, directory: Path) -> None:
    """A process starts, does the words of the script and is killed."""
    host = pool.take()
    try:
        _words(host.ask, directory)
        host.kill()
    finally:
        host.end()


def _words(ask: Callable[..., object], directory: Path) -> None:
    world = directory / "bare"
    world.mkdir()
    try:
        ask(request_to_open(1, world, SCRIPT.frequency), _LIMIT_S)
        for place, word in enumerate(SCRIPT.words[1:], 1):
            ask(call_of(word, place, 1).request(), _LIMIT_S)
    finally:
        shutil.rmtree(world, ignore_errors=True)


def _record(name: str, target: Target, explorer: Explorer, rounds: int, directory: Path) -> Result:
    def plain() -> None:
        with closing(_Ended(target)) as one:
            _words(one.host.ask, directory)
            one.host.exit(_LIMIT_S)

    found = compare(timed(lambda: explorer.run(SCRIPT)), timed(plain), rounds)
    for trace in directory.glob("world-*"):
        trace.unlink()
    return Result(
        "suite", f"{name}: a script recorded", found.first, "the same without strace",
        found.second, found.ratio,
    )  # fmt: skip


class _Ended:
    """A process that is ended by `close`."""

    def __init__(self, target: Target) -> None:
        self.host = new_host(target)

    def close(self) -> None:
        self.host.end()


def _look(name: str, target: Target, explorer: Explorer, rounds: int, stack: ExitStack) -> Result:
    images = cycle(_images(explorer))
    checkers = [Checker(target, SCRIPT.frequency) for _ in range(2)]
    for checker in checkers:
        stack.callback(checker.end)
        checker.outcome(image_of({}))  # it has started

    def many(checker: Checker, images: Iterator[Image]) -> float:
        checker.forget()
        begun = time.perf_counter()
        for _ in checker.outcomes(islice(images, _IMAGES)):
            continue
        return (time.perf_counter() - begun) / _IMAGES

    busy = 0.0

    def looks() -> float:
        nonlocal busy
        begun = _cpu_s(checkers[0].host.pid)
        taken = many(checkers[0], images)
        busy += _cpu_s(checkers[0].host.pid) - begun
        return taken

    empty = cycle([image_of({"store/other": bytes([it])}) for it in range(_IMAGES)])
    found = compare(looks, partial(many, checkers[1], empty), rounds)
    core = rounds * _IMAGES / max(busy, 0.01)
    note = f"{1 / found.first:,.0f} images a second, {core:,.0f} a second of processor time"
    return Result(
        "suite", f"{name}: an image looked at", found.first, "an empty store",
        found.second, found.ratio, note=note,
    )  # fmt: skip


def _cpu_s(pid: int) -> float:
    """Processor time of this process and of another one, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _images(explorer: Explorer) -> list[Image]:
    """Different images of kills within the script."""
    recorded = explorer.run(SCRIPT)
    bounds = explorer.bounds
    points = [it for some in groups(recorded.recording, recorded.story).values() for it in some]
    found = kills(recorded.recording, points, bounds, explorer.tally.partial)
    return list({it.image.digest(): it.image for it in found}.values())


def _stop(name: str, target: Target, pool: Hosts, rounds: int, stack: ExitStack) -> Result:
    troupe = Troupe(target, pool, lambda: _LIMIT_S)
    stack.callback(troupe.end)
    for schedule in (_STOPPED, _UNSTOPPED):
        troupe.play(schedule)  # everybody has started
    first = timed(lambda: troupe.play(_STOPPED))
    second = timed(lambda: troupe.play(_UNSTOPPED))
    found = compare(first, second, rounds)
    note = f"{1 / found.first:,.0f} schedules a second"
    return Result(
        "suite", f"{name}: a schedule", found.first, "the words in order",
        found.second, found.ratio, note=note,
    )  # fmt: skip
