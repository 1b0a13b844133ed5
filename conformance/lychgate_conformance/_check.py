"""What cases say when they find something wrong: one sentence with both values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from lychgate_conformance._store import CallError
from lychgate_conformance._verdict import Failed
from lychgate_conformance._wire import short


def expect(condition: bool, message: str) -> None:
    """`message` says what is wrong."""
    if not condition:
        raise Failed(message)


def expect_value(what: str, got: object, wanted: object, exact: bool) -> None:
    """A stored value came back. Not `exact`: numbers are as good as a double keeps them."""
    if exact:
        expect_equal(what, got, wanted)
    else:
        expect_equal(what, _rounded(got), _rounded(wanted))


def _rounded(value: object) -> object:
    """Every number as a double, at any depth."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def expect_equal(what: str, got: object, wanted: object) -> None:
    """Equal, and of equal types where JSON tells them apart (True is not 1)."""
    if not same(got, wanted):
        raise Failed(f"{what}: got {short(got)}, expected {short(wanted)}")


def same(a: object, b: object) -> bool:
    """Equality that keeps bool, int and float apart, at any depth."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def expect_ids(what: str, got: Iterable[str], wanted: Iterable[str]) -> None:
    """The same ids, each as often, in any order."""
    have, want = Counter(list(got)), Counter(list(wanted))
    if have == want:
        return
    notes = []
    if lost := list((want - have).elements()):
        notes.append(f"{len(lost)} missing, such as {short(lost[0], 60)}")
    if extra := list((have - want).elements()):
        notes.append(f"{len(extra)} too many, such as {short(extra[0], 60)}")
    raise Failed(f"{what}: {'; '.join(notes)}")


def expect_order(what: str, got: list[str], wanted: list[str]) -> None:
    """The same ids in the same order."""
    expect_ids(what, got, wanted)
    if got != wanted:
        at = next(i for i, pair in enumerate(zip(got, wanted, strict=True)) if pair[0] != pair[1])
        raise Failed(
            f"{what}: {short(got[at], 60)} at place {at}, expected {short(wanted[at], 60)}"
        )


def refused(call: Callable[[], object]) -> CallError | None:
    """The error with which a call was refused, or None when it was accepted."""
    try:
        call()
    except CallError as error:
        return error
    return None
