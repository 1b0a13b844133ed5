"""Mutants of the WAL: append, batches, ownership, merging, rotation.

Named like the negative models of `spec/WalBroken.tla` where there is one; see `_mutants_dead.py`.
"""

from __future__ import annotations

from lychgate_conformance.lab._mutant import Edit, Mutant

_APPEND, _FSYNC, _ROTATE = "_wal.Wal._append", "_wal.Wal._fsync", "_wal.Wal._rotate"
_LOCK_NEW, _TAKE_OVER = "_wal.Wal._lock_new", "_wal.Wal._take_over"

_SYNC_DIR = "await FsyncWalDir(self._directory)"
_OWN = "if not await OwnTry(file.fd) or not await OwnCheck(file.fd, file.path):"
_MERGE = "await with_undo(self._merge(own, fd, replay), let_go)"
_OPEN_TO_APPEND = Edit(
    "_wal_file.claim_wal",
    "fd = await ClaimOpen(path)",
    "from lychgate._ops import OpenData; fd = await OpenData(path)",
)

BATCH_MUTANTS = (
    Mutant(
        "ack-before-write",
        "acknowledged before the line leaves user space (W8)",
        (Edit(_APPEND, "await self._write(file, AppendWal, line)", "pass"),),
        "wal",
        "new;0;task:t",
        "WalBuffered",
    ),
    Mutant(
        "no-wal-fsync",
        "the WAL is never made durable (W3)",
        (Edit(_FSYNC, "await FsyncWal(file.fd)", "pass"),),
        "wal",
        "new;0;task:t",
    ),
    Mutant(
        "due-off-by-one",
        "a call that is due at this very moment does not sync (W3)",
        (Edit(_APPEND, "if now >= own.due:", "if now > own.due:"),),
        "wal",
        "new;0;task:t",
    ),
    Mutant(
        "never-due",
        "with a frequency, a call past due leaves the batch as it is (W3)",
        (Edit(_APPEND, "if now >= own.due:", "if now >= own.due and not self._frequency:"),),
        "wal-batched",
        "new;0.5;task:t,wait,task:w",
    ),
    Mutant(
        "due-pushed-back",
        "every call puts the batch off, so steady work is never durable (W3)",
        (
            Edit(
                _APPEND,
                "if own.due is None or now < own.due - self._frequency:",
                "if True:",
            ),
        ),
        "wal-batched",
        "new;0.5;task:t,wait,task:w",
    ),
    Mutant(
        "sync-does-nothing",
        "sync returns without an fsync (W3)",
        (
            Edit(
                "_wal.Wal._make_durable",
                "if own.file is not None and own.file.dirty:",
                "if False:",
            ),
        ),
        "wal-batched",
        "new;0.5;task:t,sync",
    ),
    Mutant(
        "close-unsynced",
        "close lets the batch go without making it durable (W3)",
        (
            Edit(
                "_wal.Wal.close",
                "await with_release(self._make_durable(own), partial(self._let_go, own))",
                "await self._let_go(own)",
            ),
        ),
        "wal-batched",
        "new;0.5;task:t,reopen",
    ),
    Mutant(
        "close-unlinks-live",
        "close unlinks a file that holds live tasks (W2)",
        (
            Edit(
                "_wal.Wal._let_go",
                "if file is not None and (file.live or file.suspect):",
                "if file is not None and file.suspect:",
            ),
        ),
        "wal",
        "new;0;task:t,reopen",
    ),
)

