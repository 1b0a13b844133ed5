"""`lychgate page`: a trace file as a page that opens from disk, or as text."""

from __future__ import annotations

import argparse
from pathlib import Path

from lychgate_tools.page import from_engine, output
from lychgate_tools.page.document import read
from lychgate_tools.ui import Subparsers, add_command

_SUMMARY = "turn a trace file into one HTML page, or into text"
_EXAMPLE = """lychgate page ghost.json --output ghost.html
  lychgate page ghost.json --text

`lychgate explain NAME --output FILE.json` makes such a file.

exit codes:
  0 done   3 the page cannot be written   4 the file is no trace, or of another version"""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "page", _SUMMARY, _EXAMPLE)
    parser.add_argument("trace", metavar="TRACE", help="a file of the format lychgate-steps, or a "
                        "*.jsonl of `lychgate trace record`")  # fmt: skip
    output.add_options(parser)


def run(args: argparse.Namespace) -> int:
    path = Path(args.trace)
    return output.give(args, from_engine.document(path) if path.suffix == ".jsonl" else read(path))
