"""TLA+ values as TLC prints them: read, compared, written back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lychgate_tools.tlc.values import (
    Fn,
    ModelValue,
    ValueSyntaxError,
    parse,
    parse_state,
    render,
    to_json,
)
from lychgate_tools.trace_text import differences


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("TRUE", True),
        ("-3", -3),
        ('"a\\"b\\\\c\\nd"', 'a"b\\c\nd'),
        ("p1", ModelValue("p1")),
        ("{}", frozenset()),
        ("1..3", frozenset({1, 2, 3})),
        ("-1..0", frozenset({-1, 0})),
        ("<< >>", ()),
        ("<<1, <<2>>>>", (1, (2,))),
        ("[a |-> 1, b |-> {p1}]", Fn([("a", 1), ("b", frozenset({ModelValue("p1")}))])),
        ("(p1 :> 1 @@ p2 :> 2)", Fn([(ModelValue("p1"), 1), (ModelValue("p2"), 2)])),
        ("{<<1,\n   2>>}", frozenset({(1, 2)})),
    ],
)
def test_reads_what_tlc_prints(text: str, value: object) -> None:
    """Each notation that 2.15 was seen to print, wrapped lines included."""
    assert parse(text) == value
    assert parse(render(value)) == value


def test_model_value_is_no_string() -> None:
    """A sentinel never equals the text of its name, nor hashes into its place."""
    text: object = "a"
    assert ModelValue("a") != text
    mixed: dict[object, int] = {ModelValue("a"): 1}
    assert "a" not in mixed
    assert parse("{a}") != parse('{"a"}')


@pytest.mark.parametrize("text", ["", "{1", "[a |-> ]", "1 2", "<<1,", "(a :> 1", "%"])
def test_refuses_what_is_no_value(text: str) -> None:
    with pytest.raises(ValueSyntaxError):
        parse(text)


def test_state_with_wrapped_values() -> None:
    """Values wrap at 80 columns; only a line that starts with a conjunction starts a variable."""
    state = parse_state('/\\ pc = (p1 :> "a"\n  @@ p2 :> "b")\n/\\ n = 1\n')
    assert state["n"] == 1
    assert state["pc"] == Fn([(ModelValue("p1"), "a"), (ModelValue("p2"), "b")])
    assert parse_state("x = 3") == {"x": 3}


_ATOMS = st.booleans() | st.integers(-9, 9) | st.text(max_size=4) | st.just(ModelValue("m"))
_VALUES = st.recursive(
    _ATOMS,
    lambda inner: st.lists(inner, max_size=3).map(tuple)
    | st.frozensets(st.integers(0, 5) | st.just(ModelValue("m")), max_size=3)
    | st.dictionaries(st.sampled_from(["a", "bc"]), inner, min_size=1).map(lambda d: Fn(d.items())),
    max_leaves=8,
)


@given(_VALUES)
def test_render_and_parse_are_inverse(value: object) -> None:
    assert parse(render(value)) == value
    assert to_json(value) == to_json(parse(render(value)))


def test_differences_name_the_smallest_part() -> None:
    """A trace shows what changed, not whole functions."""
    old = parse('(w1 :> [pc |-> "a", n |-> <<1, 2>>] @@ w2 :> [pc |-> "b", n |-> <<>>])')
    new = parse('(w1 :> [pc |-> "a", n |-> <<1, 3>>] @@ w2 :> [pc |-> "c", n |-> <<>>])')
    assert list(differences(old, new)) == [("[w1].n[2]", 2, 3), ("[w2].pc", "b", "c")]
    assert list(differences(True, 1)) == [("", True, 1)]
