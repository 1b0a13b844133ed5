"""`lychgate trace`: record what the engine does, and let TLC say whether the spec allows it.

`record` writes traces from one of the sources; `check` runs TLC on any number of traces at once. A
rejected trace is shown with the step that no step of the spec matches, and with the guard that is
false there.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from lychgate_tools.spec_dir import locate
from lychgate_tools.tlc import toolchain
from lychgate_tools.tlc.runner import Runner
from lychgate_tools.trace import (
    coverage,
    fibers,
    processes,
    simulated,
    simulated_delivery,
    simulated_wal,
)
from lychgate_tools.trace.check import Batch, Checker, Limits
from lychgate_tools.trace.coverage import Coverage
from lychgate_tools.trace.explain import Rejection, explain
from lychgate_tools.trace.format import Trace, read
from lychgate_tools.trace.simulated_delivery import DeliveryPlan
from lychgate_tools.trace.simulated_wal import WalPlan
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    print_json,
    seconds,
    table,
)

Record = Callable[[TextIO, int, int], int]
"""Writes the trace of a seed and a number of calls; how many steps it has."""

ALL_FAULTS = ("fail", "kill", "crash", "meddle", "fail", "remount")

SOURCES: dict[str, tuple[Record, str]] = {
    "simulator": (
        lambda out, seed, calls: simulated.record(out, simulated.Plan(seed, calls)),
        "dead tasks, 2 workers of 2 fibers on the simulated file system",
    ),
    "simulator-faults": (
        lambda out, seed, calls: simulated.record(
            out, simulated.Plan(seed, calls, faults=ALL_FAULTS)
        ),
        "the same with failed calls, kills and crashes",
    ),
    "simulator-wal": (
        lambda out, seed, calls: simulated_wal.record(
            out, WalPlan(seed, calls, eager=bool(seed % 2))
        ),
        "tasks, 3 workers on the simulated file system, killed now and then",
    ),
    "simulator-wal-faults": (
        lambda out, seed, calls: simulated_wal.record(
            out, WalPlan(seed, calls, eager=bool(seed % 2), fails=4)
        ),
        "the same with failed calls and short writes",
    ),
    "simulator-delivery": (
        lambda out, seed, calls: simulated_delivery.record(out, DeliveryPlan(seed, calls)),
        "a delivery queue on the simulated file system, killed now and then",
    ),
    "simulator-delivery-faults": (
        lambda out, seed, calls: simulated_delivery.record(out, DeliveryPlan(seed, calls, fails=4)),
        "the same with failed calls and short writes",
    ),
    "fibers": (fibers.record, "dead tasks, one process of 4 asyncio tasks on real files"),
    "fibers-wal": (
        lambda out, seed, calls: fibers.record(out, seed, calls, "wal"),
        "tasks, the same",
    ),
    "fibers-delivery": (
        lambda out, seed, calls: fibers.record(out, seed, calls, "delivery", fibers=1),
        "a delivery queue, one asyncio task on real files",
    ),
    "processes": (processes.record, "dead tasks, 3 processes on real files, killed now and then"),
    "processes-wal": (
        lambda out, seed, calls: processes.record(out, seed, calls, "wal"),
        "tasks, the same",
    ),
    "processes-delivery": (
        lambda out, seed, calls: processes.record(out, seed, calls, "delivery", workers=1),
        "a delivery queue of one process on real files, killed now and then",
    ),
}


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "trace",
        "record traces of the engine and check them against the spec with TLC",
        "lychgate trace record simulator --count 20 --out traces\n"
        "  lychgate trace check traces/simulator-1.jsonl",
    )
    verbs = parser.add_subparsers(
        dest="verb", metavar="record|check", required=True, parser_class=type(parser)
    )
    _add_record(verbs)
    _add_check(verbs)


def _add_record(verbs: Subparsers) -> None:
    known = "\n".join(f"  {name:25} {about}" for name, (_, about) in SOURCES.items())
    record = verbs.add_parser(
        "record",
        help="write traces",
        description=f"write traces, one file for each seed\n\nsources:\n{known}",
        epilog="example:\n  lychgate trace record processes --calls 40 --out traces",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    record.add_argument("source", choices=list(SOURCES), metavar="SOURCE")
    record.add_argument("--out", default=".", metavar="DIR", help="where the files go")
    record.add_argument("--seed", type=_positive, default=1, metavar="N", help="the first seed")
    record.add_argument("--count", type=_positive, default=1, metavar="N", help="how many traces")
    record.add_argument(
        "--calls", type=_positive, default=20, metavar="N", help="calls, of each fiber or process"
    )
    record.add_argument("--json", action="store_true", default=argparse.SUPPRESS,
                        help="print the result as JSON")  # fmt: skip


def _add_check(verbs: Subparsers) -> None:
    check = verbs.add_parser(
        "check",
        help="check traces against the spec",
        description="check traces against the spec, all in one run of TLC for each module",
        epilog="example:\n  lychgate trace check traces/*.jsonl",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    check.add_argument("files", nargs="+", metavar="FILE")
    check.add_argument("--spec", metavar="DIR", help="the directory with manifest.toml")
    check.add_argument("--memory", default="2g", metavar="SIZE", help="of Java (default: 2g)")
    check.add_argument(
        "--timeout", type=_positive, default=600, metavar="S", help="seconds of one run of TLC"
    )
    check.add_argument(
        "--explain", type=int, default=3, metavar="N", help="rejected traces to explain"
    )
    check.add_argument(
        "--invariants", action="store_true", help="check the spec's invariants on the way as well"
    )
    check.add_argument("--json", action="store_true", default=argparse.SUPPRESS,
                       help="print the result as JSON")  # fmt: skip


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def run(args: argparse.Namespace) -> int:
    return _record(args) if args.verb == "record" else _check(args)


# --- record -----------------------------------------------------------------------------------


def _record(args: argparse.Namespace) -> int:
    record, _ = SOURCES[args.source]
    out = Path(args.out)
    written: list[dict[str, object]] = []
    with Progress("record", total=args.count, unit="traces") as progress:
        try:
            out.mkdir(parents=True, exist_ok=True)
            for seed in range(args.seed, args.seed + args.count):
                path = out / f"{args.source}-{seed}.jsonl"
                lines = io.StringIO()
                steps = record(lines, seed, args.calls)
                path.write_text(lines.getvalue(), encoding="utf-8")
                written.append({"file": str(path), "steps": steps})
                progress.update(len(written))
        except OSError as error:
            raise UserError(f"cannot record to {out}: {error.strerror}") from error
    if args.json:
        print_json(written)
    else:
        print(table(("file", "steps"), [(one["file"], one["steps"]) for one in written]))
    return ExitCode.OK


# --- check ------------------------------------------------------------------------------------


def _check(args: argparse.Namespace) -> int:
    traces = [read(Path(name)) for name in args.files]
    spec = locate(args.spec)
    steps = sum(len(trace.events) for trace in traces)
    limits = Limits(args.memory, float(args.timeout))
    with Runner(toolchain.find()) as runner, Progress("check", steps, "steps") as progress:
        checker = Checker(spec, runner, limits, args.invariants)
        batches = checker.check(traces, lambda states: progress.update(min(states, steps)))
        rejections = _rejections(checker, batches, args.explain)
        covered = coverage.of(checker, batches)
    rejected = sum(batch.accepted.count(False) for batch in batches)
    code = ExitCode.SHORT if rejected else ExitCode.OK
    if args.json:
        print_json(
            {
                "batches": [_batch_json(batch) for batch in batches],
                "coverage": {name: _coverage_json(found) for name, found in covered.items()},
                "rejected": [_rejection_json(one) for one in rejections],
            }
        )
        return code
    headers = ("module", "traces", "steps", "distinct", "states", "rejected", "time")
    print(table(headers, [_row(batch) for batch in batches]))
    for name, found in covered.items():
        missing = f"; not {', '.join(sorted(found.missing))}" if found.missing else ""
        of = len(found.actions) + len(found.missing)
        print(f"{name}: {len(found.actions)} of {of} actions of the spec visited{missing}")
    for one in rejections:
        print(f"\n{one}")
    if rejected > len(rejections):
        print(f"\n{rejected - len(rejections)} more rejected traces are not explained (--explain)")
    return code


def _rejections(checker: Checker, batches: list[Batch], most: int) -> list[Rejection]:
    wrong: list[tuple[Batch, Trace]] = [
        (batch, trace)
        for batch in batches
        for trace, accepted in zip(batch.traces, batch.accepted, strict=True)
        if not accepted
    ]
    return [explain(checker, batch, trace) for batch, trace in wrong[:most]]


def _row(batch: Batch) -> tuple[object, ...]:
    return (
        batch.kind.module,
        len(batch.traces),
        batch.steps,
        batch.distinct,
        batch.states,
        batch.accepted.count(False),
        seconds(batch.seconds),
    )


def _batch_json(batch: Batch) -> dict[str, Any]:
    return {
        "module": batch.kind.module,
        "constants": dict(batch.traces[0].constants),
        "traces": len(batch.traces),
        "steps": batch.steps,
        "distinct": batch.distinct,
        "states": batch.states,
        "accepted": batch.accepted.count(True),
        "rejected": batch.accepted.count(False),
        "seconds": round(batch.seconds, 1),
    }


def _coverage_json(found: Coverage) -> dict[str, Any]:
    return {
        "actions": sorted(found.actions),
        "not_visited": sorted(found.missing),
        "successions": found.successions,
    }


def _rejection_json(one: Rejection) -> dict[str, Any]:
    return {
        "file": one.trace.name,
        "line": one.event.line,
        "step": one.event.action,
        "who": one.event.who,
        "action": one.action,
        "guard": one.guard,
        "place": one.place,
        "reason": one.reason,
    }
