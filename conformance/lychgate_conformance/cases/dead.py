"""Level 0: dead tasks, added, listed, found and removed."""

from __future__ import annotations

import time

from lychgate_conformance._case import case
from lychgate_conformance._check import (
    expect,
    expect_equal,
    expect_ids,
    expect_order,
    expect_value,
    refused,
)
from lychgate_conformance._stage import Stage
from lychgate_conformance._store import Store
from lychgate_conformance._wire import ErrorText, Opaque
from lychgate_conformance.cases.tasks import JSON_VALUES

ORDERED = "stores, list_order=file"
KEPT = "stores, duplicates=kept"


def fill(store: Store, count: int) -> list[str]:
    """`count` dead tasks in order; their ids."""
    ids = [f"task-{n:04d}" for n in range(count)]
    for n, task_id in enumerate(ids):
        store.add_dead_task(task_id, {"n": n}, attempts=n)
    return ids


@case("L0-DEAD-001", "a dead task is listed with everything that was said of it", "D2, D30")
def record_is_whole(stage: Stage) -> None:
    store = stage.open()
    before = time.time()
    store.add_dead_task("job", {"order": 7}, ErrorText("no stock"), "shop.Ship", 21)
    after = time.time()
    listed = store.list_dead_tasks()
    expect_equal("dead tasks", [it.task_id for it in listed], ["job"])
    dead = listed[0]
    expect_equal("context", dead.context, {"order": 7})
    expect_equal("task_class", dead.task_class, "shop.Ship")
    expect_equal("attempts", dead.attempts, 21)
    expect_equal("error_message", dead.error_message, "no stock")
    name = dead.error_class.rpartition(".")[2]
    expect_equal("the last part of error_class", name, "ValueError")
    expect(before - 1 <= dead.failed_at <= after + 1, f"failed_at is {dead.failed_at!r}, not now")


@case("L0-DEAD-002", "a dead task is found by its id, the same as it is listed", "D2, D16")
def found_is_listed(stage: Stage) -> None:
    store = stage.open()
    fill(store, 5)
    for dead in store.list_dead_tasks():
        expect(store.find_dead_task(dead.task_id) == dead, f"find gives another {dead.task_id}")


@case("L0-DEAD-003", "an unknown id is not found, nor is one that only looks alike", "D2, D16")
def unknown_is_not_found(stage: Stage) -> None:
    store = stage.open()
    expect(store.find_dead_task("job") is None, "something is found in an empty store")
    store.add_dead_task("job-1")
    for other in ("job", "job-", "job-11", "JOB-1", "ob-1"):
        expect(store.find_dead_task(other) is None, f"{other} is found where job-1 is")


@case("L0-DEAD-004", "nothing is dead in a new store", "D2")
def nothing_is_dead(stage: Stage) -> None:
    store = stage.open()
    expect_equal("dead tasks", store.dead_ids(), [])
    expect_equal("a page of dead tasks", store.list_dead_tasks(10, 5), [])


@case("L0-DEAD-005", "dead tasks are listed in the order of their adding", "D16", ORDERED)
def listed_in_order(stage: Stage) -> None:
    store = stage.open()
    ids = [f"task-{n}" for n in range(30)]
    stage.rng.shuffle(ids)
    for task_id in ids:
        store.add_dead_task(task_id)
    expect_order("dead tasks", store.dead_ids(), ids)


@case("L0-DEAD-006", "pages of any size put together are the whole list", "D16")
def pages_are_the_whole(stage: Stage) -> None:
    store = stage.open()
    fill(store, 23)
    whole = store.dead_ids()
    for size in (1, 2, 7, 23, 24):
        paged: list[str] = []
        for offset in range(0, 23 + size, size):
            page = store.list_dead_tasks(size, offset)
            expect(len(page) <= size, f"a page of {size} has {len(page)} dead tasks")
            paged += [it.task_id for it in page]
        expect_order(f"pages of {size}", paged, whole)


@case("L0-DEAD-007", "limit and offset at their ends: none, beyond, from the middle on", "D16")
def paging_at_the_ends(stage: Stage) -> None:
    store = stage.open()
    fill(store, 6)
    whole = store.dead_ids()
    expect_equal("limit 0", store.list_dead_tasks(0), [])
    expect_equal("an offset at the end", store.list_dead_tasks(5, 6), [])
    expect_equal("an offset beyond the end", store.list_dead_tasks(None, 100), [])
    from_four = [it.task_id for it in store.list_dead_tasks(None, 4)]
    expect_order("no limit, offset 4", from_four, whole[4:])
    last = [it.task_id for it in store.list_dead_tasks(100, 5)]
    expect_order("limit 100, offset 5", last, whole[5:])


