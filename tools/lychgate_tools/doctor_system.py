"""Where a store would lie: the directory, its file system, the room, and the boot id."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass

from lychgate_tools.doctor import FAILS, NOTE, OK, UNKNOWN, WARNING, Check
from lychgate_tools.mounts import Mount, mount_of

_LOCAL = frozenset(
    "ext3 ext4 xfs btrfs f2fs zfs bcachefs jfs nilfs2 apfs hfs ufs ffs hammer2".split()
)
_NETWORK = frozenset(
    "nfs nfs4 cifs smb3 smbfs smb2 9p afs ceph glusterfs lustre gpfs ocfs2 gfs2 beegfs "
    "virtiofs vboxsf vmhgfs prl_fs drvfs davfs orangefs pvfs2".split()
)
_MEMORY = frozenset(("tmpfs", "ramfs", "devtmpfs", "rootfs"))
_FAT = frozenset(("vfat", "msdos", "exfat", "fat"))
_NO_BARRIER = frozenset(("nobarrier", "barrier=0", "barrier=none"))
_FREES_EARLY = "data=writeback"

_FREE_BYTES_MIN = 100 * 1024 * 1024
_FREE_INODES_MIN = 1000

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Place:
    """The directory, or the nearest one above it that exists."""

    directory: str
    exists: bool


def find_place(path: str) -> tuple[Place | None, list[Check]]:
    """Where to look; None and a failed check where no store can be made."""
    if not path or "\0" in path:
        return None, [Check("path", FAILS, "a path is not empty and holds no NUL")]
    real = os.path.realpath(path)
    missing: list[str] = []
    here = real
    while True:
        try:
            found = os.stat(here)
            break
        except FileNotFoundError:
            missing.append(here)
            here = os.path.dirname(here)
        except OSError as error:
            return None, [Check("path", FAILS, f"{here}: {error.strerror}")]
    if not stat.S_ISDIR(found.st_mode):
        return None, [Check("path", FAILS, f"{here} is not a directory")]
    if not missing:
        text = real if real == os.path.abspath(path) else f"{real} (through a symlink)"
        return Place(here, True), [Check("path", OK, text)]
    text = f"{real} does not exist; {len(missing)} to be made below {here}, mode 0700"
    return Place(here, False), [Check("path", OK, text)]


def look(place: Place) -> list[Check]:
    """Everything that can be known without writing."""
    return [
        *_file_system(place.directory),
        *_room(place.directory),
        *_permissions(place),
        _boot_id(),
    ]


# --- file system ------------------------------------------------------------------------------


def _file_system(directory: str) -> list[Check]:
    mount = mount_of(directory)
    if mount is None:
        state = NOTE if sys.platform == "darwin" else UNKNOWN
        return [Check("file system", state, "its kind is not known: there is no mountinfo here")]
    checks = [judge_mount(mount)]
    if "ro" in mount.options.split(","):
        checks.append(Check("mount", FAILS, f"{mount.point} is mounted read-only"))
    return checks


def judge_mount(mount: Mount) -> Check:
    """What a kind of file system and its options mean for the promises."""
    state, text = _judge_kind(mount)
    return Check("file system", state, f"{mount.kind} on {mount.point}: {text}")


def _judge_kind(mount: Mount) -> tuple[str, str]:
    kind, options = mount.kind, frozenset(mount.options.split(","))
    if kind in _MEMORY:
        return FAILS, "memory; nothing survives a host crash"
    if kind in _FAT:
        return FAILS, "no journal; a crash inside a rename may leave neither file"
    if options & _NO_BARRIER:
        return FAILS, "mounted without barriers, so an fsync may not reach the medium"
    if _FREES_EARLY in options:
        return FAILS, f"mounted with {_FREES_EARLY}: what a compaction replaced may return, damaged"
    if kind == "overlay":
        if "volatile" in options:
            return FAILS, "overlay with `volatile`, which drops every fsync"
        return UNKNOWN, (
            "overlay, a container's own layer: it is deleted with the container; mount a volume"
        )
    if kind in _NETWORK:
        return UNKNOWN, "network or host-shared; lock, rename and fsync are what its server makes"
    if kind == "fuse" or kind.startswith("fuse"):
        return UNKNOWN, "a user-space file system; what an fsync means is up to its program"
    if kind in _LOCAL:
        return OK, "local"
    return UNKNOWN, "not a kind that this program knows"


# --- room, permissions, boot ------------------------------------------------------------------


def _room(directory: str) -> list[Check]:
    try:
        found = os.statvfs(directory)
    except OSError as error:
        return [Check("room", UNKNOWN, f"statvfs: {error.strerror}")]
    free = found.f_bavail * found.f_frsize
    inodes = f"{found.f_favail:,} inodes" if found.f_files else "inodes as needed"
    text = f"{free // 1_000_000:,} MB and {inodes} free"
    if free == 0 or (found.f_files and found.f_favail == 0):
        return [Check("room", FAILS, f"{text}: nothing can be added")]
    if free < _FREE_BYTES_MIN or (found.f_files and found.f_favail < _FREE_INODES_MIN):
        more = "a compaction needs room for a second copy of the dead tasks"
        return [Check("room", WARNING, f"{text}: little; {more}")]
    return [Check("room", OK, text)]


def _permissions(place: Place) -> list[Check]:
    try:
        found = os.stat(place.directory)
    except OSError as error:
        return [Check("permissions", UNKNOWN, f"stat: {error.strerror}")]
    if not os.access(place.directory, os.R_OK | os.W_OK | os.X_OK):
        text = f"this user may not read and write {place.directory}"
        return [Check("permissions", FAILS, text)]
    mode = stat.S_IMODE(found.st_mode)
    if place.exists and mode & 0o022 and not mode & stat.S_ISVTX:
        text = f"mode {mode:04o}: other users may delete or replace the lock file (D24)"
        return [Check("permissions", WARNING, text)]
    return [Check("permissions", OK, f"mode {mode:04o}, readable and writable")]


def _boot_id() -> Check:
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            known = bool(file.read().strip())
    except OSError:
        known = False
    if known:
        return Check("boot id", OK, "readable")
    text = "none here: each process copies the dead-task file once after another one's change"
    return Check("boot id", WARNING, text)
