"""A dead task as an operator's commands see it: as it is stored, with a place and a name.

Rules of this file
  * Nothing is lost on the way through: a context is kept as its bytes and its codec's name, and is
    only decoded, as JSON and never as anything else, to be shown.
  * A record's *mark* is a digest of its bytes. It names the record wherever it lies, so that a
    command changes the records that it has seen and no other, whatever was added since.
  * Records are in order of (time of death, mark). No change of a store moves a record in that
    order, so the key of the last one shown is a place to go on from.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from hashlib import blake2b
from typing import NamedTuple, Protocol

from lychgate import DeadTask, Undecodable
from lychgate._records import ERROR_TEXT_MAX, JSON, check_id, dead_line, whole
from lychgate_tools.ui import ExitCode, UserError


@dataclass(frozen=True, slots=True)
class Json:
    """A context that is valid JSON, as its bytes."""

    data: bytes

    def value(self) -> object:
        return JSON.loads(self.data)


class _AsStored:
    """JSON contexts as their bytes, so that what is stored again is what was stored."""

    name = JSON.name

    def dumps(self, value: object) -> bytes:
        return value.data if isinstance(value, Json) else JSON.dumps(value)

    def loads(self, data: bytes) -> object:
        if b"\n" in data:
            raise ValueError("a line cannot hold it as it is")
        JSON.loads(data)
        return Json(data)


AS_STORED = _AsStored()


class Ref(NamedTuple):
    """Which record: its mark, and where it was seen (byte offset and length, or a row)."""

    mark: bytes
    place: int
    size: int


class Record(NamedTuple):
    """A dead task and which record it is."""

    dead: DeadTask
    ref: Ref


class Finding(NamedTuple):
    """What `verify` found wrong: where, in a file or table, and what."""

    where: str
    offset: int
    size: int
    what: str


class Store(Protocol):
    """The dead tasks of one backend, for commands that run beside its workers."""

    shown: str
    afterwards: str
    """When tasks that were brought back are taken up."""
    damaged: int
    """Lines or rows that the last `records` passed over."""

    def records(self) -> Iterator[Record]:
        """The records of this moment, in the order of the store."""

    def load(self, ref: Ref) -> Record | None:
        """A record of the last `records` again; None when it is gone."""

    def remove(self, refs: Sequence[Ref]) -> int:
        """Drop exactly these records; how many there were. Durable when it returns."""

    def check(self, dead: DeadTask) -> None:
        """Raise Refused for a record that this store cannot hold."""

    def restore(self, batch: Sequence[DeadTask]) -> None:
        """Store records as they are. Durable when it returns."""

    def revive(self, job: dict[str, object]) -> str:
        """Store a task that is to run at once; its fresh id."""

    def sync(self) -> None:
        """Make what `revive` has stored durable."""

    def verify(self) -> Iterator[Finding]:
        """What is wrong with the records of this moment; changes nothing."""

    def close(self) -> None: ...


def mark_of(body: bytes) -> bytes:
    """The mark of a record with these bytes."""
    return blake2b(body, digest_size=8).digest()


def mark_of_dead(dead: DeadTask) -> bytes:
    """The same of a record as the engine writes it today: equal in every store. Raises Refused."""
    return mark_of(dead_line(AS_STORED, dead)[9:-1])


def fault(dead: DeadTask) -> str | None:
    """What is wrong with a record that could be parsed."""
    times = (dead.failed_at, 0.0 if dead.enqueued_at is None else dead.enqueued_at)
    if not all(math.isfinite(time) for time in times):
        return "a time is no finite number"
    if dead.attempts < 0:
        return "the number of attempts is negative"
    if isinstance(dead.context, Undecodable) and dead.context.codec == JSON.name:
        return "the context says that it is JSON, and is not"
    return None


# --- order and filters ------------------------------------------------------------------------

Key = tuple[float, bytes]


def key_of(record: Record) -> Key:
    """The place of a record in the order of all lists."""
    time = record.dead.failed_at
    return (time if math.isfinite(time) else 0.0, record.ref.mark)


def cursor_of(record: Record) -> str:
    """The key as text, for `--cursor`."""
    time, mark = key_of(record)
    return f"{time!r}-{mark.hex()}"


def parse_cursor(text: str) -> Key:
    """The key behind a cursor. Raises UserError."""
    time, _, mark = text.rpartition("-")
    try:
        return float(time), bytes.fromhex(mark)
    except ValueError:
        raise UserError(
            f"{text!r} is no cursor: take the one that the page before ended with", ExitCode.USAGE
        ) from None


@dataclass(frozen=True)
class Filter:
    """Which records are meant; everything that is given must hold."""

    classes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    since: float = -math.inf
    until: float = math.inf
    text: str = ""

    def __bool__(self) -> bool:
        return self != Filter()

    def __call__(self, dead: DeadTask) -> bool:
        return (
            _one_of(dead.task_class, self.classes)
            and _one_of(dead.error_class, self.errors)
            and (self.since <= dead.failed_at < self.until or not math.isfinite(dead.failed_at))
            and (not self.text or self._says(dead))
        )

    def _says(self, dead: DeadTask) -> bool:
        fields = (dead.task_id, dead.task_class, dead.error_class, dead.error_message)
        return any(self.text in field for field in fields) or self.text in context_text(dead)


def _one_of(name: str, patterns: tuple[str, ...]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


# --- forms ------------------------------------------------------------------------------------


def context_text(dead: DeadTask) -> str:
    """A context for people: JSON as it reads, anything else in base64 behind its codec's name."""
    context = dead.context
    if isinstance(context, Json):
        try:
            return json.dumps(context.value(), ensure_ascii=False)
        except (ValueError, RecursionError):
            return context.data.decode("utf-8", "backslashreplace")
    assert isinstance(context, Undecodable), "a context is kept as its bytes"
    return f"{context.codec or 'unknown'}: {b64encode(context.data).decode('ascii')}"


