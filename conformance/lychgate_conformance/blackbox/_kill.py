"""Real kills: SIGKILL at the entry of every call that changes the store, one run for each.

Rules of this file
  * strace is attached to an adapter that is up already: starting up costs nothing, and calls are
    counted from there. `when=` counts per call name and per thread.
  * An injected SIGKILL acts before its call. What a kill after the call leaves is what the one
    before the next call leaves.
  * A kill counts only when it is seen to have happened: the trace ends within the call that was
    asked for, at its number. One that did not happen is reported, never taken for a pass.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lychgate_conformance._host import Hosts, KillableHost
from lychgate_conformance._target import Target
from lychgate_conformance._verdict import BackendDied, Inconclusive, NotMeasured
from lychgate_conformance.blackbox import _strace
from lychgate_conformance.blackbox._calls import MUTATING
from lychgate_conformance.blackbox._checker import STORE, Checker, Outcome
from lychgate_conformance.blackbox._explore import Failure, request_of
from lychgate_conformance.blackbox._images import Met
from lychgate_conformance.blackbox._places import Place, happened, places
from lychgate_conformance.blackbox._record import Recording, read_trace, snapshot
from lychgate_conformance.blackbox._script import Script, Story, Told, checked
from lychgate_conformance.lab._image import Image
from lychgate_conformance.lab._micro import Recorder



class Attached:
    """strace on a process that runs already."""

    def __init__(self, pid: int, output: Path, calls: Sequence[str], inject: Sequence[str]) -> None:
        self.output = output
        words = _strace.options(output, calls, quick=False, inject=inject)
        words.remove("-q")  # it says when it is attached
        found = family(pid)
        words += [f"--attach={it}" for it in found]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        for _ in found:
            said = self._process.stderr.readline()
            if "attached" not in said:
                self.end()
                raise NotMeasured(f"strace cannot attach to a running process: {said.strip()}")

    def let_go(self) -> None:
        """Detach: what is traced goes on alone. Its trace is whole when this returns."""
        if self._process.poll() is None:
            self._process.terminate()
        self.end()

    def end(self) -> None:
        """Wait for its end, which is that of what it traces; let go of what still lives."""
        assert self._process.stderr is not None
        if self._process.stderr.closed:
            return
        try:
            self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
        self._process.stderr.close()


def family(pid: int) -> list[int]:
    """A process and whatever it has started that still runs."""
    found = [pid]
    for one in found:
        try:
            tasks = os.listdir(f"/proc/{one}/task")
            texts = [Path(f"/proc/{one}/task/{it}/children").read_text("ascii") for it in tasks]
        except OSError:  # it has ended, or this kernel does not tell
            continue
        found += [int(word) for text in texts for word in text.split()]
    return found


@dataclass(frozen=True, slots=True)
class Killed:
    """One kill that happened."""

    at: str
    script: Script
    story: Story
    acked: int
    image: Image
    outcome: Outcome

    def failure(self, problem: str) -> Failure:
        """This kill as a failure, to be explained."""
        outcome = Outcome(self.outcome.view, f"killed at {self.at}: {problem}")
        recording = Recording(Recorder())
        return Failure(
            self.script, recording, self.story, Met(self.image, 0), self.acked, outcome, False
        )


class Killer:
    """Kills one target's adapters."""

    def __init__(self, target: Target, base: Path, pool: Hosts, left: Callable[[], float]) -> None:
        self.target = target
        self.base = base
        self._pool = pool
        self._left = left
        self._made = 0
        self.happened = 0
        self.missed: list[str] = []
        self.seconds = 0.0

    def points(self, script: Script) -> list[Place]:
        """Every call on the store that changes something, by a run without a kill."""
        world = self._world()
        with self._attached(world, sorted(MUTATING), ()) as (host, attached):
            self._run(host, script, world)
            host.exit(self._left())
            attached.end()
            return places(read_trace(attached.output), str(world))

    def kill(self, script: Script, at: Place, checker: Checker) -> Killed | None:
        """One run that ends at a call; None when the kill did not happen."""
        begun = time.monotonic()
        world = self._world()
        inject = (at.injection,)
        with self._attached(world, [at.name], inject) as (host, attached):
            told = self._run(host, script, world)
            if told[-1].reply is None:
                host.kill()
            else:
                host.exit(self._left())  # the call may be one of its end
            attached.end()
            hit = happened(read_trace(attached.output), at)
        self.seconds += time.monotonic() - begun
        if not hit:
            self.missed.append(str(at))
            return None
        self.happened += 1
        acked = sum(it.reply is not None for it in told)
        story = Story(told, self.target.claims, script.frequency)
        image = snapshot(world)
        where = f"{at.name}, call {at.when}"
        return Killed(where, script, story, acked, image, checker.outcome(image))

    def _world(self) -> Path:
        self._made += 1
        world = self.base / f"killed-{self._made}"
        world.mkdir()
        return world

    @contextmanager
    def _attached(
        self, world: Path, calls: Sequence[str], inject: Sequence[str]
    ) -> Iterator[tuple[KillableHost, Attached]]:
        """An adapter that has started, and strace on it; neither is left."""
        host = self._pool.take()
        try:
            host.ask({"do": "memory"}, self._left())  # it has started, and waits for requests
            attached = Attached(host.pid, world.with_suffix(".trace"), calls, inject)
            try:
                yield host, attached
            finally:
                host.end()
                attached.end()
        finally:
            host.end()

    def _run(self, host: KillableHost, script: Script, world: Path) -> list[Told]:
        """The words that were answered, and the one that was not."""
        told: list[Told] = []
        for place, word in enumerate(script.words):
            call, request = request_of(word, place, world / STORE, script.frequency)
            try:
                told.append(checked(word, call, host.ask(request, self._left())))
            except BackendDied:
                told.append(Told(word, call, None))
                break
            except Inconclusive as error:
                raise Inconclusive(f"{word}: {error}") from error
        return told
