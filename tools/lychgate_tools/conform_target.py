"""What the commands of the conformance suite share: naming the backend, and its faults in words.

A backend is `disk`, `nil`, `package.module:factory`, `--mutant NAME`, or, after `--`, the command
of an adapter that speaks the protocol of docs/protocol.md.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lychgate_conformance import AdapterFault, Target, UsageError, all_cases, load_target
from lychgate_conformance._claims import parse as parse_claim
from lychgate_conformance._group import DISK_BYTES_MAX
from lychgate_conformance._session import START_LIMIT_S, Command
from lychgate_conformance._stage import CALL_LIMIT_S
from lychgate_conformance._target import load_command
from lychgate_conformance.mutants import all_mutants, find_mutant
from lychgate_tools.sql_server import server_for
from lychgate_tools.ui import ExitCode, UserError, nearest, unknown

CODES = """exit codes:
  0 conformant   1 not   2 inconclusive   3 fault of the adapter or of the suite   4 usage"""


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """The backend, where its files go, and the limits on an adapter."""
    parser.add_argument(
        "backend", nargs="*", help="disk, nil, package.module:factory, or -- COMMAND of an adapter"
    )
    parser.add_argument(
        "--mutant", metavar="NAME", help="a backend of the suite with a planted fault"
    )
    parser.add_argument("--path", metavar="DIR", help="where the files go (default: temporary)")
    parser.add_argument(
        "--disk-limit",
        metavar="MB",
        type=int,
        default=DISK_BYTES_MAX // 1024**2,
        help="stop an adapter whose store takes more (default: %(default)s)",
    )
    parser.add_argument(
        "--start-limit",
        metavar="S",
        type=float,
        default=START_LIMIT_S,
        help="seconds for an adapter's greeting (default: %(default)g)",
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    parser.set_defaults(adapter=None)


@contextmanager
def faults_in_words(debug: bool) -> Iterator[None]:
    """What the suite raises before a case runs, as one line and an exit code."""
    try:
        yield
    except UsageError as error:
        raise UserError(str(error), ExitCode.USAGE) from error
    except AdapterFault as error:
        if debug and error.trace:
            print(error.trace, file=sys.stderr)
        raise UserError(str(error), ExitCode.FAULT) from error


def adapter_command(args: argparse.Namespace) -> Command | None:
    """The adapter's command, where one is named."""
    if args.adapter is None:
        return None
    if args.backend or args.mutant:
        raise UsageError("name a backend or an adapter's command, not both")
    if not args.adapter:
        raise UsageError("after -- comes the command of an adapter")
    if args.disk_limit <= 0 or args.start_limit <= 0:
        raise UsageError("a limit is more than 0")
    return Command(tuple(args.adapter), args.disk_limit * 1024**2, args.start_limit)


def load(args: argparse.Namespace, claims: dict[str, object]) -> Target:
    """The backend that the command line names, opened once."""
    base = writable_path(args.path)
    command = adapter_command(args)
    if command is not None:
        return load_command(command, claims, base)
    spec = spec_of(args)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # where `package.module` of the user is
    return load_target(spec, claims, base=base)


def surroundings(spec: str) -> AbstractContextManager[object]:
    """What a backend in Python needs around it: a server, where its store lies on one that we can
    start; `postgres` and `mariadb` are such, and mutants are."""
    ours = spec.startswith("lychgate_conformance.mutants.")
    mutant = next((it for it in all_mutants() if it.spec == spec), None) if ours else None
    return server_for(spec) if mutant is None else mutant.surroundings()


def spec_of(args: argparse.Namespace) -> str:
    """The name of a backend in Python."""
    if args.mutant is None:
        if not args.backend:
            raise UsageError(
                "name a backend: disk, nil, package.module:factory or -- COMMAND of an adapter"
            )
        if len(args.backend) > 1:
            hint = f"an adapter's command comes after --: -- {shlex.join(args.backend)}"
            raise UsageError(f"one backend at a time; {hint}")
        return str(args.backend[0])
    if args.backend:
        raise UsageError("name a backend or a mutant, not both")
    mutant = find_mutant(args.mutant)
    if mutant is None:
        raise unknown("mutant", args.mutant, [it.name for it in all_mutants()])
    return mutant.spec


def claims_of(words: list[str]) -> dict[str, object]:
    """`--claim NAME=VALUE`, any number of them."""
    return {name: value for text in words for name, value in parse_claim(text).items()}


def known_case(case_id: str) -> str:
    """An id that exists; else UsageError with the nearest one."""
    known = [it.id for it in all_cases()]
    if case_id not in known:
        hint = nearest(case_id, known)
        raise UsageError(f"no case named {case_id!r}{hint} (lychgate list shows them)")
    return case_id


def writable_path(path: str | None) -> str | None:
    """The directory of `--path`, made where it is missing."""
    if path is None:
        return None
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        what = f"--path {path} cannot be written to ({error.strerror}): name another directory"
        raise UserError(what, ExitCode.FAULT) from error
    return os.path.abspath(path)


def replay_words(args: argparse.Namespace) -> tuple[str, ...]:
    """What a replay needs besides case and seed."""
    words = [word for text in args.claim for word in ("--claim", text)]
    if args.path is not None:
        words += ["--path", os.path.abspath(args.path)]
    if args.disk_limit != DISK_BYTES_MAX // 1024**2:
        words += ["--disk-limit", str(args.disk_limit)]
    if args.call_limit != CALL_LIMIT_S:
        words += ["--call-limit", f"{args.call_limit:g}"]
    return tuple(words)
