"""Micro-ops: what a run did to a disk, in the smallest pieces that a crash can keep or lose.

Rules of this file
  * A `Recorder` is fed abstract calls that succeeded: inodes, names, bytes. It keeps the volatile
    state (what every process sees) and a log of micro-ops (what a crash may keep). It knows
    nothing of paths, descriptors, errors or the `Fs` port, so that a recording of a foreign
    program feeds it as well as the simulator does.
  * Every micro-op has an index in issue order. A call emits its bytes before its size.
  * A write gives one `UnitWrite` per unit it touches, with the whole content of that unit: a later
    version supersedes the earlier ones (the page cache writes pages, not calls).
  * Growth is split at the end of the last block that the file has: inside it (`GROW_IN`) and into
    new blocks (`GROW_NEW`). A shrinking truncation zeroes the tail of the last kept unit and frees
    the units behind it (`zeroing`, `freed`), then sets the size.
  * A sync that succeeded is a `Sync`; which micro-ops it forces is a matter of the model. One that
    failed is a `SyncFailed` with the units it lost: they reach no image until they are rewritten.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

BLOCK_BYTES = 4096
"""The block of the modelled file systems: where growth inside and into new blocks part."""


class Kind(enum.Enum):
    """What an inode is."""

    FILE = "file"
    DIR = "dir"
    LINK = "symlink"


class Growth(enum.Enum):
    """How a size came to be."""

    IN = "in"  # inside the last block
    NEW = "new"  # into new blocks
    CUT = "cut"  # a truncation to a smaller or the same size
    STRETCH = "stretch"  # a truncation to a larger size: no bytes were written


class Scope(enum.Enum):
    """What a sync was called on."""

    FILE = "fsync"
    DATA = "fdatasync"
    DIR = "fsync of a directory"
    ALL = "sync"


@dataclass(slots=True)
class UnitWrite:
    """W(i,u,v), or Z(i,u) when `zeroing`: version `version` of a unit, its content in `data`."""

    index: int
    call: int
    inode: int
    unit: int
    version: int
    data: bytes
    zeroing: bool = False
    freed: bool = False


@dataclass(slots=True)
class SizeSet:
    """S(i,n): from `before` to `size`."""

    index: int
    call: int
    inode: int
    before: int
    size: int
    growth: Growth


@dataclass(slots=True)
class EntryAdd:
    """D+(d,name,i)."""

    index: int
    call: int
    parent: int
    name: str
    inode: int


@dataclass(slots=True)
class EntryDrop:
    """D-(d,name,i)."""

    index: int
    call: int
    parent: int
    name: str
    inode: int


@dataclass(slots=True)
class Rename:
    """R(d1,n1,d2,n2,i,j): `inode` moves, `replaced` (or None) loses the name."""

    index: int
    call: int
    parent: int
    name: str
    to_parent: int
    to_name: str
    inode: int
    replaced: int | None


@dataclass(slots=True)
class Sync:
    """A sync that returned success."""

    index: int
    call: int
    scope: Scope
    inode: int


@dataclass(slots=True)
class SyncFailed:
    """A sync that failed and lost `lost_units` (file) or `lost_names` (directory).

    `reverted`: the cache went back to the durable state as well (btrfs); otherwise the cache shows
    the new bytes and counts them as clean, so that no later sync writes them (ext4, xfs).
    """

    index: int
    call: int
    inode: int
    lost_units: frozenset[int]
    lost_names: frozenset[str]
    reverted: bool


@dataclass(slots=True)
class Ack:
    """ACK(x): an output that somebody could have acted on."""

    index: int
    call: int
    what: object


Meta = SizeSet | EntryAdd | EntryDrop | Rename
MicroOp = UnitWrite | SizeSet | EntryAdd | EntryDrop | Rename | Sync | SyncFailed | Ack


@dataclass(slots=True)
class WriteCall:
    """What a write call was given; a torn write keeps a prefix of `data` over `old`."""

    call: int
    inode: int
    offset: int
    data: bytes
    old: bytes  # what stood under `data`, up to the file's end
    before: int  # the file's size


class Node:
    """An inode as every process sees it, and as it was when the disk was mounted (`base_*`)."""

    __slots__ = (
        "number", "kind", "data", "entries", "target", "links", "mode", "uid", "gid",
        "label", "versions", "base_raw", "base_size", "base_entries",
    )  # fmt: skip

    def __init__(self, number: int, kind: Kind, label: str) -> None:
        self.number = number
        self.kind = kind
        self.label = label  # the name it was born with: the same in every interleaving
        self.data = bytearray()
        self.entries: dict[str, int] = {}
        self.target = ""
        self.links = 0
        self.mode = 0o600
        self.uid = 0
        self.gid = 0
        self.versions: dict[int, int] = {}
        self.base_raw = b""  # durable bytes at mount; those beyond `base_size` are hidden
        self.base_size = 0
        self.base_entries: dict[str, int] = {}


ROOT = 1
"""The inode of the root directory."""


class Recorder:
    """One disk: its volatile state and the log of what was done to it since it was mounted."""

    def __init__(self, unit: int = BLOCK_BYTES) -> None:
        assert unit > 0 and BLOCK_BYTES % unit == 0, "a torn unit divides a block"
        self.unit = unit
        self.nodes: dict[int, Node] = {}
        self.log: list[MicroOp] = []
        self.writes: dict[int, WriteCall] = {}
        self.calls = 0
        self._next = ROOT
        self._born: dict[str, int] = {}
        self.new_node(Kind.DIR, "").links = 1

    # --- building (also used by mounting an image) ----------------------------------------------

    def new_node(self, kind: Kind, name: str) -> Node:
        """An inode without a name."""
        count = self._born[name] = self._born.get(name, 0) + 1
        node = Node(self._next, kind, f"{name}#{count}")
        self.nodes[self._next] = node
        self._next += 1
        return node

    def place(self, parent: int, name: str, node: Node) -> None:
        """Give a node a name that is durable already: only while a disk is being mounted."""
        assert not self.log, "a mounted disk changes by calls only"
        for entries in (self.nodes[parent].entries, self.nodes[parent].base_entries):
            assert name not in entries, "one name, one inode"
            entries[name] = node.number
        node.links += 1

    def fill(self, node: Node, data: bytes, hidden: bytes = b"") -> None:
        """Give a node bytes that are durable already, and bytes hidden beyond its end."""
        assert not self.log, "a mounted disk changes by calls only"
        node.data[:] = data
        node.base_raw, node.base_size = data + hidden, len(data)

    # --- names ----------------------------------------------------------------------------------

    def create(self, parent: int, name: str, kind: Kind = Kind.FILE, target: str = "") -> Node:
        """A new inode and its name: open with O_CREAT, mkdir, symlink."""
        node = self.new_node(kind, name)
        node.target = target
        self.link(parent, name, node.number)
        return node

    def link(self, parent: int, name: str, inode: int) -> None:
        entries = self.nodes[parent].entries
        assert name not in entries, "the caller has looked"
        entries[name] = inode
        self.nodes[inode].links += 1
        self.log.append(EntryAdd(len(self.log), self._call(), parent, name, inode))

    def unlink(self, parent: int, name: str) -> None:
        """unlink or rmdir."""
        inode = self.nodes[parent].entries.pop(name)
        self.nodes[inode].links -= 1
        self.log.append(EntryDrop(len(self.log), self._call(), parent, name, inode))

    def rename(self, parent: int, name: str, to_parent: int, to_name: str) -> None:
        source, target = self.nodes[parent].entries, self.nodes[to_parent].entries
        inode, replaced = source[name], target.get(to_name)
        call = self._call()
        if inode == replaced:
            return  # POSIX: two names of one file, nothing happens
        del source[name]
        target[to_name] = inode
        if replaced is not None:
            self.nodes[replaced].links -= 1
        self.log.append(
            Rename(len(self.log), call, parent, name, to_parent, to_name, inode, replaced)
        )

    # --- bytes ----------------------------------------------------------------------------------

    def write(self, inode: int, offset: int, data: bytes) -> None:
        """The bytes that a write call has written; a short write gives only those."""
        call = self._call()
        if not data:
            return
        node, log, unit = self.nodes[inode], self.log, self.unit
        buffer = node.data
        before, end = len(buffer), offset + len(data)
        if offset > before:
            buffer.extend(bytes(offset - before))
        old = bytes(buffer[offset : min(end, before)])
        buffer[offset:end] = data
        self.writes[call] = WriteCall(call, inode, offset, data, old, before)
        for number in range(offset // unit, (end - 1) // unit + 1):
            version = node.versions[number] = node.versions.get(number, 0) + 1
            content = bytes(buffer[number * unit : (number + 1) * unit])
            log.append(UnitWrite(len(log), call, inode, number, version, content))
        if end > before:
            self._grow(call, inode, before, end)

    def _grow(self, call: int, inode: int, before: int, end: int) -> None:
        log = self.log
        edge = -(-before // BLOCK_BYTES) * BLOCK_BYTES
        if before < edge:
            inside = min(edge, end)
            log.append(SizeSet(len(log), call, inode, before, inside, Growth.IN))
            before = inside
        if end > before:
            log.append(SizeSet(len(log), call, inode, before, end, Growth.NEW))

    def truncate(self, inode: int, size: int) -> None:
        call = self._call()
        node, log, unit = self.nodes[inode], self.log, self.unit
        buffer, before = node.data, len(node.data)
        if size > before:
            buffer.extend(bytes(size - before))
            log.append(SizeSet(len(log), call, inode, before, size, Growth.STRETCH))
            return
        del buffer[size:]
        last = -(-max(before, len(node.base_raw)) // unit)
        for number in range(size // unit, last):
            content = bytes(buffer[number * unit : (number + 1) * unit])
            version = node.versions[number] = node.versions.get(number, 0) + 1
            log.append(
                UnitWrite(
                    len(log), call, inode, number, version, content, True, number * unit >= size
                )
            )
        log.append(SizeSet(len(log), call, inode, before, size, Growth.CUT))

    # --- syncs and outputs ----------------------------------------------------------------------

    def sync(self, scope: Scope, inode: int = ROOT) -> None:
        """A sync that returned success."""
        self.log.append(Sync(len(self.log), self._call(), scope, inode))

    def sync_failed(
        self,
        inode: int,
        lost_units: frozenset[int] = frozenset(),
        lost_names: frozenset[str] = frozenset(),
    ) -> None:
        """A failed sync after which the cache shows, as clean, what the disk does not have."""
        self.log.append(
            SyncFailed(len(self.log), self._call(), inode, lost_units, lost_names, False)
        )

    def sync_reverted(self, inode: int, durable: bytes) -> None:
        """A failed sync after which the cache shows the durable state again."""
        self.nodes[inode].data[:] = durable
        self.log.append(
            SyncFailed(len(self.log), self._call(), inode, frozenset(), frozenset(), True)
        )

    def ack(self, what: object) -> None:
        """Something was told to somebody; it is no call and changes nothing."""
        self.log.append(Ack(len(self.log), self.calls, what))

    def _call(self) -> int:
        self.calls += 1
        return self.calls


def history_of(op: MicroOp, disk: Recorder) -> list[tuple[str, object]]:
    """What a micro-op adds to the history of the objects that it touches, by label."""
    nodes = disk.nodes
    if isinstance(op, Ack):
        return []
    if isinstance(op, UnitWrite):
        return [(nodes[op.inode].label, (op.unit, op.data, op.zeroing, op.freed))]
    if isinstance(op, SizeSet):
        return [(nodes[op.inode].label, (op.before, op.size, op.growth.value))]
    if isinstance(op, Sync):
        if op.scope is Scope.ALL:
            return [(node.label, op.scope.value) for node in nodes.values()]
        return [(nodes[op.inode].label, op.scope.value)]
    if isinstance(op, SyncFailed):
        return [(nodes[op.inode].label, (op.lost_units, op.lost_names, op.reverted))]
    label = nodes[op.inode].label
    if isinstance(op, Rename):
        what = ("R", op.name, op.to_name, label)
        return [(nodes[parent].label, what) for parent in {op.parent, op.to_parent}]
    sign = "+" if isinstance(op, EntryAdd) else "-"
    return [(nodes[op.parent].label, (sign, op.name, label))]
