"""What lines say: round trips, refusals, and foreign bytes (W1, W7, D25, D30)."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lychgate import ConfigError, Refused
from lychgate._lines import seal
from lychgate._records import (
    ERROR_TEXT_MAX,
    JSON,
    Codec,
    DeadTask,
    Undecodable,
    WalAdd,
    WalRemove,
    check_codec,
    check_id,
    dead_line,
    decode_payload,
    describe_error,
    id_text,
    parse_dead,
    parse_wal,
    quote_id,
    record_id,
    unquote_id,
    wal_add_line,
    wal_remove_line,
)

texts = st.text(st.characters(exclude_categories=()), max_size=12).filter(
    lambda text: not text or is_accepted(text)
)  # lone surrogates included
ids = texts.filter(bool)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
times = st.none() | st.floats(min_value=1e-9, max_value=1e18)


def is_accepted(task_id: str) -> bool:
    try:
        check_id(task_id)
    except Refused:
        return False
    return True


class Reversing:
    """A codec of bytes that are no text."""

    name = "reversing"

    def dumps(self, value: object) -> bytes:
        return JSON.dumps(value)[::-1] + b"\xff\n:"

    def loads(self, data: bytes) -> object:
        return JSON.loads(data[:-3][::-1])


CODECS: list[Codec] = [JSON, Reversing()]


def dead(context: object = None, **changes: object) -> DeadTask:
    fields: dict[str, object] = {
        "task_id": "id", "task_class": "Job", "attempts": 3, "error_class": "ValueError",
        "error_message": "no", "failed_at": 12.5, "enqueued_at": None,
    }
    return DeadTask(context=context, **{**fields, **changes})  # type: ignore[arg-type]  # of a dict


# --- ids ----------------------------------------------------------------------------------------


@given(ids)
def test_an_id_comes_back_from_its_quoted_form(task_id: str) -> None:
    """W1, D25: `:`, newline, NUL, `%`, lone surrogates."""
    field = quote_id(task_id)
    assert unquote_id(field) == task_id
    assert not set(field) & set(b":\n\r\0\x7f")


@given(ids, ids)
def test_two_ids_are_two_fields(one: str, other: str) -> None:
    """W1: quoting is one to one, in both stores."""
    assert (quote_id(one) == quote_id(other)) == (one == other)
    assert (id_text(one) == id_text(other)) == (one == other)


@pytest.mark.parametrize("task_id", ["", None, 3, b"id", "\ud83d\ude00", ["id"]])
def test_what_is_no_id_is_refused(task_id: object) -> None:
    """D25: two surrogates in a row would be the same id as the one character that they make."""
    with pytest.raises(Refused):
        check_id(task_id)


# --- the WAL ------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@given(ids, values, times)
def test_a_task_comes_back(
    codec: Codec, task_id: str, task: object, publish_at: float | None
) -> None:
    """W1, W14: any id, any JSON value, any time."""
    line = wal_add_line(codec, task_id, task, publish_at)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    record = parse_wal(line[9:-1])
    assert isinstance(record, WalAdd)
    assert (record.task_id, record.publish_at) == (task_id, publish_at)
    assert decode_payload(codec, record.payload) == task


@given(ids)
def test_a_remove_comes_back(task_id: str) -> None:
    """W1."""
    assert parse_wal(wal_remove_line(task_id)[9:-1]) == WalRemove(task_id)


@given(
    st.binary(max_size=60)
    | st.tuples(st.sampled_from([b"add:", b"rem:"]), st.binary()).map(b"".join)
)
def test_foreign_bodies_never_raise(body: bytes) -> None:
    """W7, F3."""
    record = parse_wal(body)
    if isinstance(record, WalAdd):
        decode_payload(JSON, record.payload)
        decode_payload(Reversing(), record.payload)
    parse_dead(JSON, body)
    record_id(body)


@pytest.mark.parametrize(
    "publish_at", [math.nan, math.inf, -1.0, -math.inf, 10**400, "soon", True, b"1", [1], 1j]
)
def test_a_time_that_is_none_is_refused(publish_at: object) -> None:
    """D25: with the typed error, and before anything is written."""
    with pytest.raises(Refused):
        wal_add_line(JSON, "id", None, publish_at)  # type: ignore[arg-type]  # that is the test


def test_an_int_of_a_subclass_is_a_time() -> None:
    """W1: `publish_at` is a number, whatever its class prints as."""

    class Hour(enum.IntEnum):
        ONE = 3600

    assert b":3600.0:" in wal_add_line(JSON, "id", None, Hour.ONE)


def test_the_payload_of_an_unknown_codec_is_kept_as_bytes() -> None:
    """D30, W7."""
    line = wal_add_line(Reversing(), "id", {"a": 1}, None)
    record = parse_wal(line[9:-1])
    assert isinstance(record, WalAdd)
    kept = decode_payload(JSON, record.payload)
    assert kept == Undecodable("reversing", Reversing().dumps({"a": 1}))


# --- refusals -----------------------------------------------------------------------------------


class Liar(dict[str, object]):
    """A context that raises whatever is asked of it."""

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no iteration")

    def items(self) -> Iterator[tuple[str, object]]:  # type: ignore[override]  # that is the test
        raise ZeroDivisionError

    def get(self, *args: object) -> object:
        raise KeyError("get")


class Sulk(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Mute(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # that is the test


def nested(depth: int) -> object:
    value: object = []
    for _ in range(depth):
        value = [value]
    return value


UNENCODABLE = [math.nan, [math.inf], {1, 2}, object(), nested(100_000), Liar(a=1), b"bytes",
               10**5000, "\ud83d\ude00", {"\ud83d\ude00": 1}, {("a", "b"): 1}]


@pytest.mark.parametrize("value", UNENCODABLE, ids=lambda value: type(value).__name__)
def test_what_json_could_not_give_back_is_refused(value: object) -> None:
    """D25: stored and listed, or refused before anything is written."""
    with pytest.raises(Refused):
        wal_add_line(JSON, "id", value, None)
    with pytest.raises(Refused):
        dead_line(JSON, dead(value))


class BadCodec:
    """A codec that breaks its contract in a way of the test's choice."""

    def __init__(self, name: str, result: object) -> None:
        self.name = name
        self.result = result

    def dumps(self, value: object) -> bytes:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result  # type: ignore[return-value]  # that is the test

    def loads(self, data: bytes) -> object:
        raise Sulk


