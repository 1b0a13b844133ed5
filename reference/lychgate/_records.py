"""What the lines of both stores say, and how values become text (W1, D30).

WAL            add:{id}:{publish_at or 0}:{payload}      rem:{id}
Dead task      one JSON object, `task_id` first and `context` last, so that both are found by bytes:
               a context that this process cannot read never hides its record (W7, D30)

Rules of this file
  * Ids are text of any kind. In the WAL `%`, `:` and control characters are percent-encoded; lone
    surrogates pass through (`surrogatepass`).
  * A value goes through a codec. JSON, the default, is written as it is; any other codec's bytes
    are written in base64 behind the codec's name, so that a reader without it keeps them whole
    (`Undecodable`). Pickle is never a default.
  * Writing refuses (`Refused`) what it could not read back; reading never raises on foreign bytes.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from lychgate._errors import ConfigError, Refused
from lychgate._lines import HEADER_BYTES, LINE_BYTES_MAX, seal

ERROR_TEXT_MAX = 8192
"""Characters of an error message that are kept; the rest is cut (D25)."""

_to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode  # made once: it is slow

_UNSAFE = re.compile(rb"[%:\x00-\x1f\x7f]")
_QUOTED = re.compile(rb"%([0-9A-F]{2})")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_CODEC_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,64}", re.ASCII)


class Codec(Protocol):
    """Turns values into bytes and back. `name` is stored beside the bytes of all but JSON."""

    name: str

    def dumps(self, value: object) -> bytes: ...

    def loads(self, data: bytes) -> object: ...


class JsonCodec:
    """JSON in ASCII: no raw newline, every string survives, lone surrogates included.

    Two surrogates in a row are refused: JSON's escapes cannot tell them from the one character that
    they would make.
    """

    name = "json"

    def dumps(self, value: object) -> bytes:
        text = _to_json(value)
        if "\\ud" in text and _PAIR.search(json.dumps(value, ensure_ascii=False)):
            raise ValueError("two surrogates in a row would be read back as one character")
        return text.encode("ascii")

    def loads(self, data: bytes) -> object:
        value: object = json.loads(data)
        return value


JSON = JsonCodec()


@dataclass(frozen=True, slots=True)
class Undecodable:
    """A stored value that this process cannot decode: kept and listed as bytes (D30)."""

    codec: str
    data: bytes


@dataclass(frozen=True, slots=True)
class DeadTask:
    """A dead task. Times are seconds since the Unix epoch; `attempts` counts runs (D30)."""

    task_id: str
    task_class: str
    attempts: int
    context: object
    error_class: str
    error_message: str
    failed_at: float
    enqueued_at: float | None = None


# --- ids --------------------------------------------------------------------------------------


def check_id(task_id: object) -> str:
    """The id, or Refused: an id is non-empty text."""
    if not isinstance(task_id, str):
        raise Refused(f"a task id is a string, not {type(task_id).__name__}")
    if not task_id:
        raise Refused("a task id must not be empty")
    if _PAIR.search(task_id):
        raise Refused("two surrogates in a row are one character: give the id as that character")
    return task_id


def quote_id(task_id: str) -> bytes:
    """The id as one field of a WAL line.

    post: b":" not in __return__ and b"\\n" not in __return__
    """
    raw = task_id.encode("utf-8", "surrogatepass")
    return _UNSAFE.sub(lambda match: b"%%%02X" % match.group()[0], raw)


def unquote_id(field: bytes) -> str:
    """The id behind a field; ValueError when the field is no text."""
    if b"%" in field:
        field = _QUOTED.sub(lambda match: bytes([int(match.group(1), 16)]), field)
    return field.decode("utf-8", "surrogatepass")


# --- values -----------------------------------------------------------------------------------


def check_codec(codec: Codec) -> Codec:
    """The codec, or ConfigError: its name stands in the files."""
    name = getattr(codec, "name", None)
    if not isinstance(name, str) or not _CODEC_NAME.fullmatch(name):
        raise ConfigError("a codec's name is 1 to 64 letters, digits or any of '_.+-'")
    return codec


def _encode(codec: Codec, value: object) -> bytes:
    try:
        data = codec.dumps(value)
    except Exception as error:  # a codec is foreign code and may raise anything
        raise Refused(f"the {codec.name} codec cannot encode this value: {_text(error)}") from error
    if not isinstance(data, bytes):
        raise Refused(f"the {codec.name} codec gave {type(data).__name__} in place of bytes")
    if codec.name == JSON.name and (b"\n" in data or data.startswith(b"=")):
        raise Refused("what the json codec gives is written as it is: it must be JSON in one line")
    return data


def _decode(codec: Codec, name: str, data: bytes) -> object:
    try:
        if name == codec.name:
            return codec.loads(data)
        if name == JSON.name:
            return JSON.loads(data)
    except Exception:  # foreign bytes or foreign code: kept as they are
        pass
    return Undecodable(name, data)


def encode_value(codec: Codec, value: object) -> tuple[str, bytes]:
    """A codec's name and the bytes of a value; `Undecodable` as it was. Raises Refused."""
    if isinstance(value, Undecodable):
        return value.codec, value.data
    return codec.name, _encode(codec, value)


