"""Persistence models by name: what a crash may keep of the micro-ops, and what a sync forces.

    free        no order at all: the POSIX minimum (`portable` adds torn prefixes and atomic rename)
    journal     metadata is a prefix of one global sequence; sizes of new blocks float (ext4)
    dependency  metadata ops that share a directory or an inode are ordered (xfs)
    object      metadata ops that share a name or an inode are ordered (btrfs)
    all         nothing is lost: the end of a process; the write in flight may be cut
    prefix      strictly in issue order (a model to compare with; no file system promises it)

The verdict is taken under `portable`; the named models say which deployments a failure hits.
Knobs are put behind a model's name, one or several: `portable+512`, `xfs+garbage+lying`.

    512, 1    the bytes that a device writes whole, in place of 4096
    garbage   bytes that were never written read as NUL or as garbage with newlines in it
    lying     a sync forces nothing: no promise can be kept; shows that the oracle is not blind
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any

from lychgate_conformance.lab._micro import BLOCK_BYTES

NUL = b"\0"
GARBAGE = b"\xa5\n\xa5\xff{}\n"
"""A pattern for blocks of unknown content, with newlines in it: it makes lines of its own."""


class Order(enum.Enum):
    """What orders metadata micro-ops."""

    FREE = "free"
    JOURNAL = "journal"
    DEPENDENCY = "dependency"
    OBJECT = "object"
    ALL = "all"
    PREFIX = "prefix"


class Data(enum.Enum):
    """What a size needs of the bytes under it."""

    FREE = "free"
    BEFORE_SIZE = "before-size"  # the bytes of a write before its size


@dataclass(frozen=True, slots=True)
class Model:
    """One persistence model. `crash-semantics` §3 is the source of every field."""

    name: str
    order: Order
    data: Data = Data.FREE
    torn_prefixes: bool = False
    """Every byte prefix of each file's last unsynced write, and the same length unwritten."""
    growth_in_floats: bool = False
    """Whether a size inside an allocated block, too, enters the log only after writeback."""
    zero_before_cut: bool = True
    """Whether the tail of the last kept block is zeroed before the smaller size is durable."""
    cut_is_whole: bool = False
    """Whether bytes of and after a truncation appear only together with it."""
    atomic_rename: bool = True
    split_cross_rename: bool = False
    """Whether a rename between directories is two independent steps."""
    frees_early: bool = False
    """Whether others may write to a freed block before it is durable that it was freed."""
    replace_flushes: bool = False
    """Whether a rename over an existing name waits for the bytes of what it moves."""
    fills: tuple[bytes, ...] = (NUL,)
    unit: int = BLOCK_BYTES
    lying_flush: bool = False

    def __post_init__(self) -> None:
        assert self.fills and all(self.fills), "unwritten bytes read as something"


PORTABLE = Model(
    "portable", Order.FREE, torn_prefixes=True, split_cross_rename=True, zero_before_cut=False
)

MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        PORTABLE,
        replace(PORTABLE, name="posix-min", torn_prefixes=False, atomic_rename=False),
        replace(PORTABLE, name="portable-stale", fills=(NUL, GARBAGE)),
        # A new block is an unwritten extent until its bytes are there, and its size need not
        # wait for that: NULs inside a new length, measured by `lychgate litmus`.
        Model("ext4-ordered", Order.JOURNAL),
        Model(
            "ext4-writeback",
            Order.JOURNAL,
            Data.FREE,
            zero_before_cut=False,
            frees_early=True,
            fills=(NUL, GARBAGE),
        ),
        Model("xfs", Order.DEPENDENCY, Data.BEFORE_SIZE, growth_in_floats=True),
        Model(
            "btrfs",
            Order.OBJECT,
            Data.BEFORE_SIZE,
            growth_in_floats=True,
            zero_before_cut=False,  # measured: a stretch after it shows the old tail again
            cut_is_whole=True,
            split_cross_rename=True,
            replace_flushes=True,
        ),
        Model("process-kill", Order.ALL),
        Model("prefix", Order.PREFIX),
    )
}
"""All models by name."""


KNOBS: dict[str, dict[str, Any]] = {
    "512": {"unit": 512},
    "1": {"unit": 1},
    "garbage": {"fills": (NUL, GARBAGE)},
    "lying": {"lying_flush": True},
}
"""What a knob changes of a model."""


def find_model(name: str) -> Model:
    """The model of this name, knobs behind a `+` each; ValueError if one of them is unknown."""
    plain, *knobs = name.split("+")
    if plain not in MODELS:
        raise ValueError(f"unknown persistence model {plain!r}; known: {', '.join(MODELS)}")
    model = MODELS[plain]
    for knob in knobs:
        if knob not in KNOBS:
            raise ValueError(f"unknown knob {knob!r} of a model; known: {', '.join(KNOBS)}")
        model = replace(model, **KNOBS[knob])
    return replace(model, name=name)