@pytest.mark.parametrize("result", [Sulk(), MemoryError(), "text", None, 3, bytearray(b"x")])
@pytest.mark.parametrize("name", ["json", "other"])
def test_a_broken_codec_is_a_refusal(name: str, result: object) -> None:
    """D25, D30."""
    codec = BadCodec(name, result)
    with pytest.raises(Refused):
        wal_add_line(codec, "id", None, None)
    with pytest.raises(Refused):
        dead_line(codec, dead())


@pytest.mark.parametrize("result", [b"a\nb", b"=json=", b'{\n"a": 1}'])
def test_a_json_codec_must_give_one_line_of_json(result: bytes) -> None:
    """W1: what is written as it is must not end the line."""
    with pytest.raises(Refused):
        wal_add_line(BadCodec("json", result), "id", None, None)


def test_a_codec_that_cannot_read_gives_the_bytes() -> None:
    """D30: foreign code on foreign bytes never raises through a listing."""
    line = wal_add_line(JSON, "id", {"a": 1}, None)
    record = parse_wal(line[9:-1])
    assert isinstance(record, WalAdd)
    assert decode_payload(BadCodec("json", b""), record.payload) == Undecodable("json", b'{"a":1}')
    found = parse_dead(BadCodec("json", b""), dead_line(JSON, dead({"a": 1}))[9:-1])
    assert found is not None and found.context == Undecodable("json", b'{"a":1}')


