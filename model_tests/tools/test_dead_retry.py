"""`lychgate dead retry`: the order of its steps, its snapshot, and how it ends (U4, U8)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools import dead_stores
from tools.dead_stores import backend, bury, dead_ids, job, make, opened

from lychgate import DeadTask, Disk, Queue, Registry, Undecodable, configure
from lychgate._records import JSON, dead_line, parse_dead
from lychgate_tools.cli import main
from lychgate_tools.dead import retry as retry_module
from lychgate_tools.dead.records import (
    AS_STORED,
    Filter,
    Finding,
    Json,
    Record,
    Ref,
    cursor_of,
    from_export,
    key_of,
    mark_of_dead,
    parse_cursor,
    to_export,
)
from lychgate_tools.dead.retry import Retry, groups
from lychgate_tools.ui import ExitCode


@pytest.fixture(params=dead_stores.KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return make(request.param, tmp_path)


def pending(target: str) -> dict[object, object]:
    """What a worker that starts finds: first arguments by the dead ids that the tasks link to."""
    with backend(target) as worker:
        found = [task for _, task, _ in worker.pending_tasks()]
    return {task["retry_of"]: task["args"][0] for task in found if isinstance(task, dict)}


def test_all_come_back_under_fresh_ids(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """U8: with a link, attempts reset; what is no job stays, is named, and makes exit code 1."""
    bury(target, "a", "b", "a")
    with backend(target) as worker:
        worker.add_dead_task("raw", Undecodable("pickle", b"\0"), "no", "T", 1)
    capsys.readouterr()
    assert main(["dead", "retry", target, "--all", "--json"]) == ExitCode.SHORT
    lines = {it["task_id"]: it for it in map(json.loads, capsys.readouterr().out.splitlines())}
    assert set(lines) == {"a", "b", "raw"} and lines["raw"]["fresh_id"] is None
    assert dead_ids(target) == ["raw"]
    assert pending(target) == {"a": "a", "b": "b"}


def test_only_what_is_named(target: str) -> None:
    """U8: by id, by filter on the newest record of an id; a dry run changes nothing."""
    bury(target, "a", "b", "c")
    bury(target, "c", error=TimeoutError())
    assert main(["dead", "retry", target, "--error", "TimeoutError", "--dry-run"]) == ExitCode.OK
    assert dead_ids(target) == ["a", "b", "c", "c"]
    assert main(["dead", "retry", target, "--error", "TimeoutError"]) == ExitCode.OK
    assert main(["dead", "retry", target, "b", "nobody"]) == ExitCode.SHORT
    assert dead_ids(target) == ["a"]
    assert pending(target) == {"c": "c", "b": "b"}


def test_a_worker_runs_what_came_back(target: str) -> None:
    """U8: the queue takes it for what its own retry makes."""
    registry, ran = Registry(), []

    @registry.task(name="shop.send")
    def send(what: str) -> None:
        ran.append(what)

    bury(target, "a", "b")
    assert main(["dead", "retry", target, "--all"]) == ExitCode.OK
    is_sql = "://" in target
    worker = configure("sql", url=target) if is_sql else configure("disk", path=target)
    with Queue(worker, registry=registry) as queue:
        queue.run(until_idle=True)
    assert sorted(ran) == ["a", "b"]


def test_wal_files_of_dead_workers_are_left_alone(tmp_path: Path) -> None:
    """W2: they are the next worker's, which may start while the command runs."""
    target = make("disk", tmp_path)
    bury(target, "a")
    with Disk(target) as disk:
        disk.add_task("orphan")
    orphan = [path.name for path in Path(target).glob("deferred-0-*")]
    assert main(["dead", "retry", target, "--all"]) == ExitCode.OK
    assert orphan[0] in [path.name for path in Path(target).glob("deferred-0-*")]
    with Disk(target) as disk:
        assert len(disk.pending_tasks()) == 2


class Told:
    """A store that says what is called, and stops where it is told to."""

    shown = afterwards = "told"
    damaged = 0

    def __init__(self, count: int, stop_at: int = -1, stop: type[BaseException] = OSError) -> None:
        self.records_ = [self._record(n) for n in range(count)]
        self.calls: list[str] = []
        self._stop_at, self._stop = stop_at, stop

    def _record(self, n: int) -> Record:
        dead = DeadTask(str(n), "t", 1, Json(JSON.dumps(job("t", n))), "E", "m", float(n))
        return Record(dead, Ref(b"%d" % n, n, 0))

    def records(self) -> Iterator[Record]:
        return iter(self.records_)

    def load(self, ref: Ref) -> Record | None:
        return self.records_[ref.place]

    def remove(self, refs: Sequence[Ref]) -> int:
        self.calls.append("remove " + " ".join(str(ref.place) for ref in refs))
        return len(refs)

    def revive(self, job: dict[str, object]) -> str:
        if job["retry_of"] == str(self._stop_at):
            raise self._stop
        self.calls.append(f"add {job['retry_of']}")
        return "fresh"

    def sync(self) -> None:
        self.calls.append("sync")

    def check(self, dead: DeadTask) -> None: ...
    def restore(self, batch: Sequence[DeadTask]) -> None: ...
    def verify(self) -> Iterator[Finding]:
        return iter(())

    def close(self) -> None: ...


def run(store: Told, rate: float | None = None) -> Retry:
    work = Retry(store, rate, lambda *told: None)
    for _ in work.run(groups(store, Filter(), frozenset())):
        pass
    return work


