"""Workers that play schedules (`_schedule`), and the judgement on what came of it.

Rules of this file
  * Somebody who waits (for a lock that the stopped worker holds) is left waiting until it has gone
    on; then everybody has to end. Who waits longer than that has failed, not just taken long.
  * A typed time-out of a lock is an answer while worker 1 stands, or shortly after.
  * At the end each worker says what it sees and closes, and a reader that has not been there looks,
    adds and looks again. One order of all calls must explain everything (`_oracle`).
  * A server may do what a killed worker has asked of it a moment after that worker's end.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lychgate_conformance import _oracle as oracle
from lychgate_conformance._history import operation_of, result_of
from lychgate_conformance._host import Hosts, KillableHost
from lychgate_conformance._oracle import Did, Fate, Rules
from lychgate_conformance._store import Call, CallError, value_of
from lychgate_conformance._target import Target
from lychgate_conformance._verdict import Failed, Inconclusive
from lychgate_conformance._wire import Json
from lychgate_conformance.blackbox._checker import memory_directory, request_to_open
from lychgate_conformance.blackbox._pause import Tracer, waits
from lychgate_conformance.blackbox._record import snapshot
from lychgate_conformance.blackbox._schedule import Played, Schedule
from lychgate_conformance.blackbox._script import Word, call_of

PATIENCE_S = 0.1
"""How long a worker that neither sleeps nor answers is waited for while another stands."""
END_S = 20.0
"""How long everybody has to end once nobody stands."""
STILL_S = 0.1
"""So long a worker that talks to a server sleeps when it is taken for waiting, and not for the
server's next answer; `PATIENCE_S` is ten times as long for it."""
LATE_S = 1.0
"""So long a server may still do what a worker has asked of it that was killed."""
GRACE_S = 1.0
"""So long after worker 1 has ended its word a lock's time-out is still put down to it."""
READER = 9
_HANDLES = 9000


class Troupe:
    """Workers that play schedules on one target; the same ones as long as they are sound."""

    def __init__(self, target: Target, pool: Hosts, left: Callable[[], float]) -> None:
        self.target = target
        self.left = left
        self.base = memory_directory("lychgate-schedules-")
        self.remote = not target.claims.uses_path
        """Whether the store lies behind a connection; `base` then holds nothing but its names."""
        self.tracer = Tracer()
        self._pool = pool
        self._hosts: dict[int, KillableHost] = {}
        self._closes: bool | None = None
        self.made = 0

    def host(self, worker: int) -> KillableHost:
        """The process of a worker, started and waiting for requests."""
        if worker not in self._hosts:
            host = self._pool.take()
            self._hosts[worker] = host
            host.ask({"do": "memory"}, self.left())
            if worker == 1:
                self.tracer.attach(host, None if self.remote else self.base, self.left())
        return self._hosts[worker]

    def drop(self, worker: int) -> None:
        """A process that is not to be used again."""
        host = self._hosts.pop(worker, None)
        if host is None:
            return
        if worker == 1:
            self.tracer.end()
            self.tracer = Tracer()
        host.end()

    def drop_all(self) -> None:
        for worker in list(self._hosts):
            self.drop(worker)

    def gone(self, worker: int) -> None:
        """A worker was killed by the tracer."""
        self._hosts.pop(worker).end()

    def closes(self, worker: int, handle: int) -> bool:
        """Whether the backend has a `close`."""
        if self._closes is None:
            request = {"do": "has", "handle": handle, "method": "close"}
            self._closes = bool(self.host(worker).ask(request, self.left()).get("ok"))
        return self._closes

    def play(self, schedule: Schedule, fresh: bool = False) -> Played:
        """Play one schedule in a directory of its own. `fresh`: with new processes."""
        if fresh:
            self.drop_all()
        self.made += 1
        world = self.base / str(self.made)
        world.mkdir()
        played = Played(schedule)
        try:
            _Play(self, world, played).run()
        except Failed as error:
            played.problem = played.problem or str(error)
        finally:
            if played.problem:
                played.image = None if self.remote else snapshot(world)
                self.drop_all()
            shutil.rmtree(world, ignore_errors=True)
        return played

    def end(self) -> None:
        """Nothing is left."""
        self.tracer.end()
        for host in self._hosts.values():
            host.end()
        self._hosts.clear()
        shutil.rmtree(self.base, ignore_errors=True)


