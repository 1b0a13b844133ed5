"""Brute force: every subset of a log, tried against the rules as they are written (F1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations

from lychgate_conformance.lab._image import Content, Image, groups_of, image_of
from lychgate_conformance.lab._micro import (
    ROOT,
    EntryAdd,
    EntryDrop,
    Recorder,
    Rename,
    Scope,
    SizeSet,
    Sync,
    UnitWrite,
)

Persistable = UnitWrite | SizeSet | EntryAdd | EntryDrop | Rename


def brute(disk: Recorder, model: str) -> set[Image]:
    """All images of all legal subsets. No truncations: ALICE's slices are not in the log."""
    ops: list[Persistable] = [
        op
        for op in disk.log
        if isinstance(op, (UnitWrite, SizeSet, EntryAdd, EntryDrop, Rename))
    ]
    forced = forced_by(disk, model)
    free = [op for op in ops if op.index not in forced]
    found: set[Image] = set()
    for chosen in subsets(free):
        kept = forced | {op.index for op in chosen}
        if legal(disk, ops, kept, model):
            found.add(apply(disk, [op for op in ops if op.index in kept]))
    return found


def subsets(ops: list[Persistable]) -> Iterator[tuple[Persistable, ...]]:
    return chain.from_iterable(combinations(ops, count) for count in range(len(ops) + 1))


def forced_by(disk: Recorder, model: str) -> set[int]:
    """posix: bytes and size of the file, entries of the directory. journal: these, and all earlier
    metadata that does not float, up to the last op that touched the synced thing."""
    found: set[int] = set()
    for sync in disk.log:
        if not isinstance(sync, Sync):
            continue
        own: list[int] = []
        for op in disk.log[: sync.index]:
            if isinstance(op, (UnitWrite, SizeSet)):
                mine = sync.scope is Scope.FILE and op.inode == sync.inode
            elif isinstance(op, (EntryAdd, EntryDrop, Rename)):
                mine = sync.scope is Scope.DIR and op.parent == sync.inode
                if model != "posix" and sync.scope is Scope.FILE:
                    replaced = op.replaced if isinstance(op, Rename) else None
                    mine = sync.inode in (op.inode, replaced)
            else:
                mine = False
            if mine:
                own.append(op.index)
        found.update(own)
        if model == "journal":
            log = disk.log
            last = max((i for i in own if not isinstance(log[i], UnitWrite)), default=-1)
            found.update(
                op.index
                for op in log[: max(last, 0)]
                if isinstance(op, (EntryAdd, EntryDrop, Rename))
            )
            sizes = [i for i in own if isinstance(log[i], SizeSet)]
            found.update(sizes)
    return found


def legal(disk: Recorder, ops: list[Persistable], kept: set[int], model: str) -> bool:
    """journal: entries are a prefix; a size of a new block needs every earlier entry op and every
    earlier size of its file. Its bytes are free: what is not there reads as NUL."""
    if model == "posix":
        return True
    for op in ops:
        if op.index not in kept or isinstance(op, UnitWrite):
            continue
        for earlier in ops[: ops.index(op)]:
            if isinstance(earlier, (EntryAdd, EntryDrop, Rename)) and earlier.index not in kept:
                return False
            if isinstance(op, SizeSet) and isinstance(earlier, SizeSet):
                if earlier.inode == op.inode and earlier.index not in kept:
                    return False
    return True


def apply(disk: Recorder, ops: list[Persistable]) -> Image:
    entries = {n: dict(node.base_entries) for n, node in disk.nodes.items()}
    raws = {n: bytearray(node.base_raw) for n, node in disk.nodes.items()}
    sizes = {n: node.base_size for n, node in disk.nodes.items()}
    for op in ops:
        if isinstance(op, UnitWrite):
            raw, start = raws[op.inode], op.unit * disk.unit
            raw.extend(bytes(max(0, start - len(raw))))
            raw[start : start + disk.unit] = op.data.ljust(
                0 if start + disk.unit >= len(raw) else disk.unit, b"\0"
            )
        elif isinstance(op, SizeSet):
            sizes[op.inode] = op.size
        elif isinstance(op, EntryAdd):
            entries[op.parent][op.name] = op.inode
        elif isinstance(op, EntryDrop):
            if entries[op.parent].get(op.name) == op.inode:
                del entries[op.parent][op.name]
        else:
            if entries[op.parent].get(op.name) == op.inode:
                del entries[op.parent][op.name]
            entries[op.to_parent][op.to_name] = op.inode
    files: dict[str, Content] = {
        name: bytes(raws[n][: sizes[n]].ljust(sizes[n], b"\0")) for name, n in entries[ROOT].items()
    }
    plain = image_of(files)
    return Image(plain.paths, plain.contents, groups_of(entries[ROOT][p] for p in plain.paths))
