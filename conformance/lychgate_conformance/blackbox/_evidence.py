"""A failing image as it stands in a report, so that an adapter can be asked about it again.

Which images a run builds depends on names and times that differ from run to run; the image that
failed is therefore kept itself: every file, and what the adapter made of it. `lychgate replay
REPORT --image DIGEST` puts the same bytes before the same adapter.
"""

from __future__ import annotations

import base64

from lychgate_conformance._after_crash import View
from lychgate_conformance._wire import Json
from lychgate_conformance.blackbox._checker import Checker, Outcome
from lychgate_conformance.lab._image import DIRECTORY, Content, Image, Symlink

BYTES_MAX = 1_000_000
"""A larger image is not kept."""


def evidence(image: Image, checker: Checker, frequency: float, boot: int) -> Json:
    """The image and what is seen of it, as plain values; None when it is too large."""
    if sum(map(len, image.files().values())) > BYTES_MAX:
        return None
    entries = [
        {"path": path, **_as_json(content)}
        for path, content in zip(image.paths, image.contents, strict=True)
    ]
    return {
        "digest": image.digest()[:16],
        "entries": entries,
        "links": [list(group) for group in image.groups],
        "frequency": frequency,
        "boot": boot,
        "seen": seen(image, checker),
    }


def image_from(found: Json) -> Image:
    """The image of an evidence."""
    entries = sorted(found["entries"], key=lambda it: str(it["path"]))
    return Image(
        tuple(it["path"] for it in entries),
        tuple(map(_content, entries)),
        tuple(map(tuple, found["links"])),
    )


def seen(image: Image, checker: Checker) -> str:
    """What an adapter makes of an image: what it lists, or that it cannot; and what comes later."""
    outcome = checker.outcome(image)
    later = "" if outcome.error else checker.further(image, outcome.view)
    text = "it cannot be opened" if outcome.error else _listed(outcome)
    return f"{text}; it cannot be used after that" if later else text


def _listed(outcome: Outcome) -> str:
    if not isinstance(outcome.view, View):
        return repr(outcome.view)
    dead = [it.task_id for it in outcome.view.dead]
    return f"dead={dead} waiting={sorted(it[0] for it in outcome.view.pending)}"


def _as_json(content: Content) -> dict[str, Json]:
    if isinstance(content, bytes):
        return {"bytes": base64.b64encode(content).decode("ascii")}
    return {"target": content.target} if isinstance(content, Symlink) else {}


def _content(entry: Json) -> Content:
    if "bytes" in entry:
        return base64.b64decode(entry["bytes"])
    return Symlink(entry["target"]) if "target" in entry else DIRECTORY
