"""`lychgate contracts`: what CrossHair did not look at never passes for good."""

from __future__ import annotations

import ast

import pytest

from lychgate_tools import contracts
from lychgate_tools.contracts import Target, explore, find, judge


@pytest.mark.parametrize(
    ("stdout", "stderr", "code", "verdict"),
    [
        ("m.py:3: info: Confirmed over all paths.\n", "", 0, "confirmed"),
        ("m:3: info: Confirmed over all paths.\nm:4: info: Not confirmed.\n", "", 0, "explored"),
        ("m.py:3: error: false when calling f(0)\n", "", 1, "refuted"),
        ("m.py:3: info: Unable to meet precondition.\n", "", 0, "unreached"),
        ("", "", 0, "unreached"),
        ("", "Traceback …\nValueError: not enough values\n", 1, "unreached"),
        ("m.py:3: info: Confirmed over all paths.\n", "", 2, "unreached"),
    ],
)
def test_verdicts(stdout: str, stderr: str, code: int, verdict: str) -> None:
    assert judge(stdout, stderr, code)[0] == verdict


def test_contracts_are_found_wherever_they_are() -> None:
    """In packages and beside tests, in functions and methods."""
    names = {target.name for target in find()}
    assert "lychgate._policy.backoff" in names
    assert "engine.contracts_engine.tail_scan" in names
    tree = ast.parse(
        'class A:\n def f(self):\n  """x\n\n  post: True\n  """\n'
        'async def g():\n """\n post: True\n """\ndef h():\n "no contract"\n'
    )
    assert list(contracts._in(tree, "m")) == [Target("m.A.f", False), Target("m.g", True)]


def test_async_contracts_are_unreached() -> None:
    """CrossHair says nothing about them, which is not the same as good."""
    assert explore(Target("m.g", True), 1.0).verdict == "unreached"
