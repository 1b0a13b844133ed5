"""Where a document goes: a page, text on the terminal, or the trace file itself."""

from __future__ import annotations

import argparse
import json
import sys
import webbrowser
from pathlib import Path

from lychgate_tools.page.document import Document
from lychgate_tools.page.html import as_html
from lychgate_tools.page.text import lines, plain
from lychgate_tools.ui import ExitCode, UserError, colour, print_json, width

_WIDTH_MAX = 100


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that every command with a document has, beside `--json`."""
    parser.add_argument(
        "--output", metavar="FILE", help="write the page (one HTML file); *.json: the trace file"
    )
    parser.add_argument("--text", action="store_true", help="print the text, also with --output")
    parser.add_argument(
        "--full", action="store_true", help="in the text: calls, places in spec and engine, and "
        "every outcome as well"
    )  # fmt: skip
    parser.add_argument(
        "--open", action="store_true", help="show the page of --output in a browser"
    )


def give(args: argparse.Namespace, document: Document) -> int:
    """The page, the text, or the document as JSON, as the options say."""
    if args.open and not args.output:
        raise UserError("--open shows the page of --output FILE: name one", ExitCode.USAGE)
    if args.output:
        write(document, Path(args.output))
    if args.json:
        print_json(document)
    elif args.text or args.full or not args.output:
        for line in lines(document, min(width(), _WIDTH_MAX), args.full):
            say(_toned(line))
    if args.output:
        print(f"written: {args.output}", file=sys.stderr)
        if args.open and not _shown(Path(args.output)):
            print(f"lychgate: no browser here; open {args.output} yourself", file=sys.stderr)
    return ExitCode.OK


def write(document: Document, path: Path) -> None:
    """Write the page, or the trace file; `UserError` in one line where that is impossible."""
    is_trace = path.suffix == ".json"
    text = f"{json.dumps(document, indent=1)}\n" if is_trace else as_html(document)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        why = error.strerror or "it cannot be written"
        raise UserError(f"cannot write {path} ({why}): name another file") from error


def say(line: str) -> None:
    """A line on stdout, in ASCII where its encoding has no more."""
    try:
        line.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        line = plain(line)
    print(line)


def _toned(line: str) -> str:
    start = line.lstrip()[:1]
    return colour(line, {"✗": "bad", "✓": "good"}[start]) if start in ("✗", "✓") else line


def _shown(path: Path) -> bool:
    try:
        return webbrowser.open(path.resolve().as_uri())
    except webbrowser.Error:
        return False
