"""Real kills: SIGKILL before every call that changes the store, one run for each.

Rules of this file
  * The adapter is up already when it is traced: starting up costs nothing, and calls are counted
    from there. The writing of each answer counts as well: a kill before it has done everything.
  * What a kill after a call leaves is what the one before the next call leaves.
  * A kill counts only when the adapter was seen to stand before its call (`_pause`). One that did
    not happen is reported, never taken for a pass.
  * A store behind a connection: before every call on a connection, sends and receives alike. What
    is left then is looked at on the server.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lychgate_conformance._host import Hosts, KillableHost
from lychgate_conformance._target import Target
from lychgate_conformance._verdict import BackendDied
from lychgate_conformance.blackbox._calls import MUTATING
from lychgate_conformance.blackbox._checker import (
    STORE,
    Checker,
    Left,
    Outcome,
    memory_directory,
    request_to_open,
)
from lychgate_conformance.blackbox._explore import Failure
from lychgate_conformance.blackbox._images import Met
from lychgate_conformance.blackbox._pause import ANSWER, Stop, Tracer
from lychgate_conformance.blackbox._record import Recording, snapshot
from lychgate_conformance.blackbox._script import Script, Tale, Told, Word, call_of, checked
from lychgate_conformance.lab._image import image_of
from lychgate_conformance.lab._micro import Recorder


_WARM = 9001


@dataclass(frozen=True, slots=True)
class Killed:
    """One kill that happened."""

    at: str
    """The call that the adapter stood before, as text."""
    script: Script
    story: Tale
    acked: int
    left: Left
    outcome: Outcome

    def failure(self, problem: str) -> Failure:
        """This kill as a failure, to be explained."""
        outcome = Outcome(self.outcome.view, f"killed before {self.at}: {problem}")
        image = image_of({}) if isinstance(self.left, Path) else self.left
        return Failure(
            self.script, Recording(Recorder()), self.story, Met(image, 0), self.acked, outcome,
            False,
        )  # fmt: skip


class Killer:
    """Kills one target's adapters."""

    def __init__(self, target: Target, pool: Hosts, left: Callable[[], float]) -> None:
        self.target = target
        self.base = memory_directory("lychgate-kills-")
        self._remote = not target.claims.uses_path
        self._pool = pool
        self._left = left
        self._tracer = Tracer()
        self._made = 0
        self.happened = 0
        self.missed: list[int] = []
        self.seconds = 0.0
        """How long the kills took, from the start of an adapter to its end."""

    def end(self) -> None:
        """Leave nothing behind."""
        self._tracer.end()
        shutil.rmtree(self.base, ignore_errors=True)

    def points(self, script: Script) -> tuple[str, ...]:
        """Every call of the script's words that is killed at, and every answer, in order."""
        with self._world() as world, self._adapter() as host:
            _, stop = self._run(host, script, world, (ANSWER,) * len(script.words))
            return () if stop is None else stop.calls

    def kill(self, script: Script, number: int, checker: Checker) -> Killed | None:
        """One run that ends before the call of this number; None when it did not get there."""
        begun = time.monotonic()
        with self._world() as world:
            with self._adapter() as host:
                told, stop = self._run(host, script, world, (number,))
                if stop is None:
                    self.missed.append(number)
                    return None
                self._tracer.kill(host, self._left())
            self.seconds += time.monotonic() - begun
            self.happened += 1
            acked = sum(it.reply is not None for it in told)
            story = script.story(told, self.target.claims)
            left: Left = world if self._remote else snapshot(world)
        where = f"{stop.calls[-1]}, call {number}".replace(f"{world.name}/", "")
        return Killed(where, script, story, acked, left, checker.outcome(left))

    @contextmanager
    def _world(self) -> Iterator[Path]:
        self._made += 1
        world = self.base / f"killed-{self._made}"
        world.mkdir()
        try:
            yield world
        finally:
            shutil.rmtree(world, ignore_errors=True)

    @contextmanager
    def _adapter(self) -> Iterator[KillableHost]:
        """An adapter that has started and is traced; nothing of it is left."""
        host = self._pool.take()
        try:
            host.ask({"do": "memory"}, self._left())  # it has started, and waits for requests
            if self._remote:
                self._warm(host)
            base = None if self._remote else self.base
            self._tracer.attach(host, base, self._left(), MUTATING)
            yield host
            if self._tracer.holds:
                self._tracer.kill(host, self._left())
        except BaseException:
            self._tracer.end()  # first: nobody who is held can be ended
            self._tracer = Tracer()
            raise
        finally:
            host.end()

    def _warm(self, host: KillableHost) -> None:
        """Have the adapter load its client before it is traced, by a store that is no other's."""
        opened = request_to_open(_WARM, self.base / "warm", 0.0)
        host.ask(opened, self._left())
        host.ask(call_of(Word(1, "close"), 0, _WARM).request(), self._left())

    def _run(
        self, host: KillableHost, script: Script, world: Path, stops: Sequence[int]
    ) -> tuple[list[Told], Stop | None]:
        """Up to the last of the stops: the words that were answered, and the one that was not."""
        told: list[Told] = []
        left = len(stops)
        stop: Stop | None = None
        self._tracer.arm(stops)
        for place, word in enumerate(script.words):
            call, request = script.request(word, place, world / STORE, told)
            host.send(request)
            while (found := self._tracer.wait(host, self._left())) is not None:
                stop = found
                left -= 1
                if left == 0:
                    return [*told, Told(word, call, None)], stop
                self._tracer.go()
            try:
                told.append(checked(word, call, host.take(self._left())))
            except BackendDied as error:
                raise BackendDied(f"{word}: {error}") from error
        return told, None
