"""Mutants of the dead-task store: tail repair, append, copy and publish, answers.

Named like the negative models of `spec/DeadTasksBroken.tla` where there is one. Each entry:
what is wrong and which requirement it breaks, the edits, the part of the campaign and the workload
that are known to show it, the model that it embodies, and the steps at which that run turns.
"""

from __future__ import annotations

from lychgate_conformance.lab._mutant import Edit, Mutant

_ADD, _REMOVE, _APPEND = "_dead.DeadStore.add", "_dead.DeadStore._remove", "_dead.DeadStore._append"
_PUBLISH, _STAGE = "_dead.DeadStore._publish", "_dead.DeadStore._stage"
_ATTEMPT = "_lock.StoreLock._attempt"

_RENAME = "await RenameStaging(self._staging, self._live)"
_SYNC_DIR = "await FsyncDir(self._directory)"
_APPENDING = "await with_release(self._append(fd, line, attempt), partial(_close_data, fd))"
_CHECK = "if await with_undo(_check(held.fd, self._path), partial(self._drop, held)):"

SYNC_MUTANTS = (
    Mutant(
        "no-fsync-data",
        "an add is acknowledged before its fsync (D10, D17)",
        (Edit(_APPEND, "await FsyncData(fd)", "pass"),),
        "dead",
        "new;0;add:a",
        "DeadTasksNoFsyncData",
    ),
    Mutant(
        "fsync-before-append",
        "fsync, then append (D10)",
        (
            Edit(_APPEND, "await append_all(AppendRecord, fd, line)", "await FsyncData(fd)"),
            Edit(_APPEND, "await FsyncData(fd)", "await append_all(AppendRecord, fd, line)"),
        ),
        "dead",
        "new;0;add:a",
    ),
    Mutant(
        "no-fsync-staging",
        "staging is renamed and never made durable (D12)",
        (Edit(_STAGE, "await FsyncStaging(staging)", "pass"),),
        "dead",
        "two;0;remove:p",
        "DeadTasksNoFsyncStaging",
    ),
    Mutant(
        "rename-before-fsync",
        "staging is renamed first and made durable then (D12)",
        (
            Edit(_STAGE, "await FsyncStaging(staging)", f"{_RENAME}; await FsyncStaging(staging)"),
            Edit(_PUBLISH, _RENAME, "pass"),
        ),
        "dead",
        "two;0;remove:p",
    ),
    Mutant(
        "no-dir-fsync",
        "a removal without directory fsync comes back (D12)",
        (Edit(_REMOVE, "await self._publish()", _RENAME),),
        "dead",
        "two;0;remove:p",
        "DeadTasksNoFsyncDir",
    ),
    Mutant(
        "name-not-durable",
        "the store is made, or healed, without directory fsync (D9)",
        (Edit("_dead.DeadStore._republish", "await self._publish()", _RENAME),),
        "dead",
        "new;0;add:a",
        "DeadTasksNameNotDurable",
    ),
    Mutant(
        "dir-fsync-before-rename",
        "the directory is made durable, then the file is renamed (D12)",
        (Edit(_PUBLISH, _RENAME, _SYNC_DIR), Edit(_PUBLISH, _SYNC_DIR, _RENAME)),
        "dead",
        "two;0;remove:p",
    ),
    Mutant(
        "fdatasync-after-rename",
        "the renamed file is synced in the place of its directory (D12)",
        (
            Edit(
                _PUBLISH,
                _SYNC_DIR,
                "fd = await OpenData(self._live); await FsyncData(fd); await CloseData(fd)",
            ),
        ),
        "dead",
        "two;0;remove:p",
    ),
    Mutant(
        "no-parent-fsync",
        "a directory that was just made is not made durable in its parent (D22)",
        (Edit("_directory.make_directory", "await FsyncParent(parent)", "pass"),),
        "dead",
        "none;0;add:a",
    ),
)

