"""Mutants of the lock of the dead-task store and of its mark.

Named like the negative models of `spec/LockBroken.tla` and `spec/DeadTasksBroken.tla` where there
is one; see `_mutants_dead.py`.
"""

from __future__ import annotations

from lychgate_conformance.lab._mutant import Edit, Mutant

_ADD, _REMOVE = "_dead.DeadStore.add", "_dead.DeadStore._remove"
_ATTEMPT, _HOLD = "_lock.StoreLock._attempt", "_lock.StoreLock.hold"

_SET_MARK = "await self._lock.set_mark(attempt.held)"
_APPENDING = "await with_release(self._append(fd, line, attempt), partial(_close_data, fd))"
_FINISH = "await self._finish(attempt)"
_CHECK = "if await with_undo(_check(held.fd, self._path), partial(self._drop, held)):"

LOCK_MUTANTS = (
    Mutant(
        "no-flag",
        "fibers of one object share a description, so the lock does not part them (D15)",
        (Edit("_flag.Flag.take", "return False", "return True"),),
        "fibers",
        "two;0;add:a|remove:p",
        "LockNoFlag",
        focus=("AppendRecord",),
    ),
    Mutant(
        "unlock-not-owned",
        "a call that timed out frees the lock that another fiber holds (D10, D14, D15)",
        (
            Edit(
                "_lock.StoreLock._acquire",
                'self._stats.count("lock_timeouts")',
                "if held.fd is not None: await self._unlock(held)",
            ),
        ),
        "time-outs",
        "two;0;add:a|list/remove:p",
        "LockTimeoutUnlocks",
        focus=("AppendRecord",),
    ),
    Mutant(
        "lock-unlinked",
        "the lock file is unlinked after its release, while somebody waits for it (D13)",
        (
            Edit(
                _HOLD,
                "await self._unlock(held)",
                "await self._unlock(held); from lychgate._ops import UnlinkStaging\n"
                "                if held.fd is not None and await _check(held.fd, self._path):"
                " await UnlinkStaging(self._path)",
            ),
        ),
        "lock-file",
        "two;0;list,add:a/remove:p",
        "LockUnlinkedOnRelease",
        focus=("UnlinkStaging", "AppendRecord"),
    ),
    Mutant(
        "lock-unchecked",
        "nobody looks whether the path still names the locked inode (D24)",
        (Edit(_ATTEMPT, _CHECK, "if True:"),),
        "lock-file",
        "two;0;list,lose-lock,add:a/remove:p",
        "LockUnchecked",
        focus=("AppendRecord",),
    ),
    Mutant(
        "lock-forgotten",
        "the descriptor of a replaced lock file is dropped without being closed (D24)",
        (Edit(_ATTEMPT, "await self._drop(held)", "held.fd, held.locked = None, False"),),
        "lock-file",
        "two;0;list,lose-lock,list,reopen",
        "LockForgotten",
    ),
    Mutant(
        "lock-not-taken",
        "an answer that somebody else has the lock is taken for the lock (D13)",
        (Edit("_lock.StoreLock._try", "await LockTry(fd)", "await LockTry(fd) or True"),),
        "workers",
        "two;0;add:a/remove:p",
        focus=("AppendRecord",),
    ),
    Mutant(
        "lock-kept",
        "the lock is not given back after an operation that went well (D10)",
        (
            Edit(
                "_lock.StoreLock._unlock",
                "await with_undo(_unlock(held.fd), partial(self._drop, held))",
                "pass",
            ),
        ),
        "dead",
        "new;0;list",
    ),
    Mutant(
        "lock-kept-on-error",
        "an operation that fails leaves the lock taken (F2, D10)",
        (Edit(_HOLD, "return await with_undo(inside(), release)", "return await inside()"),),
        "faults",
        "clean;0;list",
        "LockNotReleased",
        focus=("OpenData",),
    ),
    Mutant(
        "fork-shares-lock",
        "a forked child goes on with its parent's description (D23)",
        (Edit("_lock.StoreLock._mine", "self._facts.pid()", "0"),),
        "fork",
        "two;0;list,fork,remove:p",
        "LockForkShares",
        closes_at_fork=False,
        focus=("SetMark",),
    ),
    Mutant(
        "fork-keeps-lock",
        "a forked child keeps its parent's description open, and with it the lock (D23)",
        (),
        "fork-kills",
        "two;0;list,fork,list",
        "LockForkLeaks",
        closes_at_fork=False,
        focus=("ReadLive",),
    ),
)

MARK_MUTANTS = (
    Mutant(
        "mark-ignored",
        "what a dead holder left undone is not done by the next one (D32)",
        (
            Edit(
                "_lock.StoreLock.is_clean",
                "== clean_mark(self._facts.boot())",
                "is not None",
            ),
        ),
        "kills",
        "clean;0;remove:p",
        "DeadTasksMarkIgnored",
        focus=("FsyncDir",),
    ),
    Mutant(
        "mark-of-any-boot",
        "a clean mark from before a host crash is believed (D32, D29)",
        (
            Edit(
                "_lock.StoreLock.is_clean",
                "return await ReadMark(held.fd, 0, _MARK_BYTES) == clean_mark(self._facts.boot())",
                "return (await ReadMark(held.fd, 0, _MARK_BYTES))[:5] == b'clean'",
            ),
        ),
        "second-crash",
        "clean;0;add:a",
    ),
    Mutant(
        "mark-not-set-by-add",
        "an add whose fsync failed leaves a clean mark (D32, W9)",
        (Edit(_ADD, _SET_MARK, "pass"),),
        "faults-small-units",
        "aligned;0;add:a,add:b",
        "DeadTasksMarkNotSet",
        focus=("FsyncData",),
    ),
    Mutant(
        "mark-not-set-by-remove",
        "a remover that dies after its rename leaves a clean mark (D32)",
        (Edit(_REMOVE, _SET_MARK, "pass"),),
        "kills",
        "clean;0;remove:p",
        focus=("FsyncDir",),
    ),
    Mutant(
        "mark-cleared-before-publish",
        "the mark is cleared before the new name is durable (D32)",
        (
            Edit(_REMOVE, "await self._publish()", _FINISH),
            Edit(_REMOVE, _FINISH, "await self._publish()"),
        ),
        "kills",
        "clean;0;remove:p",
        "StoreMarkLies",
        focus=("FsyncDir",),
    ),
    Mutant(
        "mark-cleared-before-append",
        "the mark is cleared before the record is durable; a failed fsync goes unmended (F2, W9)",
        (Edit(_ADD, _APPENDING, _FINISH), Edit(_ADD, _FINISH, _APPENDING)),
        "faults-small-units",
        "aligned;0;add:a,add:b",
        "DeadTasksFailedFsyncClean",
        focus=("FsyncData",),
    ),
)