def decode_value(codec: Codec, name: str, data: bytes) -> object:
    """The value of bytes that the codec of that name made, or `Undecodable`."""
    return _decode(codec, name, data)


def _fits(line: bytes) -> bytes:
    if len(line) > LINE_BYTES_MAX:
        raise Refused(f"the record has {len(line)} bytes, the limit is {LINE_BYTES_MAX}")
    return line


def _payload(codec: Codec, value: object) -> bytes:
    data = _encode(codec, value)
    if codec.name == JSON.name:
        return data
    return b"=%b=%b" % (codec.name.encode("ascii"), b64encode(data))


def decode_payload(codec: Codec, payload: bytes) -> object:
    """The value of a WAL payload, `Undecodable` when this codec cannot tell (W7)."""
    if not payload.startswith(b"="):
        return _decode(codec, JSON.name, payload)
    try:
        field, encoded = payload[1:].split(b"=", 1)
        return _decode(codec, field.decode("ascii"), b64decode(encoded, validate=True))
    except ValueError:
        return Undecodable("", payload)


def whole(name: str, value: object) -> int:
    """A count that a caller gave. Raises Refused."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise Refused(f"{name} must be a whole number, 0 or more")
    return value


def enqueued_at(context: object) -> float | None:
    """When the task was enqueued, where its context says so (D30)."""
    number = as_number(dict.get(context, "enqueued_at")) if isinstance(context, dict) else None
    return number if number is not None and math.isfinite(number) else None


def as_number(value: object) -> float | None:
    """An int or float as a float (infinite when too large); None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


# --- WAL lines --------------------------------------------------------------------------------


class WalAdd(NamedTuple):
    task_id: str
    publish_at: float | None
    payload: bytes


class WalRemove(NamedTuple):
    task_id: str


def checked_time(publish_at: object) -> float | None:
    """When a task is due, None for at once. Raises Refused."""
    if publish_at is None:
        return None
    number = as_number(publish_at)
    if number is None:
        raise Refused(f"publish_at is a number of seconds, not {type(publish_at).__name__}")
    if not math.isfinite(number) or number < 0:
        raise Refused("publish_at must be finite and not negative (seconds since the Unix epoch)")
    return number


def _time_text(publish_at: float | None) -> bytes:
    number = checked_time(publish_at)
    return b"0" if number is None else repr(number).encode("ascii")


def wal_add_line(codec: Codec, task_id: str, task: object, publish_at: float | None) -> bytes:
    """The line of an added task. Raises Refused."""
    fields = (quote_id(task_id), _time_text(publish_at), _payload(codec, task))
    return _fits(seal(b"add:%b:%b:%b" % fields))


def wal_remove_line(task_id: str) -> bytes:
    """The line of a removed task."""
    return seal(b"rem:%b" % quote_id(task_id))


def parse_wal(body: bytes) -> WalAdd | WalRemove | None:
    """What a valid line says, or None when it says nothing that this version knows."""
    kind, _, rest = body.partition(b":")
    try:
        if kind == b"rem":
            return WalRemove(unquote_id(rest))
        if kind != b"add":
            return None
        field, time, payload = rest.split(b":", 2)
        publish_at = float(time)
        if not math.isfinite(publish_at):
            return None
        return WalAdd(unquote_id(field), publish_at or None, payload)
    except ValueError:
        return None


# --- dead-task lines --------------------------------------------------------------------------

_DEAD_HEAD = (  # json.dumps of a dict would take as long as the system calls of an add
    '{"task_id":%s,"task_class":%s,"attempts":%d,"error_class":%s,"error_message":%s,'
    '"failed_at":%r,"enqueued_at":%s'
)
_ID_FIRST = b'{"task_id":"'
_ID_AT = HEADER_BYTES + len(_ID_FIRST)
_CONTEXT_LAST = b',"context":'  # inside a JSON string its quotes would be escaped


