"""What stands on the disk when a run begins: sound, torn, empty and damaged files.

Every start is an image and the records that it holds: acknowledged, durable, never to be lost.
They are made by the engine itself on a simulated disk, and then damaged by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from lychgate._disk import DiskPrograms
from lychgate._drive import run
from lychgate._names import dead_data_name, dead_lock_name, staging_name
from lychgate._records import JSON, wal_add_line, wal_remove_line

from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import Content, Image, cached_image, image_of
from lychgate_conformance.lab._micro import BLOCK_BYTES
from lychgate_conformance.lab._oracle import Record
from lychgate_conformance.lab._simfs import SimFs
from lychgate_conformance.lab._target import DEAD_CLASS, PATH, PREFIX

BOOT = "boot-1"
"""The boot in which a run takes place."""

_DIR = PATH.strip("/")
DATA = f"{_DIR}/{dead_data_name(PREFIX)}"
LOCK = f"{_DIR}/{dead_lock_name(PREFIX)}"
OTHER = f"{_DIR}/other"
STAGING = f"{_DIR}/{staging_name(dead_data_name(PREFIX))}"


@dataclass(frozen=True, slots=True)
class Start:
    """An image and what it holds."""

    image: Image
    dead: tuple[Record, ...] = ()
    tasks: tuple[Record, ...] = ()


def _made(boot: str, dead: tuple[Record, ...], tasks: tuple[Record, ...]) -> Start:
    machine = Machine(boot=boot)
    machine.pids = 500  # other names than any run will make
    fs = SimFs(machine)
    backend = DiskPrograms(PATH, PREFIX, 0.0, JSON, fs)
    run(backend.open(), fs)
    for key, serial in dead:
        run(backend.add_dead_task(key, None, None, DEAD_CLASS, serial), fs)
    for key, serial in tasks:
        run(backend.add_task(serial, None, key), fs)
    run(backend.close(), fs)
    return Start(cached_image(machine.disk), dead, tasks)


_LEFT_BYTES = 20
"""What an `edge` start leaves free in the last block: less than a line."""

_P: Record = ("p", 1)
_Q: Record = ("q", 2)
_U: Record = ("u", 3)
_V: Record = ("v", 4)


def _sound(boot: str = BOOT) -> Start:
    return _made(boot, (_P, _Q), (_U, _V))


def _changed(start: Start, **changes: Callable[[bytes], bytes | None]) -> Start:
    """The start with its data, lock, staging or wal file changed; None removes a file."""
    files: dict[str, Content] = dict(start.image.files())
    wals = [path for path in files if part_is_wal(path)]
    paths = {"data": [DATA], "lock": [LOCK], "staging": [STAGING], "wal": wals}
    for name, change in changes.items():
        for path in paths[name]:
            old = files.pop(path, b"")
            new = change(old if isinstance(old, bytes) else b"")
            if new is not None:
                files[path] = new
    return replace(start, image=image_of(files))


def _torn(data: bytes) -> bytes:
    return data + data[: len(data) // 4]


def _damaged(data: bytes) -> bytes:
    """A shifted line, NULs, and a line that would be another record but for its CRC."""
    first, rest = data.split(b"\n", 1)
    flipped = rest.split(b"\n", 1)[0].translate(bytes.maketrans(b"24", b"97"))
    return b"%b\nx%b\n%b\n%b%b\n" % (first, first, bytes(300), rest, flipped)


def _at_an_edge(data: bytes) -> bytes:
    """A bad line in front, so that the next line crosses the edge of a block."""
    return b"%b\n%b" % (b"x" * (BLOCK_BYTES - _LEFT_BYTES - len(data) - 1), data)


def _aligned(data: bytes) -> bytes:
    """A bad line in front, so that the next line ends where a unit of 512 bytes does: a failed
    fsync may then lose exactly that line, and its newline (W9)."""
    line = data.index(b"\n") + 2  # that of a record with one more digit
    return b"%b\n%b" % (b"x" * (512 - line - len(data) - 1), data)


def _twins() -> Start:
    """Two files: in one a task is live, in the other it was added before and removed (W12)."""
    start = _sound()
    files: dict[str, Content] = dict(start.image.files())
    (wal,) = [path for path in files if part_is_wal(path)]
    line = wal_add_line(JSON, _U[0], 9, None)
    files[f"{wal[:-16]}{'f' * 16}"] = line + wal_remove_line(_U[0])
    return replace(start, image=image_of(files))


def part_is_wal(path: str) -> bool:
    """Whether a path of a start is a WAL file's."""
    return path not in (DATA, LOCK, STAGING, OTHER)


def _hiding(start: Start) -> Start:
    """Whole lines beyond the end of data and WAL, as a crash may leave them (D29): no record of
    theirs was ever acknowledged, and none may appear."""
    lost = _made("boot-0", (("lost", 8),), (("lost", 9),)).image
    mine = dict(start.image.files())
    hidden = {DATA: lost.files()[DATA]}
    wals = [path for path in mine if part_is_wal(path)]
    hidden |= {wals[0]: data for path, data in lost.files().items() if part_is_wal(path)}
    return replace(start, image=image_of(mine, hidden))


STARTS: dict[str, Callable[[], Start]] = {
    "none": lambda: Start(image_of({})),
    "new": lambda: Start(image_of({OTHER: b"foreign\n"})),
    "clean": lambda: _made(BOOT, (_P,), ()),
    "two": _sound,
    "old": lambda: _sound("boot-0"),
    "torn": lambda: _changed(_sound(), data=_torn, wal=_torn),
    "torn-old": lambda: _changed(_sound("boot-0"), data=_torn, wal=_torn),
    "damaged": lambda: _changed(_sound(), data=_damaged, wal=_damaged),
    "empty": lambda: Start(
        _changed(
            _sound(), data=lambda _: b"", lock=lambda _: b"", wal=lambda _: b""
        ).image
    ),
    "orphan": lambda: _changed(_sound("boot-0"), staging=lambda _: b"half of a li"),
    "edge": lambda: _changed(_sound(), data=_at_an_edge, wal=_at_an_edge),
    "aligned": lambda: _changed(_made(BOOT, (_P,), ()), data=_aligned),
    "long-tail": lambda: _changed(_sound(), data=lambda data: data + b"y" * 5000),
    "twins": _twins,
    "hidden": lambda: _hiding(_sound("boot-0")),
    "no-lock": lambda: _changed(_sound(), lock=lambda _: None),
    "no-data": lambda: Start(
        _changed(_sound(), data=lambda _: None).image, (), (_U, _V)
    ),
}
"""Starts by name."""


@cache
def find_start(name: str) -> Start:
    """The start of this name; ValueError when there is none."""
    if name not in STARTS:
        raise ValueError(f"unknown start {name!r}; known: {', '.join(STARTS)}")
    return STARTS[name]()
