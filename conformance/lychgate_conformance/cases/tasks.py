"""Level 0: adding, listing and removing tasks that wait."""

from __future__ import annotations

import time
from collections.abc import Mapping

from lychgate_conformance._case import case
from lychgate_conformance._check import expect, expect_equal, expect_ids, expect_value, refused
from lychgate_conformance._stage import Stage
from lychgate_conformance._store import Store
from lychgate_conformance._wire import Opaque

JSON_VALUES: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    1,
    -(2**63),
    2**80,
    0.1,
    1e300,
    "",
    "text",
    [],
    {},
    [1, [2, [3, [None]]]],
    {"a": {"b": [True, 1, 1.0, "1"]}},
    {"": "empty key", "key with : and %": 1},
)

YEAR_9999 = 253_402_214_400.0


@case("L0-ADD-001", "a task added without an id gets one and waits under it", "D2")
def add_gives_an_id(stage: Stage) -> None:
    store = stage.open()
    task_id = store.add_task({"n": 1})
    expect_ids("pending tasks", store.pending_ids(), [task_id])


@case("L0-ADD-002", "a task added with an id keeps that id", "D2", "stores, caller_ids")
def add_keeps_the_callers_id(stage: Stage) -> None:
    store = stage.open()
    expect_equal("the id that add_task gave", store.add_task([1], task_id="job-1"), "job-1")
    expect_ids("pending tasks", store.pending_ids(), ["job-1"])


@case("L0-ADD-003", "generated ids differ, also after removals", "W4")
def ids_differ(stage: Stage) -> None:
    store = stage.open()
    ids = []
    for n in range(200):
        ids.append(store.add_task(n))
        if n % 3 == 0:
            store.remove_task(ids[-1])
    expect_equal("distinct ids of 200 tasks", len(set(ids)), 200)


@case(
    "L0-ADD-004",
    "generated ids differ from those before a reopening",
    "W4",
    "stores, survives_restart",
)
def ids_differ_after_reopening(stage: Stage) -> None:
    ids: list[str] = []
    for _ in range(4):
        store = stage.open()
        ids += [store.add_task(n) for n in range(25)]
        for task_id in ids[-25:]:
            store.remove_task(task_id)
        store.close()
    expect_equal("distinct ids of 100 tasks", len(set(ids)), 100)


@case("L0-ADD-005", "the same id again replaces payload and time", "U2", "stores, caller_ids")
def retry_replaces(stage: Stage) -> None:
    store = stage.open()
    store.add_task("first", task_id="job")
    store.add_task("other", task_id="other")
    store.add_task("second", publish_at=YEAR_9999, task_id="job")
    waiting = {it.task_id: (it.task, it.publish_at) for it in store.pending_tasks()}
    expect_ids("pending tasks", store.pending_ids(), ["job", "other"])
    expect_equal("the retried task", list(waiting["job"]), ["second", YEAR_9999])


@case("L0-ADD-006", "a retry may take the delay away", "U2", "stores, caller_ids")
def retry_takes_the_delay_away(stage: Stage) -> None:
    store = stage.open()
    store.add_task("first", publish_at=YEAR_9999, task_id="job")
    store.add_task("second", task_id="job")
    expect_equal("publish_at after the retry", store.pending_tasks()[0].publish_at, None)


@case("L0-ADD-007", "every JSON value comes back as it was", "D30")
def json_values_come_back(stage: Stage) -> None:
    store = stage.open()
    added = {store.add_task(value): value for value in JSON_VALUES}
    waiting = {it.task_id: it.task for it in store.pending_tasks()}
    expect_ids("pending tasks", waiting, added)
    for task_id, value in added.items():
        expect_value("a task", waiting[task_id], value, stage.claims.exact_numbers)


@case("L0-ADD-008", "a task that cannot be stored is refused and leaves nothing", "D25")
def unstorable_task_is_refused(stage: Stage) -> None:
    store = stage.open()
    before = store.add_task("before")
    error = refused(lambda: store.add_task({"deep": [Opaque()]}))
    if error is not None:
        expect_ids("pending tasks after the refusal", store.pending_ids(), [before])
        expect(error.definite is not False, "a refusal says that it may have happened")
    after = store.add_task("after")
    expect(after in store.pending_ids(), "a task added after the refusal does not wait")


@case("L0-ADD-009", "what the caller does to a task after adding it changes nothing", "W8")
def later_changes_do_not_matter(stage: Stage) -> None:
    store = stage.open()
    store.make(store.call("add_task", {"items": [1, 2]}, publish_at=None, task_id=None), spoil=True)
    expect_equal("the task", store.pending_tasks()[0].task, {"items": [1, 2]})


@case("L0-PEND-001", "nothing waits in a new store", "D2")
def nothing_waits(stage: Stage) -> None:
    expect_equal("pending tasks", store_ids(stage), [])


def store_ids(stage: Stage) -> list[str]:
    return stage.open().pending_ids()