FAULT_MUTANTS = (
    Mutant(
        "no-undo",
        "the fragment of a failed append is left in place (W6)",
        (Edit("_wal.Wal._write", "await TruncateWal(file.fd, file.size)", "pass"),),
        "faults",
        "new;0;task:t,task:w",
        "WalNoUndo",
        focus=("AppendWal",),
    ),
    Mutant(
        "believed",
        "after a failed fsync the next one is believed (W9)",
        (
            Edit(
                _FSYNC,
                "file.suspect = True\n            self._stats",
                "self._stats",
            ),
        ),
        "faults-batched",
        "new;0.5;task:t,sync,sync",
        "WalBelieved",
        focus=("FsyncWal",),
    ),
    Mutant(
        "forgetful",
        "a rotation after a failed fsync reads everything back from the cache (W9)",
        (
            Edit(_ROTATE, "old.on_disk()", "iter(old.live.items())"),
            Edit(_ROTATE, "old.unsynced.items()", "()"),
        ),
        "faults-batched",
        "new;0.5;task:t,sync,task:w",
        "WalForgetful",
        focus=("FsyncWal",),
    ),
    Mutant(
        "removal-retry-believed",
        "a remove that is tried again after its fsync failed is acknowledged as it is (W9)",
        (Edit("_wal.Wal.remove", "await self._writable(own)  #", "pass  #"),),
        "faults",
        "new;0;task:t,done:t,done:t",
        focus=("FsyncWal",),
    ),
    Mutant(
        "fsync-lies-definite",
        "a task whose fsync failed is reported as not stored (F2)",
        (Edit(_FSYNC, "definite=False", "definite=True"),),
        "faults",
        "new;0;task:t",
        focus=("FsyncWal",),
    ),
    Mutant(
        "dropped",
        "acknowledged before the unlink of a file that a failed rotation gave up is durable (W5)",
        (Edit(_ROTATE, "own.retired.append(new)", "await self._discard(new)"),),
        "faults-rotation",
        "new;0;task:t,task:t,done:t",
        "WalDropped",
        focus=("FsyncWal",),
    ),
)

OWNER_MUTANTS = (
    Mutant(
        "unsynced-name",
        "no directory fsync after a file is made (W2)",
        (Edit(_LOCK_NEW, _SYNC_DIR, "pass"),),
        "wal",
        "new;0;task:t",
        "WalUnsyncedName",
    ),
    Mutant(
        "name-last",
        "a start makes its new name durable only after it has unlinked what it merged (W2, W5)",
        (
            Edit(_LOCK_NEW, _SYNC_DIR, "pass"),
            Edit(
                "_wal.Wal._sound",
                "own.file = await self._create()",
                "own.file = await self._create(); own.names_unsynced = True",
            ),
        ),
        "wal",
        "two;0;pending",
        "WalNameLast",
    ),
    Mutant(
        "own-unchecked",
        "a new file is used without a look whether it still has its name (W11)",
        (Edit(_LOCK_NEW, _OWN, "if not await OwnTry(file.fd):"),),
        "workers-wal",
        "new;0;task:t/pending",
        "WalUnchecked",
        focus=("OwnTry",),
    ),
    Mutant(
        "own-unlocked",
        "a new file is used without a lock (W11)",
        (Edit(_LOCK_NEW, _OWN, "if not await OwnCheck(file.fd, file.path):"),),
        "workers-wal",
        "new;0;task:t/pending",
        focus=("AppendWal",),
    ),
    Mutant(
        "claim-unchecked",
        "a lock won on a file that another start has merged and unlinked is believed (W11)",
        (
            Edit(
                "_wal_file.claim_wal",
                "await ClaimTry(fd) and await ClaimCheck(fd, path)",
                "await ClaimTry(fd)",
            ),
        ),
        "workers-wal",
        "two;0;pending/pending",
        focus=("ClaimTry",),
    ),
    Mutant(
        "claim-unlocked",
        "a file is taken over from its living owner (W11)",
        (
            Edit(
                "_wal_file.claim_wal",
                "await ClaimTry(fd) and await ClaimCheck(fd, path)",
                "await ClaimCheck(fd, path)",
            ),
        ),
        "workers-wal",
        "new;0;task:t/pending",
        focus=("AppendWal",),
    ),
    Mutant(
        "torn-tail",
        "a recovered file is kept and appended to as it is (W6)",
        (
            _OPEN_TO_APPEND,
            Edit(
                _TAKE_OVER,
                _MERGE,
                "from lychgate._ops import StatData\n"
                "        if own.file is None: own.file = WalFile(path, fd,"
                " (await StatData(fd)).size, replay.live); return\n"
                f"        {_MERGE}",
            ),
        ),
        "wal",
        "torn;0;task:t",
        "WalTornTail",
    ),
    Mutant(
        "kept-file",
        "a recovered file is kept, sound as it looks, after its last owner's fsync failed (W2, W9)",
        (
            _OPEN_TO_APPEND,
            Edit(
                _TAKE_OVER,
                _MERGE,
                "from lychgate._ops import ReadWal\n"
                "        if own.file is None: size = len(await ReadWal(fd, 0, 1 << 20));"
                " own.file = WalFile(path, fd, size, replay.live, dirty=True); return\n"
                f"        {_MERGE}",
            ),
        ),
        "faults-batched",
        "new;0.5;task:t,reopen,sync",
        "WalKeptFile",
        focus=("FsyncWal",),
    ),
    Mutant(
        "one-history",
        "the records of all files are replayed as one history (W12)",
        (
            Edit(
                "_wal.Wal._merge",
                "self._ids.observe(task_id)",
                "task_id in replay.live or own.file is None or own.file.live.pop(task_id, None)",
            ),
        ),
        "wal",
        "twins;0;pending",
        "WalOneHistory",
    ),
    Mutant(
        "fork-shares",
        "a backend opened before a fork is used in the child, file and all (W13)",
        (Edit("_wal.Wal._in_turn", "self._facts.pid()", "0"),),
        "fork",
        "new;0;task:t,fork,task:t",
        "WalForkShares",
        closes_at_fork=False,
        focus=("AppendWal",),
    ),
    Mutant(
        "merge-before-durable",
        "a start unlinks what it merged before its copy is durable (W5)",
        (Edit("_wal.Wal._merge", "await self._fsync(own, target)", "pass"),),
        "wal-batched",
        "two;0.5;pending",
    ),
    Mutant(
        "unlink-before-merge",
        "a start unlinks a file before it has copied it (W5)",
        (Edit(_TAKE_OVER, _MERGE, f"await UnlinkWal(path); {_MERGE}"),),
        "wal",
        "two;0;pending",
    ),
    Mutant(
        "merged-kept",
        "a start leaves the files that it merged where they are (W5)",
        (Edit(_TAKE_OVER, "own.retired.append(WalFile(path, fd))", "await close_wal(fd)"),),
        "wal",
        "two;0;done:u",
    ),
    Mutant(
        "removal-ignored",
        "a replay does not know remove records (W12)",
        (Edit("_wal_file.Replay.take", "self.live.pop(record.task_id, None)", "pass"),),
        "wal",
        "two;0;done:u",
    ),
    Mutant(
        "bad-line-ends-replay",
        "a bad line ends a replay in the place of being skipped (W7)",
        (Edit("_wal_file.Replay.take", "self.bad += 1", "self.take = lambda line: None"),),
        "wal",
        "damaged;0;pending",
    ),
    Mutant(
        "any-name",
        "every file with the prefix passes for a WAL file (D6)",
        (Edit("_names.is_wal_name", "is not None", "is not True"),),
        "wal",
        "two;0;pending",
    ),
)

