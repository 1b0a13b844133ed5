"""How ids, texts and tasks stand in the tables of the SQL backend, and come back.

Text of any kind is stored as the inside of a JSON string in ASCII: no engine minds NUL, newlines or
lone surrogates there, it can be read in any client, and its order is the same everywhere.
"""

from __future__ import annotations

import json

from lychgate._errors import Refused
from lychgate._lines import LINE_BYTES_MAX
from lychgate._records import (
    ERROR_TEXT_MAX,
    Codec,
    DeadTask,
    check_id,
    decode_value,
    describe_error,
    encode_value,
    enqueued_at,
    id_text,
    whole,
)
from lychgate._sql_driver import Row
from lychgate._sql_store import DeadRow, TaskRow

ID_BYTES_MAX = 255
"""Bytes of UTF-8 in a task id (Q2)."""

_INT_MAX = 2**63 - 1


def stored(text: str) -> str:
    """Text of any kind as every engine takes it.

    post: shown(__return__) == text
    """
    return id_text(text).decode("ascii")


def shown(text: str) -> str:
    """The text behind its stored form; what somebody else wrote there, as it is."""
    try:
        value = json.loads(f'"{text}"')
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def stored_id(task_id: str) -> str:
    """An id in its stored form. Raises Refused."""
    if len(check_id(task_id).encode("utf-8", "surrogatepass")) > ID_BYTES_MAX:
        raise Refused(f"a task id has at most {ID_BYTES_MAX} bytes of UTF-8; use a shorter one")
    return stored(task_id)


def encoded(codec: Codec, value: object) -> tuple[str, bytes]:
    """The codec's name and the bytes of a task or context. Raises Refused."""
    name, data = encode_value(codec, value)
    if len(data) > LINE_BYTES_MAX:
        raise Refused(f"the task has {len(data)} bytes, the limit is {LINE_BYTES_MAX}")
    return name, data


def dead_row(
    codec: Codec, key: str, context: object, exception: object, task_class: str, attempts: int
) -> DeadRow:
    """What `add_dead_task` stores. Raises Refused."""
    failure, message = describe_error(exception)
    name, data = encoded(codec, context)
    if whole("attempts", attempts) > _INT_MAX:
        raise Refused(f"attempts must be at most {_INT_MAX}")
    return DeadRow(
        key=key,
        task_class=stored(str(task_class)),
        data=data,
        codec=name,
        attempts=attempts,
        failure_class=stored(failure),
        failure_message=stored(message[:ERROR_TEXT_MAX]),
        enqueued_at=enqueued_at(context),
    )


def unreadable(row: TaskRow) -> DeadRow:
    """A claimed task that cannot be decoded: its raw bytes, and the reason (Q7)."""
    message = f"the payload cannot be decoded: it is no valid {row.codec}"
    return _given_up(row, None, "lychgate.Unloadable", message)


def worn_out(codec: Codec, row: TaskRow) -> DeadRow:
    """A task that was claimed too often without an end (U7)."""
    message = f"{row.count - 1} workers in a row vanished while they had this task"
    value = decode_value(codec, row.codec, row.data)
    return _given_up(row, value, "lychgate.WorkerDied", message)


def _given_up(row: TaskRow, value: object, kind: str, message: str) -> DeadRow:
    name = value.get("task") if isinstance(value, dict) else None
    attempts = value.get("attempts") if isinstance(value, dict) else None
    return DeadRow(
        key=row.key,
        task_class=stored(name) if isinstance(name, str) else "",
        data=row.data,
        codec=row.codec,
        attempts=attempts if type(attempts) is int and 0 <= attempts <= _INT_MAX else 0,
        failure_class=kind,
        failure_message=stored(message),
        enqueued_at=enqueued_at(value),
    )


def dead_task(codec: Codec, row: Row) -> DeadTask:
    """A row of `Statements.dead` as the facade gives it."""
    key, kind, attempts, data, name, failure, message, failed_at, enqueued = row
    return DeadTask(
        task_id=shown(key),
        task_class=shown(kind),
        attempts=attempts,
        context=decode_value(codec, name, bytes(data)),
        error_class=shown(failure),
        error_message=shown(message),
        failed_at=failed_at,
        enqueued_at=enqueued,
    )
