"""Litmus programs of crash-semantics §5, with what was measured and what each model allows (F1).

A state is written as text: `1000a+500.` is a thousand `a` and five hundred NULs, `~` stands for
garbage. `measured` was seen on real file systems; `allowed` is all that the model says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lychgate_conformance.lab._image import DIRECTORY, Content
from lychgate_conformance.lab._micro import ROOT, Recorder, Scope


def inode(disk: Recorder, name: str) -> int:
    return disk.nodes[ROOT].entries[name]


def append(disk: Recorder, name: str, data: bytes) -> None:
    number = inode(disk, name)
    disk.write(number, len(disk.nodes[number].data), data)


def replace_by_rename(disk: Recorder) -> None:
    disk.write(disk.create(ROOT, "t").number, 0, b"b" * 100)
    disk.rename(ROOT, "t", ROOT, "f")


def create_by_rename(disk: Recorder) -> None:
    replace_by_rename(disk)


def create_and_fsync(disk: Recorder) -> None:
    number = disk.create(ROOT, "f").number
    disk.write(number, 0, b"b" * 100)
    disk.sync(Scope.FILE, number)


def create_beside(disk: Recorder) -> None:
    disk.create(ROOT, "x")
    create_and_fsync(disk)


def create_and_fsync_directory(disk: Recorder) -> None:
    disk.write(disk.create(ROOT, "f").number, 0, b"b" * 100)
    disk.sync(Scope.DIR)


def publish(disk: Recorder, *syncs: tuple[Scope, str]) -> None:
    number = disk.create(ROOT, "t").number
    disk.write(number, 0, b"b" * 100)
    disk.sync(Scope.FILE, number)
    disk.rename(ROOT, "t", ROOT, "f")
    for scope, name in syncs:
        disk.sync(scope, inode(disk, name) if name else ROOT)


def fdatasync_after_rename(disk: Recorder) -> None:
    number = disk.create(ROOT, "t").number
    disk.write(number, 0, b"b" * 100)
    disk.sync(Scope.FILE, number)
    disk.rename(ROOT, "t", ROOT, "f")
    disk.write(number, 0, b"c" * 100)
    disk.sync(Scope.DATA, number)


def link_and(scope: Scope) -> Callable[[Recorder], None]:
    def program(disk: Recorder) -> None:
        disk.link(ROOT, "g", inode(disk, "f"))
        disk.sync(scope, inode(disk, "f"))

    return program


def unlink_and_fsync(disk: Recorder) -> None:
    disk.unlink(ROOT, "f")
    disk.sync(Scope.DIR)


def append_then_unlink(size: int) -> Callable[[Recorder], None]:
    def program(disk: Recorder) -> None:
        append(disk, "dlq", b"b" * size)
        disk.unlink(ROOT, "wal")

    return program


def overwrite_two(disk: Recorder) -> None:
    disk.write(inode(disk, "f"), 40959, b"b")
    disk.write(inode(disk, "f"), 0, b"b")


def truncate_and_append(disk: Recorder) -> None:
    disk.truncate(inode(disk, "f"), 4000)
    append(disk, "f", b"b" * 50)


def tail_repair(disk: Recorder) -> None:
    disk.truncate(inode(disk, "f"), 1000)
    append(disk, "f", b"b" * 100)


def tail_repair_with_fsync(disk: Recorder) -> None:
    disk.truncate(inode(disk, "f"), 1000)
    disk.sync(Scope.FILE, inode(disk, "f"))
    append(disk, "f", b"b" * 100)


def move_across(disk: Recorder) -> None:
    disk.rename(ROOT, "f", inode(disk, "d"), "g")
    disk.sync(Scope.DIR, inode(disk, "d"))


def two_appends(disk: Recorder) -> None:
    append(disk, "f", b"b" * 500)
    append(disk, "f", b"c" * 500)


@dataclass(frozen=True)
class Litmus:
    """A program, what stands on the disk first, and per model: measured and allowed states."""

    name: str
    files: dict[str, Content]
    program: Callable[[Recorder], None]
    allowed: dict[str, str]
    measured: dict[str, str]


EXT4, WRITEBACK, XFS, BTRFS = "ext4-ordered", "ext4-writeback", "xfs", "btrfs"
A1000, A4096, A2500 = b"a" * 1000, b"a" * 4096, b"a" * 2500

LITMUS = [
    Litmus(
        "append inside a block",
        {"f": A1000},
        lambda disk: append(disk, "f", b"b" * 500),
        {
            EXT4: "f=1000a | f=1000a+500b | f=1000a+500.",
            WRITEBACK: "f=1000a | f=1000a+500b | f=1000a+500. | f=1000a+500~",
            XFS: "f=1000a | f=1000a+500b",
            BTRFS: "f=1000a | f=1000a+500b",
        },
        {
            EXT4: "f=1000a | f=1000a+500b | f=1000a+500.",
            WRITEBACK: "f=1000a | f=1000a+500b | f=1000a+500.",
            XFS: "f=1000a | f=1000a+500b",
            BTRFS: "f=1000a | f=1000a+500b",
        },
    ),
    Litmus(
        "append across a block edge",
        {"f": A2500},
        lambda disk: append(disk, "f", b"b" * 2500),
        {
            EXT4: "f=2500a | f=2500a+1596. | f=2500a+1596b | f=2500a+2500b | f=2500a+1596.+904b",
            XFS: "f=2500a | f=2500a+1596b | f=2500a+2500b",
            BTRFS: "f=2500a | f=2500a+1596b | f=2500a+2500b",
        },
        {
            EXT4: "f=2500a | f=2500a+1596. | f=2500a+1596b | f=2500a+2500b",
            XFS: "f=2500a | f=2500a+2500b",
            BTRFS: "f=2500a | f=2500a+2500b",
        },
    ),
    Litmus(
        "append at a block edge",
        {"f": A4096},
        lambda disk: append(disk, "f", b"b" * 12288),
        {m: "f=4096a | f=4096a+12288b" for m in (EXT4, XFS, BTRFS)},
        {m: "f=4096a | f=4096a+12288b" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "two appends inside a block",
        {"f": A1000},
        two_appends,
        {
            EXT4: "f=1000a | f=1000a+500b | f=1000a+500b+500c | f=1000a+500. | f=1000a+1000. "
            "| f=1000a+500b+500.",
            XFS: "f=1000a | f=1000a+500b | f=1000a+500b+500c",
            BTRFS: "f=1000a | f=1000a+500b | f=1000a+500b+500c",
        },
        {
            EXT4: "f=1000a | f=1000a+500b+500c | f=1000a+500. | f=1000a+1000.",
            XFS: "f=1000a | f=1000a+500b+500c",
            BTRFS: "f=1000a | f=1000a+500b+500c",
        },
    ),
    Litmus(
        "replace by rename without fsync",
        {"f": b"a" * 10},
        replace_by_rename,
        {
            EXT4: "f=10a | f= | f=100b | f=10a t= | f=10a t=100b",
            XFS: "f=10a | f= | f=100b | f=10a t= | f=10a t=100b",
            BTRFS: "f=10a | f=100b | f=10a t= | f=10a t=100b",
        },
        {EXT4: "f=10a | f=100b", XFS: "f=10a | f=100b | f=", BTRFS: "f=10a | f=100b"},
    ),
    Litmus(
        "create by rename without fsync",
        {},
        create_by_rename,
        {m: " | f= | f=100b | t= | t=100b" for m in (EXT4, XFS, BTRFS)},
        {m: " | f= | f=100b" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "create, write, fsync",
        {},
        create_and_fsync,
        {m: "f=100b" for m in (EXT4, WRITEBACK, XFS, BTRFS)} | {"portable": " | f=100b"},
        {m: "f=100b" for m in (EXT4, WRITEBACK, XFS, BTRFS)},
    ),
    Litmus(
        "a sibling created before",
        {},
        create_beside,
        {
            EXT4: "f=100b x=",
            XFS: "f=100b x=",
            BTRFS: "f=100b x= | f=100b",
            "portable": " | x= | f=100b | f=100b x=",
        },
        {EXT4: "f=100b x=", XFS: "f=100b x=", BTRFS: "f=100b | f=100b x="},
    ),
    Litmus(
        "fsync of the directory only",
        {},
        create_and_fsync_directory,
        {m: "f= | f=100b" for m in (EXT4, XFS, BTRFS)},
        {m: "f= | f=100b" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "fsync, rename, crash",
        {"f": b"a" * 10},
        lambda disk: publish(disk),
        {m: "f=10a t=100b | f=100b" for m in (EXT4, XFS)}
        | {BTRFS: "f=10a t=100b | f=100b", "portable": "f=10a | f=10a t=100b | f=100b"},
        {m: "f=100b" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "fsync, rename, fsync of the directory",
        {"f": b"a" * 10},
        lambda disk: publish(disk, (Scope.DIR, "")),
        {m: "f=100b" for m in (EXT4, WRITEBACK, XFS, BTRFS, "portable")},
        {m: "f=100b" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "fsync, rename, fsync of the file",
        {"f": b"a" * 10},
        lambda disk: publish(disk, (Scope.FILE, "f")),
        {m: "f=100b" for m in (EXT4, WRITEBACK, XFS, BTRFS)}
        | {"portable": "f=10a | f=10a t=100b | f=100b"},
        {m: "f=100b" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "fdatasync after rename",
        {"f": b"a" * 10},
        fdatasync_after_rename,
        {m: "f=10a t=100c | f=100c" for m in (EXT4, XFS, BTRFS)},
        {EXT4: "f=10a t=100c | f=100c", XFS: "f=100c", BTRFS: "f=100c"},
    ),
    Litmus(
        "link, fsync",
        {"f": b"a"},
        link_and(Scope.FILE),
        {m: "f=1a g=1a" for m in (EXT4, XFS, BTRFS)} | {"portable": "f=1a | f=1a g=1a"},
        {m: "f=1a g=1a" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "link, fdatasync",
        {"f": b"a"},
        link_and(Scope.DATA),
        {m: "f=1a | f=1a g=1a" for m in (EXT4, XFS, BTRFS)},
        {EXT4: "f=1a | f=1a g=1a", XFS: "f=1a g=1a", BTRFS: "f=1a g=1a"},
    ),
    Litmus(
        "unlink, fsync of the directory",
        {"f": b"a"},
        unlink_and_fsync,
        {m: "" for m in (EXT4, XFS, BTRFS, "portable")},
        {m: "" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "append to one file, unlink another",
        {"dlq": A1000, "wal": b"w"},
        append_then_unlink(100),
        {
            EXT4: "dlq=1000a wal=1w | dlq=1000a+100. wal=1w | dlq=1000a+100b wal=1w "
            "| dlq=1000a+100. | dlq=1000a+100b",
            XFS: "dlq=1000a wal=1w | dlq=1000a+100b wal=1w | dlq=1000a | dlq=1000a+100b",
            BTRFS: "dlq=1000a wal=1w | dlq=1000a+100b wal=1w | dlq=1000a | dlq=1000a+100b",
        },
        {EXT4: "dlq=1000a+100.", XFS: "dlq=1000a", BTRFS: "dlq=1000a"},
    ),
    Litmus(
        "append a new block to one file, unlink another",
        {"dlq": A4096, "wal": b"w"},
        append_then_unlink(100),
        {
            m: "dlq=4096a wal=1w | dlq=4096a+100b wal=1w | dlq=4096a | dlq=4096a+100b"
            for m in (EXT4, XFS, BTRFS)
        },
        {EXT4: "dlq=4096a", XFS: "dlq=4096a"},
    ),
    Litmus(
        "overwrite at the end and at the front",
        {"f": b"a" * 40960},
        overwrite_two,
        {
            m: "f=40960a | f=40959a+1b | f=1b+40959a | f=1b+40958a+1b"
            for m in (EXT4, WRITEBACK, XFS, BTRFS, "portable")
        },
        {
            EXT4: "f=40960a | f=40959a+1b | f=1b+40959a | f=1b+40958a+1b",
            BTRFS: "f=40960a | f=1b+40958a+1b",
        },
    ),
    Litmus(
        "truncate and append",
        {"f": b"a" * 9000},
        truncate_and_append,
        {
            EXT4: "f=9000a | f=4000a+96.+4904a | f=4000a+50b+46.+4904a | f=4000a "
            "| f=4000a+50. | f=4000a+50b",
            XFS: "f=9000a | f=4000a+96.+4904a | f=4000a+50b+46.+4904a | f=4000a | f=4000a+50b",
            BTRFS: "f=9000a | f=4000a | f=4000a+50b",
        },
        {
            EXT4: "f=4000a+96.+4904a | f=4000a+50b+46.+4904a | f=4000a | f=4000a+50b",
            XFS: "f=4000a+96.+4904a | f=4000a+50b+46.+4904a | f=4000a | f=4000a+50b",
            WRITEBACK: "f=4000a+96.+4904a | f=4000a+50b+46.+4904a | f=4000a | f=4000a+50b "
            "| f=4050a",
            BTRFS: "f=9000a | f=4000a | f=4000a+50b",
        },
    ),
    Litmus(
        "tail repair without fsync between",
        {"f": b"a" * 1300},
        tail_repair,
        {
            EXT4: "f=1300a | f=1000a+300. | f=1000a+100b+200. | f=1000a | f=1000a+100. "
            "| f=1000a+100b",
            XFS: "f=1300a | f=1000a+300. | f=1000a+100b+200. | f=1000a | f=1000a+100b",
            BTRFS: "f=1300a | f=1000a | f=1000a+100b",
        },
        {
            EXT4: "f=1000a+300. | f=1000a+100b+200. | f=1000a | f=1000a+100b",
            WRITEBACK: "f=1000a+300. | f=1000a+100b+200. | f=1000a+100b | f=1100a",
            XFS: "f=1000a+300. | f=1000a+100b+200. | f=1000a | f=1000a+100b",
            BTRFS: "f=1300a | f=1000a | f=1000a+100b",
        },
    ),
    Litmus(
        "tail repair with fsync between",
        {"f": b"a" * 1300},
        tail_repair_with_fsync,
        {
            EXT4: "f=1000a | f=1000a+100. | f=1000a+100b",
            XFS: "f=1000a | f=1000a+100b",
            BTRFS: "f=1000a | f=1000a+100b",
        },
        {
            EXT4: "f=1000a | f=1000a+100. | f=1000a+100b",
            WRITEBACK: "f=1000a | f=1000a+100. | f=1000a+100b",
            XFS: "f=1000a | f=1000a+100b",
            BTRFS: "f=1000a | f=1000a+100b",
        },
    ),
    Litmus(
        "rename into another directory, fsync there",
        {"f": b"a", "d": DIRECTORY},
        move_across,
        {
            EXT4: "d d/g=1a",
            XFS: "d d/g=1a",
            BTRFS: "d d/g=1a | d d/g=1a f=1a",
            "portable": "d d/g=1a | d d/g=1a f=1a",
        },
        {EXT4: "d d/g=1a", XFS: "d d/g=1a", BTRFS: "d d/g=1a f=1a"},
    ),
]
