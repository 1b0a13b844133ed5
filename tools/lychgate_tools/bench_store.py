"""What `lychgate bench` measures of the disk store, each beside a bare reference point.

Rules
  * A bench is a function of a `Plan` that gives `Result`s; it works inside `plan.directory` alone.
  * The reference point does the least that gives the same durability, in the same language, on the
    same disk, with the same bytes.
  * Big stores are made from lines of the engine's own format, written without the engine.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lychgate import Disk
from lychgate._lines import seal
from lychgate._lock import LOCK_ATTEMPTS_MAX, LOCK_SLEEP_S
from lychgate._names import dead_data_name, wal_name
from lychgate_tools.bench_child import PAGE
from lychgate_tools.bench_measure import (
    Comparison,
    Result,
    Side,
    compare,
    in_child,
    timed,
)

PREFIX = "deferred-"
CONTEXT = {"args": ["ada@example.org", 3], "kwargs": {}, "enqueued_at": 1767225600.25}
TASK = {"task": "mail.send", "args": ["ada@example.org", 3], "kwargs": {}}
ERROR = ConnectionError("connection refused by mail.example.org:25")

_EACH = 25
_CHUNK_BYTES = 1024 * 1024
_BIG_ROUNDS = 3  # of what takes seconds a time


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure, and where. `note` shows what is under way."""

    directory: Path
    size: int  # records of a big store
    count: int  # calls of a small operation
    note: Callable[[str], None]

    @property
    def each(self) -> int:
        """Calls of one side before it is the other's turn."""
        return min(_EACH, self.count)

    @property
    def rounds(self) -> int:
        return max(1, self.count // _EACH)


@contextmanager
def scratch(plan: Plan, name: str) -> Iterator[Path]:
    """A directory of its own for one bench."""
    path = plan.directory / name
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


# --- stores of a given size -------------------------------------------------------------------


def task_id(number: int) -> str:
    return f"{1767225600000000 + number:020d}-{number:016x}"


def write_dead(directory: Path, records: int) -> Path:
    """A dead-task store with this many records; its path."""
    directory.mkdir(exist_ok=True)
    path = directory / dead_data_name(PREFIX)
    body = (
        '{"task_id":"%s","task_class":"mail.send","attempts":21,"error_class":"ConnectionError",'
        '"error_message":"connection refused by mail.example.org:25","failed_at":1767225700.125,'
        '"enqueued_at":1767225600.25,"context":{"args":["ada@example.org",%d],"kwargs":{}}}'
    )
    _write(path, records, lambda number: (body % (task_id(number), number)).encode("ascii"))
    with Disk(directory):
        pass  # makes the lock file and its mark, so that the next one to come copies nothing
    return path


def write_wal(path: Path, records: int) -> None:
    """A WAL file with this many live tasks, as a dead process leaves it."""
    body = 'add:%s:0:{"task":"mail.send","args":["ada@example.org",%d],"kwargs":{}}'
    _write(path, records, lambda number: (body % (task_id(number), number)).encode("ascii"))


def _write(path: Path, records: int, body: Callable[[int], bytes]) -> None:
    with open(path, "wb", buffering=_CHUNK_BYTES) as file:
        for number in range(records):
            file.write(seal(body(number)))


# --- small operations -------------------------------------------------------------------------


def _bare_durable(path: Path, data: bytes) -> Side:
    """open, flock, write, fsync, close: the least that a durable locked append can do."""

    def action() -> None:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, data)
        os.fsync(fd)
        os.close(fd)

    return timed(action)


def dead_adder(disk: Disk) -> Callable[[], None]:
    return lambda: disk.add_dead_task(task_id(0), CONTEXT, ERROR, "mail.send", 21)