@case("L0-DEAD-008", "remove counts the distinct ids that it found", "D12")
def remove_counts(stage: Stage) -> None:
    store = stage.open()
    ids = fill(store, 6)
    count = store.remove_dead_tasks([ids[0], "unknown", ids[3], ids[0]])
    expect_equal("the count", count, 2)
    expect_ids("dead tasks", store.dead_ids(), [ids[1], ids[2], ids[4], ids[5]])


@case("L0-DEAD-009", "removing no ids at all gives 0 and changes nothing", "D12")
def remove_nothing(stage: Stage) -> None:
    store = stage.open()
    expect_equal("the count in an empty store", store.remove_dead_tasks([]), 0)
    ids = fill(store, 3)
    expect_equal("the count", store.remove_dead_tasks([]), 0)
    expect_ids("dead tasks", store.dead_ids(), ids)


@case("L0-DEAD-010", "removing unknown ids gives 0 and changes nothing", "D12")
def remove_unknown(stage: Stage) -> None:
    store = stage.open()
    expect_equal("the count in an empty store", store.remove_dead_tasks(["unknown"]), 0)
    ids = fill(store, 3)
    count = store.remove_dead_tasks(["unknown", "task", "task-000"])
    expect_equal("the count", count, 0)
    expect_ids("dead tasks", store.dead_ids(), ids)


@case("L0-DEAD-011", "what is not removed stays whole and in order", "D12, D17")
def survivors_are_untouched(stage: Stage) -> None:
    store = stage.open()
    ids = fill(store, 40)
    before = {it.task_id: it for it in store.list_dead_tasks()}
    order = store.dead_ids()
    gone = set(stage.rng.sample(ids, 15))
    expect_equal("the count", store.remove_dead_tasks(sorted(gone)), 15)
    after = store.list_dead_tasks()
    left = [it for it in order if it not in gone]
    expect_order("dead tasks", [it.task_id for it in after], left)
    for dead in after:
        expect(dead == before[dead.task_id], f"{dead.task_id} was changed by another's removal")


@case("L0-DEAD-012", "remove takes every record of an id and counts it once", "D26, D12")
def remove_takes_all_records(stage: Stage) -> None:
    store = stage.open()
    for n in range(3):
        store.add_dead_task("twice", {"n": n})
        store.add_dead_task(f"other-{n}")
    expect_equal("the count", store.remove_dead_tasks(["twice"]), 1)
    expect_ids("dead tasks", store.dead_ids(), ["other-0", "other-1", "other-2"])
    expect(store.find_dead_task("twice") is None, "a removed id is found")


@case("L0-DEAD-013", "find gives the newest of several records of an id", "D26")
def find_gives_the_newest(stage: Stage) -> None:
    store = stage.open()
    for n in range(3):
        store.add_dead_task("twice", {"n": n}, attempts=n)
        store.add_dead_task(f"other-{n}")
    found = store.find_dead_task("twice")
    expect(found is not None and found.context == {"n": 2}, f"find gave {found!r}")


@case("L0-DEAD-014", "list shows every record of an id, in order", "D26, D16", KEPT)
def list_shows_duplicates(stage: Stage) -> None:
    store = stage.open()
    for n in range(3):
        store.add_dead_task("twice", {"n": n})
    expect_equal(
        "contexts", [it.context for it in store.list_dead_tasks()], [{"n": 0}, {"n": 1}, {"n": 2}]
    )


@case("L0-DEAD-015", "a dead task that was removed can die again", "U8, D12")
def add_after_remove(stage: Stage) -> None:
    store = stage.open()
    for n in range(3):
        store.add_dead_task("job", {"n": n})
        expect_equal("dead tasks", store.dead_ids(), ["job"])
        expect_equal("the count", store.remove_dead_tasks(["job"]), 1)
    store.add_dead_task("job", {"n": "last"})
    expect_equal("contexts", [it.context for it in store.list_dead_tasks()], [{"n": "last"}])


@case(
    "L0-DEAD-016",
    "an exception of a class that nobody can import is kept by name and text",
    "D25, D30",
)
def foreign_exception(stage: Stage) -> None:
    store = stage.open()
    store.add_dead_task("job", exception=ErrorText("card declined", "foreign"))
    dead = store.list_dead_tasks()[0]
    name = dead.error_class.rpartition(".")[2]
    expect_equal("the last part of error_class", name, "ForeignError")
    expect_equal("error_message", dead.error_message, "card declined")


@case("L0-DEAD-017", "an exception whose text cannot be made does not lose the task", "D25")
def mute_exception(stage: Stage) -> None:
    store = stage.open()
    store.add_dead_task("job", {"n": 1}, ErrorText("", "mute"))
    expect_equal("dead tasks", store.dead_ids(), ["job"])


