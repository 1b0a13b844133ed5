"""Level 0: files: names, prefixes, modes, links, and what belongs to somebody else."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path

from lychgate_conformance._case import case
from lychgate_conformance._check import expect, expect_equal, expect_ids, refused
from lychgate_conformance._layout import (
    body_of_line,
    data_file,
    is_wal,
    lines,
    lock_file,
    the_wal_file,
)
from lychgate_conformance._stage import PREFIX, Stage
from lychgate_conformance._store import Store
from lychgate_conformance.cases.tasks import YEAR_9999

FILES = "stores, uses_path"
LAYOUT = "stores, disk_layout"


def work(store: Store, mark: str) -> str:
    """A bit of everything; one waiting and one dead task are left. The id of the waiting one."""
    kept = store.add_task({"mark": mark}, publish_at=YEAR_9999)
    store.remove_task(store.add_task("done"))
    store.add_dead_task(f"dead-{mark}", {"mark": mark})
    store.add_dead_task("dead-gone")
    store.remove_dead_tasks(["dead-gone"])
    store.list_dead_tasks()
    return kept


def expect_work(store: Store, mark: str, kept: str) -> None:
    """What `work` left, and nothing else, is there."""
    waiting = store.pending_tasks()
    expect_ids(f"pending tasks of {mark!a}", [it.task_id for it in waiting], [kept])
    expect_equal("the payload", waiting[0].task, {"mark": mark})
    expect_ids(f"dead tasks of {mark!a}", store.dead_ids(), [f"dead-{mark}"])


def snapshot(root: Path) -> dict[str, tuple[bytes, int]]:
    """Content and modification time of every file below `root`."""
    files = [it for it in root.rglob("*") if it.is_file()]
    return {str(it.relative_to(root)): (it.read_bytes(), it.stat().st_mtime_ns) for it in files}


@case("L0-FILE-001", "every file is below the path and begins with the prefix", "D6, D7", FILES)
def files_are_named(stage: Stage) -> None:
    cwd = stage.root / "cwd"
    cwd.mkdir()
    stage.here.chdir(cwd)
    store = stage.open(prefix="mine-")
    work(store, "m")
    store.close()
    files = [it for it in stage.root.rglob("*") if it.is_file()]
    outside = [str(it) for it in files if not it.is_relative_to(stage.path)]
    expect_equal("files outside the path", outside, [])
    foreign = sorted(it.name for it in stage.path.iterdir() if not it.name.startswith("mine-"))
    expect_equal("names without the prefix", foreign, [])


@case("L0-FILE-002", "files of others in the directory are not touched", "D6, D7", FILES)
def foreign_files_are_untouched(stage: Stage) -> None:
    stage.path.mkdir()
    for name in (
        "notes.txt",
        f"{PREFIX}notes.txt",
        f"{PREFIX}dead_tasks-1",
        f"{PREFIX}dead_tasks-0.bak",
        f"{PREFIX}dead_tasks-00",
        f"{PREFIX}1-20200101-77-00112233445566aa",
        f"{PREFIX}0-20200101-77",
        f"x{PREFIX}0-20200101-77-00112233445566aa",
        "other-dead_tasks-0",
        "other-0-20200101-77-00112233445566aa",
    ):
        (stage.path / name).write_bytes(b"not yours\n" * 3)
    before = snapshot(stage.path)
    for _ in range(2):
        store = stage.open()
        work(store, "m")
        store.close()
    after = snapshot(stage.path)
    for name, (content, changed) in before.items():
        expect(name in after, f"{name} is gone")
        expect(after[name][0] == content, f"{name} was written to")
        expect(after[name][1] == changed, f"{name} was touched")


@case("L0-FILE-003", "files are for their owner only, whatever the umask", "D27", FILES)
def modes_are_private(stage: Stage) -> None:
    before = stage.here.umask(0)
    try:
        work(stage.open(), "m")
    finally:
        stage.here.umask(before)
    for path in stage.path.iterdir():
        mode = stat.S_IMODE(path.stat().st_mode)
        expect(mode & 0o177 == 0, f"{path.name} has mode {mode:04o}, expected 0600")


@case("L0-FILE-004", "a removal keeps the mode that somebody gave the data file", "D27", LAYOUT)
def compaction_keeps_the_mode(stage: Stage) -> None:
    store = stage.open()
    store.add_dead_task("gone")
    store.add_dead_task("kept")
    data_file(stage).chmod(0o640)
    expect_equal("the count", store.remove_dead_tasks(["gone"]), 1)
    mode = stat.S_IMODE(data_file(stage).stat().st_mode)
    expect(mode == 0o640, f"the data file has mode {mode:04o}, before the removal it had 0640")


def apart(stage: Stage, prefixes: list[str]) -> None:
    """Stores of several prefixes in one directory, opened twice, keep to themselves."""
    kept = {}
    for prefix in prefixes:
        store = stage.open(prefix=prefix)
        kept[prefix] = work(store, prefix)
        store.close()
    for _ in range(2):
        for prefix in reversed(prefixes):
            store = stage.open(prefix=prefix)
            expect_work(store, prefix, kept[prefix])
            store.close()


PREFIXED = "stores, uses_path, survives_restart"


@case("L0-FILE-005", "two prefixes, one the beginning of the other, keep apart", "D7", PREFIXED)
def prefixes_that_begin_alike(stage: Stage) -> None:
    apart(stage, ["a-", "a-0-", "a-0-20200101-", "a", "0-", "00-"])


@case("L0-FILE-006", "prefixes with glob characters and spaces keep apart", "D7", PREFIXED)
def prefixes_with_glob_characters(stage: Stage) -> None:
    apart(stage, ["*-", "?-", "[ab]-", "a-", "b-", "a b-", ".*", "{x,y}-", "$HOME-", "~"])


@case("L0-FILE-007", "prefixes of other scripts keep apart", "D7", PREFIXED)
def prefixes_of_other_scripts(stage: Stage) -> None:
    apart(stage, ["aufträge-", "auftra\u0308ge-", "任務-", "\U0001f980-"])


@case("L0-FILE-008", "a prefix that cannot begin a file name is refused", "D7", FILES)
def bad_prefixes_are_refused(stage: Stage) -> None:
    for prefix in ("a/b-", "/", "../up-", "nul\0-"):
        error = refused(partial(stage.open, prefix=prefix))
        expect(error is not None, f"the prefix {prefix!a} is accepted")
    left = sorted(str(it.relative_to(stage.root)) for it in stage.root.rglob("*") if it.is_file())
    expect_equal("files after the refusals", left, [])


@case("L0-FILE-009", "missing directories on the way are made", "D22, D9", PREFIXED)
def directories_are_made(stage: Stage) -> None:
    path = stage.path / "a" / "b c" / "d"
    store = stage.open(path)
    kept = work(store, "m")
    store.close()
    expect_work(stage.open(path), "m", kept)


@case("L0-FILE-010", "a path that is a symlink to a directory works", "D27", PREFIXED)
def linked_directory(stage: Stage) -> None:
    real, link = stage.root / "real", stage.root / "link"
    real.mkdir()
    link.symlink_to(real)
    store = stage.open(link)
    kept = work(store, "m")
    store.close()
    expect(link.is_symlink(), "the link was replaced")
    expect_work(stage.open(real), "m", kept)


@case("L0-FILE-011", "a relative path means the same directory after chdir", "W14", PREFIXED)
def relative_path(stage: Stage) -> None:
    first, second = stage.root / "first", stage.root / "second"
    first.mkdir()
    second.mkdir()
    stage.here.chdir(first)
    store = stage.open("storage")
    stage.here.chdir(second)
    kept = work(store, "m")
    store.close()
    expect_equal("files in the other directory", [str(it) for it in second.rglob("*")], [])
    expect_work(stage.open(first / "storage"), "m", kept)


@case("L0-FILE-012", "a data file that is a symlink stays one and is followed", "D27", LAYOUT)
def linked_data_file(stage: Stage) -> None:
    elsewhere = stage.root / "elsewhere"
    elsewhere.mkdir()
    stage.path.mkdir()
    target = elsewhere / "data"
    target.write_bytes(b"")
    data_file(stage).symlink_to(target)
    store = stage.open()
    store.add_dead_task("gone")
    store.add_dead_task("kept")
    expect_equal("the count", store.remove_dead_tasks(["gone"]), 1)
    expect(data_file(stage).is_symlink(), "the link was replaced by a file")
    expect(os.readlink(data_file(stage)) == str(target), "the link leads elsewhere")
    expect_equal("lines behind the link", len(lines(target)), 1)
    expect_equal("dead tasks", store.dead_ids(), ["kept"])
    expect_equal("dead tasks after reopening", stage.reopen(store).dead_ids(), ["kept"])


@case("L0-FILE-013", "the dead-task files have the names of the format", "D6", LAYOUT)
def dead_names(stage: Stage) -> None:
    store = stage.open()
    store.add_dead_task("job")
    expect(data_file(stage).is_file(), f"there is no {data_file(stage).name}")
    expect(lock_file(stage).is_file(), f"there is no {lock_file(stage).name}")
    names = sorted(it.name for it in stage.path.iterdir() if not is_wal(it.name))
    expect_equal("files", names, sorted([data_file(stage).name, lock_file(stage).name]))


@case("L0-FILE-014", "a dead task is one line with its CRC in front", "D8", LAYOUT)
def dead_lines(stage: Stage) -> None:
    store = stage.open()
    for n in range(3):
        store.add_dead_task(f"job\n{n}", {"text": "two\nlines"})
    found = lines(data_file(stage))
    expect_equal("lines of three dead tasks", len(found), 3)
    for line in found:
        whole = line.endswith(b"\n") and body_of_line(line[:-1]) is not None
        expect(whole, f"a line is not CRC, colon, body, newline: {line[:60]!r}")


@case("L0-FILE-015", "a waiting task is one line of the format", "W1, W8", LAYOUT)
def wal_lines(stage: Stage) -> None:
    store = stage.open(fsync_frequency=3600.0)
    store.add_task({"k": "two\nlines"}, task_id="a:b%c\n")
    store.add_task("later", publish_at=YEAR_9999, task_id="plain")
    store.remove_task("plain")
    found = lines(the_wal_file(stage))
    bodies = [body_of_line(line[:-1]) for line in found if line.endswith(b"\n")]
    starts = (b"add:a%3Ab%25c%0A:0:", b"add:plain:253402214400", b"rem:plain")
    expect_equal("lines", len(bodies), 3)
    for body, start in zip(bodies, starts, strict=True):
        expect(body is not None and body.startswith(start), f"got {body!r}, expected {start!r}…")


@case("L0-FILE-016", "no file is left behind by a removal", "D12, D18", LAYOUT)
def no_staging_left(stage: Stage) -> None:
    store = stage.open()
    for n in range(4):
        store.add_dead_task(f"job-{n}")
    store.remove_dead_tasks(["job-1"])
    store.remove_dead_tasks(["unknown"])
    names = sorted(it.name for it in stage.path.iterdir() if not is_wal(it.name))
    expect_equal("files", names, sorted([data_file(stage).name, lock_file(stage).name]))


@case(
    "L0-FILE-017",
    "a finished store does not keep growing",
    "W5, W11",
    "stores, disk_layout, survives_restart",
)
def files_do_not_pile_up(stage: Stage) -> None:
    for n in range(8):
        store = stage.open()
        store.remove_task(store.add_task(n))
        store.close()
    names = [it.name for it in stage.path.iterdir() if is_wal(it.name)]
    expect(len(names) <= 1, f"{len(names)} tasks files are left of 8 runs with nothing to keep")
