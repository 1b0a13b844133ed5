"""What a new process sees on an image: one long-lived adapter looks at thousands of them.

Rules of this file
  * An image is written into a directory of its own, on a file system in memory where there is one:
    what a sync costs there says nothing about an image.
  * The adapter opens it, lists waiting and dead tasks, and closes it: by its verb `crash_check`
    where it has one, else call by call. Requests are sent ahead.
  * The outcome of an image is remembered by its content. `further` tries one image more closely,
    on a fresh copy: adding works, and whoever opens the store next sees the same and the added.
  * After a host crash the boot is another one: where mounts are allowed, the adapter finds another
    boot id.
  * A store behind a connection has no images: it is looked at where it is, until two looks agree,
    since its server may still be doing what somebody has asked for who is gone.
"""

from __future__ import annotations

import atexit
import functools
import os
import secrets
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lychgate_conformance._after_crash import View
from lychgate_conformance._findings import Finding
from lychgate_conformance._history import result_of
from lychgate_conformance._host import KillableHost
from lychgate_conformance._oracle import Rules
from lychgate_conformance._stage import PREFIX
from lychgate_conformance._stdio import StdioHost
from lychgate_conformance._store import CallError, value_of
from lychgate_conformance._target import Target
from lychgate_conformance._verdict import BackendDied, Failed
from lychgate_conformance._wire import Json
from lychgate_conformance.blackbox._reboot import can_reboot, reboot_words
from lychgate_conformance.blackbox._script import Word, call_of, canonical
from lychgate_conformance.blackbox._traced import new_host
from lychgate_conformance.lab._image import Directory, Image, Symlink

STORE = "store"
"""The store's directory below the world."""

