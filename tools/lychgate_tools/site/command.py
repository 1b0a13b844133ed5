"""`lychgate site DIR`: makes the site of README.md and docs/ in a directory.

The site is plain files: it opens from disk, needs no network and no server. Parsing Markdown is
left to markdown-it-py, the extra `site`: a CommonMark parser that passes its specification is not
ours to write again.

Exit codes: 0 made, every link in it leads somewhere; 1 some do not; 2 the extra or the checkout is
missing; 3 the directory cannot be written; 4 usage.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from lychgate_tools.site.links import broken
from lychgate_tools.spec_dir import checkout
from lychgate_tools.ui import ExitCode, Subparsers, UserError, add_command, print_json

_SUMMARY = "make a static, searchable site of the pages, with working links"
_EXAMPLE = "lychgate site site/"
_MARK = "lychgate-site.txt"
"""In each site that was made: who has it may be made again, anything else is left alone."""


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "site", _SUMMARY, _EXAMPLE)
    parser.add_argument("directory", metavar="DIR", type=Path, help="where; made if missing")


def run(args: argparse.Namespace) -> int:
    root = checkout()
    if root is None:
        raise UserError("this needs the checkout, with its docs/", ExitCode.INCONCLUSIVE)
    try:
        build = import_module("lychgate_tools.site.build")
    except ImportError as error:
        raise UserError(
            f"the site needs a Markdown parser ({error}): pip install 'lychgate[site]'",
            ExitCode.INCONCLUSIVE,
        ) from error
    target: Path = args.directory
    files: dict[str, bytes] = build.site(root)
    try:
        _write(target, files)
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}; name another place") from error
    problems = broken(target)
    pages = sum(name.endswith(".html") for name in files)
    if args.json:
        print_json({"directory": str(target), "pages": pages, "broken": problems})
    else:
        for problem in problems:
            print(problem)
        print(f"{target / 'index.html'}: {pages} pages, {len(problems)} broken links")
    return ExitCode.SHORT if problems else ExitCode.OK


def _write(target: Path, files: dict[str, bytes]) -> None:
    """Over an older site file by file; what that had more is removed."""
    target.mkdir(parents=True, exist_ok=True)
    mark = target / _MARK
    if mark.is_file():
        for name in set(mark.read_text(encoding="utf-8").splitlines()) - set(files):
            (target / name).unlink(missing_ok=True)
    elif any(target.iterdir()):
        raise UserError(
            f"{target} has files that are not of a site: name an empty or new directory",
            ExitCode.USAGE,
        )
    for name, content in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    mark.write_text("\n".join(sorted(files)) + "\n", encoding="utf-8")
