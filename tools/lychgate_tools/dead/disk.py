"""The dead tasks of the disk backend, for commands that run beside its workers.

Rules of this file
  * The store's lock is held to open the file and to see where its last complete line ends, not to
    read it: bytes before that place never change on that inode, since adds go behind it and a
    removal publishes another inode. So a list of a million records keeps no worker waiting.
  * Changes go through the engine's own programs (`DeadStore.add`, `DeadStore.drop`, `Wal`), with
    their steps and promises.
  * The WAL files of dead workers are left to the next start of a worker: a command that took them
    over would have them in its hands while that worker starts.
  * Nothing is made or written by a command that only reads, but for an empty lock file where there
    is none; `verify` does without that as well.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

from lychgate import DeadTask, StorageError
from lychgate._dead import CHUNK_BYTES, TAIL_WINDOW_BYTES, DeadStore
from lychgate._drive import run
from lychgate._ids import TaskIds
from lychgate._lines import LineScanner, end_of_last_line, unseal, windows_backward
from lychgate._lock import StoreLock
from lychgate._names import check_prefix, dead_data_name, dead_lock_name
from lychgate._op import StepError
from lychgate._ops import OpenData, ReadTail, StatData
from lychgate._osfs import OsFs
from lychgate._records import JSON, dead_line, parse_dead, wal_add_line
from lychgate._stats import Stats
from lychgate._steps import read_all
from lychgate._wal import Wal
from lychgate_tools.dead.records import AS_STORED, Finding, Record, Ref, fault, mark_of
from lychgate_tools.ui import ExitCode, UserError

_SYNC_S = 3600.0  # `sync` says when; a batch must not wait for a clock

_NO_LOCK = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
"""What a lock file says that this user may only read."""


class DiskStore:
    """The dead-task store of one path and prefix."""

    afterwards = "a worker takes them up when it next starts on this directory"

    def __init__(self, path: str, prefix: str) -> None:
        self._fs = OsFs()
        self._directory = self._fs.resolve(path)
        name = dead_data_name(check_prefix(prefix))
        self.shown = f"{path}/{name}"
        self._live = self._fs.resolve(f"{self._directory}/{name}")
        if not os.path.isfile(self._live):
            raise UserError(
                f"no dead tasks in {path}: there is no file {name}; another --prefix?",
                ExitCode.USAGE,
            )
        self._lock_path = self._fs.resolve(f"{self._directory}/{dead_lock_name(prefix)}")
        stats = Stats()
        self._lock = StoreLock(self._lock_path, self._fs, stats)
        self._dead = DeadStore(self._directory, prefix, self._fs, stats)
        self._ids = TaskIds(self._fs)
        self._wal = Wal(self._directory, prefix, _SYNC_S, self._fs, self._ids, stats)
        self._snapshot: int | None = None
        self.damaged = 0

    # --- reading ------------------------------------------------------------------------------

    def _open(self, lock: bool) -> tuple[int, int, int]:
        """Descriptor, end of the last complete line, and size, all of one moment."""
        if lock:
            try:
                return run(self._lock.hold(lambda held: _look(self._live)), self._fs)
            except StepError as error:
                if error.cause.errno not in _NO_LOCK or error.action != "OpenLock":
                    raise self._error(error) from error.cause
        try:
            return run(_look(self._live), self._fs)
        except StepError as error:
            raise self._error(error) from error.cause

    def _error(self, error: StepError) -> StorageError:
        return StorageError(error.action, error.cause, self._live, True)

    def records(self) -> Iterator[Record]:
        self.damaged = 0
        self._forget()
        fd, end, _ = self._open(lock=True)
        self._snapshot = fd
        scanner = LineScanner()
        for chunk in _chunks(fd, end):
            for line in scanner.feed(chunk):
                dead = None if line.body is None else parse_dead(AS_STORED, line.body)
                if line.body is None or dead is None:
                    self.damaged += 1
                    continue
                self._ids.observe(dead.task_id)
                yield Record(dead, Ref(mark_of(line.body), line.offset, line.length))

    def load(self, ref: Ref) -> Record | None:
        assert self._snapshot is not None, "load follows records"
        body = unseal(os.pread(self._snapshot, ref.size - 1, ref.place))
        dead = None if body is None else parse_dead(AS_STORED, body)
        return None if dead is None else Record(dead, ref)

    def verify(self) -> Iterator[Finding]:
        fd, end, size = self._open(lock=os.path.exists(self._lock_path))
        try:
            scanner = LineScanner()
            for chunk in _chunks(fd, end):
                for line in scanner.feed(chunk):
                    what = _wrong(line.body)
                    if what is not None:
                        yield Finding(self._live, line.offset, line.length, what)
        finally:
            self._fs.close(fd)
        if end < size:
            what = "torn line: no newline; the next add cuts it"
            yield Finding(self._live, end, size - end, what)

    # --- changes ------------------------------------------------------------------------------

    def remove(self, refs: Sequence[Ref]) -> int:
        marks = {ref.mark for ref in refs}
        return run(self._dead.drop(lambda body: mark_of(body) in marks), self._fs) if marks else 0

    def check(self, dead: DeadTask) -> None:
        dead_line(AS_STORED, dead)

    def restore(self, batch: Sequence[DeadTask]) -> None:
        lines = b"".join(dead_line(AS_STORED, dead) for dead in batch)
        run(self._dead.add(lines), self._fs)

    def revive(self, job: dict[str, object]) -> str:
        task_id = self._ids.next()
        run(self._wal.add(task_id, wal_add_line(JSON, task_id, job, None)), self._fs)
        return task_id

    def sync(self) -> None:
        run(self._wal.sync(), self._fs)

    def close(self) -> None:
        self._forget()
        run(self._wal.close(), self._fs)
        run(self._lock.close(), self._fs)
        run(self._dead.close(), self._fs)

    def _forget(self) -> None:
        if self._snapshot is not None:
            self._fs.close(self._snapshot)
            self._snapshot = None


async def _look(path: str) -> tuple[int, int, int]:
    fd = await OpenData(path)
    size = (await StatData(fd)).size
    for offset, length in windows_backward(size, TAIL_WINDOW_BYTES):
        end = end_of_last_line(await read_all(ReadTail, fd, offset, length))
        if end:
            return fd, offset + end, size
    return fd, 0, size


def _chunks(fd: int, end: int) -> Iterator[bytes]:
    offset = 0
    while offset < end:
        chunk = os.pread(fd, min(CHUNK_BYTES, end - offset), offset)
        if not chunk:
            return  # somebody who is not the engine cut the file
        offset += len(chunk)
        yield chunk


def _wrong(body: bytes | None) -> str | None:
    if body is None:
        return "bad line: its checksum is not that of its content"
    dead = parse_dead(AS_STORED, body)
    return "foreign line: no dead task of this version" if dead is None else fault(dead)
