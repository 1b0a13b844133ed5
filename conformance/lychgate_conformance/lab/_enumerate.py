"""Every image that a crash may leave after the first `upto` micro-ops of a recorded run.

Rules of this file
  * Nothing is cut silently. Where a set would be larger than `Limits.images_max`, it is replaced by
    all prefixes, all 1- and 2-omissions, all 1- and 2-inclusions and a seeded sample (`_bounded`),
    and `partial` says so. `choices` counts the legal choices before deduplication.
  * With a torn last write in several files that are read together, `Limits.torn_files_max` of them
    are torn at a time, and `partial` says so.
  * A file's states are remembered by what they are made of, so that runs that differ elsewhere
    share them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, product

from lychgate_conformance.lab._bounded import bounded_set, kill_set
from lychgate_conformance.lab._contents import (
    DirState,
    FileState,
    Variants,
    count_free,
    free_bindings,
    free_variants,
)
from lychgate_conformance.lab._family import (
    Family,
    ImageSet,
    Limits,
    Slot,
    Tree,
    family_of,
    fixed_slot,
    trees,
)
from lychgate_conformance.lab._micro import (
    EntryAdd,
    EntryDrop,
    Kind,
    Recorder,
    Rename,
    Scope,
    SizeSet,
    Sync,
    SyncFailed,
    UnitWrite,
)
from lychgate_conformance.lab._models import Model, Order
from lychgate_conformance.lab._ordered import read_log
from lychgate_conformance.lab._ordered_sets import ordered_set


def image_set(
    disk: Recorder, model: Model, upto: int | None = None, limits: Limits = Limits()
) -> ImageSet:
    """The images of a crash after `upto` micro-ops (all of them when None)."""
    return Enumerator(model, limits).at(disk, upto)


@dataclass(slots=True)
class FreeState:
    """A log read without order: what is forced and what is pending, per inode and directory."""

    files: dict[int, FileState] = field(default_factory=dict)
    dirs: dict[int, DirState] = field(default_factory=dict)


class Enumerator:
    """One model and its limits; remembers the states of files across runs.

    `part_of` says which files are read together: torn writes and sizes are counted per part.
    """

    def __init__(
        self,
        model: Model,
        limits: Limits = Limits(),
        part_of: Callable[[str], int] = lambda _path: 0,
    ) -> None:
        self.model = model
        self.limits = limits
        self.part_of = part_of
        self._variants: dict[tuple[object, ...], Variants] = {}

    def at(self, disk: Recorder, upto: int | None = None) -> ImageSet:
        """The images of a crash after `upto` micro-ops."""
        end = len(disk.log) if upto is None else upto
        order = self.model.order
        if order is Order.ALL:
            return kill_set(disk, end, read_log(disk, end, self.model), self.model)
        if order is Order.FREE:
            found = self._free(disk, read_free(disk, end, self.model))
        else:
            state = read_log(disk, end, self.model)
            found = ordered_set(disk, state, self.model, self.limits)
        return found or bounded_set(
            disk, read_log(disk, end, self.model), self.model, self.limits
        )

    # --- the free order -----------------------------------------------------------------------

    def _free(self, disk: Recorder, state: FreeState) -> ImageSet | None:
        limit = self.limits.images_max
        bindings: dict[int, list[dict[str, int]]] = {}
        choices = 1
        for number, directory in state.dirs.items():
            bindings[number], subsets = free_bindings(directory, number, self.model)
            choices *= subsets
        for number, file in state.files.items():
            count = count_free(file, disk.unit, self.model) if file.pending else 1
            if count > limit:
                return None
        found = {n: self._states(disk, n, file) for n, file in state.files.items()}
        families: list[Family] = []
        partial = {variants.partial for variants in found.values() if variants.partial}
        total = 0
        for tree in trees(bindings, disk.nodes):
            for family in self._torn_families(disk, tree, found, partial):
                total += family.work(self.part_of)
                families.append(family)
                if total > limit:
                    return None
        for variants in found.values():
            choices *= variants.choices
        return ImageSet(families, choices, "; ".join(sorted(partial)))

    def _states(self, disk: Recorder, number: int, file: FileState) -> Variants:
        key = (disk.unit, *file.key())
        known = self._variants.get(key)
        if known is None:
            known = free_variants(file, disk.unit, self.model, self.limits.torn_max)
            self._variants[key] = known
        return known

    def _torn_families(
        self, disk: Recorder, tree: Tree, found: dict[int, Variants], partial: set[str]
    ) -> Iterator[Family]:
        """The tree with no file torn, then with one of them, and so on up to the limit."""
        slots: dict[int, Slot] = {}
        torn: dict[int, dict[int, Slot]] = {}
        for path, inode in tree:
            fixed = fixed_slot(disk.nodes[inode])
            if fixed is not None:
                slots[inode] = fixed
                continue
            variants = found[inode]
            slots[inode] = Slot(tuple(variants.whole), variants.whole)
            if variants.torn:
                part = torn.setdefault(self.part_of(path), {})
                part[inode] = Slot(tuple(variants.torn), variants.torn)
        choices: list[list[dict[int, Slot]]] = []
        for files in torn.values():
            most = min(len(files), self.limits.torn_files_max)
            if most < len(files):
                partial.add(f"torn writes in {most} file(s) at a time")
            choices.append(
                [
                    {inode: files[inode] for inode in chosen}
                    for count in range(most + 1)
                    for chosen in combinations(files, count)
                ]
            )
        for chosen_per_part in product(*choices):
            together = dict(slots)
            for part in chosen_per_part:
                together.update(part)
            yield family_of(tree, together)


def read_free(disk: Recorder, upto: int, model: Model) -> FreeState:
    """What is forced and what is pending after the first `upto` micro-ops, without any order."""
    state = FreeState()
    for number, node in disk.nodes.items():
        if node.kind is Kind.FILE:
            state.files[number] = FileState.of(node)
        elif node.kind is Kind.DIR:
            state.dirs[number] = DirState(dict(node.base_entries))
    for op in disk.log[:upto]:
        if isinstance(op, UnitWrite):
            file = state.files[op.inode]
            file.pending.append(op)
            file.last_write = disk.writes.get(op.call, file.last_write)
        elif isinstance(op, SizeSet):
            state.files[op.inode].pending.append(op)
        elif isinstance(op, (EntryAdd, EntryDrop)):
            state.dirs[op.parent].pending.append(op)
        elif isinstance(op, Rename):
            for parent in {op.parent, op.to_parent}:
                state.dirs[parent].pending.append(op)
        elif isinstance(op, Sync):
            if not model.lying_flush:
                _force(state, op, model)
        elif isinstance(op, SyncFailed):
            _lose(state, op)
    return state


def _force(state: FreeState, sync: Sync, model: Model) -> None:
    everything = sync.scope is Scope.ALL
    if everything or sync.scope is not Scope.DIR:
        for number in state.files if everything else (sync.inode,):
            state.files[number].force()
    if everything or sync.scope is Scope.DIR:
        for number in state.dirs if everything else (sync.inode,):
            state.dirs[number].force(number, model)


def _lose(state: FreeState, failed: SyncFailed) -> None:
    if failed.inode in state.files:
        file = state.files[failed.inode]
        if failed.reverted:
            file.revert()
        else:
            file.lose(failed.lost_units)
    else:
        state.dirs[failed.inode].lose(failed.lost_names)
