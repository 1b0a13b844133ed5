"""Faults: where calls of a script can be made to fail, how, and which are tried first.

Rules of this file
  * Sites come from a run without a fault: every call on a file of the store or on a connection to
    it, whether it worked or not, with its number among those of its name (strace counts per name
    and thread).
  * A call is failed by strace. A short write has to write in earnest, which an injected count does
    not: it is had by the limit on the size of files (RLIMIT_FSIZE, with SIGXFSZ ignored), that any
    user may lower and raise for a process of theirs: the write ends at the limit, the next one gets
    EFBIG as it would get ENOSPC from a full disk. A limit reaches regular files only, so answers
    still come; it also is how everything that writes fails from one moment on.
  * The same for descriptors: RLIMIT_NOFILE lets every open fail with EMFILE.
  * The end of a connection: strace fails the call (or says that it was done, and does not do it)
    and stops the process behind it; then the connection is ended in earnest, see `_lost`.
  * The order is one of a seed: first of every kind of site its first error, then the rest.
"""

from __future__ import annotations

import random
import resource
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lychgate_conformance.blackbox._about import CONNECTION, About
from lychgate_conformance.blackbox._errnos import OPENS, STAYING, errnos_of
from lychgate_conformance.blackbox._processes import MAKERS
from lychgate_conformance.blackbox._record import Recording
from lychgate_conformance.blackbox._strace import (
    Call,
    Event,
    bytes_of,
    descriptor_of,
    vectors_of,
)
from lychgate_conformance.lab._micro import SizeSet

DESCRIPTORS = 3
"""The limit under which every open fails; waiting for three descriptors still works."""

_SYNCS = ("fsync", "fdatasync", "syncfs")
WRITES = ("write", "writev", "pwrite64", "pwritev", "pwritev2")


@dataclass(frozen=True, slots=True)
class Site:
    """One call about the store, in a run without a fault."""

    call: Call
    when: int
    """Its number among its thread's calls of this name."""
    word: int
    role: str
    """What it is about: the name of its file without numbers, or the connection."""
    verb: str
    """What the word is."""
    connects: int = 0
    """How many connections its thread has made so far, or tried to."""
    place: int = 0
    """Which one of its word, on a connection: there the order alone tells what a call is for."""

    @property
    def kind(self) -> tuple[str, ...]:
        """Equal for calls that do the same to the same file for the same purpose."""
        verb = f"{self.verb} {self.place}" if self.place else self.verb
        return verb, self.call.name, self.role


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of the system: which resource, and how much of it."""

    resource: int
    value: int


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong in one run."""

    text: str
    kind: tuple[str, ...]
    """Equal for faults that do the same to the same file."""
    word: int
    rank: int = 0
    """How far down it stands among the faults of its site."""
    inject: tuple[str, ...] = ()
    """What strace injects, in its words."""
    limit: Limit | None = None
    stays: bool = False
    """Whether it stays until the script is done; else it is over with its call (its word)."""
    errors: tuple[str, ...] = ()
    """The errors by which it shows."""
    syncs: bool = False
    """Whether it is a sync that fails."""
    short: bool = False
    """Whether it shows by a write that wrote a part."""
    resumes: bool = False
    """Whether the limit is gone before the next call: `inject` stops the process after its call."""
    ends: bool = False
    """Whether it is the end of a connection, by the time that the process goes on."""

    @property
    def outlives_trace(self) -> bool:
        """Whether it is over for certain only when strace lets go."""
        return (self.stays or self.resumes) and bool(self.inject)

    def __str__(self) -> str:
        return self.text


def sites(events: Sequence[Event], about: About, stdout: str, verbs: Sequence[str]) -> list[Site]:
    """Every call about the store that has a row in the table, in order."""
    counts: Counter[tuple[int, str]] = Counter()
    found: list[Site] = []
    word = place = 0
    for event in events:
        if not isinstance(event, Call) or event.name in MAKERS or word == len(verbs):
            continue
        counts[event.pid, event.name] += 1
        if answers(event, stdout):
            word, place = word + 1, 0
        elif (role := about(event)) is not None and errnos_of(event, role == CONNECTION):
            when = counts[event.pid, event.name]
            connects = counts[event.pid, "connect"]
            place += role == CONNECTION
            found.append(Site(event, when, word, role, verbs[word], connects, place))
    return found


def answers(call: Call, stdout: str) -> bool:
    """Whether a call ends a line of the adapter's output."""
    if call.name not in ("write", "writev") or descriptor_of(call.args[0]).path != stdout:
        return False
    data = vectors_of(call.args[1]) if call.name == "writev" else bytes_of(call.args[1])
    return data.endswith(b"\n")


_FAILS = {"0": "gives nothing", "all": "is lost"}


# --- plans --------------------------------------------------------------------------------------


def failing(found: Iterable[Site], stays: bool = False) -> Iterator[Fault]:
    """Each call with each error that it can have: once, or from then on."""
    for site in found:
        name = site.call.name
        if site.role == CONNECTION:
            yield from _losing(site, stays)
        elif not stays or name in STAYING:
            for rank, errno in enumerate(errnos_of(site.call)):
                if stays and errno.passing:
                    continue
                when = f"{site.when}+" if stays else f"{site.when}"
                how = f"{name} {site.when}" + (" and every later one" if stays else "")
                yield Fault(
                    f"{how} ({site.role or 'the directory'}) fails with {errno.name}: "
                    f"{errno.reason}",
                    (*site.kind, errno.name),
                    site.word,
                    rank,
                    inject=(f"{name}:error={errno.name}:when={when}",),
                    stays=stays,
                    errors=(errno.name,),
                    syncs=name in _SYNCS,
                )