@case("L0-PEND-002", "every waiting task is listed once, with its payload", "D2, W7")
def all_are_listed(stage: Stage) -> None:
    store = stage.open()
    added = {store.add_task({"n": n}): n for n in range(50)}
    waiting = store.pending_tasks()
    expect_ids("pending tasks", [it.task_id for it in waiting], added)
    for it in waiting:
        expect_equal("a task", it.task, {"n": added[it.task_id]})


@case("L0-PEND-003", "an immediate task has no time, a delayed one keeps its own", "U1, W14")
def times_are_kept(stage: Stage) -> None:
    store = stage.open()
    soon = round(time.time() + 3.25, 2)
    times = [None, soon, soon + 0.5, 1_000_000_000.0, YEAR_9999, YEAR_9999 * 10]
    added = {store.add_task("t", publish_at=at): at for at in times}
    for it in store.pending_tasks():
        wanted = added[it.task_id]
        if wanted is None or it.publish_at is None:
            expect_equal("publish_at", it.publish_at, wanted)
        else:
            close = abs(it.publish_at - wanted) < 0.001
            expect(close, f"publish_at {wanted!r} came back as {it.publish_at!r}")


@case(
    "L0-PEND-004", "asking twice changes nothing", "W7", "stores, not pending_scope=due_unclaimed"
)
def asking_twice_changes_nothing(stage: Stage) -> None:
    store = stage.open()
    for n in range(10):
        store.add_task(n, publish_at=YEAR_9999 if n % 2 else None)
    first = sorted(store.pending_tasks(), key=lambda it: it.task_id)
    second = sorted(store.pending_tasks(), key=lambda it: it.task_id)
    expect(first == second, "pending_tasks gave something else the second time")


@case(
    "L0-PEND-005",
    "what the caller does to a listed result changes nothing",
    "W7",
    "stores, not pending_scope=due_unclaimed",
)
def results_are_copies(stage: Stage) -> None:
    store = stage.open()
    task_id = store.add_task([1])
    store.make(store.call("pending_tasks"), spoil=True)
    expect_ids("pending tasks", store.pending_ids(), [task_id])
    store.add_dead_task("gone")
    store.make(store.call("list_dead_tasks"), spoil=True)
    expect_equal("dead tasks", store.dead_ids(), ["gone"])


@case("L0-PEND-006", "waiting tasks and dead tasks do not show in each other's list", "D2")
def lists_are_apart(stage: Stage) -> None:
    store = stage.open()
    waiting = store.add_task("w")
    store.add_dead_task("dead-1")
    expect_ids("pending tasks", store.pending_ids(), [waiting])
    expect_equal("dead tasks", store.dead_ids(), ["dead-1"])
    expect(store.find_dead_task(waiting) is None, "a waiting task is found among the dead")


@case("L0-REM-001", "a removed task does not wait any more, the others do", "D2")
def removed_is_gone(stage: Stage) -> None:
    store = stage.open()
    ids = [store.add_task(n) for n in range(10)]
    for task_id in ids[::2]:
        store.remove_task(task_id)
    expect_ids("pending tasks", store.pending_ids(), ids[1::2])


@case("L0-REM-002", "removing an unknown id is no error and changes nothing", "W10")
def unknown_is_no_error(stage: Stage) -> None:
    store = stage.open()
    store.remove_task("never-added")
    task_id = store.add_task("t")
    store.remove_task("never-added-either")
    expect_ids("pending tasks", store.pending_ids(), [task_id])


@case("L0-REM-003", "removing a task twice is no error and takes no other with it", "W10")
def removing_twice(stage: Stage) -> None:
    store = stage.open()
    ids = [store.add_task(n) for n in range(4)]
    for _ in range(3):
        store.remove_task(ids[1])
    expect_ids("pending tasks", store.pending_ids(), [ids[0], ids[2], ids[3]])


@case("L0-REM-004", "removing touches no id that only looks alike", "W1, D2", "stores, caller_ids")
def only_the_named_one(stage: Stage) -> None:
    store = stage.open()
    ids = ["a", "ab", "a:b", "a:", "A", "a ", " a", "a-1", "a%3A", "a%3Ab"]
    for task_id in ids:
        store.add_task(task_id, task_id=task_id)
    store.remove_task("a")
    store.remove_task("a%3A")
    left = [it for it in ids if it not in ("a", "a%3A")]
    expect_ids("pending tasks", store.pending_ids(), left)


@case("L0-REM-005", "a task that was removed can be added again", "U2, U4", "stores, caller_ids")
def add_after_remove(stage: Stage) -> None:
    store = stage.open()
    for n in range(3):
        store.add_task(n, task_id="job")
        store.remove_task("job")
    store.add_task("last", task_id="job")
    expect_equal("the task", [it.task for it in store.pending_tasks()], ["last"])


