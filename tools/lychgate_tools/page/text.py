"""A document as text, for terminals and for diffs: the same content as the page, at any width.

    question        where it is a lesson
    verdict
    steps           one line each, and below it what changed in which lane, and what a crash leaves
                    if that is something else than a step before
    rule, guards    where it is a lesson

Nothing depends on colour. `plain` gives the same in ASCII, for terminals that cannot show the rest.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from lychgate_tools.page.document import BROKEN, Document, apply

_LANES = {"memory": "memory", "cache": "cache ", "disk": "disk  "}
_PIECES = {
    "torn": "{}~", "nul": "0*{}", "bad": "!{}", "removal": "-{}", "handle": "<{}>",
    "lock": "#{}", "buffer": "+{}", "record": "{}", "bytes": "{}", "mark": "({})",
}  # fmt: skip
LEGEND = "a record, a~ torn, !a bad, -a removal, 0*n NULs, +a to be written, <w> open, #w locked"
_OUTCOMES_MAX = 12
_ASCII = str.maketrans({"→": "->", "✓": "ok", "✗": "X", "●": "*", "×": "x", "…": "...", "–": "-",
                        "−": "-", "’": "'", "·": "|"})  # fmt: skip


def lines(document: Document, width: int = 80, full: bool = False) -> Iterator[str]:
    """The whole text; no line is longer than `width`. `full` adds system calls, who could have
    gone on, places in spec and engine, and outcomes without a limit."""
    lesson, meta = document.get("lesson"), document["meta"]
    yield from _wrapped(meta["title"], width)
    if lesson is not None:
        yield ""
        yield from _wrapped(f"Question: {lesson['question']}", width)
    yield ""
    sign = {True: "✓", False: "✗", None: "●"}[meta.get("holds")]
    yield from _wrapped(f"{sign} {meta['verdict']}", width)
    yield ""
    yield from _steps(document, width, full)
    if lesson is not None:
        yield ""
        yield from _wrapped(f"Rule: {lesson['rule']}", width)
        yield "Guards:"
        for guard in lesson["guards"]:
            command = f": {guard['command']}" if guard.get("command") else ""
            yield from _wrapped(f"- {guard['kind']} {guard['name']}{command}", width, "  ")
        yield from _wrapped(f"On real files: {lesson['run']}", width, "  ")
    elif meta.get("command"):
        yield ""
        yield f"Again: {meta['command']}"


def plain(text: str) -> str:
    """The same in ASCII."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def _steps(document: Document, width: int, full: bool) -> Iterator[str]:
    yield from _wrapped(f"({LEGEND})", width)
    labels = {it["id"]: it["label"] for it in document["objects"]}
    names = [it["name"] for it in document["invariants"]]
    places = {it["id"]: f"{it['path']}:{it['line']}" for it in document["sources"]}
    begin = document["meta"].get("begin", 0)
    state: dict[str, dict[str, Any]] = {}
    before: list[str] = []
    told: list[str] = []
    for number, step in enumerate(document["steps"]):
        apply(state, step)
        who = step.get("worker", "") or ("" if step["kind"] == "begin" else "the world")
        head = f"{number:3} {who}{' ' if who else ''}{step['action']}"
        extra = [f"({step['variant']})"] if step.get("variant") else []
        extra += [step["says"]] if step.get("says") else []
        yield from _wrapped("  ".join([head, *extra]), width, "      ")
        if number == 0 or number > begin:
            yield from _changes(step, state, labels, width)
        verdicts = step.get("verdicts", [])
        for name, verdict, old in zip(names, verdicts, before or verdicts, strict=False):
            if verdict == BROKEN and (old != BROKEN or not before):
                yield from _wrapped(f"✗ {name} is broken", width, "      ", "    ")
        before = verdicts
        left: list[str] = []
        if "crash" in step and number >= begin:
            left = list(_crash(step["crash"], width, full))
        if left != told:
            yield from left
        told = left
        if full:
            yield from _besides(step, places, width)


def _besides(step: Any, places: dict[str, str], width: int) -> Iterator[str]:
    ahead = [f"{it['worker'] or 'the world'} {it['action']}" for it in step.get("next", ())]
    found = (
        ("call", step.get("call", "")),
        ("next", ", ".join(ahead)),
        ("see", ", ".join(places[it] for it in step.get("links", {}).values())),
    )
    for name, value in found:
        if value:
            yield from _wrapped(f"{name}: {value}", width, "          ", "    ")


def _changes(
    step: Any, state: dict[str, dict[str, Any]], labels: dict[str, str], width: int
) -> Iterator[str]:
    for change in step.get("changes", ()):
        name, lane = change["object"], change["lane"]
        named = [
            it["text"] for lanes in state.values() for it in lanes.get("cache") or ()
            if it["kind"] == "name" and it.get("raw") == name
        ]  # fmt: skip
        label = f"{', '.join(named)} = {labels[name]}" if named else labels[name]
        value = change["now"]
        if lane == "disk" and not value["may"]:
            continue
        if lane == "disk":
            shown = " | ".join(pieces_text(it, labels) for it in value["may"])
            shown += f" | and {value['more']} more" if value.get("more") else ""
        else:
            shown = pieces_text(value, labels)
        yield from _wrapped(f"{_LANES[lane]} {label}: {shown}", width, "        ", "    ")


def pieces_text(pieces: Any, labels: Mapping[str, str]) -> str:
    """Pieces in a row; `labels` are those of the objects that names lead to."""
    if pieces is None:
        return "nothing"
    said = [
        f"{it['text']}→{labels.get(it.get('raw', ''), '?')}" if it["kind"] == "name"
        else _PIECES[it["kind"]].format(_short(it))
        for it in pieces
    ]  # fmt: skip
    return " ".join(said) or "empty"


def _short(it: Any) -> str:
    """A fragment of which nothing but the length is known is a mark without a text."""
    unknown = it["kind"] == "torn" and it["text"].endswith(" bytes")
    return "" if unknown else str(it["text"])


def _crash(crash: Any, width: int, full: bool) -> Iterator[str]:
    outcomes, broken = crash["outcomes"], [it for it in crash["outcomes"] if it["holds"] is False]
    happens = "the crash" if crash["happens"] else "a crash here"
    count = f"{happens} may leave {crash['images']} images, {len(outcomes)} different to the eye"
    if not crash["happens"] and not broken and not full:
        judged = any(it["holds"] for it in outcomes)
        ending = "; all keep every promise" if judged else ""
        yield from _wrapped(f"{count}{ending}", width, "      ", "    ")
        return
    yield from _wrapped(f"{count}:", width, "      ", "    ")
    limit = len(outcomes) if full else _OUTCOMES_MAX
    for it in outcomes[:limit]:
        sign = {True: "✓", False: "✗", None: "●"}[it["holds"]]
        many = f" ×{it['images']}" if it["images"] > 1 else ""
        taken = " (taken here)" if it["taken"] else ""
        verdict = f": {it['verdict']}" if it["verdict"] else ""
        yield from _wrapped(f"{sign} {it['label']}{many}{taken}{verdict}", width, "        ",
                            "      ")  # fmt: skip
    if len(outcomes) > limit:
        yield f"      and {len(outcomes) - limit} more"


def _wrapped(text: str, width: int, after: str = "", first: str = "") -> list[str]:
    return textwrap.wrap(
        text, max(20, width), initial_indent=first, subsequent_indent=after or first,
        break_on_hyphens=False,
    ) or [""]  # fmt: skip
