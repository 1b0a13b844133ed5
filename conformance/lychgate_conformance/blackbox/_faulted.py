"""Runs with a fault: one adapter works through a script, and one thing goes wrong in it.

Rules of this file
  * One adapter serves many runs, each in a directory of its own: strace is attached for a run and
    let go after it. A kill of an idle adapter leaves its files as they are, so their snapshot is
    what it would leave; a store on a server is looked at there.
  * A fault counts only when the trace shows it on a file of the store, or on a connection to it.
    Otherwise the run is worth nothing, whatever came of it.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lychgate_conformance._host import Hosts, KillableHost
from lychgate_conformance._verdict import Failed, Inconclusive, NotMeasured
from lychgate_conformance.blackbox._about import About, below, on_connections, unseen
from lychgate_conformance.blackbox._attached import Attached, family
from lychgate_conformance.blackbox._calls import RECORDED
from lychgate_conformance.blackbox._checker import STORE, Left, write_image
from lychgate_conformance.blackbox._effects import NotUnderstood
from lychgate_conformance.blackbox._errnos import FAILING
from lychgate_conformance.blackbox._explore import Explorer, Recorded
from lychgate_conformance.blackbox._faults import Fault, Site, settled, sites, struck
from lychgate_conformance.blackbox._life import Life
from lychgate_conformance.blackbox._lost import end_connection
from lychgate_conformance.blackbox._record import (
    Recording,
    Unexplained,
    read_trace,
    record,
    snapshot,
)
from lychgate_conformance.blackbox._script import (
    Script,
    Told,
    Word,
    checked,
    parse_words,
    place_acks,
)
from lychgate_conformance.blackbox._strace import Call, Event, TraceError
from lychgate_conformance.blackbox._syscalls import ON_CONNECTIONS
from lychgate_conformance.blackbox._traced import new_host
from lychgate_conformance.lab._image import Image, image_of
from lychgate_conformance.lab._micro import Recorder

OTHER = parse_words("2/open 2/dead:other 2/list 2/close")
"""What another process then does, while the first one idles."""

_CALLS = tuple(dict.fromkeys((*RECORDED, *FAILING)))
_IGNORING = ("sh", "-c", 'trap "" XFSZ; exec "$@"', "sh")
"""A file at its limit raises a signal, where a full disk does not: it is ignored from the start."""
_ATTEMPTS = 3
_LOOK_S = 0.002
_STOPPED = b"--- stopped by SIGSTOP ---"
_UNCLEAR = (NotUnderstood, TraceError, Unexplained)


@dataclass(frozen=True, slots=True)
class Ground:
    """What a script finds, and what that means to its tale; None: nothing."""

    image: Image = field(default_factory=lambda: image_of({}))
    states: frozenset[Any] | None = None
    before: Script | None = None
    """What another process does first, where the store has no files that could be put there."""


@dataclass(slots=True)
class Faulted:
    """One run in which a fault happened."""

    fault: Fault
    script: Script
    told: list[Told]
    """All words with their answers, those after the fault included."""
    left: Left
    """The files at the end, or the world whose store lies on a server."""
    recorded: Recorded | None
    """The recorded part; None where it is not wanted, or cannot be followed."""
    struck: int
    """The word in which the fault showed first."""
    over: int
    """The word before which the fault was over."""
    end: str = ""
    """How the adapter ended, when it died."""


class Faulter:
    """Makes calls of one target's adapters fail."""

    def __init__(
        self,
        explorer: Explorer,
        pool: Hosts | None,
        ground: Ground | None = None,
        *,
        records: bool = False,
        other: bool = False,
    ) -> None:
        """`pool` gives out processes of a backend in Python; None for an adapter's command.

        `records`: each run is recorded, for crashes of the host. `other`: another process goes
        on when the fault is over."""
        self.explorer = explorer
        self.ground = ground or Ground()
        self._pool = pool
        self._records = records
        self._goes_on = other
        self._remote = not explorer.target.claims.uses_path
        self.happened = 0
        self.missed: list[str] = []
        self.unclear = 0
        """Runs that were to be recorded and could not be followed."""
        self._host: KillableHost | None = None
        self._other: KillableHost | None = None

    def end(self) -> None:
        """Nothing that was started is left."""
        self._end_host()
        if self._other is not None:
            self._other.end()
            self._other = None

    def _end_host(self) -> None:
        if self._host is not None:
            self._host.end()
            self._host = None

    def study(self, script: Script) -> tuple[list[Site], Recording]:
        """A run without a fault: its sites, and the recording that they come from."""
        life, attached = self._begin(script, ())
        try:
            for word in script.words:
                life.do(word)
        finally:
            attached.let_go()
        if life.end is not None:
            raise life.end
        told = [checked(it.word, it.call, it.reply) for it in life.told]
        events = settled(read_trace(attached.output), life.host.output)
        verbs = [it.kind for it in script.words]
        found = sites(events, self._about(events, life, attached), life.host.output, verbs)
        recording = Recording(Recorder())
        if not self._remote:
            try:
                recording = self._record(events, life, told).recording
            except _UNCLEAR as error:
                raise NotMeasured(f"the recording cannot be followed: {error}") from error
        self._close(life)
        _remove(life.world, attached)
        if not found:
            raise unseen(self.explorer.target.claims, "the adapter")
        return found, recording

    def run(self, script: Script, fault: Fault) -> Faulted | None:
        """A run with a fault. None when it did not happen.

        A few attempts are made: whether strace counts the call in which it finds the adapter is
        a matter of chance.
        """
        for _ in range(_ATTEMPTS):
            if (found := self._run(script, fault)) is not None:
                self.happened += 1
                return found
        self.missed.append(fault.text)
        return None

    def _run(self, script: Script, fault: Fault) -> Faulted | None:
        life, attached = self._begin(script, fault.inject)
        try:
            self._suffer(life, fault, attached)
            if not fault.outlives_trace:
                life.go_on()
            attached.let_go()
            events = settled(read_trace(attached.output), life.host.output)
            about = self._about(events, life, attached)
            place = struck(events, fault, about, life.host.output)
            life.struck_at(place, fault)
            recorded = self._recorded(events, life)
            if fault.outlives_trace:
                life.go_on()
        finally:
            attached.let_go()
        found = None
        if place is None:
            self._end_host()  # whatever was hit instead may have done it harm
        else:
            if not life.dead and self._goes_on:
                self._watch(life, fault)
            found = Faulted(
                fault, script, list(life.told), self._left(life), recorded, place, life.over,
                str(life.end or ""),
            )  # fmt: skip
            self._close(life)
        _remove(life.world, attached)
        return found

    def _about(self, events: Sequence[Event], life: Life, attached: Attached) -> About:
        """Which calls of a run are about the store."""
        if self._remote:
            return on_connections(events, attached.connections)
        return below(str(life.world))

    def _left(self, life: Life) -> Left:
        if self._remote:
            return life.world
        try:
            return snapshot(life.world)
        except (Unexplained, OSError) as error:
            raise NotMeasured(f"the files cannot be read: {error}") from error

    # --- parts of a run -----------------------------------------------------------------------

    def _begin(self, script: Script, inject: tuple[str, ...]) -> tuple[Life, Attached]:
        """A directory, an adapter that has done the script before, and strace on it."""
        if self._host is None:
            self._host = self._new_host()
            before = Life(self.explorer, self._host, self._world(), script)
            for word in script.words:
                before.do(word)
            if before.end is not None:
                raise before.end
            if self._can_close(script):
                before.do(Word(1, "close"))
        life = Life(self.explorer, self._host, self._world(), script)
        if self.ground.before is not None:
            leave(self.explorer, self._new_host(), life.world, self.ground.before)
        output = life.world.with_suffix(".trace")
        calls = ("socket", *ON_CONNECTIONS) if self._remote else _CALLS
        return life, Attached(life.host.pid, output, calls, inject)

    def _new_host(self) -> KillableHost:
        """A process that ignores the signal of a file at its limit, as every Python does."""
        if self._pool is not None:
            return self._pool.take()
        return new_host(self.explorer.target, _IGNORING)

    def _world(self) -> Path:
        world = self.explorer.world()
        if not self._remote:
            world.rmdir()
            write_image(self.ground.image, world)
        return world

    def _suffer(self, life: Life, fault: Fault, attached: Attached) -> None:
        """The script with its fault; when this returns no limit is left."""
        pids, stopped = family(life.host.pid), False

        def limit(soft: int | None = None) -> None:
            if fault.limit is not None:
                for pid in pids:
                    _set_limit(pid, fault.limit.resource, soft)

        def resume() -> None:
            """Wait for the stop behind the call, or for an answer without one: where calls are
            counted otherwise than expected it comes in another word."""
            nonlocal stopped
            while not (stopped or life.host.has_reply() or attached.ended):
                stopped = _STOPPED in attached.output.read_bytes()
                self.explorer.left()  # Inconclusive when the case has no time any more
                time.sleep(_LOOK_S)
            limit()
            if stopped:
                if fault.ends:
                    end_connection(attached.output)
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)

        def do(word: Word) -> None:
            life.do(word, resume if fault.resumes and not stopped else None)

        for place, word in enumerate(life.script.words):
            if fault.limit is not None and place == fault.word:
                limit(fault.limit.value)
            do(word)
            if place == fault.word and not fault.stays and not life.dead:
                limit()
            if word.kind == "open" and not life.opened and not fault.stays:
                do(word)
        if not life.dead:
            limit()

    def _watch(self, life: Life, fault: Fault) -> None:
        """Another process works on the same store, and that it ends is what is asked for."""
        if self._other is None:
            self._other = self._new_host()
        can_close = self._can_close(life.script)
        for word in OTHER:
            if word.kind != "close" or can_close:
                try:
                    life.ask(self._other, word)
                except Inconclusive as error:
                    self.explorer.left()  # Inconclusive all the same, when the case is out of time
                    text = f"{fault}: then another process waits for ever: {error}"
                    raise Failed(text) from error
        if not can_close or life.told[-1].reply is None:
            self._other.end()
            self._other = None

    def _recorded(self, events: Sequence[Event], life: Life) -> Recorded | None:
        if life.dead or not self._records:
            return None
        try:
            return self._record(events, life, life.told)
        except _UNCLEAR:
            self.unclear += 1
            return None

    def _record(self, events: Sequence[Event], life: Life, told: Sequence[Told]) -> Recorded:
        known = [it for it in events if not isinstance(it, Call) or it.name in RECORDED]
        image, stdout = self.ground.image, life.host.output
        recording = record(known, life.world, image, [stdout], os.getcwd())
        lines = [(it.adapter, it.at) for it in recording.spoken]
        claims = self.explorer.target.claims
        placed = place_acks(lines, told, [1])
        story = life.script.story(placed, claims, self.ground.states)
        return Recorded(recording, story, known)

    def _close(self, life: Life) -> None:
        """Close the store; an adapter that cannot is not used again."""
        if life.opened and not life.dead and self._can_close(life.script):
            life.do(Word(1, "close"))
        if life.dead or life.opened or life.told[-1].error is not None:
            self._end_host()

    def _can_close(self, script: Script) -> bool:
        return self.explorer.checker(script.frequency, 0).offers("close")


def leave(explorer: Explorer, host: KillableHost, world: Path, script: Script) -> list[Told]:
    """Have a process do a script in a world and end, by itself where the script says so."""
    told: list[Told] = []
    try:
        for place, word in enumerate(script.words):
            if word.kind == "exit":
                host.exit(explorer.left())
                told.append(Told(word, None, {"ok": None}))
                break
            call, request = script.request(word, place, world / STORE, told)
            told.append(checked(word, call, host.ask(request, explorer.left())))
    finally:
        host.end()
    return told


def _remove(world: Path, attached: Attached) -> None:
    shutil.rmtree(world, ignore_errors=True)
    attached.output.unlink(missing_ok=True)


def _set_limit(pid: int, which: int, soft: int | None = None) -> None:
    """Lower a limit of a process, or raise it again as far as it goes."""
    try:
        _, hard = resource.prlimit(pid, which)
        resource.prlimit(pid, which, (hard if soft is None else soft, hard))
    except ProcessLookupError:  # it has died of it
        return
    except PermissionError as error:
        raise NotMeasured(f"limits of another process cannot be set here: {error}") from error