@case("L0-REM-006", "thousands of removals of unknown ids cost no task", "W10", limit_s=120.0)
def unknown_removals_cost_nothing(stage: Stage) -> None:
    store = stage.open()
    ids = [store.add_task(n, publish_at=YEAR_9999) for n in range(3)]
    for n in range(2000):
        store.remove_task(f"unknown-{n}")
    expect_ids("pending tasks", store.pending_ids(), ids)


@case("L0-ROT-001", "a waiting task outlives any amount of traffic", "W5, W10", limit_s=120.0)
def traffic_costs_nothing(stage: Stage) -> None:
    store = stage.open()
    delayed = [store.add_task({"n": n}, publish_at=YEAR_9999) for n in range(5)]
    payload = "x" * 1_000_000
    for n in range(48):
        task_id = store.add_task(payload)
        if n % 12 == 0:
            delayed.append(store.add_task({"n": n}, publish_at=YEAR_9999))
        store.remove_task(task_id)
    waiting = store.pending_tasks()
    expect_ids("pending tasks after 48 MB of traffic", [it.task_id for it in waiting], delayed)
    expect(all(it.publish_at == YEAR_9999 for it in waiting), "a delay was lost in the traffic")


def traffic(store: Store, megabytes: int) -> list[str]:
    """Adds and removes tasks of a megabyte each; the ids of five delayed ones that stay."""
    delayed = [store.add_task({"n": n}, publish_at=YEAR_9999) for n in range(5)]
    payload = "x" * 1_000_000
    for _ in range(megabytes):
        store.remove_task(store.add_task(payload))
    return delayed


@case(
    "L0-ROT-002",
    "after any amount of traffic a reopened store has what waits and nothing that is done",
    "W5, W7",
    "stores, survives_restart",
    limit_s=120.0,
)
def traffic_and_reopening(stage: Stage) -> None:
    store = stage.open()
    delayed = traffic(store, 40)
    for _ in range(2):
        store = stage.reopen(store)
        expect_ids("pending tasks after 40 MB of traffic", store.pending_ids(), delayed)


@case(
    "L0-ROT-003",
    "what is done does not stay in the files, delayed tasks or not",
    "W5, W10",
    "stores, uses_path, reclaims_space",
    limit_s=120.0,
)
def files_shrink(stage: Stage) -> None:
    store = stage.open()
    traffic(store, 72)
    size = sum(it.stat().st_size for it in stage.path.iterdir())
    expect(size < 40_000_000, f"after 72 MB of traffic there are {size // 1_000_000} MB in files")


@case("L0-OPT-001", "tick gives the next time it is due, or nothing", "D1, D2")
def tick_gives_a_time(stage: Stage) -> None:
    store = stage.open()
    task_id = store.add_task("t")
    now = time.time()
    due = store.optional("tick", now)
    kind = due is None or (isinstance(due, (int, float)) and not isinstance(due, bool))
    expect(kind, f"tick gave {due!r}")
    store.optional("tick", now + 3600.0)
    expect_ids("pending tasks after tick", store.pending_ids(), [task_id])


@case("L0-OPT-002", "sync changes nothing that can be seen", "D2")
def sync_changes_nothing(stage: Stage) -> None:
    store = stage.open()
    task_id = store.add_task("t")
    store.add_dead_task("dead")
    store.optional("sync")
    store.optional("sync")
    expect_ids("pending tasks after sync", store.pending_ids(), [task_id])
    expect_equal("dead tasks after sync", store.dead_ids(), ["dead"])


@case("L0-OPT-003", "stats are counts by name, and looking changes nothing", "D33")
def stats_are_counts(stage: Stage) -> None:
    store = stage.open()
    store.add_task("t")
    store.remove_task("unknown")
    first = store.optional("stats")
    expect(isinstance(first, dict), f"stats gave {first!r}")
    assert isinstance(first, Mapping)
    for name, count in first.items():
        whole = isinstance(count, int) and not isinstance(count, bool) and count >= 0
        expect(isinstance(name, str) and whole, f"stats has {name!r}: {count!r}")
    expect_equal("stats asked again", store.optional("stats"), first)


@case(
    "L0-OPT-004",
    "close keeps everything, for an object opened later",
    "D1, D2, W8",
    "stores, survives_restart",
)
def close_keeps_everything(stage: Stage) -> None:
    store = stage.open(fsync_frequency=3600.0)
    task_id = store.add_task({"n": 1}, publish_at=YEAR_9999)
    store.add_dead_task("dead", {"n": 2})
    again = stage.reopen(store)
    expect_ids("pending tasks after close and open", again.pending_ids(), [task_id])
    expect_equal("dead tasks after close and open", again.dead_ids(), ["dead"])


@case("L0-OPT-005", "every frequency of fsync is taken, fractions and zero too", "W9, D5")
def frequencies_are_taken(stage: Stage) -> None:
    for n, frequency in enumerate((0, 0.001, 0.5, 1, 86_400.0)):
        store = stage.open(stage.path / str(n), fsync_frequency=frequency)
        task_id = store.add_task("t")
        expect_ids("pending tasks", store.pending_ids(), [task_id])
