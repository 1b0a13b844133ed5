"""`lychgate smoke`: a second of checks that tell an adapter's faults from its backend's."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from lychgate_conformance import UsageError
from lychgate_conformance._claims import DISK, NIL, QUEUE, as_mapping, merge
from lychgate_conformance._findings import FINDINGS, PAGE
from lychgate_conformance._session import Command
from lychgate_conformance._smoke import ADAPTER, BACKEND, CALL_LIMIT_S, LEFT_OUT, OK, Smoke, smoke
from lychgate_conformance.adapters import HOME
from lychgate_conformance.adapters.delivery_queue import Engine
from lychgate_tools.conform_target import (
    adapter_command,
    add_target_arguments,
    faults_in_words,
    spec_of,
    writable_path,
)
from lychgate_tools.ui import Subparsers, add_command, colour, print_json, seconds

_SUMMARY = "check an adapter: does it speak the protocol, and is a fault its own or its backend's?"
_EXAMPLE = """lychgate smoke -- node my_adapter.mjs
  lychgate smoke shop.storage:make_backend

exit codes:
  0 all well   1 a fault of the backend   3 a fault of the adapter   4 usage"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "smoke", _SUMMARY, _EXAMPLE)
    add_target_arguments(parser)
    parser.add_argument(
        "--call-limit",
        metavar="S",
        type=float,
        default=CALL_LIMIT_S,
        help="seconds for one call (default: %(default)g)",
    )


def run(args: argparse.Namespace) -> int:
    with faults_in_words(args.debug):
        if args.call_limit <= 0:
            raise UsageError("a limit is more than 0")
        command = adapter_command(args) or _wrapped(spec_of(args))
        result = smoke(command, args.call_limit, writable_path(args.path))
    if args.json:
        print_json(as_json(result))
    else:
        _print(result, args.debug)
    return int(result.exit_code)


def _wrapped(spec: str) -> Command:
    """A Python backend behind the adapter that is shipped."""
    claims: tuple[str, ...] = ()
    if spec in _OWN:
        spec, said = _OWN[spec]
        words = {True: "yes", False: "no"}
        claims = tuple(
            f"{name}={words[value] if isinstance(value, bool) else value}"
            for name, value in as_mapping(said).items()
        )
    return Command((sys.executable, str(HOME / "python_adapter.py"), spec, *claims))


_QUEUE = "lychgate_conformance.adapters.delivery_queue:Engine"
_OWN = {
    "disk": ("lychgate:Disk", DISK),
    "nil": ("lychgate:Nil", NIL),
    "delivery": (_QUEUE, merge(QUEUE, Engine.claims)),
}


def as_json(result: Smoke) -> dict[str, Any]:
    return {
        "command": list(result.command),
        "name": result.name,
        "exit_code": int(result.exit_code),
        "checks": [
            {
                "check": it.check,
                "title": it.title,
                "verdict": it.verdict,
                "message": it.message,
                "finding": it.finding,
                "stderr": it.stderr,
            }
            for it in result.outcomes
        ],
        "seconds": round(result.seconds, 3),
    }


def _print(result: Smoke, debug: bool) -> None:
    kinds = {OK: "good", ADAPTER: "bad", BACKEND: "bad"}
    for it in result.outcomes:
        word = colour(it.verdict.ljust(8), kinds.get(it.verdict, "note"))
        print(f"{word}  {it.title}")
        if it.verdict == LEFT_OUT and ADAPTER in {other.verdict for other in result.outcomes}:
            continue
        if it.message:
            print(f"          {it.message}")
        if it.finding:
            meaning, anchor = FINDINGS[it.finding]
            print(f"          {it.finding}: {meaning}; see {PAGE}#{anchor}")
        for line in it.stderr.splitlines()[-(200 if debug else 5) :]:
            print(f"          its stderr | {ascii(line)[1:-1][:300]}")
    print(_sentence(result))


def _sentence(result: Smoke) -> str:
    name = result.name or "the adapter"
    verdicts = {it.verdict for it in result.outcomes}
    if ADAPTER in verdicts:
        return "the fault is the adapter's: mend it before anything is said of the backend"
    if BACKEND in verdicts:
        return f"{name} speaks the protocol; its backend falls short"
    return f"{name} speaks the protocol; now try `lychgate conform` ({seconds(result.seconds)})"
