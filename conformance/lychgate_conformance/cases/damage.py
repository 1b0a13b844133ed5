"""Level 0: damaged, torn and hostile files. For backends with the disk backend's layout.

Every damage here is one that a crash, a full disk or a foreign program leaves; what is asserted is
that no valid neighbour is harmed, that nothing damaged is taken for valid, and that it is counted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from lychgate_conformance._case import case
from lychgate_conformance._check import expect, expect_equal, expect_ids, expect_order, refused
from lychgate_conformance._layout import (
    data_file,
    flip,
    lines,
    seal,
    staging_file,
    the_wal_file,
)
from lychgate_conformance._stage import PREFIX, Stage
from lychgate_conformance._store import Store
from lychgate_conformance._verdict import NotMeasured
from lychgate_conformance.cases.tasks import YEAR_9999

LAYOUT = "stores, disk_layout"
JUNK = (
    b"\n",
    b"junk\n",
    b"\xff\xfe\x00\x01\n",
    b"00000000:{}\n",
    b"zzzzzzzz:x\n",
    b":::\n",
    b"12345678\n",
)


def three(stage: Stage) -> Store:
    """A store with the dead tasks a, b and c."""
    store = stage.open()
    for task_id in "abc":
        store.add_dead_task(task_id, {"id": task_id})
    return store


def rewrite(stage: Stage, content: bytes) -> None:
    data_file(stage).write_bytes(content)


def expect_dead(store: Store, ids: str) -> None:
    """These dead tasks, whole and in this order."""
    listed = store.list_dead_tasks()
    expect_order("dead tasks", [it.task_id for it in listed], list(ids))
    for it in listed:
        expect_equal("a context", it.context, {"id": it.task_id})


def repaired(stage: Stage, store: Store, before: str) -> None:
    """Reads show `before`; an add repairs the tail and adds one; so does it for a new object."""
    expect_dead(store, before)
    store.add_dead_task("n", {"id": "n"})
    expect_dead(store, before + "n")
    again = stage.reopen(store)
    expect_dead(again, before + "n")
    expect_equal("the count", again.remove_dead_tasks([before[0]]), 1)
    expect_dead(again, before[1:] + "n")


@case("L0-DMG-001", "junk lines are skipped, the dead tasks around them are not", "D16, F3", LAYOUT)
def junk_is_skipped(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    rewrite(stage, JUNK[0] + a + b"".join(JUNK) + b + JUNK[2] + c + JUNK[1])
    expect_dead(store, "abc")
    expect_dead(stage.reopen(store), "abc")


@case("L0-DMG-002", "a line with a wrong CRC is not listed and not found", "D16", LAYOUT)
def bad_crc_is_skipped(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    for at in (0, len(b) // 2, len(b) - 2):
        rewrite(stage, a + flip(b, at) + c)
        expect_dead(store, "ac")
        expect(store.find_dead_task("b") is None, f"b is found with byte {at} changed")


@case("L0-DMG-003", "a last line without its newline is torn, whatever its CRC", "D16", LAYOUT)
def torn_line_is_skipped(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    for torn in (c[:-1], c[:-2], c[:9], c[:1]):
        rewrite(stage, a + b + torn)
        expect_dead(store, "ab")
        expect(store.find_dead_task("c") is None, "a torn record is found")


@case(
    "L0-DMG-004", "adding after a torn line harms neither the new record nor the old", "D11", LAYOUT
)
def torn_tail_is_repaired(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    rewrite(stage, a + b + c[: len(c) // 2])
    repaired(stage, store, "ab")


@case("L0-DMG-005", "a torn line in a file of nothing else is repaired", "D11", LAYOUT)
def only_a_torn_line(stage: Stage) -> None:
    store = three(stage)
    a, _, _ = lines(data_file(stage))
    rewrite(stage, a[:-1])
    expect_dead(store, "")
    store.add_dead_task("n", {"id": "n"})
    expect_dead(store, "n")


@case(
    "L0-DMG-006",
    "a whole line that lacks only its newline does not swallow the next",
    "D11, D16",
    LAYOUT,
)
def missing_newline(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    rewrite(stage, a + b + c[:-1])
    repaired(stage, store, "ab")


@case("L0-DMG-007", "a tail of NULs is repaired", "D28", LAYOUT)
def nul_tail(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    rewrite(stage, a + b + b"\0" * len(c))
    repaired(stage, store, "ab")


@case(
    "L0-DMG-008",
    "NULs after part of a line, and NULs longer than a block, are repaired",
    "D28",
    LAYOUT,
)
def nul_after_fragment(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    rewrite(stage, a + b + c[:20] + b"\0" * 10_000)
    repaired(stage, store, "ab")


@case("L0-DMG-009", "a NUL tail of 32 MB is no more than a torn line", "D28, F3", LAYOUT)
def huge_nul_tail(stage: Stage) -> None:
    store = three(stage)
    with data_file(stage).open("ab") as file:
        file.truncate(file.tell() + 32 * 1024 * 1024)
    repaired(stage, store, "abc")


@case("L0-DMG-010", "NULs and then whole lines: the lines after them count", "D28, D16", LAYOUT)
def nul_in_the_middle(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    rewrite(stage, a + b"\0" * 300 + b"\n" + b + c)
    repaired(stage, store, "abc")


@case("L0-DMG-011", "a newer damaged record does not hide an older whole one", "D26", LAYOUT)
def damaged_does_not_hide(stage: Stage) -> None:
    store = stage.open()
    store.add_dead_task("job", {"n": 1})
    store.add_dead_task("job", {"n": 2})
    old, new = lines(data_file(stage))
    for damaged in (flip(new, len(new) // 2), new[:-1]):
        rewrite(stage, old + damaged)
        found = store.find_dead_task("job")
        expect(found is not None and found.context == {"n": 1}, f"find gives {found!r}")


@case("L0-DMG-012", "adding touches no complete line, not even a damaged one", "D11", LAYOUT)
def complete_lines_are_untouched(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    content = a + JUNK[1] + flip(b, 12) + c
    rewrite(stage, content + c[:15])
    store.add_dead_task("n", {"id": "n"})
    now = data_file(stage).read_bytes()
    expect(now.startswith(content), "complete lines in front of a torn one were changed")


@case("L0-DMG-013", "removing drops damaged lines and keeps every whole one", "D12", LAYOUT)
def removing_drops_damage(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    rewrite(stage, JUNK[1] + a + flip(b, 12) + JUNK[2] + b + c[:11])
    expect_equal("the count", store.remove_dead_tasks(["a"]), 1)
    expect_dead(store, "b")
    left = lines(data_file(stage))
    expect(left == [b], f"{len(left)} lines are left, expected the one of b")


@case(
    "L0-DMG-014", "a damaged record of a requested id is not counted as found", "D12, D16", LAYOUT
)
def damaged_is_not_found(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    rewrite(stage, a + flip(b, 12) + c[:-1])
    expect_equal("the count", store.remove_dead_tasks(["b", "c"]), 0)
    expect_dead(store, "a")


@case("L0-DMG-015", "what was skipped and repaired is counted in stats", "D33", LAYOUT)
def damage_is_counted(stage: Stage) -> None:
    store = three(stage)
    a, b, c = lines(data_file(stage))
    before = store.optional("stats")
    rewrite(stage, a + flip(b, 12) + c[:20])
    store.list_dead_tasks()
    store.add_dead_task("n", {"id": "n"})
    after = store.optional("stats")
    assert isinstance(before, Mapping) and isinstance(after, Mapping)
    grown = sorted(name for name, count in after.items() if count > before.get(name, 0))
    expect(bool(grown), "a skipped line and a repaired tail show nowhere in stats")


@case("L0-DMG-016", "an orphan staging file is not read and not in the way", "D18", LAYOUT)
def orphan_staging(stage: Stage) -> None:
    store = three(stage)
    whole = data_file(stage).read_bytes()
    store.close()
    staging_file(stage).write_bytes(whole + whole.replace(b'"a"', b'"z"') + b"torn")
    store = stage.open()
    expect_dead(store, "abc")
    expect_equal("the count", store.remove_dead_tasks(["a"]), 1)
    expect_dead(store, "bc")
    expect_dead(stage.reopen(store), "bc")


@case("L0-DMG-017", "an empty data file is a store without dead tasks", "D9", LAYOUT)
def empty_data_file(stage: Stage) -> None:
    store = three(stage)
    store.close()
    rewrite(stage, b"")
    store = stage.open()
    expect_dead(store, "")
    store.add_dead_task("n", {"id": "n"})
    expect_dead(store, "n")


@case(
    "L0-DMG-018",
    "a directory in place of the data file is a clear error, and stays where it is",
    "F3",
    LAYOUT,
)
def directory_for_data(stage: Stage) -> None:
    data_file(stage).mkdir(parents=True)
    error = refused(lambda: stage.open().add_dead_task("job"))
    expect(error is not None, "a dead task is acknowledged where no file can be")
    assert error is not None
    typed = "OSError" in error.bases or error.definite is not None
    expect(typed, f"the error is a bare {error.type_name}: {error.text}")
    expect(data_file(stage).is_dir(), "the directory is gone")


@case("L0-DMG-019", "a directory in place of a tasks file stops nobody", "W14, F3", LAYOUT)
def directory_for_wal(stage: Stage) -> None:
    store = stage.open()
    kept = store.add_task("kept", publish_at=YEAR_9999)
    store.close()
    (stage.path / f"{PREFIX}0-20200101-77-00112233445566aa").mkdir()
    store = stage.open()
    new = store.add_task("new", publish_at=YEAR_9999)
    expect_ids("pending tasks", store.pending_ids(), [kept, new])


@case("L0-DMG-020", "a foreign tasks file of junk stops nobody", "W14, F3", LAYOUT)
def junk_wal(stage: Stage) -> None:
    store = stage.open()
    kept = store.add_task("kept", publish_at=YEAR_9999)
    store.close()
    junk = stage.path / f"{PREFIX}0-20200101-77-00112233445566aa"
    junk.write_bytes(b"".join(JUNK) + bytes(range(256)) * 40)
    store = stage.open()
    expect_ids("pending tasks", store.pending_ids(), [kept])


def waiting_file(stage: Stage, count: int = 4) -> list[str]:
    """A closed store whose tasks file has `count` tasks; their ids."""
    store = stage.open()
    ids = [f"t{n}" for n in range(count)]
    for task_id in ids:
        store.add_task({"id": task_id}, publish_at=YEAR_9999, task_id=task_id)
    store.close()
    return ids


@case("L0-DMG-021", "damaged lines of a tasks file are skipped, the others replayed", "W7", LAYOUT)
def damaged_wal(stage: Stage) -> None:
    ids = waiting_file(stage)
    file = the_wal_file(stage)
    found = lines(file)
    file.write_bytes(found[0] + flip(found[1], 13) + JUNK[1] + found[2] + b"\0\0\n" + found[3])
    store = stage.open()
    expect_ids("pending tasks", store.pending_ids(), [ids[0], ids[2], ids[3]])
    expect_ids(
        "pending tasks after reopening", stage.reopen(store).pending_ids(), [ids[0], ids[2], ids[3]]
    )


@case("L0-DMG-022", "a torn tasks file takes new tasks without harm to either", "W6", LAYOUT)
def torn_wal(stage: Stage) -> None:
    for keep in (1, -1):
        ids = waiting_file(stage)
        file = the_wal_file(stage)
        found = lines(file)
        file.write_bytes(b"".join(found[:-1]) + found[-1][:keep])
        store = stage.open()
        new = store.add_task("new", publish_at=YEAR_9999)
        expect_ids("pending tasks", store.pending_ids(), [*ids[:-1], new])
        store = stage.reopen(store)
        expect_ids("pending tasks after reopening", store.pending_ids(), [*ids[:-1], new])
        for task_id in [*ids[:-1], new]:
            store.remove_task(task_id)
        store.close()


@case("L0-DMG-023", "a tasks file with a tail of NULs is replayed up to it", "W6, D28", LAYOUT)
def nul_wal(stage: Stage) -> None:
    ids = waiting_file(stage)
    with the_wal_file(stage).open("ab") as file:
        file.write(b"\0" * 5000)
    store = stage.open()
    new = store.add_task("new", publish_at=YEAR_9999)
    expect_ids("pending tasks", store.pending_ids(), [*ids, new])
    expect_ids("pending tasks after reopening", stage.reopen(store).pending_ids(), [*ids, new])


@case("L0-DMG-024", "a task that cannot be decoded is reported and not lost", "W7, D30", LAYOUT)
def undecodable_task(stage: Stage) -> None:
    ids = waiting_file(stage, 2)
    file = the_wal_file(stage)
    strange = seal(b"add:strange:0:=cipher=AAECAw==") + seal(b"add:broken:0:{not json")
    file.write_bytes(strange + file.read_bytes())
    for _ in range(2):
        store = stage.open()
        expect_ids("pending tasks", store.pending_ids(), [*ids, "strange", "broken"])
        store.close()


@case(
    "L0-DMG-025",
    "a dead task whose context cannot be decoded is listed all the same",
    "D30",
    LAYOUT,
)
def undecodable_context(stage: Stage) -> None:
    store = three(stage)
    found = lines(data_file(stage))[1]
    body = found[9:-1].replace(b'"context":{"id":"b"}', b'"codec":"cipher","data":"AAECAw=="')
    if body == found[9:-1]:
        raise NotMeasured("the dead-task line keeps its context in another form")
    a, _, c = lines(data_file(stage))
    rewrite(stage, a + seal(body) + c)
    expect_order("dead tasks", store.dead_ids(), ["a", "b", "c"])
    expect_equal("the count", store.remove_dead_tasks(["a"]), 1)
    expect_order("dead tasks", store.dead_ids(), ["b", "c"])


@case(
    "L0-DMG-026",
    "a tasks file that is a dangling symlink or a pipe stops nobody",
    "F3, W14",
    LAYOUT,
)
def strange_wals(stage: Stage) -> None:
    waiting_file(stage, 1)
    (stage.path / f"{PREFIX}0-20200101-77-00112233445566aa").symlink_to(stage.root / "nowhere")
    os.mkfifo(stage.path / f"{PREFIX}0-20200101-78-00112233445566aa")
    store = stage.open()
    new = store.add_task("new", publish_at=YEAR_9999)
    expect_ids("pending tasks", store.pending_ids(), ["t0", new])