def _losing(site: Site, stays: bool) -> Iterator[Fault]:
    """A call on a connection with each error that it can have, which mostly is the connection's
    end; with `stays` nobody can connect from then on, until the script is done."""
    name = site.call.name
    for rank, errno in enumerate(errnos_of(site.call, connected=True)):
        if stays and (errno.passing or not (errno.ends or name == "connect")):
            continue
        done = max(0, site.call.result or 0) if errno.gives == "all" else 0
        what = f"retval={done}" if errno.gives else f"error={errno.name}"
        lasting = stays and not errno.ends
        how = f"{what}:when={site.when}{'+' if lasting else ''}"
        inject = [f"{name}:{how}{':signal=STOP' if errno.ends else ''}"]
        if stays and errno.ends:
            inject.append(f"connect:error=ECONNREFUSED:when={site.connects + 1}+")
        fails = _FAILS.get(errno.gives, f"fails with {errno.name}")
        then = "; from then on no server listens" if stays else ""
        yield Fault(
            f"{name} {site.when} ({site.role}) {fails}: {errno.reason}{then}",
            (*site.kind, errno.name),
            site.word,
            rank,
            inject=tuple(inject),
            stays=stays,
            errors=("" if errno.gives else errno.name,),
            resumes=errno.ends,
            ends=errno.ends,
        )


def short_writes(
    found: Iterable[Site], recording: Recording, resumes: bool = False
) -> Iterator[Fault]:
    """Each write that makes a file longer, cut: in its middle, before its end, at its beginning.

    With `resumes` the next write works, as after a signal; else it does not, as on a full disk.
    """
    steps = ((it.call.line, recording.disk.log[it.begin : it.end]) for it in recording.steps)
    grown = {line: _end_of(ops) for line, ops in steps}
    for site in found:
        end, name = grown.get(site.call.line), site.call.name
        if name not in WRITES or end is None or not site.call.result:
            continue
        size = site.call.result
        cuts = dict.fromkeys((size // 2, size - 1, 9))
        for rank, cut in enumerate(it for it in cuts if 0 < it < size):
            then = "the rest" if resumes else "none"
            yield Fault(
                f"{name} {site.when} ({site.role}) writes {cut} of {size} bytes, then {then}",
                (*site.kind, "short"),
                site.word,
                rank,
                inject=(f"{name}:signal=STOP:when={site.when}",) if resumes else (),
                limit=Limit(resource.RLIMIT_FSIZE, end - size + cut),
                short=True,
                resumes=resumes,
            )


def _end_of(ops: Sequence[object]) -> int | None:
    """The size that a write gave to its file; None when the file did not grow."""
    sizes = [op.size for op in ops if isinstance(op, SizeSet)]
    return sizes[-1] if sizes else None


def used_up(found: Sequence[Site]) -> Iterator[Fault]:
    """From one word on nothing can be written, or nothing can be opened; where somebody tries."""
    for word in sorted({site.word for site in found}):
        later = {site.call.name for site in found if site.word >= word}
        if not later.isdisjoint(WRITES):
            yield Fault(
                f"from word {word + 1} on no file can grow: the disk is full",
                ("full",),
                word,
                limit=Limit(resource.RLIMIT_FSIZE, 0),
                stays=True,
                errors=("EFBIG",),
            )
        if not later.isdisjoint(OPENS):
            yield Fault(
                f"from word {word + 1} on no file can be opened: there are too many",
                ("descriptors",),
                word,
                limit=Limit(resource.RLIMIT_NOFILE, DESCRIPTORS),
                stays=True,
                errors=("EMFILE",),
            )


def ordered(faults: Iterable[Fault], seed: int) -> list[Fault]:
    """First the first error at the first site of every kind, then the second ones, and so on."""
    chance = random.Random(seed)
    seen: Counter[tuple[str, ...]] = Counter()
    ranked = []
    for fault in faults:
        ranked.append((fault.rank + seen[fault.kind], chance.random(), fault))
        seen[fault.kind] += 1
    return [it[2] for it in sorted(ranked, key=lambda it: it[:2])]


# --- what a trace shows --------------------------------------------------------------------------


def settled(events: list[Event], stdout: str) -> list[Event]:
    """The events, where an answer that has been read counts as written: strace may have been let
    go before it could say so."""
    for event in events:
        if isinstance(event, Call) and event.result is None and answers(event, stdout):
            data = vectors_of(event.args[1]) if event.name == "writev" else bytes_of(event.args[1])
            event.result = len(data)
    return events


def struck(events: Sequence[Event], fault: Fault, about: About, stdout: str) -> int | None:
    """The word in which a fault showed first on the store; None when it did not."""
    word = 0
    for event in events:
        if not isinstance(event, Call):
            continue
        if answers(event, stdout):
            word += 1
        elif about(event) is not None:
            failed = event.error in fault.errors and event.injected == bool(fault.inject)
            short = fault.short and event.name in WRITES and _is_short(event)
            if failed or short:
                return word
    return None


def _is_short(call: Call) -> bool:
    """Whether a write wrote a part of what it was given."""
    if not call.worked or not call.result:
        return False
    given = bytes_of(call.args[1]) if call.args[1].startswith('"') else vectors_of(call.args[1])
    return call.result < len(given)
