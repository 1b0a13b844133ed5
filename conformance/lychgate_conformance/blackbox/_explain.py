"""A failure, in words: the history, the image, what was lost of the recording, who is hit.

Rules of this file
  * Everything shown is of this one failure; nothing has to be looked up.
  * A micro-op counts as lost when it was issued before the crash, was not forced, and the image
    does not show it. One that a later one made invisible does not count.
  * The digest names the image's content. Names of files that hold process ids or random parts
    differ from run to run, and so then does the digest; the case finds the failure again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lychgate_conformance.blackbox._explore import Failure
from lychgate_conformance.blackbox._record import Recording
from lychgate_conformance.lab._enumerate import image_set
from lychgate_conformance.lab._family import Limits
from lychgate_conformance.lab._image import Image, Symlink
from lychgate_conformance.lab._micro import (
    EntryAdd,
    EntryDrop,
    MicroOp,
    Rename,
    Scope,
    SizeSet,
    Sync,
    UnitWrite,
)
from lychgate_conformance.lab._models import MODELS

_LINES_MAX = 12
_TEXT_MAX = 150
_MODEL_IMAGES_MAX = 800
"""Images of a named model among which a failing one is looked for."""


WATCHERS: list[Callable[[Failure], None]] = []
"""Given every failure that is explained, for whoever shows it in another way."""


def explain(failure: Failure) -> str:
    """All of it, as lines."""
    for watcher in WATCHERS:
        watcher(failure)
    what = "host crash" if failure.host_crash else "process kill"
    if failure.depth > 1:
        what += " within the recovery of an earlier one"
    lines = [f"{what}: {problem(failure)}", "history (acknowledged unless said otherwise):"]
    lines += [f"  {text}" for text in history(failure)]
    if failure.start is not None:
        lines += ["found by the recovery:", *_indent(image_lines(failure.start))]
    if failure.story.claims.uses_path:
        lines += [f"image {failure.met.image.digest()[:16]}:"]
        lines += _indent(image_lines(failure.met.image))
    if gone := lost(failure):
        lines += ["lost with the crash:", *_indent(gone)]
    if failure.host_crash:
        hit, undecided = models_hit(failure)
        rest = f"; undecided: {', '.join(undecided)}" if undecided else ""
        lines.append(f"hit under: {', '.join(['portable', *hit])}{rest}")
    return "\n".join(lines)


def problem(failure: Failure) -> str:
    """What is wrong, in one sentence."""
    if failure.outcome.error:
        return failure.outcome.error
    return failure.story.difference(failure.outcome.view, failure.acked, failure.host_crash)


def history(failure: Failure) -> Iterator[str]:
    """The words up to the crash, each with the calls that changed something for it."""
    told = failure.story.told
    begin = 0
    for place, it in enumerate(told[: failure.acked + 1]):
        flies = place == failure.acked
        end = failure.met.point if flies else max(it.at + 1, begin)
        error = "" if it.error is None or flies else f"   (raised {it.error['type']})"
        yield f"{it.word}{'   (in flight)' if flies else ''}{error}"
        for step in failure.recording.steps:
            if begin <= step.begin < end:
                yield f"    {step.text}"
        begin = end


def image_lines(image: Image) -> list[str]:
    """Files with their sizes, and what is in them."""
    found = []
    for path, content in zip(image.paths, image.contents, strict=True):
        if isinstance(content, bytes):
            found += [f"{path}  {len(content)} bytes", *_indent(_content_lines(content))]
        elif isinstance(content, Symlink):
            found.append(f"{path} -> {content.target}")
        else:
            found.append(f"{path}/")
    return found or ["(nothing)"]


def _content_lines(content: bytes) -> list[str]:
    """Lines as text where they are text, else as hexadecimal; runs of NULs by their length."""
    lines = []
    for line in content.splitlines(keepends=True)[:_LINES_MAX]:
        body = line.rstrip(b"\0")
        nuls = f" + {len(line) - len(body)} NULs" if len(body) < len(line) else ""
        if body.rstrip(b"\n").isascii() and body.rstrip(b"\n").decode("ascii").isprintable():
            shown = ascii(body.decode("ascii"))
        else:
            shown = f"hex {body[:48].hex(' ')}"
        if len(shown) > _TEXT_MAX:
            shown = f"{shown[:_TEXT_MAX]}… ({len(body)} bytes)"
        lines.append(f"{shown if body else ''}{nuls}".removeprefix(" + "))
    if content.count(b"\n") > _LINES_MAX:
        lines.append("…")
    return lines


def _indent(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


# --- what was lost --------------------------------------------------------------------------------


def lost(failure: Failure) -> list[str]:
    """Micro-ops that were pending at the crash and that the image does not show, by their call."""
    recording, image, end = failure.recording, failure.met.image, failure.met.point
    if not failure.host_crash:
        return []
    found = []
    pending = _pending(recording, end)
    for place, op in enumerate(pending):
        if any(_hides(later, op) for later in pending[place + 1 :]):
            continue
        text = _missing(op, recording, image)
        step = recording.step_of(op.index)
        if text and step is not None:
            found.append(f"{text}: {step.text}")
    return found


def _hides(later: MicroOp, op: MicroOp) -> bool:
    """Whether a later micro-op makes an earlier one invisible when it is there itself."""
    if isinstance(op, UnitWrite):
        return isinstance(later, UnitWrite) and (later.inode, later.unit) == (op.inode, op.unit)
    if isinstance(op, SizeSet):
        return isinstance(later, SizeSet) and later.inode == op.inode
    if isinstance(op, EntryAdd):
        names = (later.parent, later.name) if isinstance(later, (EntryDrop, Rename)) else None
        return names == (op.parent, op.name)
    return False


def _pending(recording: Recording, end: int) -> list[MicroOp]:
    """The micro-ops before a crash that no sync has forced under `portable`."""
    pending: list[MicroOp] = []
    for op in recording.disk.log[:end]:
        if isinstance(op, Sync):
            pending = [] if op.scope is Scope.ALL else [it for it in pending if not _forces(op, it)]
        elif isinstance(op, (UnitWrite, SizeSet, EntryAdd, EntryDrop, Rename)):
            pending.append(op)
    return pending


def _forces(sync: Sync, op: MicroOp) -> bool:
    if isinstance(op, (UnitWrite, SizeSet)):
        return sync.scope is not Scope.DIR and op.inode == sync.inode
    if isinstance(op, (EntryAdd, EntryDrop)):
        return sync.scope is Scope.DIR and op.parent == sync.inode
    return isinstance(op, Rename) and sync.scope is Scope.DIR and op.to_parent == sync.inode


def _missing(op: MicroOp, recording: Recording, image: Image) -> str:
    """What of a micro-op an image does not show; empty when it shows all of it, or may."""
    paths = _paths(recording)
    if isinstance(op, (EntryAdd, EntryDrop, Rename)):
        parent = op.to_parent if isinstance(op, Rename) else op.parent
        name = op.to_name if isinstance(op, Rename) else op.name
        path = f"{paths.get(parent, '')}{name}"
        there = image.get(path) is not None
        if isinstance(op, EntryDrop):
            return f"the unlinking of {path}" if there else ""
        if isinstance(op, Rename):
            old = f"{paths.get(op.parent, '')}{op.name}"
            kept = there and image.get(old) is None and not _is_old(op, recording, image.get(path))
            return "" if kept else f"the rename to {path}"
        return "" if there else f"the name {path}"
    if not isinstance(op, (UnitWrite, SizeSet)):
        return ""
    contents = [image.get(it) for it in _names_of(op.inode, recording)]
    files = [it for it in contents if isinstance(it, bytes)]
    if not files:
        return ""
    if isinstance(op, SizeSet):
        return "" if any(len(it) == op.size for it in files) else f"the size {op.size}"
    start = op.unit * recording.disk.unit
    shown = [it[start : start + recording.disk.unit] for it in files]
    return "" if any(it == op.data for it in shown) else f"bytes {start}–{start + len(op.data)}"


def _is_old(op: Rename, recording: Recording, content: object) -> bool:
    """Whether a file is the one that a rename has replaced."""
    if op.replaced is None:
        return False
    nodes = recording.disk.nodes
    return content == bytes(nodes[op.replaced].data) != bytes(nodes[op.inode].data)


def _paths(recording: Recording) -> dict[int, str]:
    """Directories by inode, as prefixes of paths; the last names that they had."""
    found = {1: ""}
    for op in recording.disk.log:
        if isinstance(op, EntryAdd) and op.parent in found:
            found[op.inode] = f"{found[op.parent]}{op.name}/"
    for number, node in recording.disk.nodes.items():
        for name, inode in node.base_entries.items():
            if number in found:
                found.setdefault(inode, f"{found[number]}{name}/")
    return found


def _names_of(inode: int, recording: Recording) -> list[str]:
    """Every path that an inode had at some time."""
    paths = _paths(recording)
    found = [paths[inode].rstrip("/")] if inode in paths else []
    for op in recording.disk.log:
        if isinstance(op, Rename) and op.inode == inode:
            found.append(f"{paths.get(op.to_parent, '')}{op.to_name}")
    return found


def models_hit(failure: Failure) -> tuple[list[str], list[str]]:
    """The named models, and so the deployments, under which this image is legal as well; and those
    of which only a part of the images could be looked through, without it."""
    hit: list[str] = []
    undecided: list[str] = []
    limits = Limits(images_max=_MODEL_IMAGES_MAX, sample=50)
    for name in ("posix-min", "ext4-ordered", "ext4-writeback", "xfs", "btrfs", "prefix"):
        images = image_set(failure.recording.disk, MODELS[name], failure.met.point, limits)
        if any(image == failure.met.image for image in images.images()):
            hit.append(name)
        elif images.partial:
            undecided.append(name)
    return hit, undecided
