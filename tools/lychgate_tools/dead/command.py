"""`lychgate dead ACTION STORE`: an operator's view of the dead tasks, beside running workers.

STORE is the directory of a disk backend, or the URL of an SQL one. What each action does is in
`actions.py`; here is the command line, and what an error of the engine means at a terminal.

Exit codes: 0 done; 1 something asked for is not there, cannot be retried, or is damaged; 3 the
store cannot be reached or fails; 4 usage; 130 interrupted, what was begun brought to its end.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from lychgate import ConfigError, LychgateError
from lychgate._disk import PREFIX
from lychgate_tools.dead import actions
from lychgate_tools.dead.database import SqlStore
from lychgate_tools.dead.disk import DiskStore
from lychgate_tools.dead.records import Filter, Store, parse_time
from lychgate_tools.ui import ExitCode, Subparsers, UserError, add_command

_SUMMARY = "list, show, retry, remove, export or verify dead tasks, beside running workers"
_EXAMPLE = """lychgate dead list storage --class 'shop.*' --since 7d
  lychgate dead show storage 00001764500000000000-0123456789abcdef
  lychgate dead retry sqlite:///tasks.db --all --rate 20 --dry-run
  lychgate dead export storage --output dead.jsonl

Times are ages (90m, 36h, 7d), dates (2026-11-30T12:00, UTC unless it says otherwise) or seconds
since the epoch. --class and --error are patterns (*, ?), and may be given several times."""

_ACTIONS: dict[str, tuple[Callable[[Store, argparse.Namespace], int], str, str]] = {
    "list": (actions.list_, "a page of records, oldest first", "list storage --limit 20"),
    "show": (actions.show, "everything that is known of these ids", "show storage ID"),
    "find": (actions.find, "a page of the records that contain a text", "find storage timeout"),
    "count": (actions.count, "how many records there are", "count storage --by error"),
    "retry": (actions.retry, "bring tasks back to life, under fresh ids", "retry storage --all"),
    "remove": (actions.remove, "remove every record of these ids", "remove storage ID"),
    "purge": (actions.purge, "remove the records that filters name", "purge storage --until 90d"),
    "export": (actions.export, "write records as JSON lines, whole", "export storage --output F"),
    "import": (actions.import_, "store what was exported, once", "import storage dead.jsonl"),
    "verify": (actions.verify, "check every record; never writes", "verify storage"),
}
_FILTERED = ("list", "find", "count", "retry", "purge", "export")
_CHANGES = ("retry", "remove", "purge", "import")


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "dead", _SUMMARY, _EXAMPLE)
    choices = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (_, summary, example) in _ACTIONS.items():
        action = choices.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"example:\n  lychgate dead {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        action.add_argument("store", metavar="STORE", help="a directory, or the URL of a database")
        _add_own(action, name)
        if name in _FILTERED:
            _add_filters(action)
        if name in _CHANGES:
            action.add_argument("--dry-run", action="store_true", help="say what would change")
        action.add_argument(
            "--prefix", default=PREFIX, help="of a disk store (default: %(default)s)"
        )
        # what stood before the action must not be undone by a default
        action.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON lines"
        )


def _add_own(action: argparse.ArgumentParser, name: str) -> None:
    if name in ("show", "remove"):
        action.add_argument("ids", metavar="ID", nargs="+", help="task ids")
    if name == "retry":
        action.add_argument("ids", metavar="ID", nargs="*", help="task ids, in place of filters")
        action.add_argument("--rate", type=float, metavar="N", help="tasks a second at most")
    if name == "find":
        action.add_argument("text", metavar="TEXT", help="in id, class, error or context")
    if name in ("retry", "purge"):
        action.add_argument("--all", action="store_true", help="without any filter")
    if name in ("list", "find"):
        action.add_argument("--limit", type=int, default=50, metavar="N", help="records in a page")
        action.add_argument("--cursor", default="", help="go on where the page before has ended")
    if name == "count":
        action.add_argument("--by", choices=("class", "error"), help="count each by itself")
    if name == "export":
        action.add_argument("--output", metavar="FILE", help="in place of standard output")
    if name == "import":
        action.add_argument("file", metavar="FILE", help="an export; - for standard input")


def _add_filters(action: argparse.ArgumentParser) -> None:
    for option, name in (("--class", "classes"), ("--error", "errors")):
        action.add_argument(
            option, dest=name, metavar="PATTERN", action="append", default=[],
            help=f"whose {'class' if name == 'classes' else 'class of error'} is like this",
        )  # fmt: skip
    action.add_argument("--since", metavar="TIME", help="that died at this time or later")
    action.add_argument("--until", metavar="TIME", help="that died before this time")


def run(args: argparse.Namespace) -> int:
    action, _, _ = _ACTIONS[args.action]
    if args.action in _FILTERED:
        args.filter = _filter(args)
    _check(args)
    try:
        store: Store = (
            SqlStore(args.store) if "://" in args.store else DiskStore(args.store, args.prefix)
        )
        try:
            return action(store, args)
        finally:
            store.close()
    except ConfigError as error:
        raise UserError(str(error), ExitCode.USAGE) from error
    except LychgateError as error:
        raise UserError(str(error), ExitCode.FAULT) from error


def _filter(args: argparse.Namespace) -> Filter:
    now = time.time()
    given = {
        name: parse_time(getattr(args, name), now)
        for name in ("since", "until")
        if getattr(args, name) is not None
    }
    text = getattr(args, "text", "")
    return Filter(tuple(args.classes), tuple(args.errors), text=text, **given)


def _check(args: argparse.Namespace) -> None:
    """What the parser cannot know. Nothing is changed that was not asked for."""
    wrong = None
    if args.action in ("retry", "purge"):
        ids = getattr(args, "ids", [])
        if not (ids or args.filter or args.all):
            wrong = f"name {'ids or ' if args.action == 'retry' else ''}filters, or say --all"
        elif (ids and (args.filter or args.all)) or (args.all and args.filter):
            wrong = "--all, filters and ids exclude each other"
    if args.action == "retry" and args.rate is not None and not 0 < args.rate < 1e9:
        wrong = "--rate is a number of tasks a second, more than 0"
    if args.action in ("list", "find") and args.limit < 1:
        wrong = "--limit is at least 1"
    if wrong is not None:
        raise UserError(f"{wrong} (see lychgate dead {args.action} --help)", ExitCode.USAGE)
