"""`lychgate`: one entry, one module per subcommand, one table of them.

A subcommand is a module with `add_parser(subparsers)` and `run(args) -> int`, where
`args.command` is its name. Only the module that the command line names is imported, so that
`lychgate --help` stays fast; add a command by adding one line to `COMMANDS`.

Exit codes are those of `ui.ExitCode`; an interrupt ends with 130 and one line.
"""

from __future__ import annotations

import argparse
import importlib
import io
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from lychgate_tools.ui import ExitCode, UserError, nearest

COMMANDS: dict[str, tuple[str, str]] = {
    "all": ("lychgate_tools.main_job", "the main job: the spec, then the disk and nil backends"),
    "check": ("lychgate_tools.check", "model-check the TLA+ spec and compare with its manifest"),
    "conform": ("lychgate_tools.conform", "try which promises a backend keeps"),
    "smoke": ("lychgate_tools.smoke", "tell an adapter's faults from its backend's"),
    "expect": ("lychgate_tools.expect", "make the list of known failures from a report"),
    "verify": ("lychgate_tools.verify", "recompute the verdict of a report from its cases"),
    "replay": ("lychgate_tools.replay", "run again what failed: a report, or a plan of the lab"),
    "list": ("lychgate_tools.listing", "list the conformance cases and mutants"),
    "explore": ("lychgate_tools.explore", "crash the engine everywhere on a simulated disk"),
    "mutants": ("lychgate_tools.mutants", "plant faults in the engine, or behind the suite"),
    "results": ("lychgate_tools.results", "make docs/results.md: third-party stores, mutants"),
    "contracts": ("lychgate_tools.contracts", "explore the contracts of the plain functions"),
    "explain": ("lychgate_tools.page.explain", "show a crash, a race or a failed call as a lesson"),
    "page": ("lychgate_tools.page.command", "turn a trace file into one HTML page, or into text"),
    "walk": ("lychgate_tools.walk.command", "take every edge of the state graphs on the engine"),
    "trace": ("lychgate_tools.trace.command", "record traces of the engine and check them by TLC"),
    "sql": ("lychgate_tools.sql", "print, apply or look at the tables of the SQL backend"),
    "soak": ("lychgate_tools.soak", "replace the workers of an SQL backend under load"),
    "dead": ("lychgate_tools.dead.command", "what an operator does with dead tasks"),
    "site": ("lychgate_tools.site.command", "make a static, searchable site of the pages"),
    "requirements": ("lychgate_tools.requirements", "what states, keeps and tests each one"),
    "bench": ("lychgate_tools.bench", "measure the engine beside bare system calls, as ratios"),
    "play": ("lychgate_tools.play.command", "drive a small store, crash it, see what breaks"),
    "diagram": ("lychgate_tools.diagram", "draw the state diagrams of the protocols"),
    "litmus": ("lychgate_tools.litmus.command", "hold real file systems against the models"),
    "inspect": ("lychgate_tools.inspect", "explain a file of the engine, damaged or not"),
    "doctor": ("lychgate_tools.doctor", "say whether a directory can keep the promises"),
}
"""Name: module and one line of help."""

_EXIT_CODES = """exit codes:
  0 all well   1 a check fell short   2 could not be measured here
  3 fault of adapter, tool or environment   4 usage   130 interrupted"""


class _Parser(argparse.ArgumentParser):
    """Ends with our usage code instead of argparse's 2, in one line."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)", ExitCode.USAGE)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand. Every way out is an exit code; a traceback is a defect of ours."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a locale that lacks a character ends no command
            stream.reconfigure(errors="backslashreplace")
    previous = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, _terminate)
    except ValueError:  # not the main thread: whoever embeds us owns the signals
        previous = None
    try:
        return _run(arguments)
    except UserError as error:
        print(f"lychgate: {error.message}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        print("lychgate: interrupted", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away: nothing is left to say
        sys.stderr.close()
        return ExitCode.FAULT
    finally:
        if previous is not None:
            signal.signal(signal.SIGTERM, previous)


def _run(arguments: list[str]) -> int:
    named = next((word for word in arguments if not word.startswith("-")), None)
    if named is not None and named not in COMMANDS:
        hint = nearest(named, COMMANDS) or f"; there are: {', '.join(sorted(COMMANDS))}"
        raise UserError(f"no command named {named!r}{hint}", ExitCode.USAGE)
    arguments, adapter = _split(arguments)
    parser = build_parser(named)
    if named is None and not arguments:
        parser.print_help()
        return ExitCode.USAGE
    args = parser.parse_args(arguments)
    if named is None:
        raise UserError("name a command (see lychgate --help)", ExitCode.USAGE)
    if adapter is not None:
        if "adapter" not in args:
            raise UserError(f"lychgate {named} takes no `-- COMMAND`", ExitCode.USAGE)
        args.adapter = adapter
    result: int = importlib.import_module(COMMANDS[named][0]).run(args)
    return result


def _split(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """What is ours, and the adapter's command after `--` for the commands that take one."""
    if "--" not in arguments:
        return arguments, None
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def build_parser(named: str | None) -> argparse.ArgumentParser:
    """The parser with all commands listed, and the options of `named` alone."""
    parser = _Parser(
        prog="lychgate",
        description="Crash-safe deferred tasks: model checks, conformance and their tools.",
        epilog=f"example:\n  lychgate check\n\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, (module, summary) in COMMANDS.items():
        if name == named:
            importlib.import_module(module).add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=summary)
    return parser


def _terminate(signum: int, frame: FrameType | None) -> None:
    """SIGTERM takes the same way out as Ctrl-C, so that children are ended either way."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