DESIGN_MUTANTS = (
    Mutant(
        "ghost-inode",
        "the data file is its own lock, through a descriptor that is kept (D20)",
        (
            Edit("_dead.DeadStore.__init__", "dead_lock_name(prefix)", "dead_data_name(prefix)"),
            Edit("_dead.DeadStore.add", "fd = await self._open_live()", "fd = attempt.held.fd"),
            Edit("_dead.DeadStore.add", _APPENDING, "await self._append(fd, line, attempt)"),
            Edit(
                _ATTEMPT,
                "held.fd = await OpenLock(self._path)",
                "from lychgate._ops import CreateWal, FsyncDir, OpenData\n"
                "                try: held.fd = await OpenData(self._path)\n"
                "                except StepError: held.fd = await CreateWal(self._path);"
                " await FsyncDir(self._path.rpartition('/')[0])",
            ),
            Edit(_ATTEMPT, _CHECK, "if True:"),
            Edit("_lock._write_mark", "if await op != _MARK_BYTES:", "if False:"),
            Edit(
                "_lock.StoreLock.is_clean",
                "return await ReadMark(held.fd, 0, _MARK_BYTES) == clean_mark(self._facts.boot())",
                "return True",
            ),
        ),
        "workers",
        "two;0;list,add:a/remove:p",
        "DeadTasksGhostInode",
        focus=("LockTry",),
    ),
    Mutant(
        "cached-data",
        "the lock is right, the data descriptor is kept (D13)",
        (
            Edit(
                "_dead.DeadStore._open_live",
                "return await OpenData(self._live)",
                "self._kept = self.__dict__.get('_kept') or await OpenData(self._live);"
                " return self._kept",
            ),
            Edit("_dead._close_data", "await CloseData(fd)", "pass"),
        ),
        "dead",
        "two;0;remove:p,add:a",
        "DeadTasksCachedData",
    ),
    Mutant(
        "in-place",
        "compaction truncates and rewrites the live file (D20)",
        (
            Edit(
                _REMOVE,
                "await self._publish()",
                "live = await OpenData(self._live); made = await OpenData(self._staging);"
                " kept = await read_all(ReadLive, made, 0, (await StatData(made)).size);"
                " await TruncateTail(live, 0); await append_all(AppendRecord, live, kept);"
                " await FsyncData(live); await CloseData(live); await CloseData(made);"
                " await UnlinkStaging(self._staging)",
            ),
        ),
        "dead",
        "two;0;remove:p",
        "DeadTasksInPlace",
    ),
    Mutant(
        "reuse-staging",
        "an orphan staging file is written on (D18, D29)",
        (
            Edit(
                "_dead.DeadStore._create_staging",
                "await UnlinkStaging(self._staging)",
                "return await OpenData(self._staging)",
            ),
        ),
        "dead",
        "orphan;0;list",
        "DeadTasksReuseStaging",
    ),
    Mutant(
        "remove-not-redone",
        "a remove that finds nothing does not redo what a failed one left undone (D19)",
        (Edit(_REMOVE, "if clean and not dropping.found:", "if not dropping.found:"),),
        "faults",
        "two;0;remove:p,remove:p",
        "DeadTasksRemoveNotRedone",
        focus=("FsyncDir",),
    ),
    Mutant(
        "remove-first-only",
        "of several records of an id only the first is dropped (D12, D26)",
        (
            Edit(
                "_dead._Dropping._drops",
                "self.found.add(task_id)",
                "if task_id in self.found: return False\n        self.found.add(task_id)",
            ),
        ),
        "dead",
        "two;0;add:p,remove:p",
    ),
)

TAIL_MUTANTS = (
    Mutant(
        "no-tail-repair",
        "a record is appended onto a torn tail (D11)",
        (Edit(_APPEND, "if end < size:", "if False:"),),
        "dead",
        "torn;0;add:a",
        "DeadTasksNoTailRepair",
    ),
    Mutant(
        "repair-too-far",
        "tail repair cuts a complete line (D11)",
        (
            Edit(
                "_lines.end_of_last_line",
                'data.rfind(b"\\n") + 1',
                'data.rfind(b"\\n", 0, -1) + 1',
            ),
        ),
        "dead",
        "two;0;add:a",
        "DeadTasksRepairTooFar",
    ),
    Mutant(
        "repair-cuts-newline",
        "tail repair is off by one: it takes the last newline with it (D11)",
        (
            Edit(
                "_dead.DeadStore._end_of_last_line",
                "return offset + end",
                "return offset + end - 1",
            ),
        ),
        "dead",
        "two;0;add:a",
    ),
    Mutant(
        "repair-one-window",
        "a tail longer than one window is taken for a file without a line (D11)",
        (
            Edit(
                "_dead.DeadStore._end_of_last_line",
                "if end:\n                return offset + end",
                "return offset + end if end else 0",
            ),
        ),
        "dead",
        "long-tail;0;add:a",
    ),
)

ANSWER_MUTANTS = (
    Mutant(
        "add-lies-definite",
        "an add whose fsync failed says that nothing happened (D17, F2)",
        (Edit(_APPEND, "attempt.definite = False", "pass"),),
        "faults",
        "two;0;add:a",
        focus=("FsyncData",),
    ),
    Mutant(
        "remove-lies-definite",
        "a remove that failed after its rename says that nothing happened (D17, F2)",
        (Edit(_REMOVE, "attempt.definite = False", "pass"),),
        "faults",
        "two;0;remove:p",
        focus=("FsyncDir",),
    ),
    Mutant(
        "leak-on-error",
        "an error path leaves the data descriptor open (F2)",
        (Edit(_ADD, _APPENDING, "await self._append(fd, line, attempt); await _close_data(fd)"),),
        "faults",
        "clean;0;add:a,reopen",
        "DeadTasksLeak",
        focus=("AppendRecord",),
    ),
    Mutant(
        "crc-ignored",
        "any line with a header's length passes for valid (D11, D16, W7)",
        (
            Edit(
                "_lines.unseal",
                'text[:HEADER_BYTES] == b"%08x:" % crc32(body)',
                "len(text) > HEADER_BYTES",
            ),
        ),
        "dead",
        "damaged;0;list",
    ),
    Mutant(
        "bad-line-ends-list",
        "a bad line ends a list in the place of being skipped (D16)",
        (Edit("_dead.DeadStore._visit", 'self._stats.count("dead_lines_skipped")', "return"),),
        "dead",
        "damaged;0;list",
    ),
    Mutant(
        "find-oldest",
        "find gives the oldest record of an id (D26)",
        (
            Edit(
                "_disk.DiskPrograms.find_dead_task",
                "parse_dead(self._codec, body) or newest",
                "newest or parse_dead(self._codec, body)",
            ),
        ),
        "dead",
        "new;0;add:a,add:a,find:a",
    ),
)

DEAD_MUTANTS = (
    *SYNC_MUTANTS,
    *DESIGN_MUTANTS,
    *TAIL_MUTANTS,
    *ANSWER_MUTANTS,
)
