"""A document as one HTML file: no network, no other file, from disk.

`page.html` is the frame; style, scripts and data are put into it. The data is JSON in ASCII with
`<` escaped, so that no text of a trace can end the element that it stands in.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

from lychgate_tools.page.document import VERSION, Document
from lychgate_tools.page.text import lines

_HERE = Path(__file__).parent
_TEXT_STEPS_MAX = 500


def as_html(document: Document) -> str:
    """The whole file."""
    data = json.dumps(document, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "title": _text(document["meta"]["title"]),
        "style": _file("page.css"),
        "text": _text(_as_text(document)),
        "version": str(VERSION),
        "data": data,
        "script": f"{_file('trace.js')}\n{_file('view.js')}",
    }
    frame = _file("page.html")
    pieces = frame.split("{{")
    made = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("}}")
        made += [parts[name], rest]
    return "".join(made)


def _as_text(document: Document) -> str:
    if len(document["steps"]) > _TEXT_STEPS_MAX:
        return f"{document['meta']['verdict']} The trace is long: `lychgate page --text` prints it."
    return "\n".join(lines(document, 100))


def _text(value: str) -> str:
    """Text for a page; what no encoding can hold as an escape."""
    return escape(value.encode("utf-8", "backslashreplace").decode("utf-8"))


def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8").rstrip("\n")
