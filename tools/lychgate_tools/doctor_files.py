"""What lies in a store's directory already: stores by prefix, leftovers, files of others.

Reads names, sizes and the mark; takes no lock, since a start that meets one would leave the file to
the next start. Who holds which lock is read from /proc/locks, as far as this process may see it.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field

from lychgate._lock import UNFINISHED_MARK
from lychgate._names import VERSION
from lychgate_tools.doctor import FAILS, NOTE, OK, WARNING, Check

_DEAD = re.compile(rf"(.*)dead_tasks(\.lock|-{VERSION}\.tmp|-{VERSION})", re.DOTALL)
_WAL = re.compile(rf"(.*){VERSION}-\d{{8}}-\d+-[0-9a-f]{{16}}", re.ASCII | re.DOTALL)
_NAMED_MAX = 5


@dataclass(slots=True)
class Store:
    """The files of one prefix."""

    lock: os.stat_result | None = None
    data: os.stat_result | None = None
    staging: os.stat_result | None = None
    wals: list[os.stat_result] = field(default_factory=list)


def look(directory: str) -> list[Check]:
    """One check per store, one for everything else."""
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        return [Check("files", FAILS, f"cannot be listed: {error.strerror}")]
    stores: dict[str, Store] = {}
    foreign: list[str] = []
    checks: list[Check] = []
    for name in names:
        kind = _WAL.fullmatch(name) or _DEAD.fullmatch(name)
        if kind is None:
            foreign.append(name)
            continue
        try:
            found = os.stat(os.path.join(directory, name))
        except OSError as error:
            checks.append(Check(f"file {name!r}", WARNING, f"{error.strerror}"))
            continue
        if not stat.S_ISREG(found.st_mode):
            text = "not a regular file where the store has its own: move it away"
            checks.append(Check(f"file {name!r}", FAILS, text))
            continue
        _sort_in(stores.setdefault(kind.group(1), Store()), kind, found)
    locked = _locked_inodes()
    for prefix, store in sorted(stores.items()):
        checks.append(_describe(directory, prefix, store, locked))
    if foreign:
        shown = ", ".join(repr(name) for name in foreign[:_NAMED_MAX])
        more = f" and {len(foreign) - _NAMED_MAX:,} more" if len(foreign) > _NAMED_MAX else ""
        checks.append(Check("other files", NOTE, f"left alone: {shown}{more}"))
    return checks


def _sort_in(store: Store, kind: re.Match[str], found: os.stat_result) -> None:
    if kind.re is _WAL:
        store.wals.append(found)
    elif kind.group(2) == ".lock":
        store.lock = found
    elif kind.group(2).endswith(".tmp"):
        store.staging = found
    else:
        store.data = found


def _describe(
    directory: str, prefix: str, store: Store, locked: frozenset[int] | None
) -> Check:
    state, parts = OK, []
    if store.data is not None:
        parts.append(f"{store.data.st_size:,} bytes of dead tasks")
    busy = locked is not None and store.lock is not None and store.lock.st_ino in locked
    if busy:
        parts.append("somebody works on it now")
    elif store.lock is not None:
        parts.append(_mark(os.path.join(directory, f"{prefix}dead_tasks.lock")))
    if store.staging is not None and not busy:
        state = NOTE
        parts.append("an unfinished copy (staging), which the next copy replaces")
    if store.wals:
        parts.append(_describe_wals(store.wals, locked))
        if locked is not None and any(wal.st_ino not in locked for wal in store.wals):
            state = NOTE
    if store.data is not None and store.lock is None:
        state = WARNING
        parts.append("no lock file: restored from a copy, or the lock was deleted")
    return Check(f"store {prefix!r}", state, "; ".join(parts))


def _describe_wals(wals: list[os.stat_result], locked: frozenset[int] | None) -> str:
    size = sum(wal.st_size for wal in wals)
    text = f"{len(wals):,} WAL file{'s' if len(wals) > 1 else ''}, {size:,} bytes"
    if locked is None:
        return text
    orphans = sum(wal.st_ino not in locked for wal in wals)
    if not orphans:
        return text
    return f"{text}, {orphans:,} with no owner in sight: the next start takes them over"


def _mark(path: str) -> str:
    """What the lock file says (docs/formats.md)."""
    try:
        with open(path, "rb") as file:
            mark = file.read(len(UNFINISHED_MARK) + 1)
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        return "its mark cannot be read"
    if mark.split() == [b"clean", boot.encode("ascii")]:
        return "finished and durable"
    if mark.startswith(b"clean "):
        return "last changed before this boot: the next change copies it first"
    return "a change was left unfinished: the next change copies it first"


def _locked_inodes() -> frozenset[int] | None:
    """The inodes that somebody holds a flock on, None where the system does not say.

    `1: FLOCK  ADVISORY  WRITE 708 08:01:1234 0 EOF`: the device is not compared, because some file
    systems give another one here than in stat.
    """
    found: set[int] = set()
    try:
        with open("/proc/locks", encoding="ascii", errors="replace") as file:
            for line in file:
                fields = line.split()
                if len(fields) > 5 and fields[1] == "FLOCK":
                    found.add(int(fields[5].rpartition(":")[2]))
    except (OSError, ValueError):
        return None
    return frozenset(found)
