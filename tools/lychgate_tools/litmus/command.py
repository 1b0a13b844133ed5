"""`lychgate litmus`: litmus programs on real ext4, xfs and btrfs, held against the lab's models.

A real state outside its model is an error; a modelled state that was never seen is a figure. Needs
root, loop devices, FUSE and each file system's mkfs; says what is missing and ends with 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from lychgate_conformance.lab._litmus import Litmus
from lychgate_conformance.lab._litmus_programs import LITMUS
from lychgate_tools.litmus import jobs, report
from lychgate_tools.litmus.blocklog import Bounds
from lychgate_tools.litmus.filesystems import FILE_SYSTEMS, FileSystem
from lychgate_tools.litmus.handbook import rewritten
from lychgate_tools.litmus.judge import Judge, Verdict
from lychgate_tools.litmus.page import page
from lychgate_tools.litmus.real import variants
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


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "litmus",
        "compare what real file systems leave after a crash with the models",
        "lychgate litmus append-in-block replace-no-fsync --fs ext4\n  lychgate litmus --list",
    )
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="only these (see --list)")
    parser.add_argument(
        "--fs",
        action="append",
        metavar="NAME",
        help=f"{', '.join(FILE_SYSTEMS)}, or all (default); may be repeated",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time for all of it (default: 60); what it does not reach is counted",
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of what is sampled")
    parser.add_argument("--list", action="store_true", help="list the programs and end")
    parser.add_argument("--details", action="store_true", help="print the states, too")
    parser.add_argument("--write", metavar="FILE", help="write the results as a Markdown page")
    parser.add_argument(
        "--handbook",
        metavar="FILE",
        type=Path,
        help="make the tables of this page anew, from litmus.md beside it",
    )


def run(args: argparse.Namespace) -> int:
    programs = _programs(args.programs)
    if args.list:
        _list(programs, args.json)
        return ExitCode.OK
    if args.handbook:
        return _handbook(args.handbook)
    systems = _systems(args.fs or ["all"])
    if args.budget <= 0:
        raise UserError("--budget must be more than 0 seconds", ExitCode.USAGE)
    lacking = {system.name: jobs.missing(system) for system in systems}
    bounds = Bounds(seed=args.seed)
    runs: list[report.Run] = []
    possible = [system for system in systems if not lacking[system.name]]
    for system, ended, verdicts in _run(possible, programs, args):
        if ended.error is None:
            runs.append(report.Run(system, verdicts, ended.seconds))
        elif ended.error.code == ExitCode.INCONCLUSIVE:
            lacking[system.name] = ended.error.message
        else:
            raise ended.error
    runs.sort(key=lambda one: list(lacking).index(one.system.name))
    code = ExitCode.INCONCLUSIVE if any(lacking.values()) else ExitCode.OK
    if any(one.outside for one in runs):
        code = ExitCode.SHORT
    complete = not any(lacking.values())
    if args.write and complete:  # before anything is printed, in case nobody reads it to the end
        Path(args.write).write_text(page(runs, bounds), encoding="utf-8")
    _print(runs, bounds, lacking, code, args)
    if args.write and not complete:
        raise UserError(
            f"{args.write} was not written: not every file system could be run",
            ExitCode.INCONCLUSIVE,
        )
    return code


def _handbook(path: Path) -> int:
    try:
        page = path.with_name("litmus.md").read_text(encoding="utf-8")
        path.write_text(rewritten(path.read_text(encoding="utf-8"), page), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot make {path} anew: {error.strerror}: {error.filename}") from error
    except ValueError as error:
        raise UserError(f"{path} has no place for the tables: {error}") from error
    return ExitCode.OK


def _print(
    runs: list[report.Run],
    bounds: Bounds,
    lacking: dict[str, str],
    code: ExitCode,
    args: argparse.Namespace,
) -> None:
    absent = {name: why for name, why in lacking.items() if why}
    if args.json:
        print_json({**report.to_json(runs, bounds, code), "not_measured": absent})
        return
    if args.details:
        for one in runs:
            for verdict in one.verdicts:
                print(report.details(verdict))
        print()
    if runs:
        print(report.text(runs, bounds))
    for name, why in absent.items():
        print(f"{name}: NOT MEASURED: {why}")


def _run(
    systems: list[FileSystem], programs: list[Litmus], args: argparse.Namespace
) -> Iterator[tuple[FileSystem, jobs.Ended, tuple[Verdict, ...]]]:
    """Each file system with its verdicts, as their drivers end."""
    judges = {
        system.name: {litmus.name: Judge(litmus, system) for litmus in programs}
        for system in systems
    }
    names = [litmus.name for litmus in programs]
    total = sum(len(names) * len(variants(system)) for system in systems)
    done = 0
    with (
        Progress("litmus", total, "runs") as progress,
        closing(jobs.run(systems, names, args.budget, args.seed)) as results,
    ):
        for system, result in results:
            if isinstance(result, jobs.Ended):
                every = judges[system.name].values()
                yield system, result, tuple(judge.end() for judge in every)
                continue
            judges[system.name][result.program].take(result)
            done += 1
            progress.update(done, f"{system.name} {result.program}")


def _programs(names: list[str]) -> list[Litmus]:
    known = {litmus.name: litmus for litmus in LITMUS}
    for name in names:
        if name not in known:
            raise unknown("litmus program", name, known)
    return [known[name] for name in dict.fromkeys(names)] or LITMUS


def _systems(names: list[str]) -> list[FileSystem]:
    for name in names:
        if name != "all" and name not in FILE_SYSTEMS:
            raise unknown("file system", name, FILE_SYSTEMS)
    return [one for one in FILE_SYSTEMS.values() if "all" in names or one.name in names]


def _list(programs: list[Litmus], as_json: bool) -> None:
    if as_json:
        print_json([{"name": p.name, "files": p.files, "steps": p.steps} for p in programs])
        return
    rows = [(p.name, p.files or report.EMPTY, p.steps) for p in programs]
    print(table(("program", "start", "steps"), rows))
