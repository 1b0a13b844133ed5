"""Contents as pieces that can be drawn: whole records, torn and bad lines, NULs, marks.

The engine's own functions decide what a valid record is; a file that is none of the engine's is
shown as text or as bytes. Cells of the spec (`FileSystem.tla`) and letters of litmus programs have
readers of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from lychgate._lines import unseal
from lychgate._records import JSON, WalAdd, parse_dead, parse_wal, record_id
from lychgate_tools.page.document import Piece, Pieces, piece

_RAW_MAX = 400
_TEXT_MAX = 24
_LINES_MAX = 200
_OURS = re.compile(r"dead_tasks-\d|-\d{8}-\d+-[0-9a-f]{16}$")
_BEGUN = re.compile(rb"[0-9a-f]{1,8}(?::.*)?", re.S)
"""A line of the engine that was cut."""
_LENGTH = re.compile(r"\d+( bytes)?$")
_ID = re.compile(rb'"task_id":"([^"\\]{1,20})"')
_WAL_ID = re.compile(rb"^[0-9a-f]{8}:(?:add|rem):([^:]{1,20}):?")


def of_file(name: str, content: bytes) -> list[Piece]:
    """The pieces of a file of the engine, or of anybody else's, by its name."""
    if name.endswith("dead_tasks.lock"):
        return _mark(content)
    found: list[Piece] = []
    lines = content.splitlines(keepends=True)
    reader = _of_line if _OURS.search(name) else _of_text
    for line in lines[:_LINES_MAX]:
        found += reader(line)
    if len(lines) > _LINES_MAX:
        found.append(piece("bytes", f"{len(lines) - _LINES_MAX} more lines"))
    return _nuls_joined(found)


def _mark(content: bytes) -> list[Piece]:
    if not content:
        return []
    word = content.split(b" ")[0].decode("ascii", "replace")
    if word not in ("clean", "unfinished"):
        return [piece("torn", "mark", _raw(content))]
    return [piece("mark", word, _raw(content))]


def _of_line(line: bytes) -> list[Piece]:
    body = line.rstrip(b"\n").rstrip(b"\0") if not line.strip(b"\0\n") else line
    if not body:
        return [_nul(line.count(b"\0"))] if b"\0" in line else [piece("bad", "empty line")]
    if not line.endswith(b"\n"):
        whole, nuls = line.rstrip(b"\0"), len(line) - len(line.rstrip(b"\0"))
        torn = [piece("torn", _torn(whole), _raw(whole))] if whole else []
        return [*torn, *([_nul(nuls)] if nuls else [])]
    sealed = unseal(line[:-1])
    if sealed is None:
        return [piece("bad", _torn(line[:-1]), _raw(line))]
    wal = parse_wal(sealed)
    if wal is not None:
        return [piece("record" if isinstance(wal, WalAdd) else "removal", wal.task_id, _raw(line))]
    dead = parse_dead(JSON, sealed)
    if dead is not None:
        return [piece("record", dead.task_id, _raw(line))]
    return [piece("bad", (record_id(sealed) or b"").decode("utf-8", "replace"), _raw(line))]


def _torn(fragment: bytes) -> str:
    """What can be told of a fragment: the id in it, else how long it is."""
    found = _ID.search(fragment) or _WAL_ID.search(fragment)
    if found is not None:
        return found[1].decode("utf-8", "replace")
    return _short(fragment) if _BEGUN.fullmatch(fragment) is None else f"{len(fragment)} bytes"


def _of_text(line: bytes) -> list[Piece]:
    """A line of a file that is not the engine's."""
    if not line.strip(b"\0"):
        return [_nul(len(line))]
    if not line.endswith(b"\n"):
        return [piece("bytes", f"no newline: {len(line)} bytes", _raw(line))]
    return [piece("bytes", _short(line[:-1]), _raw(line))]


def _short(content: bytes) -> str:
    """Text where it is text and short, else how much it is."""
    if content.isascii() and content.decode("ascii").isprintable() and len(content) < _TEXT_MAX:
        return content.decode("ascii")
    return f"{len(content)} bytes"


def _nul(count: int) -> Piece:
    return piece("nul", str(count))


def _nuls_joined(pieces: list[Piece]) -> list[Piece]:
    found: list[Piece] = []
    for one in pieces:
        if found and one["kind"] == found[-1]["kind"] == "nul":
            found[-1] = _nul(int(found[-1]["text"]) + int(one["text"]))
        else:
            found.append(one)
    return found


def _raw(content: bytes) -> str:
    text = ascii(content[:_RAW_MAX].decode("latin-1"))[1:-1]
    return f"{text}… ({len(content)} bytes)" if len(content) > _RAW_MAX else text


def shape(pieces: Pieces) -> tuple[tuple[str, str], ...] | None:
    """What two contents must share to look alike: lengths of fragments, NULs and runs of a letter
    do not count."""
    if pieces is None:
        return None
    return tuple((it["kind"], _without_length(it)) for it in pieces)


def _without_length(it: Piece) -> str:
    if it["kind"] == "nul" or it["text"].endswith(" bytes"):
        return _LENGTH.sub("", it["text"])
    return it["text"].lstrip("0123456789") if it["kind"] == "bytes" else it["text"]


def names_of(entries: Sequence[tuple[str, str]]) -> list[Piece]:
    """A directory's entries: names, each with the object that it leads to."""
    return [piece("name", name, target) for name, target in sorted(entries)]


# --- cells of the spec ------------------------------------------------------------------------


def of_cells(cells: Sequence[str]) -> list[Piece]:
    """Cells of `FileSystem.tla`: `a<` and `a>` side by side are the record a."""
    found: list[Piece] = []
    place = 0
    while place < len(cells):
        cell = cells[place]
        after = cells[place + 1] if place + 1 < len(cells) else ""
        if cell.endswith("<") and after == f"{cell[:-1]}>":
            glued = bool(found) and found[-1]["kind"] in ("torn", "nul")
            found.append(piece("bad" if glued else "record", cell[:-1]))
            place += 1
        elif cell == "0":
            found.append(_nul(1))
        elif cell.endswith("<"):
            found.append(piece("torn", cell[:-1]))
        elif cell.endswith(">"):
            found.append(piece("bad", f"end of {cell[:-1]}"))
        elif cell.startswith("="):
            found.append(piece("mark", f"complete: {cell[1:]}"))
        else:
            found.append(piece("mark", cell))
        place += 1
    return _nuls_joined(found)


def valid_records(cells: Sequence[str]) -> frozenset[str]:
    """The records that a reader of these cells finds (`SetOf` in the spec)."""
    return frozenset(it["text"] for it in of_cells(cells) if it["kind"] == "record")


# --- letters of litmus programs -----------------------------------------------------------------


def of_letters(content: bytes) -> list[Piece]:
    """Runs of one letter, as `1000a`; a NUL is a NUL."""
    found: list[Piece] = []
    for letter, run in groupby(content):
        count = len(list(run))
        found.append(_nul(count) if letter == 0 else piece("bytes", f"{count}{chr(letter)}"))
    return found
