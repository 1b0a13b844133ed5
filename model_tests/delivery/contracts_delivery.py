"""CrossHair contracts of the delivery queue's pure functions (L2, L5, L7, L8, L9).

    lychgate contracts --per-condition 3

Sizes are bounded where a loop would be explored for ever.
"""

from __future__ import annotations

from lychgate._delivery_answers import cut_reason
from lychgate._delivery_codec import (
    ItemBody,
    Manifest,
    State,
    claim_body,
    item_body,
    parse_claim,
    parse_item,
    parse_manifest,
    parse_retry,
    retry_body,
)
from lychgate._delivery_files import parse_segment_name, segment_name
from lychgate._delivery_layout import Fill, Limits, admits, ends_at, fits, holds, pack, put


def lease(now: int, length: int, later: int) -> bool:
    r"""While the clock runs, a lease holds from its beginning to its end and no longer (L5).

    pre: 0 <= now <= later and 1 <= length and now + length < 2**64
    post: __return__ == (later < now + length)
    """
    return holds(ends_at(now, length), length, later)


def set_back(now: int, length: int, jump: int) -> bool:
    r"""However far the clock is set back, a lease holds for at most twice its length (L5).

    pre: 0 <= jump and 1 <= length and 0 <= now and now + length < 2**64
    post: __return__ == (jump <= length)
    """
    return holds(ends_at(now, length), length, now - jump)


def one_more(segment: int, segments: int, fill: tuple[int, int], size: int) -> Fill:
    r"""A record that fits lies in one segment, behind what was there (L9).

    pre: 1 <= segment <= 50 and 1 <= segments <= 5 and 1 <= size <= 60
    pre: 0 <= fill[0] <= segments and 0 <= fill[1] <= segment and (fill[0] > 0) == (fill[1] > 0)
    post: __return__[0] >= fill[0]
    post: __return__[0] > segments or __return__[1] <= segment
    post: __return__[0] > segments or __return__[1] in (size, fill[1] + size)
    """
    return put(Limits(1, 1, segment, segments), Fill(*fill), size)


def smaller_never_needs_more(segment: int, sizes: list[int], less: list[int]) -> bool:
    r"""Next fit is monotone: smaller records, or fewer, never end further on (L9).

    pre: 1 <= segment <= 9 and len(sizes) == len(less) <= 4
    pre: all(0 <= b <= a <= segment and a >= 1 for a, b in zip(sizes, less))
    post: __return__
    """
    limits = Limits(1, 1, segment, 9)
    full = pack(limits, sizes)
    small = pack(limits, [size for size in less if size])
    return small <= full


def admitted_has_room(segment: int, worst: list[int], actual: list[int]) -> bool:
    r"""What is admitted leaves room for a control record, packed as it stands (L9).

    pre: 100 <= segment <= 400 and len(worst) == len(actual) <= 3
    pre: all(1 <= b <= a for a, b in zip(worst, actual))
    post: __return__
    """
    limits = Limits(9, 8, segment, 3)
    if not admits(limits, pack(limits, worst)):
        return True
    return fits(limits, put(limits, pack(limits, actual), limits.control_bytes_max))


def segment_names(generation: int, segment: int) -> tuple[int, int] | None:
    r"""A name gives its numbers back (L10).

    pre: 0 <= generation <= 3 and 1 <= segment <= 12
    post: __return__ == (generation, segment)
    """
    return parse_segment_name(segment_name(generation, segment))


def items(attempts: int, until: int, reason: int, payload: int) -> object:
    r"""An item's body gives everything back, wherever reason and payload end (L2, L7).

    pre: 0 <= attempts < 2**32 and 0 <= until < 2**64 and 0 <= reason <= 2 and 0 <= payload <= 2
    post: __return__ == (2, attempts, until, 7, b"rr"[:reason], b"pp"[:payload])
    """
    item = ItemBody(State.CLAIMED, attempts, until, 7, b"rr"[:reason], b"pp"[:payload])
    return parse_item(item_body(item))


def claims(attempt: int, until: int, length: int) -> object:
    r"""So does a claim (L5).

    pre: 0 <= attempt < 2**32 and 0 <= until < 2**64 and 0 <= length < 2**64
    post: __return__ == (attempt, until, length)
    """
    return parse_claim(claim_body(attempt, until, length))


def retries(until: int, length: int) -> object:
    r"""So does a retry (L5).

    pre: 0 <= until < 2**64 and 0 <= length < 2**64
    post: __return__ == (until, length)
    """
    return parse_retry(retry_body(until, length))


def any_item(body: bytes) -> object:
    r"""Any bytes are an item or none, and never an exception (L4).

    pre: len(body) <= 26
    post: __return__ is None or item_body(__return__) == body
    """
    return parse_item(body)


def any_manifest(data: bytes) -> Manifest | str:
    r"""Any bytes are a manifest or the reason why not (L10).

    pre: len(data) <= 50
    post: isinstance(__return__, (Manifest, str))
    """
    return parse_manifest(data)


LETTERS = "a\xe4\u20ac\U0001f600"


def reasons(picks: list[int], size: int) -> str:
    r"""A reason is cut within its budget, never inside a character (L8).

    pre: len(picks) <= 2 and all(0 <= pick < 4 for pick in picks) and 0 <= size <= 8
    post: len(__return__.encode()) <= size
    post: "".join(LETTERS[pick] for pick in picks).startswith(__return__)
    """
    return cut_reason("".join(LETTERS[pick] for pick in picks), size).decode()