_AHEAD = 12
_LOOKS_MAX = 20
_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was seen. `error` is empty when the store could be opened and read."""

    view: View
    error: str = ""


Left = Image | Path
"""What somebody leaves: an image of the files, or the world whose store lies on a server."""

_NOTHING = View((), frozenset())
Key = tuple[object, ...]


@dataclass(slots=True)
class _Asked:
    """An image whose outcome is known, or is being looked for in a directory."""

    image: Image
    key: Key
    directory: Path | None
    known: Outcome | None


class Checker:
    """Judges images for one target and one set of options."""

    def __init__(self, target: Target, frequency: float, boot: int = 0) -> None:
        self._target = target
        self._frequency = frequency
        self._rules = Rules.of(target.claims)
        self.base = memory_directory("lychgate-images-")
        self._boot = boot
        self._host: KillableHost | None = None
        self._made = 0
        self._known: dict[Key, Outcome] = {}
        self.done = 0
        """Images that an adapter has really looked at."""
        self.seconds = 0.0

    @property
    def host(self) -> KillableHost:
        if self._host is None:
            self._host = new_host(self._target, self.prefix())
        return self._host

    def prefix(self) -> tuple[str, ...]:
        """The words in front of the adapter's command: another boot, where that can be had."""
        if not self._boot or not can_reboot():
            return ()
        file = self.base / "boot_id"
        file.write_text(f"{self._boot:08x}-0000-4000-8000-000000000000\n", encoding="ascii")
        return reboot_words(file)

    def _end_host(self) -> None:
        if self._host is not None:
            self._host.end()
            self._host = None

    def end(self) -> None:
        """Leave nothing behind."""
        self._end_host()
        shutil.rmtree(self.base, ignore_errors=True)

    # --- many images --------------------------------------------------------------------------

    def outcomes(self, images: Iterable[Image]) -> Iterator[tuple[Image, Outcome]]:
        """The outcome of each image, in order. Known ones cost nothing."""
        waiting: deque[_Asked] = deque()
        for image in images:
            begun = time.monotonic()
            key = (image.paths, image.contents, image.groups)
            known = self._known.get(key)
            directory = self._ask(image) if known is None else None
            waiting.append(_Asked(image, key, directory, known))
            found = self._next(waiting) if len(waiting) >= _AHEAD else None
            self.seconds += time.monotonic() - begun
            if found is not None:
                yield found
        while waiting:
            begun = time.monotonic()
            found = self._next(waiting)
            self.seconds += time.monotonic() - begun
            yield found

    def outcome(self, left: Left) -> Outcome:
        """The outcome of one image, or of the store of a world itself."""
        if isinstance(left, Path):
            return self._settled(left)
        ((_, found),) = self.outcomes([left])
        return found

    def _settled(self, world: Path) -> Outcome:
        before = self._seen(world)
        for _ in range(_LOOKS_MAX):
            found = self._seen(world)
            if found == before:
                break
            before = found
        return before

    def _seen(self, world: Path) -> Outcome:
        try:
            self._made += 1
            for request in self._look(world):
                self.host.send(request)
            return self._answer()
        except (BackendDied, Finding) as error:
            self._end_host()
            return Outcome(_NOTHING, f"the adapter, opening the store: {error}")

    def forget(self) -> None:
        """Look at every image anew, also at those whose outcome is known."""
        self._known.clear()

    def _next(self, waiting: deque[_Asked]) -> tuple[Image, Outcome]:
        asked = waiting.popleft()
        if asked.directory is None:
            return asked.image, asked.known or self._known[asked.key]
        try:
            found = self._answer()
        except (BackendDied, Finding) as error:  # all was well with it before it saw this image
            found = Outcome(_NOTHING, f"the adapter, opening the store: {error}")
            self._end_host()
            for left in waiting:
                if left.directory is not None:
                    shutil.rmtree(left.directory, ignore_errors=True)
                    left.directory = self._ask(left.image)
        self.done += 1
        shutil.rmtree(asked.directory, ignore_errors=True)
        self._known[asked.key] = found
        return asked.image, found

    def _ask(self, image: Image) -> Path:
        """Write an image and ask for it to be looked at."""
        self._made += 1
        directory = self.base / str(self._made)
        write_image(image, directory)
        for request in self._look(directory):
            self.host.send(request)
        return directory

    def _look(self, directory: Path) -> list[Json]:
        """The requests of one look."""
        handle = self._made % 9000 + 1
        opened = self._open(handle, directory)
        if self.offers("crash_check"):
            return [{**opened, "do": "crash_check"}]
        words = [Word(1, "pending"), Word(1, "list"), Word(1, "close")]
        if not self.offers("close"):
            words.pop()
        return [opened, *(call_of(word, 0, handle).request() for word in words)]

    def _open(self, handle: int, directory: Path) -> Json:
        return request_to_open(handle, directory, self._frequency)

    def _answer(self) -> Outcome:
        """The replies of one look."""
        first = self.host.take(_LIMIT_S)
        if self.offers("crash_check"):
            if "error" in first:
                return Outcome(_NOTHING, f"opened and read it raised {_shown(first)}")
            pending, dead = ({"ok": first["ok"][name]} for name in ("pending", "dead"))
        else:
            pending, dead, *rest = [
                self.host.take(_LIMIT_S) for _ in range(2 + self.offers("close"))
            ]
            if "error" in first:
                return Outcome(_NOTHING, f"open raised {_shown(first)}")
            names = ("pending_tasks", "list_dead_tasks", "close")
            for what, reply in zip(names, (pending, dead, *rest), strict=False):
                if "error" in reply:
                    return Outcome(_NOTHING, f"{what} raised {_shown(reply)}")
        try:
            return Outcome(self._view(pending, dead))
        except (Failed, CallError) as error:
            return Outcome(_NOTHING, str(error))

    def _view(self, pending: Json, dead: Json) -> View:
        tasks = result_of(value_of(call_of(Word(1, "pending"), 0, 0), pending))
        records = result_of(value_of(call_of(Word(1, "list"), 0, 0), dead))
        assert isinstance(tasks, tuple) and isinstance(records, tuple)
        if len(set(tasks)) != len(tasks):
            raise Failed(f"pending_tasks shows a task twice: {tasks}")
        return canonical(View(records, frozenset(tasks)), self._rules)

    @functools.cached_property
    def _offered(self) -> dict[str, bool]:
        """What the adapter has, asked in an empty store; before anything else is asked."""
        directory = self.base / "empty"
        directory.mkdir()
        host = self.host
        try:
            opened = host.ask(self._open(1, directory), _LIMIT_S)
            if "error" in opened:
                raise Failed(f"an empty store cannot be opened: {_shown(opened)}")
            asked = ("close", "sync", "tick", "crash_check")
            has = {
                name: bool(
                    host.ask({"do": "has", "handle": 1, "method": name}, _LIMIT_S).get("ok")
                )
                for name in asked
            }
            if has["close"]:
                host.ask(call_of(Word(1, "close"), 0, 1).request(), _LIMIT_S)
            else:
                self._end_host()
            return has if isinstance(host, StdioHost) else {**has, "crash_check": True}
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def offers(self, method: str) -> bool:
        """Whether the adapter has an optional method."""
        return self._offered[method]

    # --- one image, more closely ----------------------------------------------------------------

    def further(self, left: Left, view: View) -> str:
        """What goes wrong when the store is used after its recovery; empty when nothing does."""
        self._made += 1
        copy = self.base / str(self._made)
        if not isinstance(left, Path):
            write_image(left, copy)
        try:
            return self._further(left if isinstance(left, Path) else copy, view)
        except (BackendDied, Finding) as error:
            self._end_host()
            return f"used after its recovery: {error}"
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    def _further(self, directory: Path, view: View) -> str:
        handle = self._made % 9000 + 1
        told = self.host.ask(self._open(handle, directory), _LIMIT_S)
        if "error" in told:
            return f"open raised {_shown(told)}"
        words = [Word(1, "dead", ("after-the-crash",)), Word(1, "task", ("after-the-crash",))]
        words += [Word(1, "list"), Word(1, "pending")]
        replies = []
        for word in words:
            replies.append(self.host.ask(call_of(word, 77, handle).request(), _LIMIT_S))
            if "error" in replies[-1]:
                return f"after its recovery {word} raised {_shown(replies[-1])}"
        seen = self._view(replies[3], replies[2])
        added = len(seen.dead) - len(view.dead), len(seen.pending - view.pending)
        kept = _is_within(view, seen, self._rules)
        if not kept or added[0] != 1 or (added[1] != 1 and self._sees_all):
            both = f"{_ids(seen)}, not {_ids(view)} and those"
            return f"after its recovery and two more adds it shows {both}"
        if self.offers("close"):
            self.host.ask(call_of(Word(1, "close"), 0, handle).request(), _LIMIT_S)
        else:
            self.host.ask({"do": "forget", "handle": handle}, _LIMIT_S)
            self._end_host()
        for request in self._look(directory):
            self.host.send(request)
        again = self._answer()
        if again.error or again.view != seen:
            return f"opened again it shows {again.error or _ids(again.view)}, not {_ids(seen)}"
        return ""

    @property
    def _sees_all(self) -> bool:
        return self._rules.pending_scope != "due_unclaimed"


