"""A litmus program as a document: its steps on a simulated disk, under one persistence model."""

from __future__ import annotations

from collections.abc import Callable

from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._image import Image
from lychgate_conformance.lab._litmus import Litmus, apply
from lychgate_conformance.lab._litmus import Step as Call
from lychgate_conformance.lab._models import find_model
from lychgate_tools.page.disk import Eyes, Held
from lychgate_tools.page.document import BROKEN, HOLDS, Builder, Step
from lychgate_tools.page.pieces import of_letters
from lychgate_tools.page.sources import Sources
from lychgate_tools.spec_dir import locate

_KINDS = {
    "append": ("write", "write(2)", "FsAppend"),
    "write": ("write", "pwrite(2)", "FsWrite"),
    "truncate": ("write", "ftruncate(2)", "FsTruncate"),
    "create": ("name", "open(2) with O_CREAT | O_EXCL", "FsCreate"),
    "unlink": ("name", "unlink(2)", "FsUnlink"),
    "rename": ("name", "rename(2)", "FsRename"),
    "fsync": ("sync", "fsync(2)", "FsSync"),
    "fdatasync": ("sync", "fdatasync(2)", "FsSync"),
    "fsyncdir": ("sync", "fsync(2) of the directory", "FsSyncDir"),
}

Promise = Callable[[Image, bool], str]
"""What is wrong with an image, empty when nothing is; told whether the program has ended."""


def builder(
    litmus: Litmus, model: str, promise: Promise, about: str, title: str
) -> tuple[Builder, Sources, Image | None]:
    """All steps of the program, and an image of its last crash point that breaks the promise.
    `about` says what the promise is."""
    made = Builder(
        title=title, verdict="", holds=None, source="litmus", name=litmus.name, model=model,
        command=f"lychgate litmus {litmus.name}",
    )  # fmt: skip
    sources = Sources(locate().modules())
    made.worker("p", "the program")
    made.invariant("promise", about, sources.definition("FsHostCrashes"))
    eyes = Eyes(made, Enumerator(find_model(model)), lambda _, content: of_letters(content))
    disk = litmus.start().mount()
    steps: list[Call | None] = [None, *litmus.program()]
    for number, call in enumerate(steps):
        if call is not None:
            apply(call, disk)
        ended = number == len(steps) - 1

        def judged(image: Image, ended: bool = ended) -> tuple[bool, str]:
            text = promise(image, ended)
            return not text, text or "keeps the promise"

        lanes, images = eyes.lanes(disk, Held({}, {}))
        step = _step(call, sources)
        step.crash, holds = eyes.crash(disk, images, judged)
        step.verdicts = [HOLDS if holds else BROKEN]
        if len(step.crash.outcomes) < 2 and holds:
            step.crash = None
        if not ended:
            ahead = steps[number + 1]
            step.next = [("p", "" if ahead is None else ahead.verb), ("", "a host crash")]
        made.add(step, lanes)
    broken = [n for n, step in enumerate(made.steps) if BROKEN in step.get("verdicts", ())]
    made.meta["holds"] = not broken
    made.meta["verdict"] = (
        f"Under {model} a crash after step {broken[0]} may break the promise: {about}."
        if broken else f"Under {model} no crash breaks the promise: {about}."
    )  # fmt: skip
    broke = (it for it in images.images() if promise(it, True)) if broken else iter(())
    return made, sources, next(broke, None)


def _step(call: Call | None, sources: Sources) -> Step:
    if call is None:
        return Step("Begin", "begin", says="what stands on the disk at first")
    kind, system_call, operator = _KINDS[call.verb]
    data = " ".join(it["text"] for it in of_letters(call.data))
    says = " ".join(filter(None, [call.path or ".", call.to and f"-> {call.to}", data]))
    return Step(call.verb, kind, "p", system_call, says, links=sources.links(operator))
