"""The schemas of the protocol and their validator, which knows what they use and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lychgate_conformance._claims import STORE, claim_names
from lychgate_conformance._schema import KEYWORDS, NOTES, SCHEMAS, Schema, load
from lychgate_conformance._session import CODES
from lychgate_conformance._stdio import METHODS

NAMES = sorted(path.stem for path in SCHEMAS.glob("*.json"))
PROTOCOL = load("protocol-1")


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and everything in it that is a schema."""
    yield schema
    for keyword in ("properties", "$defs"):
        for inner in schema.get(keyword, {}).values():
            yield from subschemas(inner)
    for inner in schema.get("oneOf", []):
        yield from subschemas(inner)
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from subschemas(schema[keyword])


@pytest.mark.parametrize("name", NAMES)
def test_schemas_use_what_the_validator_knows(name: str) -> None:
    """A keyword that nobody checks would be a promise that nobody keeps."""
    document = load(name).document
    for schema in subschemas(document):
        assert set(schema) <= set(KEYWORDS) | NOTES
        if "$ref" in schema:
            assert schema["$ref"].removeprefix("#/$defs/") in document["$defs"]


def test_every_keyword_is_used() -> None:
    used = {word for name in NAMES for it in subschemas(load(name).document) for word in it}
    assert set(KEYWORDS) <= used


def test_every_verb_has_a_request_and_a_result() -> None:
    """D2: the seven calls, what is optional, and the verbs of the other profiles."""
    names = PROTOCOL.document["$defs"]
    requests = {it.removesuffix(".request") for it in names if it.endswith(".request")}
    results = {it.removesuffix(".result") for it in names if it.endswith(".result")}
    assert requests == results
    assert set(METHODS) | {"hello", "open", "crash_check", "claim", "quarantine"} <= requests
    listed = {it["$ref"] for it in names["request"]["oneOf"]}
    assert listed == {f"#/$defs/{verb}.request" for verb in requests}
    for verb, fields in METHODS.items():
        wanted = {"id", "do", "store", *fields}
        assert set(names[f"{verb}.request"]["required"]) == wanted, verb


def test_claims_and_error_codes_are_those_of_the_suite() -> None:
    names = PROTOCOL.document["$defs"]
    assert list(names["claims"]["properties"]) == list(claim_names())
    for name, schema in names["claims"]["properties"].items():
        assert PROTOCOL.problem({name: getattr(STORE, name)}, "claims") is None
        assert schema in ({"type": "boolean"}, {"enum": schema.get("enum")})
    assert names["error"]["properties"]["code"]["enum"] == list(CODES)


GOOD: dict[str, list[Any]] = {
    "request": [
        {"id": 1, "do": "close", "store": 3},
        {"id": 1, "do": "add_task", "store": 1, "task": {}, "publish_at": 0.5, "task_id": None},
        {"id": 1, "do": "list_dead_tasks", "store": 1, "limit": None, "offset": 0},
    ],
    "reply": [
        {"id": 0, "ok": None},
        {"id": 0, "error": {"code": "refused", "message": "", "definite": True}, "t": [1, 2]},
    ],
    "find_dead_task.result": [None],
    "claim.result": [{"result": "EMPTY"}],
    "file": ["a", "a/b", "..a"],
}


@pytest.mark.parametrize("definition", GOOD)
def test_what_is_right_has_no_problem(definition: str) -> None:
    for instance in GOOD[definition]:
        assert PROTOCOL.problem(instance, definition) is None


WRONG = [
    ("request", {"id": 1, "do": "close"}, "store: is missing"),
    ("request", {"id": True, "do": "sync", "store": 1}, "id: is True, expected integer"),
    ("request", {"id": 1, "do": "sync", "store": 0}, "store: the value is 0, expected at least 1"),
    ("request", {"id": 1, "do": "sync", "store": 1, "why": 1}, "why: is not a field here"),
    ("reply", {"id": 1}, "ok: is missing"),
    ("reply", {"id": 1.0, "ok": 1}, "id: is 1.0, expected integer"),
    ("reply", [], "the message: is [], expected object"),
    ("reply", {"id": 1, "ok": 1, "t": [1]}, "t: the number of items is 1, expected at least 2"),
    ("reply", {"id": 1, "ok": 1, "t": [1, "2"]}, "t[1]: is '2', expected integer"),
    ("error", {"code": "no", "message": "", "definite": True}, "code: is 'no', expected one of"),
    ("pending", {"task_id": "", "task": 1, "publish_at": None}, "task_id: the length is 0"),
    ("find_dead_task.result", {"task_id": "a"}, "task_class: is missing"),
    ("file", "a\0b", "which does not match"),
    ("stats.result", {"a": -1}, "a: the value is -1, expected at least 0"),
    ("stats.result", {"a b": "x"}, "'a b': is 'x', expected integer"),
    ("bytes", {"$": "bytes", "data": "é"}, "data: is '\\xe9', which does not match"),
]


@pytest.mark.parametrize(("definition", "instance", "said"), WRONG, ids=[it[2] for it in WRONG])
def test_what_is_wrong_is_named_with_its_field(definition: str, instance: Any, said: str) -> None:
    assert said in str(PROTOCOL.problem(instance, definition))


def test_a_choice_of_two_that_both_fit_is_wrong() -> None:
    schema = Schema({"oneOf": [{"type": "integer"}, {"minimum": 1}]})
    assert schema.problem(0) is None and "more than one" in str(schema.problem(2))


def test_the_files_are_plain_json() -> None:
    for path in SCHEMAS.glob("*.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["$schema"].endswith("2020-12/schema")