def _is_within(view: View, seen: View, rules: Rules) -> bool:
    dead = seen.dead[: len(view.dead)] if rules.list_order == "file" else seen.dead
    inside = set(view.dead) <= set(dead)
    return inside and (rules.pending_scope == "due_unclaimed" or view.pending <= seen.pending)


def _ids(view: View) -> str:
    dead, tasks = [it.task_id for it in view.dead], sorted(it[0] for it in view.pending)
    return f"dead={dead} waiting={tasks}"


def _shown(reply: Json) -> str:
    error = reply["error"]
    return f"{error['type']}: {error['text'][:200]}"


def request_to_open(handle: int, directory: Path, frequency: float) -> Json:
    """The request that opens the store of a world."""
    return {
        "do": "open",
        "handle": handle,
        "path": str(directory / STORE),
        "prefix": PREFIX,
        "fsync_frequency": frequency,
    }


def memory_directory(prefix: str) -> Path:
    """A new directory, on a file system in memory where there is one. It goes with this process at
    the latest: an interrupt may come where nobody has taken charge of it yet."""
    memory = "/dev/shm"
    base = memory if os.access(memory, os.W_OK) else None
    path = Path(base or tempfile.gettempdir()) / f"{prefix}{secrets.token_hex(8)}"
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    path.mkdir(0o700)
    return path.resolve()


def write_image(image: Image, directory: Path) -> None:
    """Put an image into a directory that this makes: `Image.write_to` without its niceties."""
    base = str(directory)
    os.mkdir(base, 0o700)
    shared = {image.paths[member]: group[0] for group in image.groups for member in group}
    for place, (path, content) in enumerate(zip(image.paths, image.contents, strict=True)):
        target = f"{base}/{path}"
        first = shared.get(path, place) if shared else place
        if first != place:
            os.link(f"{base}/{image.paths[first]}", target)
        elif isinstance(content, Symlink):
            os.symlink(content.target, target)
        elif isinstance(content, Directory):
            os.mkdir(target, 0o700)
        else:
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                view = memoryview(content)
                while view:
                    view = view[os.write(fd, view) :]
            finally:
                os.close(fd)
