"""Per inode: what is durable, what is pending, and every state in which a crash may leave it.

This file is the free order (`portable`, `posix-min`): every unit takes any version that was issued
since it was forced, the size takes any value that was set since, names take any binding that a
subset of the pending directory ops leaves. `_ordered.py` restricts the same states for models that
order things.

    raw     what stands in a file's blocks, beyond its end too
    shown   `raw` cut at the size, or filled up to it
    hidden  `raw` beyond the size: invisible until a later size exposes it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

from lychgate_conformance.lab._image import Content
from lychgate_conformance.lab._micro import (
    EntryAdd,
    EntryDrop,
    Growth,
    Node,
    Rename,
    SizeSet,
    UnitWrite,
    WriteCall,
)
from lychgate_conformance.lab._models import NUL, Model

EntryOp = EntryAdd | EntryDrop | Rename


@dataclass(slots=True)
class FileState:
    """One file: what is forced (`base`, overlaid by `units`; `size`) and what is pending."""

    base: bytes
    size: int
    units: dict[int, bytes] = field(default_factory=dict)
    pending: list[UnitWrite | SizeSet] = field(default_factory=list)
    last_write: WriteCall | None = None

    @classmethod
    def of(cls, node: Node) -> FileState:
        """As it was when the disk was mounted."""
        return cls(node.base_raw, node.base_size)

    def force(self) -> None:
        """All that is pending becomes durable."""
        for op in self.pending:
            if isinstance(op, UnitWrite):
                self.units[op.unit] = op.data
            else:
                self.size = op.size
        self.pending = []
        self.last_write = None

    def lose(self, units: frozenset[int]) -> None:
        """The pending versions of these units are never written."""
        self.pending = [
            op for op in self.pending if isinstance(op, SizeSet) or op.unit not in units
        ]
        if self.last_write is not None and units:
            self.last_write = None

    def revert(self) -> None:
        """Nothing that is pending is ever written."""
        self.pending = []
        self.last_write = None

    def key(self) -> tuple[object, ...]:
        """Equal for equal sets of states, in any run."""
        write = self.last_write
        return (
            self.base,
            self.size,
            tuple(self.units.items()),
            tuple(
                (op.unit, op.data) if isinstance(op, UnitWrite) else (op.before, op.size, op.growth)
                for op in self.pending
            ),
            None if write is None else (write.offset, write.data, write.old, write.before),
        )

    def floor(self, number: int, unit: int) -> bytes:
        """The forced content of a unit."""
        found = self.units.get(number)
        return self.base[number * unit : (number + 1) * unit] if found is None else found


@dataclass(slots=True)
class Variants:
    """The states of one file, each with what it hides; how many choices led to them; what was cut.

    `torn` are those that only a torn last write gives, `whole` all others.
    """

    whole: dict[Content, bytes]
    torn: dict[Content, bytes]
    choices: int = 0
    partial: str = ""

    def add(self, raw: bytes, sizes: Iterable[int], fill: bytes, torn: bool) -> None:
        """Every size over one `raw`. Of several hidden tails the last one is kept."""
        whole, length = self.whole, len(raw)
        into = self.torn if torn else whole
        for size in sizes:
            self.choices += 1
            if size <= length:
                visible, hidden = raw[:size], raw[size:].rstrip(NUL)
            else:
                visible, hidden = raw + filling(fill, length, size), b""
            if torn and visible in whole:
                continue
            if hidden or visible not in into:
                into[visible] = hidden


def filling(fill: bytes, start: int, end: int) -> bytes:
    """The bytes of a fill pattern between two offsets."""
    if len(fill) == 1:
        return fill * (end - start)
    return (fill * (end // len(fill) + 1))[start:end]


def assemble(state: FileState, chosen: dict[int, bytes], unit: int, fill: bytes = NUL) -> bytes:
    """`raw` from the chosen units over the forced ones."""
    if len(state.base) <= unit and set(chosen) | set(state.units) <= {0}:
        return chosen[0] if 0 in chosen else state.floor(0, unit)
    units = dict(state.units)
    units.update(chosen)
    last = max([-(-len(state.base) // unit) - 1, *units])
    parts = []
    for number in range(last + 1):
        part = units[number] if number in units else state.floor(number, unit)
        missing = 0 if number == last else unit - len(part)
        start = number * unit + len(part)
        parts.append(part + filling(fill, start, start + missing) if missing else part)
    return b"".join(parts)


def free_variants(state: FileState, unit: int, model: Model, torn_max: int) -> Variants:
    """Every state of a file when nothing orders its micro-ops."""
    found = Variants({}, {})
    versions, sizes = _versions_and_sizes(state, unit)
    ordered = sorted(sizes)
    _add_all(found, state, versions, ordered, unit, model, False)
    write = state.last_write
    if model.torn_prefixes and write is not None:
        growth = range(len(write.old) + 1, len(write.data))
        lengths = set(_sample(growth, torn_max, found, write)) - sizes
        _add_all(found, state, versions, sorted(lengths), unit, model, True)
        for choices in _torn_overwrites(write, versions, unit, torn_max, found):
            _add_all(found, state, choices, ordered, unit, model, True)
    return found


def _add_all(
    found: Variants,
    state: FileState,
    versions: dict[int, list[bytes]],
    sizes: list[int],
    unit: int,
    model: Model,
    torn: bool,
) -> None:
    numbers = list(versions)
    for fill in model.fills:
        for contents in product(*versions.values()):
            chosen = dict(zip(numbers, contents, strict=True))
            found.add(assemble(state, chosen, unit, fill), sizes, fill, torn)


def count_free(state: FileState, unit: int, model: Model) -> int:
    """About how many states `free_variants` would build, without building any."""
    versions, sizes = _versions_and_sizes(state, unit)
    total = len(sizes)
    if model.torn_prefixes and state.last_write is not None:
        total += len(state.last_write.data)
    for contents in versions.values():
        total *= len(contents)
    return total * len(model.fills)


def _versions_and_sizes(state: FileState, unit: int) -> tuple[dict[int, list[bytes]], set[int]]:
    versions: dict[int, dict[bytes, None]] = {}
    sizes = {state.size}
    for op in state.pending:
        if isinstance(op, UnitWrite):
            if op.unit not in versions:
                versions[op.unit] = _floor_choices(state, op.unit, unit)
            versions[op.unit][op.data] = None
        else:
            sizes.add(op.size)
            if op.growth is Growth.CUT:
                sizes.update(_slices(op, unit))
    if max(sizes) > state.size:  # a growth may expose what the last unit hides, or zeros
        number = state.size // unit
        if number not in versions and len(state.floor(number, unit)) > state.size % unit:
            versions[number] = _floor_choices(state, number, unit)
    return {number: list(found) for number, found in versions.items()}, sizes


def _floor_choices(state: FileState, number: int, unit: int) -> dict[bytes, None]:
    """The forced content, and the same without what is hidden beyond the forced size."""
    content = state.floor(number, unit)
    kept = max(0, min(len(content), state.size - number * unit))
    return dict.fromkeys((content, content[:kept]))


def _slices(op: SizeSet, unit: int) -> Iterator[int]:
    """Lengths at which a truncation may stop: thirds, and the unit edges between."""
    span = op.before - op.size
    yield op.before - span // 3
    yield op.before - 2 * span // 3
    if unit >= 512:
        yield from range(-(-op.size // unit) * unit, op.before, unit)


def _sample(lengths: range, limit: int, found: Variants, write: WriteCall) -> list[int]:
    """The sizes of torn growths: all of them, or so many spread evenly and then PARTIAL."""
    if len(lengths) > limit:
        found.partial = f"{limit} of {len(lengths)} torn lengths"
        step = len(lengths) / limit
        lengths_kept = {lengths[int(number * step)] for number in range(limit)}
        return [write.offset + length for length in sorted(lengths_kept | {lengths[-1]})]
    return [write.offset + length for length in lengths]


def _torn_overwrites(
    write: WriteCall,
    versions: dict[int, list[bytes]],
    unit: int,
    limit: int,
    found: Variants,
) -> Iterator[dict[int, list[bytes]]]:
    """For every prefix inside what the write replaced: the units before it new, its own unit torn,
    those behind it any."""
    lengths: Iterable[int] = range(1, min(len(write.old) + 1, len(write.data)))
    count = min(len(write.old) + 1, len(write.data)) - 1
    if count > limit:
        found.partial = f"{limit} of {count} torn lengths"
        lengths = sorted({1 + int(number * count / limit) for number in range(limit)})
    for length in lengths:
        end = write.offset + length
        number = (end - 1) // unit
        if number not in versions:
            continue  # lost with a failed sync
        choices = dict(versions)
        for whole in range(write.offset // unit, number):
            choices[whole] = [versions[whole][-1]]
        torn = bytearray(versions[number][-1])
        start = end - number * unit
        rest = write.old[length : length + unit - start]
        torn[start : start + len(rest)] = rest
        if write.offset + len(write.data) > write.before:  # the torn write has not grown the file
            del torn[max(0, write.before - number * unit) :]
        choices[number] = [bytes(torn)]
        yield choices


# --- names ------------------------------------------------------------------------------------

Binding = tuple[tuple[str, int | None], ...]
"""Names and the inodes that they are bound to."""


@dataclass(slots=True)
class DirState:
    """One directory: the forced entries and the pending ops on them."""

    entries: dict[str, int]
    pending: list[EntryOp] = field(default_factory=list)

    def force(self, parent: int, model: Model) -> None:
        """All that is pending becomes durable."""
        for op in self.pending:
            for step in entry_steps(op, parent, model):
                apply_entry(step, parent, self.entries)
        self.pending = []

    def lose(self, names: frozenset[str]) -> None:
        """The pending ops on these names are never written."""
        self.pending = [op for op in self.pending if not names_of(op) & names]


def names_of(op: EntryOp) -> frozenset[str]:
    """The names that an op binds or frees."""
    return frozenset((op.name, op.to_name)) if isinstance(op, Rename) else frozenset((op.name,))


def apply_entry(op: EntryOp, parent: int, entries: dict[str, int]) -> None:
    """Do one directory op, or that part of it which falls into `parent`."""
    if isinstance(op, EntryAdd):
        entries[op.name] = op.inode
    elif isinstance(op, EntryDrop):
        if entries.get(op.name) == op.inode:
            del entries[op.name]
    else:
        if op.parent == parent and entries.get(op.name) == op.inode:
            del entries[op.name]
        if op.to_parent == parent:
            entries[op.to_name] = op.inode


def entry_steps(op: EntryOp, parent: int, model: Model) -> list[EntryOp]:
    """The independent steps of one op inside one directory, under a model."""
    if not isinstance(op, Rename):
        return [op]
    if op.parent == op.to_parent and model.atomic_rename:
        return [op]
    if op.parent != op.to_parent and not model.split_cross_rename:
        return [op]
    steps: list[EntryOp] = []
    if op.to_parent == parent:
        if op.replaced is not None:
            steps.append(EntryDrop(op.index, op.call, parent, op.to_name, op.replaced))
        steps.append(EntryAdd(op.index, op.call, parent, op.to_name, op.inode))
    if op.parent == parent:
        steps.append(EntryDrop(op.index, op.call, parent, op.name, op.inode))
    return steps


def free_bindings(state: DirState, parent: int, model: Model) -> tuple[list[dict[str, int]], int]:
    """Every outcome of a subset of the pending ops, and the number of subsets."""
    outcomes: dict[Binding, dict[str, int]] = {_binding(state.entries): dict(state.entries)}
    subsets = 1
    for op in state.pending:
        for step in entry_steps(op, parent, model):
            subsets *= 2
            for entries in list(outcomes.values()):
                after = dict(entries)
                apply_entry(step, parent, after)
                outcomes.setdefault(_binding(after), after)
    return list(outcomes.values()), subsets


def _binding(entries: dict[str, int]) -> Binding:
    return tuple(sorted(entries.items()))