ROTATION_MUTANTS = (
    Mutant(
        "rotate-before-durable",
        "a rotation unlinks the old file before the copy is durable (W5)",
        (Edit(_ROTATE, "await FsyncWal(new.fd)", "pass"),),
        "rotation",
        "new;0;task:t,task:w",
        "WalUnsyncedCopy",
    ),
    Mutant(
        "unsettled",
        "acknowledged before the unlink of the rotated file is durable (W5)",
        (Edit("_wal.Wal._settle", _SYNC_DIR, "pass"),),
        "rotation",
        "new;0;task:t,task:t,done:t",
        "WalUnsettled",
    ),
    Mutant(
        "rotated-kept",
        "a rotation leaves the old file where it is (W5)",
        (Edit(_ROTATE, "own.retired.append(old)", "await close_wal(old.fd)"),),
        "rotation",
        "new;0;task:t,task:t,done:t",
    ),
    Mutant(
        "rotation-forgets-unsynced",
        "a rotation copies only what an fsync has covered (W5)",
        (Edit(_ROTATE, "old.unsynced.items()", "()"),),
        "rotation-batched",
        "new;0.5;task:t,task:w",
    ),
    Mutant(
        "unlock-first",
        "clean-up frees the lock before it unlinks (W11)",
        (
            Edit(
                "_wal.Wal._unlink_retired",
                "await UnlinkWal(file.path)",
                "await close_wal(file.fd); await UnlinkWal(file.path)",
            ),
            Edit(
                "_wal.Wal._unlink_retired",
                "own.names_unsynced = True\n            await close_wal(file.fd)",
                "own.names_unsynced = True",
            ),
        ),
        "rotation-workers",
        "new;0;task:t,task:t,done:t/pending",
        "WalUnlockFirst",
        focus=("UnlinkWal",),
    ),
)

WAL_MUTANTS = (*BATCH_MUTANTS, *FAULT_MUTANTS, *OWNER_MUTANTS, *ROTATION_MUTANTS)
