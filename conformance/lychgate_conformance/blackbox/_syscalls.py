"""The calls at which a worker is stopped: their numbers, and which arguments name a file.

strace knows the names of calls; whoever traces by itself needs their numbers, which are those of
the machine. Two tables cover what the suite runs on: x86-64, and the generic one of Linux that
64-bit ARM and RISC-V have. On any other machine level 5 is NOT MEASURED.

A call counts when one of its files is below the directory of the stores. Reads and looks count as
well as writes: what another worker changes between two of them is what level 5 is about. Calls on
a descriptor that change nothing shared (`lseek`, `F_GETFD`) do not. Where the store lies behind a
connection, the calls of `ON_CONNECTIONS` count, on any stream socket whose peer has a name.
"""

from __future__ import annotations

import platform

Files = tuple[tuple[int | None, int | None], ...]
"""For each file of a call: the arguments of its descriptor (or directory) and of its path."""

_FD: Files = ((0, None),)
_PATH: Files = ((None, 0),)
_AT: Files = ((0, 1),)
_TWO_FDS: Files = ((0, None), (1, None))
_TWO_PATHS: Files = ((None, 0), (None, 1))
_TWO_ATS: Files = ((0, 1), (2, 3))

# name: files, number on x86-64, number in the generic table (None: the call is not there)
_TABLE: dict[str, tuple[Files, int, int | None]] = {
    "read": (_FD, 0, 63), "write": (_FD, 1, 64), "open": (_PATH, 2, None), "close": (_FD, 3, 57),
    "stat": (_PATH, 4, None), "fstat": (_FD, 5, 80), "lstat": (_PATH, 6, None),
    "pread64": (_FD, 17, 67), "pwrite64": (_FD, 18, 68), "readv": (_FD, 19, 65),
    "writev": (_FD, 20, 66), "access": (_PATH, 21, None), "sendfile": (_TWO_FDS, 40, 71),
    "fcntl": (_FD, 72, 25), "flock": (_FD, 73, 32), "fsync": (_FD, 74, 82),
    "fdatasync": (_FD, 75, 83), "truncate": (_PATH, 76, 45), "ftruncate": (_FD, 77, 46),
    "getdents": (_FD, 78, None), "rename": (_TWO_PATHS, 82, None), "mkdir": (_PATH, 83, None),
    "rmdir": (_PATH, 84, None), "creat": (_PATH, 85, None), "link": (_TWO_PATHS, 86, None),
    "unlink": (_PATH, 87, None), "symlink": (((None, 1),), 88, None),
    "readlink": (_PATH, 89, None), "getdents64": (_FD, 217, 61), "openat": (_AT, 257, 56),
    "mkdirat": (_AT, 258, 34), "newfstatat": (_AT, 262, 79), "unlinkat": (_AT, 263, 35),
    "renameat": (_TWO_ATS, 264, 38), "linkat": (_TWO_ATS, 265, 37),
    "symlinkat": (((1, 2),), 266, 36), "readlinkat": (_AT, 267, 78), "faccessat": (_AT, 269, 48),
    "fallocate": (_FD, 285, 47), "preadv": (_FD, 295, 69), "pwritev": (_FD, 296, 70),
    "renameat2": (_TWO_ATS, 316, 276), "copy_file_range": (((0, None), (2, None)), 326, 285),
    "preadv2": (_FD, 327, 286), "pwritev2": (_FD, 328, 287), "statx": (_AT, 332, 291),
    "openat2": (_AT, 437, 437), "faccessat2": (_AT, 439, 439),
    "connect": (_FD, 42, 203), "sendto": (_FD, 44, 206), "recvfrom": (_FD, 45, 207),
    "sendmsg": (_FD, 46, 211), "recvmsg": (_FD, 47, 212), "shutdown": (_FD, 48, 210),
    "recvmmsg": (_FD, 299, 243), "sendmmsg": (_FD, 307, 269),
}  # fmt: skip

SENDS = frozenset(("write", "writev", "sendto", "sendmsg", "sendmmsg"))
RECEIVES = frozenset(("read", "readv", "recvfrom", "recvmsg", "recvmmsg"))
ON_CONNECTIONS = SENDS | RECEIVES | {"connect", "shutdown", "close"}
"""What a client of a server does on its connection. Waiting for one (`poll`) is not among them."""

_GENERIC = ("aarch64", "riscv64")


def numbers(machine: str = "") -> dict[int, tuple[str, Files]]:
    """Number: name and files of the calls that count here; empty on a machine that is not known."""
    machine = machine or platform.machine()
    if machine == "x86_64":
        return {number: (name, files) for name, (files, number, _) in _TABLE.items()}
    if machine in _GENERIC:
        return {
            number: (name, files)
            for name, (files, _, number) in _TABLE.items()
            if number is not None
        }
    return {}
