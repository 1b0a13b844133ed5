"""File names: who owns which file in a directory that several backends may share (D6, D7).

    {prefix}dead_tasks-{VERSION}        dead-task data
    {prefix}dead_tasks-{VERSION}.tmp    staging
    {prefix}dead_tasks.lock             lock
    {prefix}{VERSION}-{8 digits}-{digits}-{16 hex digits}    a WAL file: date, process id, random

A name belongs to a prefix only by a full match. No dead-task name matches any WAL pattern, and no
WAL name of one prefix matches the pattern of another: the part after the prefix has a fixed shape
without further `-` in its last field, so the prefix can be read off the name from its end.
"""

from __future__ import annotations

import re

from lychgate._errors import ConfigError

VERSION = "0"
"""The version of the file formats; files of other versions are left alone."""

_NAME_BYTES_MAX = 255
_TAIL_BYTES_MAX = 64  # the longest thing that any name puts after the prefix
_WAL_TAIL = rf"{VERSION}-\d{{8}}-\d+-[0-9a-f]{{16}}"


def check_prefix(prefix: str) -> str:
    """The prefix, or ConfigError when no file could be named with it."""
    if not isinstance(prefix, str):
        raise ConfigError(f"prefix must be a string, not {type(prefix).__name__}")
    if "/" in prefix or "\0" in prefix:
        raise ConfigError("prefix must not contain '/' or NUL: it is the start of file names")
    try:
        size = len(prefix.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise ConfigError("prefix must be encodable as a file name") from None
    if size > _NAME_BYTES_MAX - _TAIL_BYTES_MAX:
        raise ConfigError(f"prefix must be at most {_NAME_BYTES_MAX - _TAIL_BYTES_MAX} bytes long")
    return prefix


def dead_data_name(prefix: str) -> str:
    return f"{prefix}dead_tasks-{VERSION}"


def dead_lock_name(prefix: str) -> str:
    return f"{prefix}dead_tasks.lock"


def staging_name(data_name: str) -> str:
    return f"{data_name}.tmp"


def wal_name(prefix: str, date: str, pid: int, random: bytes) -> str:
    """A new WAL file's name. `date` is YYYYMMDD, `random` 8 bytes."""
    name = f"{prefix}{VERSION}-{date}-{pid}-{random.hex()}"
    assert is_wal_name(prefix, name), name
    return name


def is_wal_name(prefix: str, name: str) -> bool:
    """Whether `name` is a WAL file of exactly this prefix and this version."""
    if not name.startswith(prefix):
        return False
    return re.fullmatch(_WAL_TAIL, name[len(prefix) :], re.ASCII) is not None
