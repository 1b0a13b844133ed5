"""The disk backend's files, as the suite knows them: written from D6, D7, D8 and W1, not from the
engine. Cases that look into files or damage them need the claim `disk_layout`.

    {prefix}dead_tasks-0           dead tasks, one line each
    {prefix}dead_tasks-0.tmp       staging
    {prefix}dead_tasks.lock        lock
    {prefix}0-{date}-{pid}-{random}    tasks, one file per process

    line = crc32 of the body as 8 hex digits, ':', body, newline
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from lychgate_conformance._stage import PREFIX, Stage
from lychgate_conformance._verdict import Failed

_WAL = r"0-\d{8}-\d+-[0-9a-z]+"


def data_file(stage: Stage, prefix: str = PREFIX) -> Path:
    return stage.path / f"{prefix}dead_tasks-0"


def staging_file(stage: Stage) -> Path:
    return stage.path / f"{PREFIX}dead_tasks-0.tmp"


def lock_file(stage: Stage) -> Path:
    return stage.path / f"{PREFIX}dead_tasks.lock"


def is_wal(name: str, prefix: str = PREFIX) -> bool:
    """Whether a name is a tasks file of exactly this prefix."""
    return name.startswith(prefix) and bool(re.fullmatch(_WAL, name[len(prefix) :], re.ASCII))


def wal_files(stage: Stage, prefix: str = PREFIX) -> list[Path]:
    return sorted(it for it in stage.path.iterdir() if is_wal(it.name, prefix))


def the_wal_file(stage: Stage) -> Path:
    """The only tasks file."""
    files = wal_files(stage)
    if len(files) != 1:
        raise Failed(f"there are {len(files)} tasks files where one process works")
    return files[0]


def seal(body: bytes) -> bytes:
    """The line of a body."""
    return b"%08x:%b\n" % (zlib.crc32(body), body)


def body_of_line(line: bytes) -> bytes | None:
    """The body of a line without its newline; None when the CRC is wrong."""
    crc, colon, body = line.partition(b":")
    return body if colon and crc == b"%08x" % zlib.crc32(body) else None


def lines(path: Path) -> list[bytes]:
    """The lines of a file, each with its newline; the last may lack it."""
    return path.read_bytes().splitlines(keepends=True) if path.exists() else []


def flip(data: bytes, at: int) -> bytes:
    """One bit of one byte turned; never into a newline."""
    changed = data[at] ^ 1
    return data[:at] + bytes([changed if changed != 10 else data[at] ^ 2]) + data[at + 1 :]
