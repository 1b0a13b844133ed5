"""The three lanes of a simulated disk, and what a crash may leave of it.

What the disk lane lists, and what a crash may leave, are one enumeration: the image set of the
model at this moment. Images that look alike (the same records, torn lines and NULs, whatever their
lengths) and are judged alike become one outcome with a count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._family import Family, ImageSet
from lychgate_conformance.lab._image import DIRECTORY, Image, Symlink, cached_image
from lychgate_conformance.lab._micro import ROOT, Kind, Recorder
from lychgate_tools.page.document import (
    SHOWN_MAX,
    Builder,
    Crash,
    Lanes,
    Outcome,
    Piece,
    Pieces,
    piece,
)
from lychgate_tools.page.pieces import names_of, shape

_IMAGES_MAX = 4_000
_OUTCOMES_MAX = 60
KEPT = "everything is kept"

Reader = Callable[[str, bytes], list[Piece]]
"""The pieces of a file, by its name and content."""

Judge = Callable[[Image], tuple[bool | None, str]]
"""Whether an image keeps every promise, and what is wrong with it."""


@dataclass
class Held:
    """What processes and the kernel hold of inodes, in memory only."""

    memory: Mapping[int, list[Piece]]
    locks: Mapping[int, str]


class Eyes:
    """Looks at a disk for a builder."""

    def __init__(
        self, made: Builder, enumerator: Enumerator, reader: Reader, boot: str = ""
    ) -> None:
        self._made = made
        self._boot = boot  # inodes of different boots are different objects
        self._enumerator = enumerator
        self._reader = reader
        self._names: dict[int, str] = {}

    def lanes(self, disk: Recorder, held: Held) -> tuple[dict[str, Lanes], ImageSet]:
        """All objects now, and the images of a crash now."""
        images = self._enumerator.at(disk)
        paths = dict(_paths(disk))
        for inode, path in paths.items():
            self._names[inode] = path
        trees, contents = self._left(disk, images)
        found: dict[str, Lanes] = {}
        for inode, node in disk.nodes.items():
            kept = inode in paths or inode in contents or inode in trees or inode in held.memory
            if not kept or node.kind is Kind.LINK:
                continue
            memory = tuple(held.memory.get(inode, ()))
            if node.kind is Kind.DIR:
                entries = names_of([(n, self._id(i)) for n, i in node.entries.items()])
                found[self._object(inode, "directory")] = Lanes(
                    memory, entries, tuple(trees.get(inode, [None]))
                )
                continue
            name = self._names.get(inode, node.label.rpartition("#")[0])
            cache = self._reader(name, bytes(node.data))
            cache += [piece("lock", held.locks[inode])] if inode in held.locks else []
            may = self._distinct(name, contents.get(inode, []))
            found[self._object(inode, "file")] = Lanes(
                memory, cache, tuple(may[:SHOWN_MAX]), max(0, len(may) - SHOWN_MAX)
            )
        return found, images

    def _id(self, inode: int) -> str:
        return f"{self._boot}i{inode}"

    def _object(self, inode: int, kind: str) -> str:
        path = self._names.get(inode, "")
        label = f"{self._boot}{(path or '/') if kind == 'directory' else f'inode {inode}'}"
        return self._made.object(self._id(inode), kind, label)

    def _left(
        self, disk: Recorder, images: ImageSet
    ) -> tuple[dict[int, list[Pieces]], dict[int, list[bytes]]]:
        """What a crash may leave: entries per directory, contents per file."""
        trees: dict[int, list[Pieces]] = {}
        contents: dict[int, list[bytes]] = {}
        for family in images.families:
            for number, entries in _directories(family):
                shown = names_of([(name, self._id(it)) for name, it in entries])
                listed = trees.setdefault(number, [])
                if shown not in listed:
                    listed.append(shown)
            for inode, slot in zip(family.inodes, family.slots, strict=True):
                if disk.nodes[inode].kind is Kind.FILE:
                    known = contents.setdefault(inode, [])
                    known += [it for it in slot.contents if isinstance(it, bytes)]
        return trees, contents

    def _distinct(self, name: str, contents: list[bytes]) -> list[Pieces]:
        """One of each shape, whole ones first; nothing at all when no image has the file."""
        found: dict[object, list[Pieces]] = {}
        for content in dict.fromkeys(contents):
            pieces = self._reader(name, content)
            alike = found.setdefault(shape(pieces), [])
            if len(alike) < 1 + any(it["kind"] == "bytes" for it in pieces):
                alike.append(pieces)  # of letters an example of a part as well
        torn = ("torn", "nul", "bad")
        listed = [it for alike in found.values() for it in alike]
        ordered = sorted(listed, key=lambda it: any(p["kind"] in torn for p in it or ()))
        return ordered or [None]

    def after(self, images: ImageSet, image: Image) -> dict[str, Lanes]:
        """All objects once the host has started again from one of these images; none at all when
        the set holds only a part of them and this one is not in it."""
        family = next((it for it in images.families if _has(it, image)), None)
        found: dict[str, Lanes] = {}
        if family is None:
            return found
        for number, entries in _directories(family):
            names = names_of([(name, self._id(it)) for name, it in entries])
            found[self._object(number, "directory")] = Lanes((), names, (names,))
        for path, place in zip(family.paths, family.places, strict=True):
            content = image.get(path)
            if isinstance(content, bytes):
                pieces = self._reader(path, content)
                found[self._object(family.inodes[place], "file")] = Lanes((), pieces, (pieces,))
        return found

    # --- crashes ------------------------------------------------------------------------------

    def crash(
        self, disk: Recorder, images: ImageSet, judge: Judge, taken: Image | None = None
    ) -> tuple[Crash, bool | None]:
        """Every outcome, and whether all of them keep every promise (None: nothing judges)."""
        now = self.files(cached_image(disk))
        found: dict[object, Outcome] = {}
        count, all_hold = 0, True
        for image in islice(images.images(), _IMAGES_MAX):
            count += 1
            files = self.files(image)
            holds, text = judge(image)
            all_hold = all_hold and holds is not False
            key = tuple((name, shape(it)) for name, it in files), text
            old = found.get(key)
            if old is None or image == taken:
                number = 1 if old is None else old.images + 1
                label = label_of(now, files)
                found[key] = Outcome(label, files, holds, text, number, image == taken)
            else:
                found[key] = replace(old, images=old.images + 1)
        more = next(islice(images.images(), _IMAGES_MAX, None), None) is not None
        partial = [images.partial] if images.partial else []
        partial += [f"the first {_IMAGES_MAX:,} images"] if more else []
        ordered = sorted(
            found.values(),
            key=lambda it: (
                not it.taken, it.holds is not False, it.label != KEPT, it.label.count(";")
            ),  # fmt: skip
        )
        if len(ordered) > _OUTCOMES_MAX:
            partial.append(f"{len(ordered) - _OUTCOMES_MAX} more outcomes")
        shown = tuple(ordered[:_OUTCOMES_MAX])
        judged = any(it.holds is not None for it in ordered)
        happens = taken is not None
        return Crash(shown, count, happens, "; ".join(partial)), all_hold if judged else None

    def files(self, image: Image) -> tuple[tuple[str, Pieces], ...]:
        """Names and contents; directories only where they are empty."""
        found: list[tuple[str, Pieces]] = []
        for path, content in zip(image.paths, image.contents, strict=True):
            name = path.rpartition("/")[2]
            if isinstance(content, bytes):
                found.append((name, self._reader(name, content)))
            elif isinstance(content, Symlink):
                found.append((name, [piece("bytes", f"-> {content.target}")]))
            elif content is DIRECTORY and not any(it.startswith(f"{path}/") for it in image.paths):
                found.append((f"{name}/", []))
        return tuple(found)


def _has(family: Family, image: Image) -> bool:
    """Whether an image is one of a family."""
    return family.paths == image.paths and all(
        image.contents[n] in family.slots[place].contents
        for n, place in enumerate(family.places)
    )


def _paths(disk: Recorder) -> Iterator[tuple[int, str]]:
    """Inodes that have a name now, and the last part of it."""
    yield ROOT, ""
    todo = [ROOT]
    while todo:
        for name, inode in disk.nodes[todo.pop()].entries.items():
            yield inode, name
            if disk.nodes[inode].kind is Kind.DIR:
                todo.append(inode)


def _directories(family: Family) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    """Each directory of a family and its entries."""
    inode_of = {path: family.inodes[it] for path, it in zip(family.paths, family.places)}
    entries: dict[str, list[tuple[str, int]]] = {"": []}
    for path, inode in inode_of.items():
        parent, _, name = path.rpartition("/")
        entries.setdefault(parent, []).append((name, inode))
        if family.slots[family.places[family.paths.index(path)]].contents == (DIRECTORY,):
            entries.setdefault(path, [])
    for path, listed in entries.items():
        yield (inode_of[path] if path else ROOT), listed


def label_of(
    now: tuple[tuple[str, Pieces], ...], left: tuple[tuple[str, Pieces], ...]
) -> str:
    """An outcome in a few words: where it differs from what every process has seen."""
    before, after = dict(now), dict(left)
    parts = [f"{name} gone" for name in before if name not in after]
    for name, pieces in after.items():
        if name not in before:
            parts.append(f"{name} is back: {words(pieces)}")
        elif before[name] != pieces:
            parts.append(f"{name}: {words(pieces)}")
    return "; ".join(parts) or KEPT


_SIGNS = {"torn": "torn {}", "nul": "{} NULs", "bad": "bad {}", "removal": "-{}"}


def words(pieces: Pieces) -> str:
    """A content in words."""
    if pieces is None:
        return "not there"
    said = [
        "a torn line" if it["kind"] == "torn" and it["text"].endswith(" bytes")
        else _SIGNS.get(it["kind"], "{}").format(it["text"])
        for it in pieces
    ]  # fmt: skip
    return ", ".join(said) or "empty"