def dead_line(codec: Codec, dead: DeadTask) -> bytes:
    """The line of a dead task. Raises Refused."""
    try:
        head = _DEAD_HEAD % (
            _to_json(dead.task_id),
            _to_json(dead.task_class),
            dead.attempts,
            _to_json(dead.error_class),
            _to_json(dead.error_message[:ERROR_TEXT_MAX]),  # a description may be longer
            dead.failed_at,
            "null" if dead.enqueued_at is None else repr(dead.enqueued_at),
        )
    except ValueError as error:  # a number of thousands of digits
        raise Refused(f"this dead task cannot be encoded: {error}") from error
    body = b"%b%b}" % (head.encode("ascii"), _context_fields(codec, dead.context))
    assert body.startswith(_ID_FIRST), "record_id reads the id from the front"
    return _fits(seal(body))


def _context_fields(codec: Codec, context: object) -> bytes:
    if isinstance(context, Undecodable):  # as it was stored: nobody could read it (U6)
        name, data = context.codec, context.data
    elif codec.name == JSON.name:
        return _CONTEXT_LAST + _encode(codec, context)
    else:
        name, data = codec.name, _encode(codec, context)
    return b',"codec":%b,"data":"%b"' % (_to_json(name).encode("ascii"), b64encode(data))


def id_text(task_id: str) -> bytes:
    """An id as it stands in a dead-task line."""
    return json.dumps(task_id).encode("ascii")[1:-1]


def record_id(body: bytes) -> bytes | None:
    """The id of a dead-task line in its stored form (`id_text`), None for foreign lines."""
    if not body.startswith(_ID_FIRST):
        return None
    start = len(_ID_FIRST)
    end = body.find(b'"', start)
    while end >= 0 and body.endswith(b"\\", start, end):
        backslashes = end - len(body[start:end].rstrip(b"\\")) - start
        if backslashes % 2 == 0:
            break
        end = body.find(b'"', end + 1)
    return None if end < 0 else body[start:end]


def id_start(stored: bytes) -> bytes:
    """An id in its stored form, cut at its first quote."""
    return stored.partition(b'"')[0]


def id_starts(texts: list[bytes]) -> list[bytes]:
    """What stands there in each of these lines: an id that has another start is another id."""
    return [text[_ID_AT : text.find(b'"', _ID_AT)] for text in texts]


def parse_dead(codec: Codec, body: bytes) -> DeadTask | None:
    """The dead task of a valid line, or None when the line is foreign."""
    head, found, tail = body.partition(_CONTEXT_LAST)
    try:
        fields = json.loads(head + b"}" if found else body)
        if found:
            name, data = JSON.name, tail[:-1]
        else:
            name, data = str(fields["codec"]), b64decode(fields["data"], validate=True)
        enqueued_at = fields["enqueued_at"]
        return DeadTask(
            task_id=str(fields["task_id"]),
            task_class=str(fields["task_class"]),
            attempts=int(fields["attempts"]),
            context=_decode(codec, name, data),
            error_class=str(fields["error_class"]),
            error_message=str(fields["error_message"]),
            failed_at=float(fields["failed_at"]),
            enqueued_at=None if enqueued_at is None else float(enqueued_at),
        )
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def failed_at(body: bytes) -> float | None:
    """The time of death in a dead-task line, None for foreign lines. What `parse_dead` would give,
    at a tenth of the cost: inside a JSON string these quotes would be escaped."""
    _, found, rest = body.partition(b',"failed_at":')
    try:
        time = float(rest.partition(b",")[0]) if found and body.startswith(_ID_FIRST) else math.nan
    except ValueError:
        return None
    return time if math.isfinite(time) else None


def describe_error(exception: object) -> tuple[str, str]:
    """Class name and message of what a task raised; never raises itself (D25).

    The exception object is not stored. Text or a mapping with `class` and `message` is taken as a
    description of an exception that this process has not got.
    """
    if isinstance(exception, dict):
        return _text(exception.get("class", "")), _text(exception.get("message", ""))
    if exception is None or isinstance(exception, str):
        return "", exception or ""
    kind = type(exception)
    name, module = kind.__qualname__, kind.__module__
    return name if module == "builtins" else f"{module}.{name}", _text(exception)


def _text(value: object) -> str:
    """A foreign object's text, cut; a broken `__str__` must not lose the task (D25)."""
    try:
        return str(value)[:ERROR_TEXT_MAX]
    except Exception as error:
        return f"(its text could not be made: {type(error).__name__})"
