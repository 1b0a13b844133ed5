"""`lychgate inspect FILE`: explains any file of the engine, damaged ones too, and never writes.

    delivery queue   segment, queue.manifest, queue.format, queue.lock (and their .tmp)
    disk backend     WAL, dead tasks, staging, lock file

What a file is, its name says; a file under another name is told by `--as NAME`, or guessed by its
first bytes. A segment's records are valid only where they were written, so its name matters. The
file is opened for reading, nothing beside it is looked at, and payloads are shown, never decoded.

Exit code 0: all of it makes sense; 1: something does not, and the table says where.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from lychgate._delivery_codec import (
    FORMAT_MARKER,
    MAGIC,
    MANIFEST_BYTES,
    MANIFEST_MAGIC,
    Bad,
    Kind,
    Place,
    Record,
    decode,
    later,
    parse_claim,
    parse_item,
    parse_manifest,
    parse_retry,
)
from lychgate._delivery_files import FORMAT, LOCK, MANIFEST, parse_segment_name
from lychgate._lines import LineScanner
from lychgate._lock import UNFINISHED_MARK
from lychgate._records import WalAdd, parse_wal, record_id
from lychgate_tools.ui import ExitCode, Subparsers, UserError, add_command, print_json, table

_WAL = re.compile(r".*0-\d{8}-\d+-[0-9a-f]{16}")
_SHOWN_BYTES = 40
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Row:
    """One thing in the file. `ok` is False for what makes no sense."""

    offset: int
    size: int
    what: str
    detail: str
    ok: bool = True


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "inspect",
        "explain a file of the engine, damaged or not; never writes",
        "lychgate inspect outbox/segment-00000000000000000001.log",
    )
    parser.add_argument("file", metavar="FILE", help="the file")
    parser.add_argument(
        "--as", dest="name", metavar="NAME", help="the name that the file had, if it was renamed"
    )


def run(args: argparse.Namespace) -> int:
    path = Path(args.file)
    kind, rows = explain(path, args.name or path.name)
    bad = [row for row in rows if not row.ok]
    if args.json:
        print_json({"file": args.file, "kind": kind, "rows": [asdict(row) for row in rows]})
    else:
        print(f"{args.file}: {kind}")
        shown = ((row.offset, row.size, row.what, row.detail) for row in rows)
        print(table(("offset", "bytes", "what", "detail"), shown))
        print(f"{len(bad)} of {len(rows)} make no sense" if bad else "all of it makes sense")
    return ExitCode.SHORT if bad else ExitCode.OK


def explain(path: Path, name: str) -> tuple[str, list[Row]]:
    """What kind of file it is, and what is in it. Raises UserError if it cannot be read."""
    try:
        with path.open("rb") as file:
            kind = kind_of(name, file.read(_CHUNK_BYTES))
        if kind in ("WAL", "dead tasks"):
            return kind, list(_lines(path, kind))
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", ExitCode.FAULT) from error
    if kind == "segment":
        return kind, list(_segment(data, parse_segment_name(name)))
    if kind == "manifest":
        return kind, [_manifest(data)]
    if kind == "format marker":
        ok = data == FORMAT_MARKER
        return kind, [Row(0, len(data), "marker" if ok else "not the marker", shown(data), ok)]
    if kind == "lock file":
        return kind, [_mark(data)]
    return kind, [Row(0, len(data), "unknown", shown(data), False)]


def kind_of(name: str, start: bytes) -> str:
    """By the name if it says so, else by the first bytes."""
    plain = name.removesuffix(".tmp")
    if parse_segment_name(plain) is not None:
        return "segment"
    known = {MANIFEST: "manifest", FORMAT: "format marker", LOCK: "lock file"}
    if plain in known:
        return known[plain]
    if plain.endswith("dead_tasks-0"):
        return "dead tasks"
    if plain.endswith("dead_tasks.lock"):
        return "lock file"
    if _WAL.fullmatch(plain):
        return "WAL"
    if start.startswith(MAGIC):
        return "segment"
    if start.startswith(MANIFEST_MAGIC) and len(start) <= MANIFEST_BYTES:
        return "manifest"
    if start == FORMAT_MARKER:
        return "format marker"
    body = start.partition(b"\n")[0][9:]
    if parse_wal(body) is not None:
        return "WAL"
    return "dead tasks" if record_id(body) is not None else "unknown"


def shown(data: bytes) -> str:
    """The first bytes as text, everything unprintable escaped."""
    text = ascii(data[:_SHOWN_BYTES].decode("latin-1"))[1:-1]
    return text + ("…" if len(data) > _SHOWN_BYTES else "")


# --- the delivery queue -----------------------------------------------------------------------


def _segment(data: bytes, place: tuple[int, int] | None) -> Iterator[Row]:
    if place is None:
        yield Row(
            0, len(data), "segment", "which one? records are bound to it: give --as NAME", False
        )
        return
    at, event = 0, 0
    while at < len(data):
        found = decode(data, at, Place(*place, at))
        if isinstance(found, Record):
            gap = bool(event) and found.event != event + 1
            detail = _record(found) + (f"; event {event + 1} is missing" if gap else "")
            yield Row(at, found.size, found.kind.name.lower(), detail, not gap)
            at, event = at + found.size, found.event
            continue
        behind = later(data, at, *place)
        end = len(data) if behind is None else behind
        yield Row(at, end - at, "no record", _bad(found, behind), False)
        at, event = end, 0
    if not data:
        yield Row(0, 0, "empty", "a segment that was made and not written yet")


def _bad(found: Bad, behind: int | None) -> str:
    if behind is not None:
        return f"{found.what}; a record follows at {behind}: corruption, no crash leaves this"
    if found.foreign:
        return found.what
    return f"{found.what}; nothing follows: torn, a recovery of the last segment drops it"


def _record(record: Record) -> str:
    where = f"item {record.sequence}, event {record.event}"
    if record.kind is Kind.ITEM:
        item = parse_item(record.body)
        if item is None:
            return f"{where}, a body that makes no sense"
        reason = f", reason {shown(item.reason)}" if item.reason else ""
        return (
            f"{where}, {item.state.name.lower()}, attempts {item.attempts}, until "
            f"{item.until_ms} ms{reason}, payload of {len(item.payload)}: {shown(item.payload)}"
        )
    if record.kind is Kind.CLAIM and (claim := parse_claim(record.body)) is not None:
        return f"{where}, attempt {claim[0]}, until {claim[1]} ms ({claim[2]} ms)"
    if record.kind is Kind.RETRY and (retry := parse_retry(record.body)) is not None:
        return f"{where}, not before {retry[0]} ms ({retry[1]} ms)"
    if record.kind is Kind.QUARANTINE:
        return f"{where}, reason {shown(record.body)}"
    return where


def _manifest(data: bytes) -> Row:
    found = parse_manifest(data)
    if isinstance(found, str):
        return Row(0, len(data), "no manifest", f"{found}: {shown(data)}", False)
    end = f"ends at byte {found.offset} of segment {found.segment}" if found.segment else "is empty"
    detail = f"generation {found.generation}, its snapshot {end}, numbers up to {found.high}"
    return Row(0, len(data), "manifest", f"{detail} were given")


# --- the disk backend -------------------------------------------------------------------------


def _mark(data: bytes) -> Row:
    text = data.decode("latin-1").strip()
    if text.startswith("clean ") and len(data) == len(UNFINISHED_MARK):
        return Row(0, len(data), "mark", f"the last change ended well, in boot {text[6:]}")
    known = data in (b"", UNFINISHED_MARK)
    what = "in use, or the last holder died, failed, or lost power" if known else shown(data)
    return Row(0, len(data), "mark", what, known)


def _lines(path: Path, kind: str) -> Iterator[Row]:
    scanner, size = LineScanner(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            size += len(chunk)
            for line in scanner.feed(chunk):
                what = None if line.body is None else _line(line.body, kind)
                yield Row(
                    line.offset,
                    line.length,
                    "bad line" if what is None else what[0],
                    "the checksum or the form is wrong; skipped" if what is None else what[1],
                    what is not None,
                )
    if scanner.torn_bytes:
        start = size - scanner.torn_bytes
        yield Row(start, scanner.torn_bytes, "torn line", "no newline; the next add cuts it", False)


def _line(body: bytes, kind: str) -> tuple[str, str] | None:
    if kind == "dead tasks":
        key = record_id(body)
        return None if key is None else ("dead task", f"{shown(key)}: {shown(body)}")
    record = parse_wal(body)
    if record is None:
        return None
    if isinstance(record, WalAdd):
        due = "at once" if record.publish_at is None else f"at {record.publish_at}"
        return "add", f"{record.task_id}, due {due}: {shown(record.payload)}"
    return "rem", record.task_id
