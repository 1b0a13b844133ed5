"""The system calls that Python has no name for: mount, unshare, prctl, syncfs, loop devices.

Linux only. Every function raises OSError with the name of what it worked on.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

RDONLY = 1
_REC_PRIVATE = 0x4000 | 0x40000
_CLONE_NEWNS = 0x20000
_DETACH = 2
_PR_SET_PDEATHSIG = 1
_SYNC_RANGE_ALL = 1 | 2 | 4  # wait before, write, wait after

_LOOP_CTL_GET_FREE = 0x4C82
_LOOP_CONFIGURE = 0x4C0A
_LOOP_MAJOR = 7
_LO_AUTOCLEAR = 4
_LO_DIRECT_IO = 16
_LOOP_TRIES = 20
_BLKFLSBUF = 0x1261

_BTRFS_START_SYNC = 0x80089418
_BTRFS_WAIT_SYNC = 0x40089416

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode(),
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(result, target)


def unmount(target: str, lazily: bool = False) -> None:
    """umount2(2); `lazily` takes it out of sight while it is still in use."""
    _check(_libc.umount2(os.fsencode(target), _DETACH if lazily else 0), target)


def own_mounts() -> None:
    """A mount namespace for this process alone: what it mounts, nobody else sees or keeps."""
    _check(_libc.unshare(_CLONE_NEWNS), "a mount namespace")
    mount("none", "/", "none", _REC_PRIVATE)


def die_with_parent(signal_number: int) -> None:
    """Have the kernel send this process a signal when its parent ends, however it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal_number), 0, 0, 0), "prctl")


def sync_filesystem(descriptor: int) -> None:
    """syncfs(2): everything of this one file system."""
    _check(_libc.syncfs(descriptor), "syncfs")


def write_back(descriptor: int) -> None:
    """sync_file_range(2): a file's dirty pages, and nothing that describes them."""
    zero = ctypes.c_int64(0)
    _check(_libc.sync_file_range(descriptor, zero, zero, _SYNC_RANGE_ALL), "sync_file_range")


def btrfs_commit(descriptor: int) -> None:
    """Commit the running transaction without writing data first, as its timer does."""
    transaction = bytearray(8)
    fcntl.ioctl(descriptor, _BTRFS_START_SYNC, transaction)
    fcntl.ioctl(descriptor, _BTRFS_WAIT_SYNC, bytes(transaction))


class Loop:
    """A loop device on a file; it detaches by itself when its last user is gone."""

    def __init__(self, backing: str, node: str) -> None:
        """`node` is where the device's node goes. OSError when there is no loop device."""
        self.node = node
        self._fd = -1
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
        try:
            for left in reversed(range(_LOOP_TRIES)):
                number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
                os.mknod(node, 0o600 | 0o060000, os.makedev(_LOOP_MAJOR, number))
                try:
                    self._attach(backing)
                    return
                except OSError as error:
                    self.close()
                    if error.errno != errno.EBUSY or not left:  # somebody else was faster
                        raise
        finally:
            os.close(control)

    def _attach(self, backing: str) -> None:
        self._fd = os.open(self.node, os.O_RDWR | os.O_CLOEXEC)
        file = os.open(backing, os.O_RDWR | os.O_CLOEXEC)
        try:
            info = bytearray(232)  # struct loop_info64
            struct.pack_into("<I", info, 52, _LO_AUTOCLEAR | _LO_DIRECT_IO)
            fcntl.ioctl(self._fd, _LOOP_CONFIGURE, struct.pack("<II", file, 0) + info + bytes(64))
        finally:
            os.close(file)

    def forget_cache(self) -> None:
        """Write and drop what the kernel keeps of the device."""
        fcntl.ioctl(self._fd, _BLKFLSBUF, 0)

    def close(self) -> None:
        """Let go of the device; without a mount on it, it detaches now."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        if os.path.lexists(self.node):
            os.unlink(self.node)
