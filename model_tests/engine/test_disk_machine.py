"""Several backends on one directory, in any order, with faults, kills and restarts (D17, W3, F2).

The machine keeps what callers may rely on: ids that must be there, ids that must not, and those of
which nobody knows. A kill here is a process that dies between two calls; between two steps is the
crash lab's business.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from engine.faults import ERRNOS, Fault, Store
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from lychgate import LychgateError, StorageError, _wal

WORKERS = 2


class Known:
    """What the callers of one store know."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.maybe: set[str] = set()

    def added(self, key: str) -> None:
        self.there.add(key)
        self.maybe.discard(key)

    def removed(self, key: str) -> None:
        self.there.discard(key)
        self.maybe.discard(key)

    def unclear(self, key: str) -> None:
        self.there.discard(key)
        self.maybe.add(key)

    def fits(self, found: set[str]) -> bool:
        return self.there <= found <= self.there | self.maybe


class DiskMachine(RuleBasedStateMachine):
    """Two workers; each task is known to the worker that owns it, dead tasks to all."""

    tasks: Bundle[tuple[int, str]] = Bundle("tasks")
    dead: Bundle[str] = Bundle("dead")
    workers = st.integers(0, WORKERS - 1)

    def __init__(self) -> None:
        super().__init__()
        self.rotate = _wal.ROTATE_BYTES
        _wal.ROTATE_BYTES = 500
        self.path = Path(tempfile.mkdtemp(prefix="pytest-disk-machine-"))
        self.stores = [Store(self.path, frequency=1000).open() for _ in range(WORKERS)]
        self.known = [Known() for _ in range(WORKERS)]
        self.buried = Known()
        self.count = 0

    def teardown(self) -> None:
        for store in self.stores:
            store.kill()
        shutil.rmtree(self.path)
        _wal.ROTATE_BYTES = self.rotate

    def key(self) -> str:
        self.count += 1
        return f"k:{self.count}"

    @initialize()
    def begin(self) -> None:
        for store in self.stores:
            store.fs.arm(None)

    @rule(target=tasks, worker=workers)
    def add(self, worker: int) -> tuple[int, str]:
        key = self.key()
        known = self.known[worker]
        try:
            self.stores[worker].add("x" * 40, key)
            known.added(key)
        except StorageError as error:
            if not error.definite:
                known.unclear(key)
        return worker, key

    @rule(which=tasks)
    def remove(self, which: tuple[int, str]) -> None:
        worker, key = which
        known = self.known[worker]
        if key not in known.there | known.maybe:
            return  # it went to another worker, or is removed
        try:
            self.stores[worker].remove(key)
            known.removed(key)
        except StorageError as error:
            if not error.definite:
                known.unclear(key)

    @rule(target=dead, worker=workers)
    def bury(self, worker: int) -> str:
        key = self.key()
        try:
            self.stores[worker].bury(key, "x" * 40)
            self.buried.added(key)
        except StorageError as error:
            if not error.definite:
                self.buried.unclear(key)
        return key

    @rule(worker=workers, key=consumes(dead))
    def unbury(self, worker: int, key: str) -> None:
        try:
            found = self.stores[worker].unbury(key)
            assert found == (key in self.buried.there) or key in self.buried.maybe
            self.buried.removed(key)
        except StorageError as error:
            if not error.definite:
                self.buried.unclear(key)

    @rule(worker=workers, code=st.sampled_from(ERRNOS), first=st.integers(0, 20),
          count=st.sampled_from([1, 1, 2, 1000]))
    def break_something(self, worker: int, code: int, first: int, count: int) -> None:
        self.stores[worker].fs.arm(Fault(first, OSError(code, os.strerror(code)), count=count))

    @rule(worker=workers)
    def mend(self, worker: int) -> None:
        self.stores[worker].fs.arm(None)

    @rule(worker=workers)
    def sync(self, worker: int) -> None:
        try:
            self.stores[worker].do(self.stores[worker].programs.sync())
        except StorageError:
            pass

    @rule(worker=workers, kill=st.booleans())
    def restart(self, worker: int, kill: bool) -> None:
        """Whoever starts takes over what nobody owns: his own tasks."""
        store = self.stores[worker]
        if kill:
            store.kill()
        else:
            try:
                store.close()
            except LychgateError:
                pass
            assert not store.fs._fds
        self.stores[worker] = Store(self.path, frequency=1000).open()

    @rule(torn=st.binary(min_size=1, max_size=20).filter(lambda data: b"\n" not in data))
    def tear_dead_tail(self, torn: bytes) -> None:
        with open(self.stores[0].data_file(), "ab") as file:
            file.write(torn)

    @invariant()
    def everything_promised_is_there(self) -> None:
        for store, known in zip(self.stores, self.known, strict=True):
            fault, left = store.fs.fault, store.fs._left
            store.fs.arm(None)
            store.check_clean()
            pending = store.pending()
            assert len(pending) == len(set(pending))
            assert known.fits(set(pending)), (known.there, known.maybe, pending)
            assert self.buried.fits(set(store.dead()))
            store.fs.fault, store.fs._left = fault, left


TestDisk = DiskMachine.TestCase
TestDisk.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
