"""Litmus programs: a few calls, written as text, that a simulated and a real disk both carry out.

    files   what stands on the disk first:  f=1000a d       (`d` is a directory, `g=f` a link)
    steps   what is done to it:             append f 500b; fsync f; rename f d/g

    append F 500b | write F OFFSET 500b | truncate F SIZE | create F | mkdir D | rmdir D
    link F G | unlink F | rename F G | fsync F | fdatasync F | fsyncdir D | sync

Rules of this file
  * Bytes are runs of one letter; `.` is NUL. On a real disk whose every block was full of `z`
    first, a `z` in a file is an old block of somebody else.
  * A state is text as well: `1000a+500.` is a thousand `a` and five hundred NULs, `g=f` says that
    g is a second name of f, `~` stands for bytes of unknown content.
  * A crash while step k+1 runs may leave what a crash after it may, had no sync been its end: that
    is what `allowed_after(k)` gives.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._family import ImageSet
from lychgate_conformance.lab._image import DIRECTORY, Content, Image, groups_of, image_of
from lychgate_conformance.lab._micro import ROOT, Kind, Recorder, Scope, Sync
from lychgate_conformance.lab._models import GARBAGE, Model

_RUN = re.compile(r"(\d+)([a-z.])")
_WORDS = {
    "append": 2, "write": 3, "truncate": 2, "create": 1, "mkdir": 1, "rmdir": 1, "link": 2,
    "unlink": 1, "rename": 2, "fsync": 1, "fdatasync": 1, "fsyncdir": 1, "sync": 0,
}  # fmt: skip
_SCOPES = {
    "fsync": Scope.FILE, "fdatasync": Scope.DATA, "fsyncdir": Scope.DIR, "sync": Scope.ALL,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One call: its verb, the name it works on, and what else it takes."""

    verb: str
    path: str = ""
    to: str = ""
    number: int = 0
    """A write's offset, a truncation's size."""
    data: bytes = b""

    @property
    def is_sync(self) -> bool:
        return self.verb in _SCOPES


@dataclass(frozen=True, slots=True)
class Litmus:
    """A program, what stands on the disk first, and per model: states allowed and measured."""

    name: str
    files: str
    steps: str
    allowed: dict[str, str] = field(default_factory=dict)
    """All that the model says, worked out by hand."""
    measured: dict[str, str] = field(default_factory=dict)
    """What was seen on real file systems."""

    def start(self) -> Image:
        """What stands on the disk first."""
        return start_of(self.files)

    def program(self) -> tuple[Step, ...]:
        return tuple(step_of(text) for text in self.steps.split(";"))


def step_of(text: str) -> Step:
    """A step from its text. ValueError when it is none."""
    verb, *words = text.split()
    if _WORDS.get(verb) != len(words):
        raise ValueError(f"not a litmus step: {text.strip()!r}")
    path = words[0] if words and words[0] != "." else ""
    if verb in ("link", "rename"):
        return Step(verb, path, to=words[1])
    if verb == "append":
        return Step(verb, path, data=bytes_of(words[1]))
    if verb == "write":
        return Step(verb, path, number=int(words[1]), data=bytes_of(words[2]))
    return Step(verb, path, number=int(words[1]) if verb == "truncate" else 0)


def bytes_of(text: str) -> bytes:
    """`1000a+500.` as bytes. ValueError for anything else."""
    parts = [_RUN.fullmatch(part) for part in text.split("+")] if text else []
    if None in parts:
        raise ValueError(f"not a text for bytes: {text!r}")
    return b"".join(
        int(part[1]) * (b"\0" if part[2] == "." else part[2].encode()) for part in parts if part
    )


def start_of(text: str) -> Image:
    """The image that `files` describes."""
    contents: dict[str, Content] = {}
    inodes: dict[str, str] = {}
    for word in text.split():
        path, equals, value = word.partition("=")
        inodes[path] = value if value in contents else path
        if value in contents:
            contents[path] = contents[value]
        else:
            contents[path] = bytes_of(value) if equals else DIRECTORY
    plain = image_of(contents)
    order = list(dict.fromkeys(inodes.values()))
    groups = groups_of(order.index(inodes[path]) if path in inodes else -1 for path in plain.paths)
    return Image(plain.paths, plain.contents, groups)


# --- on a simulated disk ----------------------------------------------------------------------