def to_export(dead: DeadTask) -> dict[str, object]:
    """One line of an export. The context as JSON if that gives the same bytes back."""
    fields: dict[str, object] = {
        "task_id": dead.task_id,
        "task_class": dead.task_class,
        "attempts": dead.attempts,
        "error_class": dead.error_class,
        "error_message": dead.error_message,
        "failed_at": dead.failed_at,
        "enqueued_at": dead.enqueued_at,
    }
    context = dead.context
    if isinstance(context, Json) and _reads_back(context):
        return {**fields, "context": context.value()}
    codec, data = (
        (JSON.name, context.data) if isinstance(context, Json) else _undecodable(context)
    )
    return {**fields, "codec": codec, "data": b64encode(data).decode("ascii")}


def _reads_back(context: Json) -> bool:
    try:
        return JSON.dumps(context.value()) == context.data
    except (ValueError, RecursionError):
        return False


def _undecodable(context: object) -> tuple[str, bytes]:
    assert isinstance(context, Undecodable), "a context is kept as its bytes"
    return context.codec, context.data


def from_export(text: str) -> DeadTask:
    """The dead task of a line of an export. Raises ValueError, which says what is wrong."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(fields, dict):
        raise ValueError("no JSON object")
    dead = DeadTask(
        task_id=check_id(fields.get("task_id")),
        task_class=_text(fields, "task_class"),
        attempts=whole("attempts", fields.get("attempts")),
        context=_context(fields),
        error_class=_text(fields, "error_class"),
        error_message=_text(fields, "error_message"),
        failed_at=_time(fields, "failed_at"),
        enqueued_at=None if fields.get("enqueued_at") is None else _time(fields, "enqueued_at"),
    )
    if len(dead.error_message) > ERROR_TEXT_MAX:
        raise ValueError(f"error_message has more than {ERROR_TEXT_MAX} characters")
    return dead


def _text(fields: dict[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def _time(fields: dict[str, object], name: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{name} is no number")
    if not abs(value) < 1e300:  # also an integer that no float can hold
        raise ValueError(f"{name} is no time in seconds")
    return float(value)


def _context(fields: dict[str, object]) -> object:
    if "context" in fields:
        return Json(JSON.dumps(fields["context"]))
    codec, data = _text(fields, "codec"), _text(fields, "data")
    stored = b64decode(data, validate=True)
    if codec != JSON.name:
        return Undecodable(codec, stored)
    try:
        return AS_STORED.loads(stored)
    except (ValueError, RecursionError):
        return Undecodable(codec, stored)


# --- times ------------------------------------------------------------------------------------

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_time(text: str, now: float) -> float:
    """A time: an age (`90m`, `36h`, `7d`), a date, or seconds since the epoch. Raises UserError."""
    if text[-1:] in _UNITS and text[:-1].replace(".", "", 1).isdecimal():
        return now - float(text[:-1]) * _UNITS[text[-1]]
    try:
        number = float(text)
        if math.isfinite(number):
            return number
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"{text!r} is no time: give an age (36h, 7d), a date (2026-11-30, UTC unless it says "
            "otherwise) or seconds since the epoch",
            ExitCode.USAGE,
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def time_text(time: float) -> str:
    """A time for people."""
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return repr(time)
