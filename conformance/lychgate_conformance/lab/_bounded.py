"""What is tried where a full enumeration is too large, and what the end of a process leaves.

A bounded set holds: every prefix of the log, everything but one or two micro-ops, nothing but one
or two micro-ops, the torn lengths of each file's last write over both extremes, and a seeded
sample. It is always marked PARTIAL. What the model orders is kept: ops whose needs are missing are
left out as well, and bytes that a chosen size needs are put in.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from itertools import combinations

from lychgate_conformance.lab._family import (
    Family,
    ImageSet,
    Limits,
    Slot,
    family_of,
    fixed_slot,
    trees,
)
from lychgate_conformance.lab._image import Content
from lychgate_conformance.lab._micro import Recorder, WriteCall
from lychgate_conformance.lab._models import NUL, Model
from lychgate_conformance.lab._ordered import OrderedState, UnitKey, version_bounds
from lychgate_conformance.lab._ordered_sets import raws, settle

Item = int | tuple[UnitKey, int]
"""A metadata op by its position, or a version of a unit."""


def kill_set(disk: Recorder, end: int, state: OrderedState, model: Model) -> ImageSet:
    """A process died: everything it did is there, and any prefix of the write in flight."""
    families = [_everything(disk, state, model)]
    if end:
        families += _torn(families[0], disk, disk.writes.get(disk.log[end - 1].call))
    return ImageSet(families, sum(family.size for family in families))


def bounded_set(
    disk: Recorder, state: OrderedState, model: Model, limits: Limits
) -> ImageSet:
    """So much of a set as fits into the limits; marked PARTIAL."""
    items = _items(state)
    families: dict[object, Family] = {}
    tried = 0
    for included in _selections(items, limits):
        tried += 1
        family = _build(disk, state, model, included)
        if family is not None:
            contents = tuple(slot.contents for slot in family.slots)
            families.setdefault((family.paths, family.places, contents), family)
    extremes = [_build(disk, state, model, every) for every in (items, [])]
    torn: list[Family] = []
    if model.torn_prefixes:
        for write in _last_writes(disk, state):
            for family in extremes:
                torn += [] if family is None else _torn(family, disk, write)
    text = (
        f"{len(items)} pending micro-ops: prefixes, 1- and 2-omissions, 1- and 2-inclusions, "
        f"torn last writes and {limits.sample} samples (seed {limits.seed})"
    )
    if _pairs(items) > limits.images_max:
        text += f", pairs sampled at {limits.images_max}"
    return ImageSet([*families.values(), *torn], tried + len(torn), text)


def _items(state: OrderedState) -> list[Item]:
    """What may be there or not, in issue order."""
    found: list[tuple[int, Item]] = [
        (op.index, position)
        for position, op in enumerate(state.meta)
        if position not in state.forced | state.lost
    ]
    for key, versions in state.writes.items():
        for count in range(state.floor.get(key, 0), len(versions)):
            found.append((versions[count].index, (key, count + 1)))
    return [item for _, item in sorted(found, key=lambda pair: pair[0])]


def _pairs(items: list[Item]) -> int:
    return len(items) * (len(items) - 1)


def _selections(items: list[Item], limits: Limits) -> Iterator[Iterable[Item]]:
    for end in range(len(items) + 1):
        yield items[:end]
    chance = random.Random(limits.seed)
    keep = min(1.0, limits.images_max / max(1, _pairs(items)))
    for count in (1, 2):
        for some in combinations(items, count):
            if count == 2 and keep < 1.0 and chance.random() > keep:
                continue
            yield some
            left_out = set(some)
            yield [item for item in items if item not in left_out]
    for _ in range(limits.sample):
        bias = chance.random()
        yield [item for item in items if chance.random() < bias]


def _build(
    disk: Recorder, state: OrderedState, model: Model, included: Iterable[Item]
) -> Family | None:
    """The family of one selection, made legal; None when it cannot be."""
    chosen = set(state.forced)
    counts: dict[UnitKey, int] = dict(state.floor)
    for item in included:
        if isinstance(item, int):
            chosen.add(item)
        else:
            counts[item[0]] = max(counts.get(item[0], 0), item[1])
    kept: set[int] = set()
    for position in sorted(chosen):
        if state.needs[position] <= kept:
            kept.add(position)
    low, high = version_bounds(state, kept, model)
    if any(low[key] > high.get(key, 0) for key in low):
        return None
    bounded = {
        key: min(max(counts.get(key, 0), low.get(key, 0)), top) for key, top in high.items()
    }
    return _family(disk, state, kept, bounded, model.fills)


def _everything(disk: Recorder, state: OrderedState, model: Model) -> Family:
    counts = {key: len(versions) for key, versions in state.writes.items()}
    chosen = set(range(len(state.meta))) - state.lost
    return _family(disk, state, chosen, counts, model.fills[:1])


def _family(
    disk: Recorder,
    state: OrderedState,
    chosen: set[int],
    counts: dict[UnitKey, int],
    fills: tuple[bytes, ...],
) -> Family:
    entries, sizes = settle(disk, state, chosen)
    (tree,) = trees({number: [found] for number, found in entries.items()}, disk.nodes)
    slots: dict[int, Slot] = {}
    for inode in {inode for _, inode in tree}:
        fixed = fixed_slot(disk.nodes[inode])
        if fixed is None:
            units = {key[1]: count for key, count in counts.items() if key[0] == inode}
            shown: dict[Content, bytes] = {
                (raw[:size] if len(raw) >= size else raw.ljust(size, NUL)): raw[size:].rstrip(NUL)
                for fill in fills
                for size in (sizes[inode],)
                for raw in raws(disk, state, inode, units, fill)
            }
            fixed = Slot(tuple(shown), shown)
        slots[inode] = fixed
    return family_of(tree, slots)


def _last_writes(disk: Recorder, state: OrderedState) -> Iterator[WriteCall]:
    newest: dict[int, int] = {}
    for key, versions in state.writes.items():
        if len(versions) > state.floor.get(key, 0) and not versions[-1].zeroing:
            newest[key[0]] = max(newest.get(key[0], 0), versions[-1].call)
    for call in newest.values():
        yield disk.writes[call]


def _torn(family: Family, disk: Recorder, write: WriteCall | None) -> list[Family]:
    """The family with every prefix of one write in the place of the whole write."""
    if write is None:
        return []
    found: list[Family] = []
    for place, slot in enumerate(family.slots):
        for content in slot.contents if family.inodes[place] == write.inode else ():
            if not isinstance(content, bytes) or not _holds(content, write):
                continue
            torn = tuple(_cut(content, write, length) for length in range(len(write.data)))
            slots = list(family.slots)
            slots[place] = Slot(torn, {})
            found.append(family._replace(slots=tuple(slots)))
    return found


def _holds(content: bytes, write: WriteCall) -> bool:
    end = write.offset + len(write.data)
    return len(content) == max(end, write.before) and content[write.offset : end] in (
        write.data,
        bytes(len(write.data)),
    )


def _cut(content: bytes, write: WriteCall, length: int) -> Content:
    middle = content[write.offset : write.offset + length] + write.old[length:]
    end = write.offset + max(length, len(write.old))
    return content[: write.offset] + middle + content[end : max(write.before, end)]