def apply(step: Step, disk: Recorder) -> None:
    """Take one step on a simulated disk."""
    verb, (parent, name) = step.verb, _place(disk, step.path)
    if verb in ("create", "mkdir"):
        disk.create(parent, name, Kind.DIR if verb == "mkdir" else Kind.FILE)
    elif verb in ("unlink", "rmdir"):
        disk.unlink(parent, name)
    elif verb == "link":
        disk.link(*_place(disk, step.to), _inode(disk, step.path))
    elif verb == "rename":
        disk.rename(parent, name, *_place(disk, step.to))
    elif verb == "append":
        number = _inode(disk, step.path)
        disk.write(number, len(disk.nodes[number].data), step.data)
    elif verb == "write":
        disk.write(_inode(disk, step.path), step.number, step.data)
    elif verb == "truncate":
        disk.truncate(_inode(disk, step.path), step.number)
    else:
        disk.sync(_SCOPES[verb], _inode(disk, step.path))


def _inode(disk: Recorder, path: str) -> int:
    number = ROOT
    for name in path.split("/") if path else ():
        number = disk.nodes[number].entries[name]
    return number


def _place(disk: Recorder, path: str) -> tuple[int, str]:
    parent, _, name = path.rpartition("/")
    return _inode(disk, parent), name


@dataclass(frozen=True, slots=True)
class Run:
    """A program carried out on a simulated disk, and where in its log each step ended."""

    disk: Recorder
    ends: tuple[int, ...]
    """Length of the log after so many steps; `ends[0]` is 0."""

    def allowed_after(self, done: int, judge: Enumerator) -> ImageSet:
        """What a crash may leave once `done` steps have returned; the next may have begun."""
        end = self.ends[min(done + 1, len(self.ends) - 1)]
        if done + 1 < len(self.ends) and isinstance(self.disk.log[end - 1], Sync):
            end -= 1
        return judge.at(self.disk, end)


def simulate(litmus: Litmus) -> Run:
    """Carry a program out on a simulated disk."""
    disk = litmus.start().mount()
    ends = [0]
    for step in litmus.program():
        apply(step, disk)
        ends.append(len(disk.log))
    return Run(disk, tuple(ends))


# --- states -----------------------------------------------------------------------------------


def shown(image: Image) -> str:
    """An image as text."""
    first = {member: group[0] for group in image.groups for member in group}
    parts = []
    for place, (path, content) in enumerate(zip(image.paths, image.contents, strict=True)):
        if first.get(place, place) != place:
            parts.append(f"{path}={image.paths[first[place]]}")
        else:
            parts.append(f"{path}={_text(content)}" if isinstance(content, bytes) else path)
    return " ".join(parts)


def _text(content: bytes) -> str:
    letters = content.translate(_LETTERS).decode("ascii")
    if "~" in letters:  # garbage holds letters and NULs of its own
        start = letters.index("~")
        letters = letters[:start] + "~" * (len(letters) - start)
    return "+".join(f"{len(list(run))}{letter}" for letter, run in groupby(letters))


_LETTERS = bytes(
    ord(".") if byte == 0 else byte if chr(byte) in "abcdefghijklmnopqrstuvwxyz" else ord("~")
    for byte in range(256)
)


def states(text: str) -> set[str]:
    """`f=1a | f=` as a set; an empty part is the empty disk."""
    return {state.strip() for state in text.split("|")}


def outside(real: Image, allowed: Collection[Image], model: Model) -> bool:
    """Whether a real state is none of those that the model allows."""
    if real in allowed:
        return False
    return GARBAGE not in model.fills or not any(matches(real, one, model) for one in allowed)


def matches(real: Image, image: Image, model: Model) -> bool:
    """Whether a real state is this one of the model's; its garbage stands for any bytes."""
    if real == image or GARBAGE not in model.fills:
        return real == image
    if (real.paths, real.groups) != (image.paths, image.groups):
        return False
    pairs: Iterator[tuple[Content, Content]] = zip(real.contents, image.contents, strict=True)
    return all(one == other or _bytes_match(one, other) for one, other in pairs)


def _bytes_match(real: Content, model: Content) -> bool:
    if not isinstance(real, bytes) or not isinstance(model, bytes) or len(real) != len(model):
        return False
    return all(one == other or other in GARBAGE for one, other in zip(real, model, strict=True))
