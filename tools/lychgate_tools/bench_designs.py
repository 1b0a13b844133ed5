"""What rejected designs would cost beside the chosen ones, as bare calls (bench `designs`).

    compaction   journal and overwrite in place, beside copy and rename      (D21, decision 10)
    add          a second fsync, between truncation and append, beside one   (D29, decision 9)
    add          an fsync of the directory as well                           (D32, decision 1)

Only the calls that reach the disk are made: what the designs share is left out.
"""

from __future__ import annotations

import os
from pathlib import Path

from lychgate_tools.bench_measure import Result, Side, compare, timed
from lychgate_tools.bench_store import Plan, scratch, small_result, write_dead

_CHUNK_BYTES = 1024 * 1024
_LINE = b"x" * 299 + b"\n"
_ROUNDS = 3


def designs(plan: Plan) -> list[Result]:
    with scratch(plan, "designs") as base:
        plan.note("journal beside rename")
        source = write_dead(base / "big", plan.size)
        big = f"{source.stat().st_size / 1e6:.0f} MB"
        compacted = compare(
            timed(lambda: _by_journal(base, source)),
            timed(lambda: _by_rename(base, source)),
            _ROUNDS,
        )
        plan.note("two fsyncs beside one")
        twice = compare(_adder(base, truncate=True), _adder(base), plan.rounds, plan.each)
        plan.note("directory fsync in every add")
        named = compare(_adder(base, directory=True), _adder(base), plan.rounds, plan.each)
    return [
        small_result("designs", f"compaction by journal, {big}", "compaction by rename", compacted),
        small_result("designs", "append with truncate and fsync before it", "append, fsync", twice),
        small_result("designs", "append, fsync, fsync of the directory", "append, fsync", named),
    ]


def _copy(source: Path, target: int) -> None:
    with open(source, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            os.write(target, chunk)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(fd)
    os.close(fd)


def _by_rename(base: Path, source: Path) -> None:
    """What DeadTasks does: staging, fsync, rename, fsync of the directory."""
    fd = os.open(base / "staging", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    _copy(source, fd)
    os.fsync(fd)
    os.close(fd)
    os.rename(base / "staging", base / "live")
    _sync_directory(base)


def _by_journal(base: Path, source: Path) -> None:
    """What Journal does: journal and its name durable, overwrite, make the journal void, unlink."""
    journal = os.open(base / "journal", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    live = os.open(base / "live", os.O_WRONLY | os.O_CREAT, 0o600)
    _copy(source, journal)
    os.fsync(journal)
    _sync_directory(base)
    os.ftruncate(live, 0)
    _copy(source, live)
    os.fsync(live)
    os.ftruncate(journal, 0)
    os.fsync(journal)
    os.unlink(base / "journal")
    os.close(live)
    os.close(journal)


def _adder(base: Path, truncate: bool = False, directory: bool = False) -> Side:
    path = base / f"add-{truncate}-{directory}"

    def add() -> None:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        if truncate:
            os.ftruncate(fd, os.fstat(fd).st_size)
            os.fsync(fd)
        os.write(fd, _LINE)
        os.fsync(fd)
        os.close(fd)
        if directory:
            _sync_directory(base)

    return timed(add)
