"""The litmus programs, each once: for the lab's own tests and for real file systems (F1).

The first have their states written out by hand, as crash-semantics §5 has them: `measured` was
seen on real file systems, `allowed` is all that the model says. The others are compared with the
models only.
"""

from __future__ import annotations

from lychgate_conformance.lab._litmus import Litmus

EXT4, WRITEBACK, XFS, BTRFS = "ext4-ordered", "ext4-writeback", "xfs", "btrfs"

_BY_HAND = [
    Litmus(
        "append-in-block",
        "f=1000a",
        "append f 500b",
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
        "append-across-edge",
        "f=2500a",
        "append f 2500b",
        {
            EXT4: "f=2500a | f=2500a+1596. | f=2500a+1596b | f=2500a+2500b | f=2500a+1596.+904b "
            "| f=2500a+2500. | f=2500a+1596b+904.",
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
        "append-at-edge",
        "f=4096a",
        "append f 12288b",
        {m: "f=4096a | f=4096a+12288b" for m in (XFS, BTRFS)}
        | {
            EXT4: "f=4096a | f=4096a+12288b | f=4096a+12288. | f=4096a+4096b+8192. "
            "| f=4096a+4096.+4096b+4096. | f=4096a+8192.+4096b | f=4096a+8192b+4096. "
            "| f=4096a+4096b+4096.+4096b | f=4096a+4096.+8192b",
        },
        {m: "f=4096a | f=4096a+12288b" for m in (XFS, BTRFS)}
        | {EXT4: "f=4096a | f=4096a+12288b | f=4096a+12288."},
    ),
    Litmus(
        "two-appends",
        "f=1000a",
        "append f 500b; append f 500c",
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
        "replace-no-fsync",
        "f=10a",
        "create t; append t 100b; rename t f",
        {
            EXT4: "f=10a | f= | f=100b | f=10a t= | f=10a t=100b | f=100. | f=10a t=100.",
            XFS: "f=10a | f= | f=100b | f=10a t= | f=10a t=100b",
            BTRFS: "f=10a | f=100b | f=10a t= | f=10a t=100b",
        },
        {EXT4: "f=10a | f=100b", XFS: "f=10a | f=100b | f=", BTRFS: "f=10a | f=100b"},
    ),
    Litmus(
        "create-by-rename",
        "",
        "create t; append t 100b; rename t f",
        {m: " | f= | f=100b | t= | t=100b" for m in (XFS, BTRFS)}
        | {EXT4: " | f= | f=100b | t= | t=100b | f=100. | t=100."},
        {m: " | f= | f=100b" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "create-write-fsync",
        "",
        "create f; append f 100b; fsync f",
        {m: "f=100b" for m in (EXT4, WRITEBACK, XFS, BTRFS)} | {"portable": " | f=100b"},
        {m: "f=100b" for m in (EXT4, WRITEBACK, XFS, BTRFS)},
    ),
    Litmus(
        "sibling-created-before",
        "",
        "create x; create f; append f 100b; fsync f",
        {
            EXT4: "f=100b x=",
            XFS: "f=100b x=",
            BTRFS: "f=100b x= | f=100b",
            "portable": " | x= | f=100b | f=100b x=",
        },
        {EXT4: "f=100b x=", XFS: "f=100b x=", BTRFS: "f=100b | f=100b x="},
    ),
    Litmus(
        "fsyncdir-only",
        "",
        "create f; append f 100b; fsyncdir .",
        {m: "f= | f=100b" for m in (XFS, BTRFS)} | {EXT4: "f= | f=100b | f=100."},
        {m: "f= | f=100b" for m in (XFS, BTRFS)} | {EXT4: "f= | f=100b | f=100."},
    ),
    Litmus(
        "replace-fsync-first",
        "f=10a",
        "create t; append t 100b; fsync t; rename t f",
        {m: "f=10a t=100b | f=100b" for m in (EXT4, XFS)}
        | {BTRFS: "f=10a t=100b | f=100b", "portable": "f=10a | f=10a t=100b | f=100b"},
        {m: "f=100b" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "replace-fsyncdir",
        "f=10a",
        "create t; append t 100b; fsync t; rename t f; fsyncdir .",
        {m: "f=100b" for m in (EXT4, WRITEBACK, XFS, BTRFS, "portable")},
        {m: "f=100b" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "replace-fsync-renamed",
        "f=10a",
        "create t; append t 100b; fsync t; rename t f; fsync f",
        {m: "f=100b" for m in (EXT4, WRITEBACK, XFS, BTRFS)}
        | {"portable": "f=10a | f=10a t=100b | f=100b"},
        {m: "f=100b" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "fdatasync-after-rename",
        "f=10a",
        "create t; append t 100b; fsync t; rename t f; write f 0 100c; fdatasync f",
        {m: "f=10a t=100c | f=100c" for m in (EXT4, XFS, BTRFS)},
        {EXT4: "f=10a t=100c | f=100c", XFS: "f=100c", BTRFS: "f=100c"},
    ),
    Litmus(
        "link-fsync",
        "f=1a",
        "link f g; fsync f",
        {m: "f=1a g=f" for m in (EXT4, XFS, BTRFS)} | {"portable": "f=1a | f=1a g=f"},
        {m: "f=1a g=f" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "link-fdatasync",
        "f=1a",
        "link f g; fdatasync f",
        {m: "f=1a | f=1a g=f" for m in (EXT4, XFS, BTRFS)},
        {EXT4: "f=1a | f=1a g=f", XFS: "f=1a g=f", BTRFS: "f=1a g=f"},
    ),
    Litmus(
        "unlink-fsyncdir",
        "f=1a",
        "unlink f; fsyncdir .",
        {m: "" for m in (EXT4, XFS, BTRFS, "portable")},
        {m: "" for m in (EXT4, XFS, BTRFS)},
    ),
    Litmus(
        "dlq-append-unlink-wal",
        "dlq=1000a wal=1w",
        "append dlq 100b; unlink wal",
        {
            EXT4: "dlq=1000a wal=1w | dlq=1000a+100. wal=1w | dlq=1000a+100b wal=1w "
            "| dlq=1000a+100. | dlq=1000a+100b",
            XFS: "dlq=1000a wal=1w | dlq=1000a+100b wal=1w | dlq=1000a | dlq=1000a+100b",
            BTRFS: "dlq=1000a wal=1w | dlq=1000a+100b wal=1w | dlq=1000a | dlq=1000a+100b",
        },
        {EXT4: "dlq=1000a+100.", XFS: "dlq=1000a", BTRFS: "dlq=1000a"},
    ),
    Litmus(
        "dlq-new-block-unlink-wal",
        "dlq=4096a wal=1w",
        "append dlq 100b; unlink wal",
        {
            m: "dlq=4096a wal=1w | dlq=4096a+100b wal=1w | dlq=4096a | dlq=4096a+100b"
            for m in (XFS, BTRFS)
        }
        | {
            EXT4: "dlq=4096a wal=1w | dlq=4096a+100b wal=1w | dlq=4096a | dlq=4096a+100b "
            "| dlq=4096a+100. wal=1w | dlq=4096a+100.",
            WRITEBACK: "dlq=4096a wal=1w | dlq=4096a+100b wal=1w | dlq=4096a | dlq=4096a+100b "
            "| dlq=4096a+100. wal=1w | dlq=4096a+100. | dlq=4096a+100~ wal=1w | dlq=4096a+100~ "
            "| dlq=4096a wal=1~ | dlq=4096a+100b wal=1~ | dlq=4096a+100. wal=1~ "
            "| dlq=4096a+100~ wal=1~",
        },
        {
            EXT4: "dlq=4096a | dlq=4096a+100.",
            WRITEBACK: "dlq=4096a wal=1~",
            XFS: "dlq=4096a",
            BTRFS: "dlq=4096a",
        },
    ),
    Litmus(
        "overwrite-end-then-front",
        "f=40960a",
        "write f 40959 1b; write f 0 1b",
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
        "truncate-append",
        "f=9000a",
        "truncate f 4000; append f 50b",
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
        "tail-repair",
        "f=1300a",
        "truncate f 1000; append f 100b",
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
        "tail-repair-fsync-between",
        "f=1300a",
        "truncate f 1000; fsync f; append f 100b",
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
        "truncate-stretch",
        "f=5000a",
        "truncate f 1000; truncate f 5000",
        {m: "f=5000a | f=1000a | f=1000a+4000. | f=1000a+3096.+904a" for m in (EXT4, XFS)}
        | {BTRFS: "f=5000a | f=1000a | f=1000a+4000. | f=4096a+904."},
        {EXT4: "f=1000a | f=1000a+3096.+904a | f=1000a+4000. | f=5000a"}
        | {BTRFS: "f=1000a | f=1000a+4000. | f=5000a | f=4096a+904."},
    ),
    Litmus(
        "move-fsyncdir-target",
        "d f=1a",
        "rename f d/g; fsyncdir d",
        {
            EXT4: "d d/g=1a",
            XFS: "d d/g=1a",
            BTRFS: "d d/g=1a | d d/g=1a f=d/g",
            "portable": "d d/g=1a | d d/g=1a f=d/g",
        },
        {EXT4: "d d/g=1a", XFS: "d d/g=1a", BTRFS: "d d/g=1a f=d/g"},
    ),
]

_MORE = """
append-to-empty | f= | append f 100b
append-fsync | f=1000a | append f 500b; fsync f
append-fdatasync | f=1000a | append f 500b; fdatasync f
append-fsync-append | f=1000a | append f 500b; fsync f; append f 500c
append-across-fdatasync | f=2500a | append f 2500b; fdatasync f
appends-across-edge | f=3500a | append f 500b; append f 500c; append f 500d
append-two-files | f=1000a g=1000a | append f 100b; append g 100c
append-two-files-fsync-second | f=1000a g=1000a | append f 100b; append g 100c; fsync g
append-behind-hole | f=100a | write f 8192 100b
overwrite-in-block | f=1000a | write f 0 500b
overwrite-two-files | f=1000a g=1000a | write f 0 10b; write g 0 10c
overwrite-two-files-fsync-second | f=1000a g=1000a | write f 0 10b; write g 0 10c; fsync g
overwrite-then-append | f=1000a | write f 0 10b; append f 10c
overwrite-fdatasync | f=1000a | write f 0 10b; fdatasync f; write f 10 10c
stretch | f=1000a | truncate f 5000
stretch-fsync | f=1000a | truncate f 5000; fsync f
stretch-write | f=1000a | truncate f 5000; write f 4500 100b
truncate-to-zero-rewrite | f=1000a | truncate f 0; append f 100b
truncate-to-zero-rewrite-fsync | f=1000a | truncate f 0; append f 100b; fsync f
truncate-at-edge | f=8192a | truncate f 4096
truncate-fsync | f=9000a | truncate f 4000; fsync f
tail-repair-one-fsync | f=1300a | truncate f 1000; append f 100b; fsync f
tail-repair-two-fsyncs | f=1300a | truncate f 1000; fsync f; append f 100b; fsync f
tail-repair-larger | f=1300a | truncate f 1000; append f 500b
create-empty-fsyncdir | | create f; fsyncdir .
create-fdatasync | | create f; append f 100b; fdatasync f
create-two-fsyncdir | | create f; create g; fsyncdir .
create-write-fsync-fsyncdir | | create f; append f 100b; fsync f; fsyncdir .
mkdir-fsyncdir | | mkdir d; fsyncdir .
mkdir-create-fsync-file | | mkdir d; create d/f; append d/f 100b; fsync d/f
mkdir-create-fsyncdir-inside | | mkdir d; create d/f; fsyncdir d
rmdir-fsyncdir | d f=1a | rmdir d; fsyncdir .
two-directories-fsyncdir-second | d e | create d/f; create e/g; fsyncdir e
replace-grown-fdatasync | f=10a | create t; append t 50b; fsync t; rename t f; append f 50c; \
  fdatasync f
replace-twice | f=10a | create t; append t 50b; fsync t; rename t f; create t; append t 50c; \
  fsync t; rename t f
replace-by-link | f=10a | create t; append t 50b; fsync t; unlink f; link t f; unlink t; fsyncdir .
rename-chain | f=10a | rename f g; rename g h; fsyncdir .
rename-chain-no-fsync | f=10a | rename f g; rename g h
rename-swap | f=10a g=10b | rename f t; rename g f; rename t g
rename-directory | d d/f=1a | rename d e; fsyncdir .
rotate-recreate | f=10a | rename f g; create f; append f 50b; fsync f
rotate-recreate-fsyncdir | f=10a | rename f g; create f; append f 50b; fsync f; fsyncdir .
unlink-no-fsync | f=1a g=1b | unlink f; unlink g
unlink-recreate | f=10a | unlink f; create f; append f 50b; fsync f
unlink-one-link | f=10a g=f | unlink g; fsync f
link-no-fsync | f=1a | link f g
link-fsyncdir | f=1a | link f g; fsyncdir .
link-other-directory-fsync | d f=1a | link f d/g; fsync f
move-no-fsync | d f=1a | rename f d/g
move-fsyncdir-source | d f=1a | rename f d/g; fsyncdir .
move-fsync-file | d f=1a | rename f d/g; fsync d/g
move-fsync-both | d f=1a | rename f d/g; fsyncdir d; fsyncdir .
move-replace | d d/g=10b f=10a | rename f d/g; fsyncdir d
dlq-append-fsync-unlink-wal | dlq=1000a wal=1w | append dlq 100b; fsync dlq; unlink wal
dlq-append-fsync-unlink-fsyncdir | dlq=1000a wal=1w | append dlq 100b; fsync dlq; unlink wal; \
  fsyncdir .
dlq-created-unlink-wal | wal=1w | create dlq; append dlq 100b; fsync dlq; unlink wal
dlq-created-fsyncdir-unlink-wal | wal=1w | create dlq; append dlq 100b; fsync dlq; fsyncdir .; \
  unlink wal
dlq-append-rename-wal | dlq=1000a wal=1w | append dlq 100b; rename wal old
mark-then-append | dlq=1000a mark=10c | write mark 0 10d; append dlq 100b; fsync dlq; \
  write mark 0 10c
republish-then-append | dlq=1000a | create t; append t 900a; fsync t; rename t dlq; fsyncdir .; \
  append dlq 100b; fsync dlq
wal-rotate | wal=1000w | create new; fsyncdir .; append new 500w; fsync new; fsyncdir .; \
  unlink wal; fsyncdir .
sync-everything | f=1000a | append f 100b; create g; append g 100c; sync; append f 100d
"""


def _rest() -> list[Litmus]:
    rows = (line.split("|") for line in _MORE.strip().splitlines())
    return [Litmus(name.strip(), files.strip(), steps.strip()) for name, files, steps in rows]


LITMUS = [*_BY_HAND, *_rest()]
"""All of them, each under a name of its own."""