@dataclass(slots=True)
class _Asked:
    """A word that was sent and has no answer yet."""

    word: Word
    call: Call | None
    begun: int


class _Play:
    """One schedule while it is played."""

    def __init__(self, troupe: Troupe, world: Path, played: Played) -> None:
        self._troupe = troupe
        self._world = world
        self._played = played
        self._handle = troupe.made % _HANDLES + 1
        self._dids: list[Did] = []
        self._open: list[int] = []
        self._words = 0
        self._waiting: dict[int, _Asked] = {}
        self._later: list[Word] = []
        self._ended: int | None = None  # when worker 1 had done its word, or was killed
        schedule = played.schedule
        opens = [it for group in schedule.during for it in group if it.kind == "open"]
        self._contested = schedule.word.kind == "open" and bool(opens)

    def run(self) -> None:
        schedule = self._played.schedule
        for word in schedule.before:
            self._do(word)
        first = self._paused(schedule)
        if first is not None:
            self._say("    -- worker 1 goes on to its end")
            self._answer(first)
        self._ended = time.monotonic_ns()
        for asked in self._waiting.values():
            self._answer(asked)
        for word in self._later:
            self._do(word)
        for worker in list(self._open):
            self._leave(worker)
        self._look()
        self._judge()

    # --- words --------------------------------------------------------------------------------

    def _do(self, word: Word) -> None:
        self._answer(self._send(word))

    def _send(self, word: Word) -> _Asked:
        self._words += 1
        call: Call | None = None
        if word.kind == "open":
            frequency = self._played.schedule.frequency
            request = request_to_open(self._handle, self._world, frequency)
        else:
            call = call_of(word, self._words, self._handle)
            request = call.request()
        asked = _Asked(word, call, time.monotonic_ns())
        self._troupe.host(word.worker).send(request)
        return asked

    def _answer(self, asked: _Asked) -> None:
        """The reply to a word, written into the history."""
        word = asked.word
        host = self._troupe.host(word.worker)
        try:
            reply = host.take(min(self._troupe.left(), END_S))
        except Inconclusive:
            if self._troupe.left() < 1.0:
                raise
            raise Failed(f"{word} does not end, though nobody stands any more") from None
        self._did(asked, reply)

    def _did(self, asked: _Asked, reply: Json) -> None:
        word, call = asked.word, asked.call
        begun, ended = reply["t"]
        try:
            if call is None and "error" in reply:
                raise CallError("open", reply["error"])
            value = None if call is None else value_of(call, reply)
        except CallError as error:
            self._say(f"{word}   raised {error}")
            late = self._ended is not None and ended > self._ended + GRACE_S * 1e9
            if "TimeoutError" not in error.bases or error.definite is False or late:
                raise Failed(f"{word}: {error}") from error
            return
        if word.kind == "open":
            self._open.append(word.worker)
            alone = not (self._contested and self._ended is None and self._played.stops)
            self._dids.append(Did(word.worker, oracle.Begin(alone), begun, ended))
        elif word.kind == "close":
            self._open.remove(word.worker)
            self._dids.append(Did(word.worker, oracle.End(), begun, ended))
        elif word.kind != "sync":
            assert call is not None
            result = result_of(value)
            did = Did(word.worker, operation_of(call), begun, ended, Fate.RETURNED, result)
            self._dids.append(did)
        self._say(f"{word}{_shown(word, value)}")

    def _say(self, text: str) -> None:
        self._played.lines.append(text)

    # --- while worker 1 stands ------------------------------------------------------------------

    def _paused(self, schedule: Schedule) -> _Asked | None:
        """Up to where worker 1 goes on for good; its word, unless it was killed within it."""
        troupe, tracer = self._troupe, self._troupe.tracer
        host = troupe.host(1)
        tracer.arm(schedule.stops)
        first = self._send(schedule.word)
        self._say(f"{schedule.word}   (begun by worker 1)")
        shown = 0
        for number, group in enumerate(schedule.during):
            stop = tracer.wait(host, troupe.left())
            if stop is None:
                break
            self._played.stops.append(stop)
            calls = [self._from_here(it) for it in stop.calls]
            for text in calls[shown:-1]:
                self._say(f"    {text}")
            self._say(f"    -- worker 1 stands before {calls[-1]}")
            shown = len(calls) - 1
            for word in group:
                self._meanwhile(word)
            if schedule.killed and number == len(schedule.during) - 1:
                self._kill(first)
                return None
            tracer.go()
        tracer.arm(())
        return first

    def _from_here(self, text: str) -> str:
        """A call with its paths relative to the world."""
        name = f"{self._world.name}/"
        return text.replace(f"({name}", "(").replace(f", {name}", ", ")

    def _meanwhile(self, word: Word) -> None:
        if word.worker in self._waiting:
            self._later.append(word)
            return
        asked = self._send(word)
        host = self._troupe.host(word.worker)
        if waits(host, *((10 * PATIENCE_S, STILL_S) if self._troupe.remote else (PATIENCE_S,))):
            self._say(f"{word}   (waits)")
            self._waiting[word.worker] = asked
            self._played.waited += 1
        else:
            self._answer(asked)

    def _kill(self, first: _Asked) -> None:
        self._troupe.tracer.kill(self._troupe.host(1), END_S)
        self._troupe.gone(1)
        now = time.monotonic_ns()
        self._say("    -- worker 1 is killed")
        kind = first.word.kind
        if kind == "open":
            opening = oracle.Begin(not self._contested)
            self._dids.append(Did(1, opening, first.begun, now, Fate.MAYBE))
        elif kind not in ("close", "sync"):
            assert first.call is not None
            late = now + int(LATE_S * 1e9) if self._troupe.remote else now
            self._dids.append(Did(1, operation_of(first.call), first.begun, late, Fate.MAYBE))
        left = first.begun if kind == "close" else now  # the close may have let go long before
        self._dids.append(Did(1, oracle.End(), left, now))
        if 1 in self._open:
            self._open.remove(1)

    # --- the end --------------------------------------------------------------------------------

    def _leave(self, worker: int) -> None:
        """What a worker sees at last; then it closes, or ends where there is no `close`."""
        for kind in ("list", "pending"):
            self._do(Word(worker, kind))
        if self._troupe.closes(worker, self._handle):
            self._do(Word(worker, "close"))
        else:
            self._open.remove(worker)
            self._troupe.drop(worker)
            now = time.monotonic_ns()
            self._dids.append(Did(worker, oracle.End(), now, now))

    def _look(self) -> None:
        """Somebody who has not been there looks, adds and looks again."""
        for kind in ("open", "list", "pending"):
            self._do(Word(READER, kind))
        self._do(Word(READER, "dead", ("later",)))
        self._do(Word(READER, "list"))
        if self._troupe.closes(READER, self._handle):
            self._do(Word(READER, "close"))
        else:
            self._troupe.drop(READER)

    def _judge(self) -> None:
        try:
            found = oracle.outcomes(self._dids, Rules.of(self._troupe.target.claims))
        except oracle.TooMany as error:
            raise Inconclusive(str(error)) from error
        if isinstance(found, oracle.Violation):
            raise Failed(f"no order of the calls explains what was seen: {found}")


def _shown(word: Word, value: object) -> str:
    """What a word gave, where that says something."""
    result = result_of(value)
    if word.kind == "undead":
        return f" = {result}"
    if word.kind not in ("list", "pending"):
        return ""
    assert isinstance(result, tuple)
    ids = [it[0] if isinstance(it, tuple) else it.task_id for it in result]
    return f" = {ids}"

