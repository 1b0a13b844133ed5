"""A failure of the conformance suite as a document: the recorded calls of a foreign backend.

What strace has recorded is replayed micro-op by micro-op, so that every call shows what it moved
between the cache and what a crash may leave. Only the image that failed was judged when the suite
stopped at it; the other legal images of the same moment are shown without a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator

from lychgate_conformance.blackbox._explain import problem
from lychgate_conformance.blackbox._explore import Failure
from lychgate_conformance.blackbox._record import Step as Recorded
from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._family import Limits
from lychgate_conformance.lab._image import Image
from lychgate_conformance.lab._micro import (
    EntryAdd,
    EntryDrop,
    MicroOp,
    Node,
    Recorder,
    Rename,
    SizeSet,
    UnitWrite,
)
from lychgate_conformance.lab._models import PORTABLE
from lychgate_tools.page.disk import Eyes, Held
from lychgate_tools.page.document import BROKEN, HOLDS, UNKNOWN, Builder, Crash, Document, Outcome
from lychgate_tools.page.document import Step
from lychgate_tools.page.pieces import of_file
from lychgate_tools.page.sources import Sources
from lychgate_tools.spec_dir import locate

_LIMITS = Limits(images_max=2_000, sample=200)
_KINDS = {
    "write": ("write", "pwrite", "truncate", "fallocate", "sendfile", "copy_file"),
    "sync": ("sync",),
    "name": ("rename", "unlink", "link", "mkdir", "rmdir", "symlink"),
    "open": ("open", "creat", "close"),
}


def document(failure: Failure, backend: str, case_id: str) -> Document:
    """The whole document of one failure; `backend` and `case_id` say where it was found."""
    what = "host crash" if failure.host_crash else "process kill"
    made = Builder(
        title=f"{case_id} fails", verdict=f"{backend}: after a {what}, {problem(failure)}.",
        holds=False, source="conformance", name=case_id,
        model="portable" if failure.host_crash else "",
        command=f"lychgate conform {backend} --case {case_id}",
    )  # fmt: skip
    sources = Sources(locate().modules())
    made.invariant(what, f"what a new process finds after a {what}",
                   sources.definition("FsHostCrashes"))  # fmt: skip
    worker = made.worker("b", "the backend")
    eyes = Eyes(made, Enumerator(PORTABLE, _LIMITS), of_file)
    disk = _mounted(failure.recording.disk)
    lanes, _ = eyes.lanes(disk, Held({}, {}))
    made.add(Step("Begin", "begin", says="what stood there at first", verdicts=[HOLDS]), lanes)
    for step in _told(failure):
        if isinstance(step, Recorded):
            _carry(disk, failure.recording.disk.log[step.begin : min(step.end, failure.met.point)])
            name = step.call.name
            shown = Step(name, _kind(name), worker, f"{name}(2)", step.text)
        else:
            shown = Step("Return", "return", worker, says=f"{step} is acknowledged")
        shown.verdicts = [UNKNOWN]
        lanes, _ = eyes.lanes(disk, Held({}, {}))
        made.add(shown, lanes)
    _end(failure, made, eyes, disk)
    return made.document(sources.as_json())


def _told(failure: Failure) -> Iterator[Recorded | str]:
    """Calls up to the crash, and the words that were acknowledged between them, in order."""
    words = [(it.at, str(it.word)) for it in failure.story.told[: failure.acked]]
    steps = [it for it in failure.recording.steps if it.begin < failure.met.point]
    for step in steps:
        while words and words[0][0] < step.begin:
            yield words.pop(0)[1]
        yield step
    yield from (word for _, word in words)


def _kind(name: str) -> str:
    return next(
        (kind for kind, parts in _KINDS.items() if any(part in name for part in parts)), "other"
    )


def _end(failure: Failure, made: Builder, eyes: Eyes, disk: Recorder) -> None:
    lanes, images = eyes.lanes(disk, Held({}, {}))
    image, text = failure.met.image, problem(failure)
    if not failure.host_crash:
        outcome = Outcome("what the kernel has", eyes.files(image), False, text, 1, True)
        step = Step("Kill", "kill", "", "SIGKILL", text, crash=Crash((outcome,), 1, True))
        step.verdicts = [BROKEN]
        made.add(step, lanes)
        return

    def judged(other: Image) -> tuple[bool | None, str]:
        return (False, text) if other == image else (None, "not judged: the suite stopped before")

    step = Step("HostCrash", "crash", says=text, verdicts=[BROKEN])
    step.crash, _ = eyes.crash(disk, images, judged, image)
    made.add(step, eyes.after(images, image) or lanes)


# --- a recording, from its beginning --------------------------------------------------------------


def _mounted(recorded: Recorder) -> Recorder:
    """The disk as it was before the first call, with every inode that there will be."""
    disk = Recorder(recorded.unit)
    disk.nodes = {}
    disk.writes = recorded.writes
    for number, node in recorded.nodes.items():
        fresh = Node(number, node.kind, node.label)
        fresh.target = node.target
        fresh.base_raw, fresh.base_size = node.base_raw, node.base_size
        fresh.base_entries = node.base_entries
        fresh.data[:] = node.base_raw[: node.base_size]
        fresh.entries = dict(node.base_entries)
        disk.nodes[number] = fresh
    return disk


def _carry(disk: Recorder, log: list[MicroOp]) -> None:
    """Let the micro-ops of one call happen."""
    for op in log:
        disk.log.append(op)
        if isinstance(op, UnitWrite) and not op.freed:
            data, start = disk.nodes[op.inode].data, op.unit * disk.unit
            data.extend(bytes(max(0, start + len(op.data) - len(data))))
            data[start : start + len(op.data)] = op.data
        elif isinstance(op, SizeSet):
            data = disk.nodes[op.inode].data
            data[op.size :] = b""
            data.extend(bytes(op.size - len(data)))
        elif isinstance(op, EntryAdd):
            disk.nodes[op.parent].entries[op.name] = op.inode
        elif isinstance(op, EntryDrop):
            disk.nodes[op.parent].entries.pop(op.name, None)
        elif isinstance(op, Rename):
            disk.nodes[op.parent].entries.pop(op.name, None)
            disk.nodes[op.to_parent].entries[op.to_name] = op.inode
