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
from lychgate._records import JSON

from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import Content, Image, cached_image, image_of
from lychgate_conformance.lab._oracle import Record
from lychgate_conformance.lab._simfs import SimFs
from lychgate_conformance.lab._target import DEAD_CLASS, PATH, PREFIX

BOOT = "boot-1"
"""The boot in which a run takes place."""

_DIR = PATH.strip("/")
DATA = f"{_DIR}/{dead_data_name(PREFIX)}"
LOCK = f"{_DIR}/{dead_lock_name(PREFIX)}"
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


_P: Record = ("p", 1)
_Q: Record = ("q", 2)
_U: Record = ("u", 3)
_V: Record = ("v", 4)


def _sound(boot: str = BOOT) -> Start:
    return _made(boot, (_P, _Q), (_U, _V))


def _changed(start: Start, **changes: Callable[[bytes], bytes | None]) -> Start:
    """The start with its data, lock, staging or wal file changed; None removes a file."""
    files: dict[str, Content] = dict(start.image.files())
    wals = [path for path in files if path not in (DATA, LOCK, STAGING)]
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
    first, rest = data.split(b"\n", 1)
    return b"%b\nx%b\n%b\n%b" % (first, first, bytes(300), rest)


def _hiding(start: Start) -> Start:
    """Whole lines beyond the end of data and WAL, as a crash may leave them (D29): no record of
    theirs was ever acknowledged, and none may appear."""
    lost = _made("boot-0", (("lost", 8),), (("lost", 9),)).image
    mine = dict(start.image.files())
    hidden = {DATA: lost.files()[DATA]}
    wals = [path for path in mine if path not in (DATA, LOCK)]
    hidden |= {wals[0]: data for path, data in lost.files().items() if path not in (DATA, LOCK)}
    return replace(start, image=image_of(mine, hidden))


STARTS: dict[str, Callable[[], Start]] = {
    "none": lambda: Start(image_of({})),
    "new": lambda: Start(image_of({f"{_DIR}/other": b"foreign\n"})),
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