def test_the_order_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """U4: a batch is added, then synced, then removed; nothing is removed that was not synced."""
    monkeypatch.setattr(retry_module, "BATCH_MAX", 2)
    store = Told(3)
    assert run(store).tally.revived == 3
    assert store.calls == ["add 0", "add 1", "sync", "remove 0 1", "add 2", "sync", "remove 2"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_a_batch_in_hand_is_brought_to_its_end(stop: type[BaseException]) -> None:
    """U4: an interrupt or an error leaves no task in both places."""
    store = Told(5, stop_at=3, stop=stop)
    with pytest.raises(stop):
        run(store)
    assert store.calls == ["add 0", "add 1", "add 2", "sync", "remove 0 1 2"]


@pytest.mark.parametrize("after", range(9))
def test_killed_anywhere(target: str, after: int) -> None:
    """U4: at any call, before it or behind it, each task is dead or waits; at worst both."""
    bury(target, "a", "b", "c")
    child = os.fork()
    if child == 0:
        _retry_and_die(target, after)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert set(dead_ids(target)) | set(pending(target)) == {"a", "b", "c"}


def _retry_and_die(target: str, after: int) -> None:
    left = after

    def dying(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: object) -> object:
            nonlocal left
            for done in (False, True):
                if left == 0:
                    os._exit(9)
                left -= 1
                if not done:
                    result = call(*args)
            return result

        return wrapped

    retry_module.BATCH_MAX = 2
    with opened(target) as store:
        for name in ("revive", "sync", "remove"):
            setattr(store, name, dying(getattr(store, name)))
        for _ in Retry(store, None, lambda *told: None).run(groups(store, Filter(), frozenset())):
            pass
    os._exit(0)


def test_an_interrupt_of_the_command(target: str) -> None:
    """U4: Ctrl-C ends the batch in hand, and says so in one line; nothing is in both places."""
    names = [f"t{n:02}" for n in range(40)]
    bury(target, *names)
    command = [sys.executable, "-m", "lychgate_tools.cli", "dead", "retry", target, "--all"]
    with subprocess.Popen(
        [*command, "--rate", "20", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as child:  # fmt: skip
        assert child.stdout is not None and child.stderr is not None
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        err = child.stderr.read()
    assert child.returncode == ExitCode.INTERRUPTED and "Traceback" not in err
    assert err.splitlines()[-1] == "lychgate: interrupted"
    dead, live = dead_ids(target), set(pending(target))
    assert live and sorted([*dead, *map(str, live)]) == names


def test_what_cannot_be_removed_is_counted() -> None:
    """U4, F2: it waits and is dead as well; whoever runs the command again should know."""

    class Stuck(Told):
        def remove(self, refs: Sequence[Ref]) -> int:
            raise OSError

    store = Stuck(2)
    work = Retry(store, None, lambda *told: None)
    with pytest.raises(OSError):
        list(work.run(groups(store, Filter(), frozenset())))
    assert (work.tally.revived, work.tally.left) == (0, 2)


def test_a_rate_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """U8: by a clock that the test moves; batches are as long as two seconds."""
    now, starts = [100.0], []

    class Clock:
        monotonic = staticmethod(lambda: now[0])
        time = staticmethod(lambda: now[0])

        @staticmethod
        def sleep(seconds: float) -> None:
            now[0] += seconds
            starts.append(now[0])

    monkeypatch.setattr(retry_module, "time", Clock)
    store = Told(6)
    run(store, rate=2.0)
    assert starts == [100.0, 100.5, 101.0, 101.5, 102.0, 102.5]
    assert store.calls.count("sync") == 2


def test_a_later_task_is_not_touched(target: str) -> None:
    """U8: what was added after the snapshot stays, though it is the same id."""
    bury(target, "a")
    with opened(target) as store:
        chosen = groups(store, Filter(), frozenset())
        bury(target, "b", "a")
        work = Retry(store, None, lambda *told: None)
        assert list(work.run(chosen)) == [1]
    assert dead_ids(target) == ["b", "a"]


def test_what_somebody_else_removed_is_counted(target: str) -> None:
    """U8: gone before, where the store can tell; else it may run twice, and that is said."""
    bury(target, "a", "b")
    with opened(target) as store:
        chosen = groups(store, Filter(), frozenset())
        with backend(target) as worker:
            worker.remove_dead_tasks(["a"])
        work = Retry(store, None, lambda *told: None)
        assert list(work.run(chosen)) == [1, 2]
        assert work.tally.gone + work.tally.twice == 1
    assert dead_ids(target) == []


texts = st.text(max_size=6)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | texts, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
contexts = st.builds(
    Undecodable, st.sampled_from(["", "pickle", "json"]), st.binary(max_size=9)
) | values.map(lambda value: Json(JSON.dumps(value)))


@given(
    st.text(min_size=1, max_size=6), texts, st.integers(0, 2**70), contexts,
    st.floats(-1e12, 1e12), st.none() | st.floats(0, 1e12),
)  # fmt: skip
def test_a_line_of_an_export_is_the_record(
    task_id: str, text: str, attempts: int, context: object, failed_at: float, since: float | None
) -> None:
    """D25, D30: whatever the engine can store comes back as it was, to the byte."""
    dead = DeadTask(task_id, text, attempts, context, text, text, failed_at, since)
    body = dead_line(AS_STORED, dead)[9:-1]
    stored = parse_dead(AS_STORED, body)
    assert stored is not None
    again = from_export(json.dumps(to_export(stored)))
    assert again == stored and mark_of_dead(again) == mark_of_dead(stored)
    record = Record(stored, Ref(mark_of_dead(stored), 0, 0))
    assert parse_cursor(cursor_of(record)) == key_of(record)
