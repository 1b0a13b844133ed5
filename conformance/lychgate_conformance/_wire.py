"""Values on a wire: JSON, with a tag where JSON has no word.

A case may run beside the backend or in another process, and must see the same values either way;
so both ways go through `encode`. Text of any kind passes (lone surrogates as \\u escapes), a bool
stays a bool and an int an int; a tuple becomes a list. What is neither JSON nor tagged arrives as
`Strange`, which equals nothing that was ever stored.

Tags are objects with the key `$`:
    bytes, undecodable (codec and bytes, D30), pairs (an object with unusual keys), strange,
    and, towards the backend only, opaque (an object no codec knows) and error (an exception).
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

Json = Any
"""What `json` gives and takes; no static type says more about it."""


@dataclass(frozen=True, slots=True)
class Strange:
    """A value that no wire can carry: its type and the beginning of its repr."""

    type_name: str
    text: str


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Stored bytes that the backend keeps and cannot decode."""

    codec: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Opaque:
    """Stands for an object that no codec can encode."""


@dataclass(frozen=True, slots=True)
class ErrorText:
    """Stands for the exception that a task raised.

    `kind` is `plain` (a ValueError), `foreign` (a class of nobody's module) or `mute` (its text
    cannot be made: `__str__` raises).
    """

    message: str
    kind: str = "plain"


def encode(value: object) -> Json:
    """`value` for `json.dumps`."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _strange(value)
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        if "$" in value or not all(isinstance(key, str) for key in value):
            return {"$": "pairs", "pairs": [[encode(k), encode(v)] for k, v in value.items()]}
        return {key: encode(item) for key, item in value.items()}
    return _encode_object(value)


def _encode_object(value: object) -> Json:
    if isinstance(value, (bytes, bytearray)):
        return {"$": "bytes", "data": b64encode(value).decode("ascii")}
    if isinstance(value, Opaque):
        return {"$": "opaque"}
    if isinstance(value, ErrorText):
        return {"$": "error", "message": value.message, "kind": value.kind}
    codec, data = getattr(value, "codec", None), getattr(value, "data", None)
    if isinstance(codec, str) and isinstance(data, bytes):
        return {"$": "undecodable", "codec": codec, "data": b64encode(data).decode("ascii")}
    return _strange(value)


def _strange(value: object) -> Json:
    try:
        text = repr(value)[:200]
    except Exception as error:  # foreign code
        text = f"(no repr: {type(error).__name__})"
    return {"$": "strange", "type": type(value).__qualname__, "text": text}


def decode(value: Json) -> object:
    """The value behind what `encode` made."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = value.get("$")
    if tag is None:
        return {key: decode(item) for key, item in value.items()}
    if tag == "pairs":
        return {decode(key): decode(item) for key, item in value["pairs"]}
    if tag == "bytes":
        return b64decode(value["data"])
    if tag == "undecodable":
        return Undecodable(value["codec"], b64decode(value["data"]))
    if tag == "opaque":
        return Opaque()
    if tag == "error":
        return ErrorText(value["message"], value["kind"])
    assert tag == "strange", tag
    return Strange(value["type"], value["text"])


def dump_line(message: Json) -> bytes:
    """One message as one line."""
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def load_line(line: bytes) -> Json:
    """The message of a line; ValueError when it is none."""
    return json.loads(line)


def short(value: object, limit: int = 160) -> str:
    """A value in a message to people: its repr, cut, safe to print anywhere."""
    text = ascii(value)
    return text if len(text) <= limit else f"{text[: limit - 12]}… ({len(text)} characters)"