@case("L0-DEAD-018", "a huge error text is kept or cut, never the reason to fail", "D25")
def huge_error_text(stage: Stage) -> None:
    store = stage.open()
    store.add_dead_task("before")
    store.add_dead_task("job", exception=ErrorText("disk on fire " * 1_000_000))
    store.add_dead_task("after")
    expect_ids("dead tasks", store.dead_ids(), ["before", "job", "after"])
    found = store.find_dead_task("job")
    kept = found is not None and found.error_message.startswith("disk on fire disk on fire")
    expect(kept, "the beginning of the error text is lost")


@case("L0-DEAD-019", "an error text may hold anything", "D25")
def any_error_text(stage: Stage) -> None:
    store = stage.open()
    texts = [
        "two\nlines",
        "nul\0nul",
        "carriage\rreturn",
        "half \ud83d",
        "\u2028\u0085",
        '"quoted\\"',
        "",
    ]
    for n, text in enumerate(texts):
        store.add_dead_task(f"job-{n}", exception=ErrorText(text))
    found = {it.task_id: it.error_message for it in store.list_dead_tasks()}
    expect_ids("dead tasks", found, [f"job-{n}" for n in range(len(texts))])
    for n, text in enumerate(texts):
        expect_equal("an error text", found[f"job-{n}"], text)


@case("L0-DEAD-020", "a context may be any JSON value", "D30, D25")
def any_context(stage: Stage) -> None:
    store = stage.open()
    for n, value in enumerate(JSON_VALUES):
        store.add_dead_task(f"job-{n}", value)
    found = {it.task_id: it.context for it in store.list_dead_tasks()}
    for n, value in enumerate(JSON_VALUES):
        exact = stage.claims.exact_numbers
        expect_value("a context", found.get(f"job-{n}", "(missing)"), value, exact)


@case(
    "L0-DEAD-021", "a context that cannot be stored is refused; the store stays usable", "D25, D10"
)
def unstorable_context(stage: Stage) -> None:
    store = stage.open()
    store.add_dead_task("before")
    error = refused(lambda: store.add_dead_task("bad", {"deep": [Opaque()]}))
    store.add_dead_task("after")
    ids = store.dead_ids()
    if error is not None:
        expect_ids("dead tasks after the refusal", ids, ["before", "after"])
        expect(error.definite is not False, "a refusal says that it may have happened")
    expect("before" in ids and "after" in ids, f"a neighbour of the refused record is lost: {ids}")


@case(
    "L0-DEAD-022",
    "removing from one list touches nothing in the other",
    "D2, U3",
    "stores, caller_ids",
)
def removals_are_apart(stage: Stage) -> None:
    store = stage.open()
    store.add_task("w", task_id="both")
    store.add_dead_task("both")
    expect_equal("the count", store.remove_dead_tasks(["both"]), 1)
    expect_ids("pending tasks", store.pending_ids(), ["both"])
    store.add_dead_task("both")
    store.remove_task("both")
    expect_equal("dead tasks", store.dead_ids(), ["both"])
    expect_ids("pending tasks", store.pending_ids(), [])


@case("L0-DEAD-023", "attempts are kept as they are", "D30")
def attempts_are_kept(stage: Stage) -> None:
    store = stage.open()
    for n in (0, 1, 20, 10**6):
        store.add_dead_task(f"job-{n}", attempts=n)
    for n in (0, 1, 20, 10**6):
        found = store.find_dead_task(f"job-{n}")
        expect_equal("attempts", None if found is None else found.attempts, n)


@case("L0-DEAD-024", "looking changes nothing", "D16")
def looking_changes_nothing(stage: Stage) -> None:
    store = stage.open()
    fill(store, 5)
    first = store.list_dead_tasks()
    store.find_dead_task("task-0002")
    store.list_dead_tasks(1, 1)
    expect(store.list_dead_tasks() == first, "the list is another after looking at it")


@case(
    "L0-DEAD-025",
    "hundreds of dead tasks are listed, paged and removed alike",
    "D8, D12",
    limit_s=120.0,
)
def hundreds(stage: Stage) -> None:
    store = stage.open()
    ids = fill(store, 400)
    expect_ids("dead tasks", store.dead_ids(), ids)
    whole = store.dead_ids()
    page = [it.task_id for it in store.list_dead_tasks(10, 195)]
    expect_order("a page in the middle", page, whole[195:205])
    expect_equal("the count", store.remove_dead_tasks(ids[50:350]), 300)
    expect_ids("dead tasks", store.dead_ids(), ids[:50] + ids[350:])


@case("L0-DEAD-026", "every record can go and the store goes on", "D12")
def remove_everything(stage: Stage) -> None:
    store = stage.open()
    ids = fill(store, 7)
    expect_equal("the count", store.remove_dead_tasks(ids), 7)
    expect_equal("dead tasks", store.dead_ids(), [])
    store.add_dead_task("next")
    expect_equal("dead tasks", store.dead_ids(), ["next"])
