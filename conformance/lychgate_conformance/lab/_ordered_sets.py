"""Image sets of the ordered models: every legal set of metadata ops, and its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from lychgate_conformance.lab._contents import EntryOp, Variants, apply_entry, filling
from lychgate_conformance.lab._family import (
    Family,
    ImageSet,
    Limits,
    Slot,
    family_of,
    fixed_slot,
    trees,
)
from lychgate_conformance.lab._micro import (
    BLOCK_BYTES,
    Growth,
    Kind,
    Recorder,
    Rename,
    SizeSet,
)
from lychgate_conformance.lab._models import GARBAGE, Model, Order
from lychgate_conformance.lab._ordered import OrderedState, UnitKey, version_bounds


def ordered_set(
    disk: Recorder, state: OrderedState, model: Model, limits: Limits
) -> ImageSet | None:
    """All images of a crash under a model that orders things; None when there are too many."""
    families: dict[object, Family] = {}
    choices = total = 0
    unnamed = _unnamed(disk, state) if model.frees_early else set()
    for chosen in legal_sets(state, model):
        low, high = version_bounds(state, chosen, model)
        if any(low[key] > high.get(key, 0) for key in low):
            continue
        entries, sizes = settle(disk, state, chosen)
        reused = _reused(state, chosen, unnamed) if model.frees_early else {}
        slots: dict[int, Slot] = {}
        count = 1
        for tree in trees({n: [found] for n, found in entries.items()}, disk.nodes):
            for inode in {inode for _, inode in tree}:
                fixed = fixed_slot(disk.nodes[inode])
                if fixed is None:
                    bounds = _bounds_of(inode, low, high)
                    if _too_many(bounds, limits):
                        return None
                    variants = _variants(disk, state, inode, sizes[inode], bounds, model)
                    if inode in reused:
                        _overwrite(variants, reused[inode])
                    count *= variants.choices
                    fixed = Slot(tuple(variants.whole), variants.whole)
                slots[inode] = fixed
            family = family_of(tree, slots)
            key = (family.paths, family.places, tuple(slot.contents for slot in family.slots))
            if key not in families:
                families[key] = family
                total += family.size
        choices += count
        if total > limits.images_max or choices > 4 * limits.images_max:
            return None
    return ImageSet(list(families.values()), choices)


def legal_sets(state: OrderedState, model: Model) -> Iterator[set[int]]:
    """Every set of metadata ops that holds the forced ones and all that its members need."""
    count = len(state.meta)
    if model.order is Order.PREFIX:
        for end in range(max(state.forced, default=-1) + 1, count + 1):
            yield set(range(end)) - state.lost
        return

    def extend(position: int, chosen: set[int]) -> Iterator[set[int]]:
        if position == count:
            yield chosen
            return
        if position not in state.forced:
            yield from extend(position + 1, chosen)
        if position not in state.lost and state.needs[position] <= chosen:
            yield from extend(position + 1, chosen | {position})

    yield from extend(0, set())


def settle(
    disk: Recorder, state: OrderedState, chosen: set[int]
) -> tuple[dict[int, dict[str, int]], dict[int, int]]:
    """The directories and sizes that a set of metadata ops leaves."""
    entries = {
        number: dict(node.base_entries)
        for number, node in disk.nodes.items()
        if node.kind is Kind.DIR
    }
    sizes = {
        number: node.base_size for number, node in disk.nodes.items() if node.kind is Kind.FILE
    }
    for position in sorted(chosen):
        op = state.meta[position]
        if isinstance(op, SizeSet):
            sizes[op.inode] = op.size
        else:
            for parent in _parents(op):
                apply_entry(op, parent, entries[parent])
    return entries, sizes


def _parents(op: EntryOp) -> tuple[int, ...]:
    if isinstance(op, Rename) and op.parent != op.to_parent:
        return (op.parent, op.to_parent)
    return (op.parent,)


Bounds = dict[int, tuple[int, int]]
"""Per unit of one file: the lowest and highest count of versions."""


def _bounds_of(inode: int, low: dict[UnitKey, int], high: dict[UnitKey, int]) -> Bounds:
    return {key[1]: (low.get(key, 0), top) for key, top in high.items() if key[0] == inode}


def _too_many(bounds: Bounds, limits: Limits) -> bool:
    total = 1
    for lowest, highest in bounds.values():
        total *= highest - lowest + 1
    return total > limits.images_max


def _variants(
    disk: Recorder,
    state: OrderedState,
    inode: int,
    size: int,
    bounds: Bounds,
    model: Model,
) -> Variants:
    found = Variants({}, {})
    numbers = list(bounds)
    for counts in product(*(range(low, high + 1) for low, high in bounds.values())):
        for fill in model.fills:
            for raw in raws(disk, state, inode, dict(zip(numbers, counts, strict=True)), fill):
                found.add(raw, (size,), fill, False)
    return found


# --- blocks of others ---------------------------------------------------------------------------


def _unnamed(disk: Recorder, state: OrderedState) -> set[int]:
    """Inodes that have lost their last name: their blocks are free."""
    entries, _ = settle(disk, state, set(range(len(state.meta))) - state.lost)
    named = {inode for names in entries.values() for inode in names.values()}
    return {number for number, node in disk.nodes.items() if node.kind is Kind.FILE} - named


def _reused(state: OrderedState, chosen: set[int], unnamed: set[int]) -> dict[int, int]:
    """Files that come back after they were removed or cut, and from where on their blocks may have
    been given to others meanwhile."""
    found: dict[int, int] = dict.fromkeys(unnamed, 0)
    for position, op in enumerate(state.meta):
        if position not in chosen and isinstance(op, SizeSet) and op.growth is Growth.CUT:
            start = -(-op.size // BLOCK_BYTES) * BLOCK_BYTES
            found[op.inode] = min(start, found.get(op.inode, start))
    return found


def _overwrite(variants: Variants, start: int) -> None:
    """Add what the states are when others have written to the blocks from `start` on."""
    for content in list(variants.whole):
        if isinstance(content, bytes) and len(content) > start:
            variants.add(content[:start], (len(content),), GARBAGE, False)


def raws(
    disk: Recorder, state: OrderedState, inode: int, counts: dict[int, int], fill: bytes
) -> Iterator[bytes]:
    """What stands in a file's blocks with so many versions of each unit written; twice where the
    mounted file hid bytes beyond its end, with them and without."""
    node, unit = disk.nodes[inode], disk.unit
    bases = [node.base_raw]
    if len(node.base_raw) > node.base_size:
        bases.append(node.base_raw[: node.base_size])
    last = max([-(-len(node.base_raw) // unit) - 1, *(n for n, c in counts.items() if c)])
    for base in bases:
        parts = []
        for number in range(last + 1):
            count = counts.get(number, 0)
            if count:
                part = state.writes[inode, number][count - 1].data
            else:
                part = base[number * unit : (number + 1) * unit]
            if number < last and len(part) < unit:
                start = number * unit + len(part)
                part += filling(fill, start, (number + 1) * unit)
            parts.append(part)
        yield b"".join(parts)