def dead_add(plan: Plan) -> list[Result]:
    """add_dead_task beside its bare system calls, and in a big store beside a small one."""
    big_size = max(1, plan.size // 10)
    with scratch(plan, "dead-add") as base:
        plan.note(f"making a store of {big_size:,} records")
        write_dead(base / "big", big_size)
        with Disk(base / "small") as small, Disk(base / "big") as big:
            add, add_big = dead_adder(small), dead_adder(big)
            add()
            line = (base / "small" / dead_data_name(PREFIX)).read_bytes()
            plan.note("add_dead_task beside bare calls")
            bare = _bare_durable(base / "bare", line)
            with_bare = compare(timed(add), bare, plan.rounds, plan.each)
            plan.note("a big store beside a small one")
            with_small = compare(timed(add_big), timed(add), plan.rounds, plan.each)
    over = with_bare.first - with_bare.second
    reach = over / 0.15  # the reference time from which on the same overhead is within 15 %
    return [
        small_result(
            "dead-add", "add_dead_task", "open, flock, write, fsync, close of the same bytes",
            with_bare, goal=1.15,
            note=f"{over * 1e6:.0f} µs above it; within 1.15 where the bare calls take "
            f"{reach * 1e3:.2f} ms or more",
        ),
        small_result(
            "dead-add", f"add_dead_task, {big_size:,} records", "add_dead_task, small store",
            with_small, goal=1.05, note="cost independent of the store's size",
        ),
    ]  # fmt: skip


def wal_add(plan: Plan) -> list[Result]:
    """add_task, batched and durable, beside a bare write and a bare write with fsync."""
    with scratch(plan, "wal-add") as base:
        bare_fd = os.open(base / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            with Disk(base / "batched") as batched, Disk(base / "each", PREFIX, 0) as each:
                results = _wal_add(plan, base, batched, each, bare_fd)
        finally:
            os.close(bare_fd)
    return results


def _wal_add(plan: Plan, base: Path, batched: Disk, each: Disk, bare_fd: int) -> list[Result]:
    each.add_task(TASK)
    (file,) = (base / "each").glob(f"{PREFIX}0-*")
    data = file.read_bytes()

    def write_and_sync() -> None:
        os.write(bare_fd, data)
        os.fsync(bare_fd)

    add = timed(lambda: batched.add_task(TASK))
    plan.note("add_task beside a bare write")
    beside_write = compare(add, timed(lambda: os.write(bare_fd, data)), plan.rounds, plan.each)
    plan.note("add_task beside bare durable calls")
    beside_durable = compare(add, _bare_durable(base / "bare2", data), plan.rounds, plan.each)
    plan.note("add_task with fsync_frequency=0")
    add_durable = timed(lambda: each.add_task(TASK))
    beside_sync = compare(add_durable, timed(write_and_sync), plan.rounds, plan.each)
    return [
        small_result("wal-add", "add_task, batched fsync", "write to an open file", beside_write,
                note="a process crash loses nothing, a host crash at most fsync_frequency"),
        small_result("wal-add", "add_task, batched fsync", "open, flock, write, fsync, close",
                beside_durable, goal=1.15),
        small_result("wal-add", "add_task, fsync_frequency=0", "write, fsync", beside_sync),
    ]  # fmt: skip


# --- big stores -------------------------------------------------------------------------------


def _copy_side(source: Path, target: Path) -> Side:
    """`cp` and an fsync of the copy, which is taken away off the clock."""

    def action() -> None:
        subprocess.run(["cp", "--", str(source), str(target)], check=True)
        fd = os.open(target, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def side() -> float:
        seconds = timed(action)()
        target.unlink()
        return seconds

    return side


def _compare_compaction(base: Path, data: Path, size: int) -> tuple[Comparison, int]:
    """Compactions that drop one record each, beside copies; and their peak memory."""
    peaks: list[int] = []
    numbers = iter(range(size // 2, size))

    def remove() -> float:
        done = in_child("remove", str(data.parent), task_id(next(numbers)))
        peaks.append(done.peak_bytes)
        return done.seconds

    return compare(remove, _copy_side(data, base / "copy"), _BIG_ROUNDS), max(peaks)


def compaction(plan: Plan) -> list[Result]:
    """remove_dead_tasks on a big store beside cp and fsync of its file; memory; lock time-out."""
    small_size = max(10, plan.size // 10)
    with scratch(plan, "compaction") as base:
        plan.note(f"making a store of {plan.size:,} records")
        data = write_dead(base / "big", plan.size)
        small = write_dead(base / "small", small_size)
        size_bytes = data.stat().st_size
        plan.note(f"compacting {size_bytes / 1e6:.0f} MB beside cp and fsync")
        with_copy, peak = _compare_compaction(base, data, plan.size)
        small_peak = in_child("remove", str(small.parent), task_id(1)).peak_bytes
    return [
        small_result("compaction", f"remove_dead_tasks, {plan.size:,} records",
                f"cp, fsync of the same {size_bytes / 1e6:.0f} MB", with_copy, goal=3.0),
        Result("compaction", f"peak memory, {plan.size:,} records", peak,
               f"peak memory, {small_size:,} records", small_peak, peak / small_peak,
               unit="bytes", goal=1.1, note="the whole process, interpreter included"),
    ]  # fmt: skip


def lock_timeout(plan: Plan) -> list[Result]:
    """The store size at which a compaction makes a concurrent add time out (D14)."""
    patience = LOCK_ATTEMPTS_MAX * LOCK_SLEEP_S
    with scratch(plan, "lock-timeout") as base:
        plan.note(f"making a store of {plan.size:,} records")
        data = write_dead(base / "big", plan.size)
        size_bytes = data.stat().st_size
        plan.note("compacting it")
        runs = [in_child("remove", str(data.parent), task_id(n)) for n in range(_BIG_ROUNDS)]
    seconds = sorted(run.seconds for run in runs)[len(runs) // 2]
    rate = size_bytes / seconds
    records = int(plan.size * patience / seconds)
    return [
        Result("lock-timeout", "bytes of a store whose compaction lasts as long as an add waits",
               rate * patience, "bytes compacted in this run", size_bytes,
               patience / seconds, unit="bytes",
               note=f"extrapolated: {records:,} records like these, from {rate / 1e6:.0f} MB/s; "
               f"an add waits {patience:g} s"),
    ]  # fmt: skip


def first_page(plan: Plan) -> list[Result]:
    """list_dead_tasks(limit=50) of a big store beside the same of a small one."""
    small_size = max(PAGE, plan.size // 1000)
    with scratch(plan, "first-page") as base:
        plan.note(f"making a store of {plan.size:,} records")
        write_dead(base / "big", plan.size)
        write_dead(base / "small", small_size)
        with Disk(base / "big") as big, Disk(base / "small") as small:
            time = compare(
                timed(lambda: big.list_dead_tasks(limit=PAGE)),
                timed(lambda: small.list_dead_tasks(limit=PAGE)),
                plan.rounds, min(5, plan.each),
            )  # fmt: skip
        peak = in_child("page", str(base / "big")).peak_bytes
        small_peak = in_child("page", str(base / "small")).peak_bytes
    return [
        small_result("first-page", f"list_dead_tasks(limit={PAGE}), {plan.size:,} records",
                f"the same, {small_size:,} records", time),
        Result("first-page", f"peak memory, {plan.size:,} records", peak,
               f"peak memory, {small_size:,} records", small_peak, peak / small_peak,
               unit="bytes", goal=1.1, note="the whole process, interpreter included"),
    ]  # fmt: skip


def recovery(plan: Plan) -> list[Result]:
    """Opening a backend over a big orphan WAL beside reading that file."""
    with scratch(plan, "recovery") as base:
        plan.note(f"making a WAL of {plan.size:,} records")
        orphan = base / "orphan"
        write_wal(orphan, plan.size)
        size_bytes = orphan.stat().st_size
        counter = iter(range(_BIG_ROUNDS))

        def recover() -> float:
            store = base / f"store-{next(counter)}"
            store.mkdir()
            os.link(orphan, store / wal_name(PREFIX, "20260101", 1, bytes(8)))
            seconds = in_child("open", str(store)).seconds
            shutil.rmtree(store)
            return seconds

        def read() -> None:
            with open(orphan, "rb", buffering=0) as file:
                while file.read(_CHUNK_BYTES):
                    pass

        plan.note(f"recovering {size_bytes / 1e6:.0f} MB beside reading it")
        time = compare(recover, timed(read), _BIG_ROUNDS)
    per_byte = time.first / size_bytes * 1e9
    return [
        small_result("recovery", f"opening over an orphan WAL of {plan.size:,} tasks",
                f"reading its {size_bytes / 1e6:.0f} MB (in the page cache)", time,
                note=f"{per_byte:.1f} ns per byte, the durable copy into the own file included"),
    ]  # fmt: skip


def small_result(
    bench: str, what: str, beside: str, times: Comparison,
    goal: float | None = None, note: str = "",
) -> Result:  # fmt: skip
    return Result(bench, what, times.first, beside, times.second, times.ratio, "s", goal, note)
