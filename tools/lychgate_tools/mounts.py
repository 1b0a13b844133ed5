"""Which mount a path is on, read from /proc/self/mountinfo (proc(5)). Elsewhere: not known."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system: where, of which kind, from what, and how."""

    point: str
    kind: str
    source: str
    options: str
    device: str  # "major:minor"


def parse_mountinfo(lines: Iterable[str]) -> list[Mount]:
    """The mounts in the order of the file; lines of another form are left out.

    36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
    """
    found: list[Mount] = []
    for line in lines:
        left, separator, right = line.rstrip("\n").partition(" - ")
        before, after = left.split(" "), right.split(" ")
        if separator and len(before) >= 6 and len(after) >= 2:
            options = _joined(before[5], after[2] if len(after) > 2 else "")
            found.append(
                Mount(_plain(before[4]), after[0], _plain(after[1]), options, before[2])
            )
    return found


def _joined(of_mount: str, of_super: str) -> str:
    """Both lists of options, each option once."""
    return ",".join(dict.fromkeys(filter(None, [*of_mount.split(","), *of_super.split(",")])))


def _plain(field: str) -> str:
    r"""Blanks, tabs, newlines and backslashes stand as \040, \011, \012, \134."""
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), field)


def mount_of(path: str) -> Mount | None:
    """The mount that an existing path is on, None where the system does not say."""
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = parse_mountinfo(file)
        device = os.stat(path).st_dev
    except OSError:
        return None
    real = os.path.realpath(path)
    above = [mount for mount in mounts if _is_above(mount.point, real)]
    # A later mount hides an earlier one on the same point; the device number settles the rest.
    same = [mount for mount in above if mount.device == f"{os.major(device)}:{os.minor(device)}"]
    nearest = sorted(same or above, key=lambda mount: len(mount.point))  # stable
    return nearest[-1] if nearest else None


def _is_above(point: str, path: str) -> bool:
    return point == "/" or path == point or path.startswith(point + "/")
