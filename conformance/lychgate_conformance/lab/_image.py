"""Images: what stands on a disk after a crash, in canonical form.

Rules of this file
  * An image is names, types, bytes and which names share an inode; nothing else. Two images with
    the same content are equal and have the same digest, whatever history led to them.
  * `hidden` is what a file may hold beyond its end: invisible, not part of the image's identity,
    but a later append that a second crash tears may expose it (D29), so mounting keeps it.
  * An image can be mounted as a new simulated disk and written to a real directory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lychgate_conformance.lab._micro import BLOCK_BYTES, ROOT, Kind, Recorder


@dataclass(frozen=True, slots=True)
class Symlink:
    """The content of a name that is a symbolic link."""

    target: str


@dataclass(frozen=True, slots=True)
class Directory:
    """The content of a name that is a directory."""


DIRECTORY = Directory()

Content = bytes | Symlink | Directory


@dataclass(frozen=True, slots=True)
class Image:
    """Paths in sorted order (relative, `/` between parts) and what each of them names."""

    paths: tuple[str, ...]
    contents: tuple[Content, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    """Positions of names that share one inode, where there are several."""
    hidden: Mapping[str, bytes] = field(default_factory=dict, compare=False, hash=False)

    def __post_init__(self) -> None:
        assert len(self.paths) == len(self.contents), "one content per path"
        assert list(self.paths) == sorted(self.paths), "canonical order"

    def get(self, path: str) -> Content | None:
        """What a path names, None for nothing."""
        try:
            return self.contents[self.paths.index(path)]
        except ValueError:
            return None

    def files(self) -> dict[str, bytes]:
        """The regular files, by path."""
        return {p: c for p, c in zip(self.paths, self.contents, strict=True) if type(c) is bytes}

    def digest(self) -> str:
        """SHA-256 over the canonical form."""
        tree = hashlib.sha256()
        for path, content in zip(self.paths, self.contents, strict=True):
            if isinstance(content, bytes):
                kind, body = "file", content
            elif isinstance(content, Symlink):
                kind, body = "link", os.fsencode(content.target)
            else:
                kind, body = "dir", b""
            name = path.encode("utf-8", "surrogateescape")
            tree.update(f"{kind} {len(name)} {len(body)}\n".encode("ascii"))
            tree.update(name)
            tree.update(body)
        tree.update(repr(self.groups).encode("ascii"))
        return tree.hexdigest()

    def mount(self, unit: int = BLOCK_BYTES) -> Recorder:
        """A disk that has exactly this image, and nothing in its cache."""
        disk = Recorder(unit)
        inodes: dict[str, int] = {"": ROOT}
        shared = {self.paths[member]: group[0] for group in self.groups for member in group}
        for position, (path, content) in enumerate(zip(self.paths, self.contents, strict=True)):
            parent, _, name = path.rpartition("/")
            first = shared.get(path, position)
            if first != position:
                node = disk.nodes[inodes[self.paths[first]]]
            elif type(content) is bytes:
                node = disk.new_node(Kind.FILE, name)
                disk.fill(node, content, self.hidden.get(path, b""))
            elif isinstance(content, Symlink):
                node = disk.new_node(Kind.LINK, name)
                node.target = content.target
            else:
                node = disk.new_node(Kind.DIR, name)
            disk.place(inodes[parent], name, node)
            inodes[path] = node.number
        return disk

    def write_to(self, directory: Path) -> None:
        """Put the image into a real, empty directory (what a file hides past its end cannot be)."""
        assert not any(directory.iterdir()), "only into an empty directory"
        shared = {self.paths[member]: group[0] for group in self.groups for member in group}
        for position, (path, content) in enumerate(zip(self.paths, self.contents, strict=True)):
            target = directory / path
            first = shared.get(path, position)
            if first != position:
                os.link(directory / self.paths[first], target)
            elif isinstance(content, bytes):
                target.write_bytes(content)
                target.chmod(0o600)
            elif isinstance(content, Symlink):
                target.symlink_to(content.target)
            else:
                target.mkdir(mode=0o700)


def image_of(
    files: Mapping[str, Content], hidden: Mapping[str, bytes] | None = None
) -> Image:
    """An image from a mapping of paths; directories on the way are added."""
    full: dict[str, Content] = dict(files)
    for path in files:
        while path := path.rpartition("/")[0]:
            full.setdefault(path, DIRECTORY)
    paths = tuple(sorted(full))
    return Image(paths, tuple(full[path] for path in paths), (), dict(hidden or {}))


def cached_image(disk: Recorder) -> Image:
    """What every process sees at this moment: the image of a disk that lost nothing."""
    found: dict[str, int] = {}
    todo: list[tuple[str, int]] = [("", ROOT)]
    while todo:
        prefix, number = todo.pop()
        for name, inode in disk.nodes[number].entries.items():
            found[prefix + name] = inode
            if disk.nodes[inode].kind is Kind.DIR:
                todo.append((f"{prefix}{name}/", inode))
    paths = tuple(sorted(found))
    contents = tuple(_content(disk, found[path]) for path in paths)
    return Image(paths, contents, groups_of(found[path] for path in paths))


def groups_of(inodes: Iterable[int]) -> tuple[tuple[int, ...], ...]:
    """Positions that name one inode several times."""
    places: dict[int, list[int]] = {}
    for position, inode in enumerate(inodes):
        places.setdefault(inode, []).append(position)
    return tuple(tuple(found) for found in places.values() if len(found) > 1)


def _content(disk: Recorder, inode: int) -> Content:
    node = disk.nodes[inode]
    if node.kind is Kind.FILE:
        return bytes(node.data)
    return Symlink(node.target) if node.kind is Kind.LINK else DIRECTORY
