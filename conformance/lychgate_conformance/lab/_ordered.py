"""Models that order things (journal, dependency, object): what needs what, what a sync forces.

A persisted set P of micro-ops is legal when it contains what completed syncs forced and, for every
metadata op in it, the metadata ops that this one needs. Bytes are free, except that

  * a growth needs the bytes of its own write (`before-size`), or none, so that a tail may read as
    zeros;
  * a cut needs the zeroed tail of the last kept unit (where the model says so), and units that it
    freed come back only without it;
  * sizes of growing files float: they enter the log at any time after their write, so later
    metadata may be durable without them, but never they without earlier metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lychgate_conformance.lab._micro import (
    BLOCK_BYTES,
    EntryAdd,
    EntryDrop,
    Growth,
    Meta,
    MicroOp,
    Recorder,
    Rename,
    Scope,
    SizeSet,
    Sync,
    SyncFailed,
    UnitWrite,
)
from lychgate_conformance.lab._models import Data, Model, Order

UnitKey = tuple[int, int]
"""Inode and unit."""


@dataclass(slots=True)
class OrderedState:
    """A log up to some index, read under an ordered model."""

    meta: list[Meta] = field(default_factory=list)
    needs: list[frozenset[int]] = field(default_factory=list)  # positions in `meta`
    forced: set[int] = field(default_factory=set)  # positions in `meta`
    writes: dict[UnitKey, list[UnitWrite]] = field(default_factory=dict)
    floor: dict[UnitKey, int] = field(default_factory=dict)  # forced index in `writes[...]`, plus 1
    floating: set[int] = field(default_factory=set)  # positions in `meta`
    lost: set[int] = field(default_factory=set)  # positions in `meta`: in no persisted set
    durable_blocks: dict[int, int] = field(default_factory=dict)


def split_renames(log: list[MicroOp], model: Model) -> Iterator[MicroOp]:
    """The log with renames between directories as two steps, where the model takes them so."""
    for op in log:
        if isinstance(op, Rename) and op.parent != op.to_parent and model.split_cross_rename:
            yield EntryAdd(op.index, op.call, op.to_parent, op.to_name, op.inode)
            yield EntryDrop(op.index, op.call, op.parent, op.name, op.inode)
        else:
            yield op


def read_log(disk: Recorder, upto: int, model: Model) -> OrderedState:
    """What is pending and what is forced after the first `upto` micro-ops."""
    state = OrderedState()
    for node in disk.nodes.values():
        state.durable_blocks[node.number] = -(-node.base_size // BLOCK_BYTES)
    for op in split_renames(disk.log[:upto], model):
        if isinstance(op, UnitWrite):
            state.writes.setdefault((op.inode, op.unit), []).append(op)
        elif isinstance(op, Sync):
            if not model.lying_flush:
                _force(state, op, model)
        elif isinstance(op, SyncFailed):
            if op.reverted or model.order is not Order.ALL:  # else the cache still has it
                _lose(state, op)
        elif isinstance(op, (SizeSet, EntryAdd, EntryDrop, Rename)):
            state.needs.append(frozenset(_needs(state, op, model)))
            if _floats(state, op, model):
                state.floating.add(len(state.meta))
            state.meta.append(op)
    return state


# --- what needs what --------------------------------------------------------------------------


def _floats(state: OrderedState, op: Meta, model: Model) -> bool:
    """Whether an op enters the log only after writeback."""
    if not isinstance(op, SizeSet) or op.growth in (Growth.CUT, Growth.STRETCH):
        return False
    if op.growth is Growth.IN and op.before <= state.durable_blocks.get(op.inode, 0) * BLOCK_BYTES:
        return model.growth_in_floats
    return True


def touched(op: Meta) -> set[int]:
    """The inodes that an op changes (not the directories)."""
    if isinstance(op, Rename) and op.replaced is not None:
        return {op.inode, op.replaced}
    return {op.inode}


def _places(op: Meta) -> set[tuple[int, str]]:
    if isinstance(op, SizeSet):
        return set()
    if isinstance(op, Rename):
        return {(op.parent, op.name), (op.to_parent, op.to_name)}
    return {(op.parent, op.name)}


def _needs(state: OrderedState, op: Meta, model: Model) -> Iterator[int]:
    if model.order in (Order.FREE, Order.ALL):
        return
    for position, earlier in enumerate(state.meta):
        if position in state.lost:
            continue
        if position in state.floating:
            if earlier.inode != op.inode:
                continue
            grows = isinstance(op, SizeSet) and op.growth is not Growth.CUT
            replaces = isinstance(op, Rename) and op.replaced is not None and model.replace_flushes
            if grows or replaces:
                yield position
        elif model.order is Order.JOURNAL or _related(earlier, op, model):
            yield position


def _related(earlier: Meta, op: Meta, model: Model) -> bool:
    """Whether two metadata ops depend on each other: a dirent change depends on its inode, an inode
    change does not pull in its parent."""
    if isinstance(op, SizeSet):
        return isinstance(earlier, SizeSet) and earlier.inode == op.inode
    parents = {parent for parent, _ in _places(op)}
    if touched(earlier) & (touched(op) | parents):
        return True
    if model.order is Order.OBJECT:
        return bool(_places(earlier) & _places(op))
    return bool({parent for parent, _ in _places(earlier)} & parents)


# --- what a sync forces -----------------------------------------------------------------------


def _force(state: OrderedState, sync: Sync, model: Model) -> None:
    everything = sync.scope is Scope.ALL
    roots: set[int] = set()
    for position, op in enumerate(state.meta):
        if everything or _asks_for(state, sync, op, model):
            roots.add(position)
    if model.order is Order.JOURNAL:
        last = max(roots - state.floating, default=0)
        roots |= set(range(last)) - state.floating
    state.forced |= closure(roots - state.lost, state.needs)
    for (inode, number), versions in state.writes.items():
        if everything or inode == sync.inode:
            state.floor[inode, number] = len(versions)
    for op in state.meta:
        if isinstance(op, SizeSet) and (everything or op.inode == sync.inode):
            state.durable_blocks[op.inode] = -(-op.size // BLOCK_BYTES)


def _asks_for(state: OrderedState, sync: Sync, op: Meta, model: Model) -> bool:
    inode = sync.inode
    if sync.scope is Scope.DIR:
        if isinstance(op, SizeSet):
            return False
        own_name = op.inode == inode and model.order is not Order.FREE
        return inode in {parent for parent, _ in _places(op)} or own_name
    if isinstance(op, SizeSet):
        return op.inode == inode
    if sync.scope is Scope.DATA:
        last = max(
            (m.index for m in state.meta if isinstance(m, SizeSet) and m.inode == inode), default=-1
        )
        return inode in touched(op) and op.index < last
    if model.order is Order.FREE:
        return False
    if model.order is Order.OBJECT:
        return op.inode == inode or op.inode in _ancestors(state, inode)
    return inode in touched(op)


def _ancestors(state: OrderedState, inode: int) -> set[int]:
    """Directories on the way to an inode, as far as the log has made them."""
    found: set[int] = set()
    todo = {inode}
    while todo:
        child = todo.pop()
        for op in state.meta:
            if isinstance(op, SizeSet) or op.inode != child:
                continue
            parent = op.to_parent if isinstance(op, Rename) else op.parent
            if parent not in found:
                found.add(parent)
                todo.add(parent)
    return found


def closure(roots: set[int], needs: list[frozenset[int]]) -> set[int]:
    """The roots and all that they need."""
    found: set[int] = set()
    todo = list(roots)
    while todo:
        position = todo.pop()
        if position not in found:
            found.add(position)
            todo.extend(needs[position])
    return found


def _lose(state: OrderedState, failed: SyncFailed) -> None:
    """Forget what a failed sync lost: it is in no P. Lost directory ops stay out as well."""
    for key in [key for key in state.writes if key[0] == failed.inode]:
        if failed.reverted or key[1] in failed.lost_units:
            kept = state.floor.get(key, 0)
            del state.writes[key][kept:]
    for position, op in enumerate(state.meta):
        if position in state.forced:
            continue
        gone = failed.reverted and isinstance(op, SizeSet) and op.inode == failed.inode
        names = {name for parent, name in _places(op) if parent == failed.inode}
        if gone or names & failed.lost_names:
            state.lost.add(position)
    state.needs = [needs - state.lost for needs in state.needs]


# --- what a persisted set asks of the bytes ----------------------------------------------------


def version_bounds(
    state: OrderedState, chosen: set[int], model: Model
) -> tuple[dict[UnitKey, int], dict[UnitKey, int]]:
    """Lowest and highest count of versions per unit that go with the chosen metadata ops."""
    low = dict(state.floor)
    high = {key: len(versions) for key, versions in state.writes.items()}
    for position, op in enumerate(state.meta):
        included = position in chosen
        if isinstance(op, SizeSet):
            if op.growth is Growth.CUT:
                _bound_cut(state, op, included, model, low, high)
            elif included and op.growth is not Growth.STRETCH:
                _bound_growth(state, op, model, low)
        elif included and isinstance(op, Rename) and op.replaced is not None:
            if model.replace_flushes:
                for key, versions in state.writes.items():
                    if key[0] == op.inode:
                        _raise(low, key, sum(write.index < op.index for write in versions))
    return low, high


def _raise(low: dict[UnitKey, int], key: UnitKey, count: int) -> None:
    low[key] = max(low.get(key, 0), count)


def _bound_cut(
    state: OrderedState,
    cut: SizeSet,
    included: bool,
    model: Model,
    low: dict[UnitKey, int],
    high: dict[UnitKey, int],
) -> None:
    for key, versions in state.writes.items():
        if key[0] != cut.inode:
            continue
        for count, write in enumerate(versions, 1):
            if write.call != cut.call:
                continue
            if model.order is Order.FREE:
                continue
            if included and (write.freed or model.zero_before_cut):
                _raise(low, key, count)
            if not included and (write.freed or model.cut_is_whole):
                high[key] = min(high[key], count - 1)


def _bound_growth(
    state: OrderedState, grown: SizeSet, model: Model, low: dict[UnitKey, int]
) -> None:
    if model.data is Data.FREE:
        return
    for key, versions in state.writes.items():
        if key[0] == grown.inode:
            of_this_call = [n for n, write in enumerate(versions, 1) if write.call == grown.call]
            _raise(low, key, max(of_this_call, default=0))
