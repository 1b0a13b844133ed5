"""The file systems that litmus programs run on: how each is made and mounted, and its model."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

MIB = 1 << 20
SYSTEM_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
"""Where mkfs is looked for: a daemon's PATH has no sbin."""


@dataclass(frozen=True, slots=True)
class FileSystem:
    """One kind of file system with its options. The sizes are the smallest that mkfs takes."""

    name: str
    kind: str
    model: str
    """The lab's model that must hold every state found here."""
    in_portable: bool
    """Whether `portable`, the model of the verdict, must hold them as well."""
    size: int
    mkfs: tuple[str, ...]
    package: str
    options: str = ""
    commits_apart: bool = False
    """Whether a commit without writing data first needs a call of its own (btrfs)."""


_EXT4 = (
    "mkfs.ext4", "-q", "-F", "-b", "4096", "-J", "size=4",
    "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
)  # fmt: skip

FILE_SYSTEMS: dict[str, FileSystem] = {
    one.name: one
    for one in (
        FileSystem("ext4", "ext4", "ext4-ordered", True, 16 * MIB, _EXT4, "e2fsprogs"),
        FileSystem(
            "ext4-writeback",
            "ext4",
            "ext4-writeback",
            False,  # it shows blocks of others, which the verdict leaves out
            16 * MIB,
            _EXT4,
            "e2fsprogs",
            "data=writeback",
        ),
        FileSystem(
            "xfs", "xfs", "xfs", True, 304 * MIB, ("mkfs.xfs", "-q", "-f", "-K"), "xfsprogs"
        ),
        FileSystem(
            "btrfs",
            "btrfs",
            "btrfs",
            True,
            112 * MIB,
            ("mkfs.btrfs", "-q", "-f", "-K", "-m", "single", "-d", "single"),
            "btrfs-progs",
            commits_apart=True,
        ),
    )
}
"""All of them, by name."""


def mkfs_of(system: FileSystem) -> str | None:
    """The path of the program that makes it, None when it is not installed."""
    return shutil.which(system.mkfs[0], path=SYSTEM_PATH)


def mkfs_version(system: FileSystem) -> str:
    """What the program calls itself."""
    found = mkfs_of(system)
    assert found is not None, "asked only where it is installed"
    done = subprocess.run(
        [found, "-V"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
    )
    first = (done.stdout + done.stderr).strip().partition("\n")[0]
    version = re.search(r"v?\d+\.\d[\w.]*", first)
    return f"{system.package} {version[0] if version else '?'}"
