"""What every subcommand shares towards the person at the terminal.

Rules
  * A mistake of the user or of the machine is a `UserError`: one line on stderr that says what to
    do, and an exit code of `ExitCode`; a traceback is always a defect of this program.
  * stdout carries the result and nothing else; progress goes to stderr.
  * Output reads the same in a pipe, in 40 columns and with NO_COLOR set; a word says what a colour
    says.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Sequence
from enum import IntEnum
from types import TracebackType
from typing import TextIO, TypeAlias

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What a subcommand's `add_parser` is given; argparse has no public name for it."""


class ExitCode(IntEnum):
    """The same for every subcommand."""

    OK = 0  # all well
    SHORT = 1  # a check fell short
    INCONCLUSIVE = 2  # it could not be measured here
    FAULT = 3  # a fault of an adapter, a tool or the environment
    USAGE = 4  # the command line asks for something that does not exist
    INTERRUPTED = 130


class UserError(Exception):
    """Ends the command with one line and an exit code. The message names the remedy."""

    def __init__(self, message: str, code: int = ExitCode.FAULT) -> None:
        super().__init__(message)
        self.message = message
        self.code = int(code)


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing when no known name is close."""
    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]}?" if found else ""


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist: the nearest one, else all of them."""
    names = sorted(known)
    hint = nearest(name, names) or f"; there are: {', '.join(names) or 'none'}"
    return UserError(f"no {kind} named {name!r}{hint}", ExitCode.USAGE)


def add_command(
    subparsers: Subparsers, name: str, summary: str, example: str
) -> argparse.ArgumentParser:
    """A subcommand's parser: its help ends with an example, and `--json` is always there."""
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=summary,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


# --- colour and tables ------------------------------------------------------------------------

_COLOURS = {"good": "32", "bad": "31", "note": "33"}


def colour(text: str, kind: str, stream: TextIO | None = None) -> str:
    """`text` in a colour, on a terminal that wants colours."""
    out = sys.stdout if stream is None else stream
    wanted = out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if wanted else text


def width(stream: TextIO | None = None) -> int:
    """The columns to fill: the terminal's, or COLUMNS, or plenty when nothing says."""
    return _columns(stream) or 200


def _columns(stream: TextIO | None) -> int | None:
    out = sys.stdout if stream is None else stream
    if out.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(20, shutil.get_terminal_size().columns)
    return None


def plain(text: str) -> str:
    """Text of any kind in one line that a terminal only shows: what it would act on is escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def wrapped(
    text: str, first: str = "", rest: str = "", columns: int = 0, stream: TextIO | None = None
) -> list[str]:
    """The lines of a text that fit the columns, if there are any to fit: a pipe has none."""
    limit = columns or _columns(stream)
    if limit is None or len(first) + len(text) <= limit:
        return [first + text]
    return textwrap.wrap(
        text, limit, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], columns: int = 0) -> str:
    """Rows under headers; where they do not fit, one block of `header: value` lines per row.

    Numbers are set to the right. The first column names the row in both forms.
    """
    cells = [[_cell(value) for value in row] for row in rows]
    assert all(len(row) == len(headers) for row in cells), "a row has another number of columns"
    limit = columns or width()
    widths = [max(len(row[i]) for row in [list(headers), *cells]) for i in range(len(headers))]
    if sum(widths) + 2 * (len(widths) - 1) > limit:
        blocks = [_block(headers, row, limit) for row in cells]
        return "\n".join(blocks)
    right = [bool(cells) and all(_is_number(row[i]) for row in cells) for i in range(len(headers))]
    lines = [list(headers), ["-" * size for size in widths], *cells]
    return "\n".join(
        "  ".join(
            text.rjust(size) if flush else text.ljust(size)
            for text, size, flush in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return "-" if value is None else str(value)


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(",", "").replace(".", "", 1).rstrip("%").isdigit()


def _block(headers: Sequence[str], row: Sequence[str], limit: int) -> str:
    lines = wrapped(row[0], columns=limit)
    for head, text in zip(headers[1:], row[1:], strict=True):
        if text not in ("", "-"):
            lines += wrapped(f"{head}: {text}", "  ", "    ", limit)
    return "\n".join(lines)


# --- progress ---------------------------------------------------------------------------------


class Progress:
    """A line on stderr for work that takes more than two seconds: done, rate, time left.

    On a terminal the line is rewritten in place; elsewhere a plain line comes now and then. Safe
    to call from several threads. Use as a context manager, so that the line is cleared at the end.
    """

    _QUIET_S = 2.0
    _TTY_EVERY_S = 0.2
    _PLAIN_EVERY_S = 30.0

    def __init__(
        self, what: str, total: float = 0, unit: str = "", stream: TextIO | None = None
    ) -> None:
        self.what = what
        self.total = total
        self.unit = unit
        self._out = sys.stderr if stream is None else stream
        self._tty = self._out.isatty()
        self._start = time.monotonic()
        self._last = 0.0
        self._shown = 0
        self._guard = threading.Lock()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._guard:
            self._clear()

    def update(self, done: float, note: str = "", share: float = 0.0) -> None:
        """`done` of `total` units are done; `note` says what is being worked on.

        `share` (0 to 1) is how much of the whole time is over, where units do not tell.
        """
        now = time.monotonic()
        with self._guard:
            every = self._TTY_EVERY_S if self._tty else self._PLAIN_EVERY_S
            if now - self._start < self._QUIET_S or (self._last and now - self._last < every):
                return
            self._last = now
            self._show(self.line(done, now - self._start, note, share))

    def line(self, done: float, elapsed: float, note: str = "", share: float = 0.0) -> str:
        """The text of the line; apart from `update` so that it can be tested without a clock."""
        parts = [self.what]
        unit = f" {self.unit}" if self.unit else ""
        rate = done / elapsed if elapsed > 0 else 0.0
        share = share or (done / self.total if self.total else 0.0)
        if self.total > 0:
            parts.append(f"{done:,.0f}/{self.total:,.0f}{unit}")
        else:
            parts.append(f"{done:,.0f}{unit}")
        if rate > 0:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
            if 0 < share < 1:
                parts.append(f"{seconds(elapsed * (1 - share) / share)} left")
        if note:
            parts.append(note)
        return "  ".join(parts)

    def message(self, text: str) -> None:
        """A line that stays, whatever the progress line does."""
        with self._guard:
            self._clear()
            print(text, file=self._out, flush=True)

    def clear(self) -> None:
        """Take the line away before something is written to stdout; the next update brings it."""
        with self._guard:
            self._clear()

    def _show(self, text: str) -> None:
        if not self._tty:
            print(text, file=self._out, flush=True)
            return
        text = text[: max(10, shutil.get_terminal_size().columns - 1)]
        self._out.write("\r" + text.ljust(self._shown))
        self._out.flush()
        self._shown = len(text)

    def _clear(self) -> None:
        if self._shown:
            self._out.write("\r" + " " * self._shown + "\r")
            self._out.flush()
            self._shown = 0


def seconds(value: float) -> str:
    """A duration as a person says it: `0.8 s`, `42 s`, `3 min 5 s`, `2 h 10 min`."""
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
