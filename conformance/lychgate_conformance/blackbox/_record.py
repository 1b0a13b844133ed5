"""A recording: what a process tree did to the files of one directory, with its acknowledgements.

Rules of this file
  * Calls are applied in the order in which they were entered: strace notes that before a call can
    do anything, and its end perhaps after others have acted on it. A sync so covers what had begun
    before it, not what came while it ran.
  * A line on an adapter's standard output is an acknowledgement. It stands in the log where the
    write that completed it was entered: its reader may act, and make another process act, before
    the write is left. All that its writer did before was left by then.
  * At the end the predicted files are compared with the real ones. A difference means that
    something changed them that was not seen, and that the recording is worth nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lychgate_conformance.blackbox._calls import MUTATING, apply
from lychgate_conformance.blackbox._effects import SHARED_MEMORY, Effects
from lychgate_conformance.blackbox._processes import Processes
from lychgate_conformance.blackbox._strace import (
    Call,
    Event,
    Gone,
    TraceError,
    bytes_of,
    descriptor_of,
    parse,
    path_of,
    vectors_of,
)
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import DIRECTORY, Content, Image, Symlink, cached_image
from lychgate_conformance.lab._image import image_of
from lychgate_conformance.lab._micro import Recorder


class Unexplained(Exception):
    """The files are not those that the recording predicts."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call that changed the world, or was made to fail, and the log's length around it."""

    call: Call
    begin: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """A line that an adapter has said, and the log's length at that moment."""

    adapter: int
    line: bytes
    at: int


@dataclass(slots=True)
class Recording:
    """What happened to a world."""

    disk: Recorder
    steps: list[Step] = field(default_factory=list)
    spoken: list[Spoken] = field(default_factory=list)
    calls: int = 0

    def step_of(self, index: int) -> Step | None:
        """The call that a micro-op came from."""
        return next((it for it in self.steps if it.begin <= index < it.end), None)


def read_trace(path: Path) -> list[Event]:
    """The events of one strace's output."""
    with path.open(encoding="ascii", errors="strict") as lines:
        return list(parse(lines))


def record(
    events: Sequence[Event], world: Path, start: Image, stdouts: Sequence[str], directory: str
) -> Recording:
    """Apply a trace to the image that the world had at first.

    `stdouts` are the adapters' standard outputs as strace names them (`pipe:[123]`), `directory`
    is where they were started. NotUnderstood, TraceError or Unexplained when it cannot be done.
    """
    processes = Processes(events, directory)
    effects = Effects(Machine(start), str(world), processes)
    found = Recording(effects.disk)
    rests = [b""] * len(stdouts)
    for event in _in_order(events):
        if isinstance(event, Gone):
            processes.gone(event.pid)
            continue
        if not isinstance(event, Call):
            continue
        if _speaks(event, stdouts):
            adapter = stdouts.index(descriptor_of(event.args[0]).path)
            _said(found, adapter, rests, event)
            continue
        begin = len(effects.disk.log)
        failed = event.injected and bool(event.error)
        shown = failed or (event.name in MUTATING and event.worked)
        text = _text(event, effects) if shown else ""
        apply(effects, event)
        found.calls += 1
        end = len(effects.disk.log)
        if end > begin or failed:
            found.steps.append(Step(event, begin, end, text))
    _compare(effects, world)
    return found


def _speaks(event: Event, stdouts: Sequence[str]) -> bool:
    """Whether an event is a write to the standard output of an adapter."""
    if not isinstance(event, Call) or event.name not in ("write", "writev") or not event.worked:
        return False
    return descriptor_of(event.args[0]).path in stdouts


def _said(found: Recording, adapter: int, rests: list[bytes], call: Call) -> None:
    data = vectors_of(call.args[1]) if call.name == "writev" else bytes_of(call.args[1])
    *lines, rests[adapter] = (rests[adapter] + data[: call.result]).split(b"\n")
    for line in lines:
        found.spoken.append(Spoken(adapter, line, len(found.disk.log)))
        found.disk.ack((adapter, len(found.spoken) - 1))


def _in_order(events: Sequence[Event]) -> list[Event]:
    """Events by their beginning, which strace notes before the call can do anything.

    The end may be noted late: on a busy machine another process, traced by another strace, has
    known of the result and gone on by then. And a sync covers what was written before it began.
    """
    return sorted(events, key=lambda it: it.entered if isinstance(it, Call) else it.left)


def _text(call: Call, effects: Effects) -> str:
    """A call for people: its name, files relative to the world, sizes instead of bytes."""
    words = []
    for arg in call.args:
        if arg.startswith('"'):
            try:
                text = path_of(arg)
            except TraceError:
                text = arg[:40]
            inside = effects.inside(text)
            is_path = "write" not in call.name
            words.append((inside or text) if is_path else f"{len(bytes_of(arg))} bytes")
        elif "<" in arg and not arg.startswith("["):
            where = descriptor_of(arg)
            if where.number < 0:  # the working directory says nothing about a path below the world
                continue
            words.append(effects.inside(where.path) or where.path or str(where.number))
        elif not arg.startswith("["):
            words.append(arg)
    shown = "" if call.result in (0, None) else f" = {call.error or call.result}"
    return f"{call.name}({', '.join(words)}){shown}"


# --- the real files -----------------------------------------------------------------------------


def snapshot(world: Path) -> Image:
    """The image of a real directory: files, directories, and symlinks, which are not followed.

    Unexplained when there is anything else: whatever opens a pipe waits for its other end.
    """
    contents: dict[str, Content] = {}
    inodes: dict[tuple[int, int], list[str]] = {}
    todo = [""]
    while todo:
        prefix = todo.pop()
        with os.scandir(world / prefix) as entries:
            for entry in entries:
                path = f"{prefix}{entry.name}"
                if entry.is_symlink():
                    contents[path] = Symlink(os.readlink(entry.path))
                elif entry.is_dir():
                    contents[path] = DIRECTORY
                    todo.append(f"{path}/")
                else:
                    status = entry.stat(follow_symlinks=False)
                    contents[path] = _bytes_of(entry.path)
                    inodes.setdefault((status.st_dev, status.st_ino), []).append(path)
    image = image_of(contents)
    places = {path: place for place, path in enumerate(image.paths)}
    groups = sorted(
        tuple(sorted(places[path] for path in paths))
        for paths in inodes.values()
        if len(paths) > 1
    )
    return Image(image.paths, image.contents, tuple(groups))


def _bytes_of(path: str) -> bytes:
    """Whoever made the file may still live: what it is, is asked of what was opened."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Unexplained(f"{path} is no regular file")
        return file.read()


def without_memory(image: Image) -> Image:
    """The image without SQLite's shared memory: absent is one of its legal states."""
    if not any(path.endswith(SHARED_MEMORY) for path in image.paths):
        return image
    kept = {p: c for p, c in zip(image.paths, image.contents, strict=True)
            if not p.endswith(SHARED_MEMORY)}
    return image_of(kept)


def _compare(effects: Effects, world: Path) -> None:
    predicted, real = without_memory(cached_image(effects.disk)), without_memory(snapshot(world))
    if predicted == real:
        return
    for path in sorted({*predicted.paths, *real.paths}):
        ours, theirs = predicted.get(path), real.get(path)
        if ours != theirs:
            raise Unexplained(f"{path}: {_shown(theirs)}, and by its calls {_shown(ours)}")
    raise Unexplained("hard links are not as the calls have made them")


def _shown(content: Content | None) -> str:
    if content is None:
        return "nothing"
    return f"{len(content)} bytes" if isinstance(content, bytes) else repr(content)
