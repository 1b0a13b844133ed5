"""What a step is, to the eye and to the system: its kind and the system call behind it."""

from __future__ import annotations

import functools

from lychgate_tools.steps import engine_steps

_PORT = {
    "open": ("open", "open(2)"),
    "close": ("open", "close(2)"),
    "read": ("read", "pread(2)"),
    "append": ("write", "write(2) with O_APPEND"),
    "overwrite": ("write", "pwrite(2)"),
    "truncate": ("write", "ftruncate(2)"),
    "fsync": ("sync", "fsync(2)"),
    "fsync_dir": ("sync", "fsync(2) of the directory"),
    "status": ("read", "fstat(2)"),
    "set_owner": ("write", "fchmod(2), fchown(2)"),
    "is_named": ("read", "lstat(2) and fstat(2)"),
    "try_lock": ("lock", "flock(LOCK_EX | LOCK_NB)"),
    "unlock": ("lock", "flock(LOCK_UN)"),
    "rename": ("name", "rename(2)"),
    "unlink": ("name", "unlink(2)"),
    "make_dir": ("name", "mkdir(2)"),
    "list_dir": ("read", "getdents(2)"),
    "sleep": ("wait", "nanosleep(2)"),
}

_OTHERS = {
    # what happens to workers and to the world, in the spec's words
    **{name: ("call", "") for name in ("Call", "JBegin", "NoRecovery", "Enqueue")},
    **{name: ("start", "") for name in ("Restart", "Start", "Init")},
    **{name: ("kill", "SIGKILL") for name in ("Kill", "JKill")},
    **{name: ("crash", "") for name in ("HostCrash", "JHostCrash", "Crash", "Remount")},
    **{name: ("start", "fork(2)") for name in ("Fork", "ForkSharing")},
    **{name: ("name", "unlink(2)") for name in ("DeleteLock", "DeleteHeldLock", "JUnlink")},
    # the journal alternative, which is not the engine's way (Journal.tla)
    "JRepair": ("write", "ftruncate(2)"),
    "JAppend": ("write", "write(2) with O_APPEND"),
    "JCreate": ("name", "open(2) with O_CREAT | O_EXCL"),
    "JWrite": ("write", "write(2)"),
    "JCut": ("write", "ftruncate(2)"),
    "JFill": ("write", "write(2)"),
    "JVoid": ("write", "ftruncate(2)"),
    "JEnd": ("return", ""),
    **{name: ("sync", "fsync(2)") for name in ("JSyncJournal", "JSyncLive", "JSyncVoid")},
    "JSyncDir": ("sync", "fsync(2) of the directory"),
}


@functools.cache
def _kinds() -> dict[str, tuple[str, str]]:
    found = {name: _PORT[calls[0]] for name, calls in engine_steps().items()}
    created = ("CreateStaging", "CreateWal", "CreateSegment")
    found |= {
        name: ("name", "open(2) with O_CREAT | O_EXCL") for name in created if name in found
    }
    return found | _OTHERS


def kind_of(action: str) -> str:
    """One of the kinds of the schema."""
    return _kinds().get(action, ("other", ""))[0]


def call_of(action: str) -> str:
    """The system call, empty where there is none."""
    return _kinds().get(action, ("", ""))[1]


def is_step(action: str) -> bool:
    """Whether this is a step of the engine."""
    return action in engine_steps_known()


@functools.cache
def engine_steps_known() -> frozenset[str]:
    return frozenset(engine_steps())
