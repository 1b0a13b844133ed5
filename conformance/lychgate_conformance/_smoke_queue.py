"""Smoke for the adapter of a delivery queue: the checks of `_smoke` in its own calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lychgate_conformance._check import expect, expect_equal
from lychgate_conformance._findings import Finding
from lychgate_conformance._wire import Json, encode

if TYPE_CHECKING:
    from lychgate_conformance._smoke import Ground

LEASE_MS = 3_600_000
_BYTES = encode(b"two\nlines\0\xff")


def opens(ground: Ground) -> None:
    ground.open()
    expect_equal("items of a new queue", ground.ask("items", store=1), [])


def items(ground: Ground) -> None:
    """An item is enqueued, claimed, given back, claimed again and acked."""
    seq = _put(ground)
    claimed = _claim(ground)
    expect_equal("the item claimed", [claimed["seq"], claimed["payload"]], [seq, _BYTES])
    _end(ground, "retry", claimed, delay_ms=0)
    _end(ground, "ack", _claim(ground))
    expect_equal("items after the ack", ground.ask("items", store=1), [])


def quarantine(ground: Ground) -> None:
    """An item that is set aside keeps its payload and the reason."""
    seq = _put(ground)
    _end(ground, "quarantine", _claim(ground), reason="no such address")
    (kept,) = ground.ask("items", store=1)
    said = [kept[name] for name in ("seq", "state", "reason", "payload")]
    expect_equal("the item", said, [seq, "quarantined", "no such address", _BYTES])


def refusals(ground: Ground) -> None:
    """An end that is refused changes nothing."""
    before = ground.ask("items", store=1)
    for verb, more in (("ack", {}), ("retry", {"delay_ms": 0}), ("quarantine", {"reason": ""})):
        reply = ground.reply(verb, store=1, seq=4711, receipt=None, **more)
        refused = reply.error is None and reply.ok["result"] == "NOT_FOUND"
        expect(refused, f"{verb} of an item that there is not: {reply.ok or reply.error}")
    if ground.ask("items", store=1) != before:
        what = "a call was answered with NOT_FOUND, and an item has changed"
        raise Finding("lies-about-error", what, ground.session.line)


def optional(ground: Ground) -> None:
    """What is offered is answered."""
    offered = ground.session.hello().capabilities
    if "clock" in offered:
        ground.ask("clock", store=1, now_ms=1_800_000_000_000)
    for verb in ("stats", "recover"):
        if verb in offered:
            ground.ask(verb, store=1)
    if "chdir" in offered:
        ground.ask("chdir", path=str(ground.path.parent))


def restarts(ground: Ground) -> None:
    """The end of the input is the end of the process, and what was acknowledged is kept."""
    seq = _put(ground)
    ground.start_again()
    ground.open()
    found = [it["seq"] for it in ground.ask("items", store=1)]
    kept = seq in found or not ground.claims.survives_restart
    expect(kept, "an item that was acknowledged is lost in a restart")


def crash_check(ground: Ground) -> None:
    ground.offers("crash_check")
    wanted = ground.ask("items", store=1)
    ground.ask("close", store=1)
    seen = ground.ask("crash_check", path=str(ground.path), options=ground.options)
    expect_equal("what crash_check sees", seen.get("items"), wanted)


def _put(ground: Ground) -> int:
    answer = ground.ask("enqueue", store=1, payload=_BYTES)
    expect_equal("enqueue", answer["result"], "OK")
    return int(answer["seq"])


def _claim(ground: Ground) -> Json:
    answer = ground.ask("claim", store=1, lease_ms=LEASE_MS)
    expect_equal("claim", answer["result"], "OK")
    return answer


def _end(ground: Ground, verb: str, claimed: Json, **more: Json) -> None:
    answer = ground.ask(verb, store=1, seq=claimed["seq"], receipt=claimed["receipt"], **more)
    expect_equal(verb, answer, {"result": "OK"})
