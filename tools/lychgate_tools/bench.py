"""`lychgate bench`: the engine's costs as ratios to bare reference points, measured in one run.

It prints what it measured and where, and asserts nothing: times differ between machines, and so do
the ratios, with the time that the disk takes for an fsync.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lychgate_tools import (
    bench_delivery,
    bench_designs,
    bench_peers,
    bench_sql,
    bench_sql_peers,
    bench_store,
    bench_suite,
)
from lychgate_tools.bench_measure import Result, surroundings
from lychgate_tools.bench_store import Plan
from lychgate_tools.mounts import mount_of
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    print_json,
    table,
    unknown,
)

BENCHES: dict[str, Callable[[Plan], list[Result]]] = {
    "dead-add": bench_store.dead_add,
    "wal-add": bench_store.wal_add,
    "compaction": bench_store.compaction,
    "first-page": bench_store.first_page,
    "recovery": bench_store.recovery,
    "lock-timeout": bench_store.lock_timeout,
    "designs": bench_designs.designs,
    "peers": bench_peers.peers,
    "sql": bench_sql.sql,
    "sql-peers": bench_sql_peers.peers,
    "delivery": bench_delivery.delivery,
    "suite": bench_suite.suite,
}

SIZE = 1_000_000
COUNT = 1000
_BYTES_A_RECORD = 300
_COPIES = 4  # of the biggest store that exist at one time


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "bench",
        "measure the engine beside bare system calls and other queues, as ratios",
        "lychgate bench dead-add compaction --path /srv/queue --size 100000",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--path", metavar="DIR", help="measure on this disk (a temporary directory "
                        "is made in DIR and removed; default: the system's one)")  # fmt: skip
    parser.add_argument("--size", type=_at_least_100, default=SIZE, metavar="N",
                        help="records of the big stores (default %(default)s)")  # fmt: skip
    parser.add_argument("--count", type=_at_least_1, default=COUNT, metavar="N",
                        help="calls of each small operation (default %(default)s)")  # fmt: skip


def _at_least_100(text: str) -> int:
    return _whole(text, 100)


def _at_least_1(text: str) -> int:
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
    return int(text)


def run(args: argparse.Namespace) -> int:
    for name in args.names:
        if name not in BENCHES:
            raise unknown("bench", name, BENCHES)
    names = args.names or list(BENCHES)
    try:
        with tempfile.TemporaryDirectory(prefix="lychgate-bench-", dir=args.path) as directory:
            _check_space(directory, names, args.size)
            return _measure(Path(directory), names, args)
    except OSError as error:
        raise UserError(f"cannot measure here: {error}; name another place with --path") from error


def _check_space(directory: str, names: list[str], size: int) -> None:
    small = {"wal-add", "peers", "suite"}
    wanted = size * _BYTES_A_RECORD * _COPIES if set(names) - small else 0
    free = shutil.disk_usage(directory).free
    if free < wanted:
        raise UserError(
            f"{free // 1_000_000:,} MB are free, {wanted // 1_000_000:,} MB are needed: "
            "give a smaller --size or another --path",
            ExitCode.INCONCLUSIVE,
        )


def _measure(directory: Path, names: list[str], args: argparse.Namespace) -> int:
    where = surroundings(str(directory), [shlex.quote(word) for word in _words(args)])
    results: list[Result] = []
    missing: dict[str, str] = {}
    with Progress("bench", total=len(names), unit="benches") as progress:
        for done, name in enumerate(names):
            note = partial(_note, progress, done, name)
            plan = Plan(directory, args.size, args.count, note)
            try:
                results.extend(BENCHES[name](plan))
            except bench_peers.PeerMissing as error:
                missing[name] = str(error)
    mount = mount_of(str(directory))
    notes = [f"{name}: {text}" for name, text in missing.items()]
    if mount is not None and mount.kind in ("tmpfs", "ramfs"):
        notes.append(f"{mount.kind} is memory, an fsync costs nothing: name a disk with --path")
    if args.json:
        print_json(
            {"where": where, "results": [r.as_json() for r in results], "notes": notes}
        )
    else:
        _show(where, results, notes)
    return ExitCode.INCONCLUSIVE if missing and args.names else ExitCode.OK


def _note(progress: Progress, done: int, name: str, text: str) -> None:
    progress.update(done, f"{name}: {text}")


def _words(args: argparse.Namespace) -> list[str]:
    """The command line as it counts, defaults included."""
    place = ["--path", args.path] if args.path else []
    return [*args.names, *place, "--size", str(args.size), "--count", str(args.count)]


def _show(where: dict[str, str], results: list[Result], notes: list[str]) -> None:
    for name, text in where.items():
        print(f"{name + ':':13}{text}")
    if results:
        headers = ("bench", "measured", "median", "beside", "its median", "ratio", "goal")
        print()
        print(table(headers, [_row(result) for result in results]))
        notes = [f"{r.bench}: {r.what}: {r.note}" for r in results if r.note] + notes
    if notes:
        print()
    for note in notes:
        print(note)


def _row(result: Result) -> tuple[object, ...]:
    goal = "-"
    if result.goal is not None:
        goal = f"{result.goal:g} {'met' if result.ratio <= result.goal else 'missed'}"
    return (
        result.bench,
        result.what,
        _amount(result.value, result.unit),
        result.beside,
        _amount(result.beside_value, result.unit),
        f"{result.ratio:.2f}",
        goal,
    )


def _amount(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:,.1f} MB"
    if value < 1e-3:
        return f"{value * 1e6:.1f} µs"
    return f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"