@pytest.mark.parametrize("name", ["", "a=b", "a b", "é", "a\n", "x" * 65, None, 3])
def test_a_codec_name_must_fit_into_the_files(name: object) -> None:
    """D30."""
    with pytest.raises(ConfigError):
        check_codec(BadCodec(name, b""))  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ConfigError):
        check_codec(name)  # type: ignore[arg-type]  # no codec at all


# --- dead tasks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@given(ids, values, texts, texts, texts, st.integers(0, 10**30), times)
def test_a_dead_task_comes_back(
    codec: Codec, task_id: str, context: object, name: str, error: str, message: str,
    attempts: int, enqueued_at: float | None,
) -> None:
    """D25, D30: every field, whatever text it holds, and its id is found in the bytes."""
    written = dead(context, task_id=task_id, attempts=attempts, enqueued_at=enqueued_at)
    body = dead_line(codec, written)[9:-1]
    assert b"\n" not in body
    assert record_id(body) == id_text(task_id)
    assert parse_dead(codec, body) == written
    named = dead(task_class=name, error_class=error, error_message=message)
    assert parse_dead(codec, dead_line(codec, named)[9:-1]) is not None  # any text is taken


@given(values, texts)
def test_a_context_that_looks_like_fields_is_no_field(context: object, message: str) -> None:
    """D30: the context is found by its place, not by what texts hold."""
    message += ',"context":1,"codec":"x"}'
    written = dead({'","context":': context, ',"context":': message}, error_class=message)
    assert parse_dead(JSON, dead_line(JSON, written)[9:-1]) == written


def test_a_context_that_cannot_be_read_does_not_hide_its_record() -> None:
    """W7, D26, D30: it is given as bytes."""
    body = dead_line(JSON, dead("x"))[9:-1].replace(b'"context":"x"', b'"context":' + b"[" * 5000)
    found = parse_dead(JSON, body)
    assert found == dead(Undecodable("json", b"[" * 5000))


def test_an_undecodable_payload_is_buried_with_its_bytes() -> None:
    """U6, D30: and given back the same."""
    for kept in (Undecodable("pickle", b"\x80\x04."), Undecodable("json", b"\xff\n")):
        for codec in CODECS:
            found = parse_dead(codec, dead_line(codec, dead(kept))[9:-1])
            assert found == dead(kept)


def test_error_text_is_cut() -> None:
    """D25: rather than failing the write."""
    name, text = describe_error(ValueError("x" * 20_000))
    assert (name, text) == ("ValueError", "x" * ERROR_TEXT_MAX)
    found = parse_dead(JSON, dead_line(JSON, dead(error_message="y" * 20_000))[9:-1])
    assert found is not None and found.error_message == "y" * ERROR_TEXT_MAX


@pytest.mark.parametrize("error", [Sulk(), Mute(), RecursionError(), ValueError("\ud800\n\0")])
def test_an_exception_of_any_manners_is_described(error: Exception) -> None:
    """D25, D30: the object itself is not stored, and its text cannot fail the write."""
    name, text = describe_error(error)
    assert type(error).__name__ in name
    assert parse_dead(JSON, dead_line(JSON, dead(error_class=name, error_message=text))[9:-1])


def test_a_description_stands_for_an_exception() -> None:
    """D30: of another process, or none at all."""
    assert describe_error({"class": "a.B", "message": "m"}) == ("a.B", "m")
    assert describe_error({"class": Sulk(), "message": 3})[1] == "3"
    assert describe_error("text") == ("", "text")
    assert describe_error(None) == ("", "")


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"3", b'"codec"', b'{"task_id":"a', b'{"task_id":"a\\"}', b"\xff\xfe",
     b'{"task_id":"a"}', b'{"task_id":"a","codec":"x","data":3,"enqueued_at":null}', b"[" * 100_000,
     b'{"task_id":"a","attempts":1e999,"enqueued_at":null,"context":1}'],
    ids=lambda body: repr(body[:12]),
)
def test_a_foreign_body_is_none(body: bytes) -> None:
    """D16, F3: with a good CRC, and no dead task."""
    assert parse_dead(JSON, body) is None
    assert seal(body)
