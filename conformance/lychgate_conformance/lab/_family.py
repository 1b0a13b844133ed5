"""Sets of images as products, with their counts and what was left out of them.

    Slot      one inode: the contents it may have, and what each of them hides beyond its end
    Family    paths, the slot behind each path, and the product of the slots
    ImageSet  all families of one crash point

A product is kept as a product for as long as possible: whoever judges images can remember the
parts, and nothing is built before it is known to be new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from lychgate_conformance.lab._image import DIRECTORY, Content, Image, Symlink, groups_of
from lychgate_conformance.lab._micro import ROOT, Kind, Node

@dataclass(frozen=True, slots=True)
class Limits:
    """Where enumeration stops being complete, each with its place in `ImageSet.partial`."""

    images_max: int = 50_000
    torn_max: int = 4096
    torn_files_max: int = 1
    sample: int = 2_000
    seed: int = 1


class Slot(NamedTuple):
    """One inode of a family: the contents it may have, and what each of them hides."""

    contents: tuple[Content, ...]
    hidden: Mapping[Content, bytes]


class Family(NamedTuple):
    """A product of images: sorted paths, the slot of each path, the slots and their inodes."""

    paths: tuple[str, ...]
    places: tuple[int, ...]
    slots: tuple[Slot, ...]
    inodes: tuple[int, ...]

    @property
    def size(self) -> int:
        total = 1
        for slot in self.slots:
            total *= len(slot.contents)
        return total

    def work(self, part_of: Callable[[str], int]) -> int:
        """How many contents there are to look at when each part of an image is looked at alone."""
        sizes: dict[int, int] = {}
        for path, place in zip(self.paths, self.places, strict=True):
            part = part_of(path)
            sizes[part] = sizes.get(part, 1) * len(self.slots[place].contents)
        return sum(sizes.values())

    def combinations(self) -> Iterator[tuple[Content, ...]]:
        """The contents of each image, one per slot."""
        return product(*(slot.contents for slot in self.slots))

    @property
    def plain(self) -> bool:
        """Whether every path has a slot of its own, in order: no hard links."""
        return len(self.places) == len(self.slots)

    def image(self, contents: tuple[Content, ...]) -> Image:
        """The image of one combination."""
        per_path = contents if self.plain else tuple(contents[place] for place in self.places)
        hidden = {
            path: tail
            for path, place in zip(self.paths, self.places, strict=True)
            if (tail := self.slots[place].hidden.get(contents[place], b""))
        }
        groups = () if self.plain else groups_of(self.places)
        return Image(self.paths, per_path, groups, hidden)


@dataclass(slots=True)
class ImageSet:
    """All images of one crash point under one model."""

    families: list[Family]
    choices: int
    """Legal choices before deduplication."""
    partial: str = ""
    """Empty when complete; else what was left out."""

    def images(self) -> Iterator[Image]:
        """The distinct images."""
        seen: set[Image] = set()
        for family in self.families:
            for contents in family.combinations():
                image = family.image(contents)
                if image not in seen:
                    seen.add(image)
                    yield image


Tree = tuple[tuple[str, int], ...]
"""Paths and the inodes behind them, sorted by path."""


def trees(bindings: Mapping[int, list[dict[str, int]]], nodes: Mapping[int, Node]) -> list[Tree]:
    """Every tree that the directories' possible bindings make together."""

    def below(number: int, prefix: str, above: frozenset[int]) -> Iterator[Tree]:
        for entries in bindings[number]:
            parts: list[list[Tree]] = [[tuple((prefix + name, i) for name, i in entries.items())]]
            for name, inode in entries.items():
                if nodes[inode].kind is Kind.DIR and inode not in above:
                    inside = below(inode, f"{prefix}{name}/", above | {inode})
                    parts.append(list(inside))
            for chosen in product(*parts):
                yield tuple(pair for part in chosen for pair in part)

    return list({tuple(sorted(tree)): None for tree in below(ROOT, "", frozenset((ROOT,)))})


def fixed_slot(node: Node) -> Slot | None:
    """The slot of a directory or symlink, None for a file."""
    if node.kind is Kind.FILE:
        return None
    content: Content = DIRECTORY if node.kind is Kind.DIR else Symlink(node.target)
    return Slot((content,), {})


def family_of(tree: Tree, slots: Mapping[int, Slot]) -> Family:
    """The family of one tree, given a slot for every inode in it."""
    order = {inode: place for place, inode in enumerate(dict.fromkeys(i for _, i in tree))}
    return Family(
        tuple(path for path, _ in tree),
        tuple(order[inode] for _, inode in tree),
        tuple(slots[inode] for inode in order),
        tuple(order),
    )
