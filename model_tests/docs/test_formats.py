"""The examples of docs/formats.md, decoded by the engine and encoded again, to the byte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lychgate._lines import LINE_BYTES_MAX, is_valid, seal
from lychgate._lock import UNFINISHED_MARK, clean_mark
from lychgate._names import (
    VERSION,
    dead_data_name,
    dead_lock_name,
    is_wal_name,
    staging_name,
    wal_name,
)
from lychgate._ops import ReadMark
from lychgate._records import (
    ERROR_TEXT_MAX,
    JSON,
    Undecodable,
    WalAdd,
    dead_line,
    decode_payload,
    parse_dead,
    parse_wal,
    wal_add_line,
    wal_remove_line,
)

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


def examples(kind: str) -> list[str]:
    found = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    lines = "".join(found).splitlines()
    assert lines, f"the page has no example of kind {kind}"
    return lines


class Raw:
    """The codec whose name and bytes an example carries."""

    def __init__(self, name: str) -> None:
        self.name = name

    def dumps(self, value: object) -> bytes:
        assert isinstance(value, Undecodable)
        return value.data

    def loads(self, data: bytes) -> object:
        raise ValueError("for writing only")


@pytest.mark.parametrize("text", examples("wal"))
def test_wal_lines(text: str) -> None:
    """W1: every example is a valid line, and the engine writes exactly these bytes."""
    line = text.encode("utf-8")
    assert is_valid(line)
    record = parse_wal(line[9:])
    assert record is not None
    if isinstance(record, WalAdd):
        task = decode_payload(JSON, record.payload)
        codec = Raw(task.codec) if isinstance(task, Undecodable) else JSON
        again = wal_add_line(codec, record.task_id, task, record.publish_at)
    else:
        again = wal_remove_line(record.task_id)
    assert again == line + b"\n"


@pytest.mark.parametrize("text", examples("dead"))
def test_dead_lines(text: str) -> None:
    """D8, D30: the same for dead tasks; the keys of the page's table are the keys of the line."""
    line = text.encode("ascii")
    assert is_valid(line)
    dead = parse_dead(JSON, line[9:])
    assert dead is not None and dead_line(JSON, dead) == line + b"\n"
    table = re.findall(r"^\| `(\w+)` \| (?:text|whole|time|the context)", PAGE, re.MULTILINE)
    keys = re.findall(r'[{,]"(\w+)":', text.partition('"context":')[0] + '"context":')
    assert [key for key in keys if key not in ("codec", "data")] == table or '"codec"' in text


def test_names() -> None:
    """D6, D7: every example is a name that the engine would give."""
    wal, data, staging, lock = examples("names")
    assert is_wal_name("deferred-", wal)
    assert wal == wal_name("deferred-", "20260101", 4242, bytes.fromhex("0123456789abcdef"))
    assert (data, lock) == (dead_data_name("deferred-"), dead_lock_name("deferred-"))
    assert staging == staging_name(data) and VERSION == "0"


def test_marks() -> None:
    """D32: both marks, 64 bytes each, blanks up to the newline."""
    clean, unfinished = examples("lock")
    assert clean_mark(clean.removeprefix("clean ")) == clean.encode("ascii").ljust(63) + b"\n"
    assert unfinished.encode("ascii").ljust(63) + b"\n" == UNFINISHED_MARK
    assert "64 bytes" in PAGE and ReadMark.action == "ReadMark"


def test_numbers() -> None:
    """D25: the limits of the page are those of the engine."""
    assert f"{LINE_BYTES_MAX:,} bytes" in PAGE
    assert f"0 to {LINE_BYTES_MAX - len(seal(b'')):,}" in PAGE
    assert f"at most {ERROR_TEXT_MAX:,} characters" in PAGE
