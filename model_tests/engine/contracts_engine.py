"""CrossHair contracts of the engine's pure functions (D7, D11, D16, W1, W4).

    lychgate contracts --per-condition 3

A contract is a function whose docstring has `pre:` and `post:`; CrossHair looks for arguments that
break it, by symbolic execution. Sizes are bounded where a loop would be explored for ever: the
functions have no constant that a longer input could reach.
"""

from __future__ import annotations

from lychgate._ids import next_stamp
from lychgate._lines import Line, LineScanner, end_of_last_line, seal, windows_backward
from lychgate._names import dead_data_name, dead_lock_name, is_wal_name, staging_name
from lychgate._page import Page
from lychgate._records import quote_id, unquote_id


def tail_scan(data: bytes, window: int) -> int:
    r"""The tail scan of the dead-task store, window by window, is the naive one (D11).

    pre: 0 < window <= 4
    pre: len(data) <= 6
    post: __return__ == data.rfind(b"\n") + 1
    """
    for offset, length in windows_backward(len(data), window):
        end = end_of_last_line(data[offset : offset + length])
        if end:
            return offset + end
    return 0


def windows(size: int, window: int) -> list[tuple[int, int]]:
    r"""Windows are neighbours, none is empty or too long, and together they cover the file (D11).

    pre: 0 <= size <= 12 and 0 < window
    post: sum(length for _, length in __return__) == size
    post: all(0 < length <= window for _, length in __return__)
    post: all(a[0] == b[0] + b[1] for a, b in zip(__return__, __return__[1:]))
    post: not __return__ or (__return__[-1][0] == 0 and sum(__return__[0]) == size)
    """
    return list(windows_backward(size, window))


LETTERS = "%:3A\n"


def quoted(picks: list[int]) -> bytes:
    r"""An id's field ends no field and no line, and comes back (W1).

    pre: len(picks) <= 3 and all(0 <= pick < 5 for pick in picks)
    post: b":" not in __return__ and b"\n" not in __return__
    post: unquote_id(__return__) == "".join(LETTERS[pick] for pick in picks)
    """
    return quote_id("".join(LETTERS[pick] for pick in picks))


def stamp(last: int, seconds: int) -> int:
    r"""The next stamp is above the last and not below the clock (W4).

    post: __return__ > last
    post: __return__ >= seconds * 1_000_000
    """
    return next_stamp(last, seconds)


def dead_names(prefix: str, other: str) -> list[str]:
    r"""No dead-task file is a WAL file of any prefix (D7).

    pre: len(prefix) <= 4 and len(other) <= 4
    post: not any(is_wal_name(other, name) for name in __return__)
    """
    data = dead_data_name(prefix)
    return [data, staging_name(data), dead_lock_name(prefix)]


def wal_owner(prefix: str, other: str) -> bool:
    r"""A WAL file belongs to one prefix (D7).

    pre: prefix != other and len(prefix) <= 4 and len(other) <= 4
    post: not __return__
    """
    return is_wal_name(other, f"{prefix}0-20260101-1-0123456789abcdef")


def paged(items: list[int], limit: int | None, offset: int) -> list[int]:
    r"""A page is the slice that its limit and offset name (D16).

    pre: len(items) <= 4 and 0 <= offset <= 5
    pre: limit is None or 0 <= limit <= 5
    post: __return__ == (items[offset:] if limit is None else items[offset : offset + limit])
    """
    page = Page[int](limit, offset)
    for item in items:
        if page.full:
            break
        if not page.skips():
            page.items.append(item)
    return page.items


def scanned(chunks: list[bytes]) -> tuple[list[int], int]:
    r"""Lines and the torn rest cover the stream, and end where its newlines are (D16).

    pre: len(chunks) <= 3 and all(len(chunk) <= 3 for chunk in chunks)
    post: sum(__return__[0]) + __return__[1] == len(b"".join(chunks))
    post: len(__return__[0]) == b"".join(chunks).count(b"\n")
    """
    scanner = LineScanner()
    lines: list[Line] = [line for chunk in chunks for line in scanner.feed(chunk)]
    return [line.length for line in lines], scanner.torn_bytes


def sealed(body: bytes, cut: int) -> list[bytes | None]:
    r"""A sealed body comes back from its line, wherever the line is cut in two (D16).

    pre: b"\n" not in body and len(body) <= 3
    pre: 0 <= cut <= 13
    post: __return__ == [body]
    """
    line, scanner = seal(body), LineScanner()
    return [found.body for chunk in (line[:cut], line[cut:]) for found in scanner.feed(chunk)]
