"""`dead_tasks_retention_period`: what goes, when, and that nothing else does (D35)."""

from __future__ import annotations

import asyncio
import errno
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.faults import Fault, Store
from hypothesis import given
from hypothesis import strategies as st

from lychgate import ConfigError, Disk, Queue, aio, configure
from lychgate._lines import seal
from lychgate._records import JSON, DeadTask, dead_line, failed_at, parse_dead
from lychgate._retention import Sweeps

PERIOD = 100.0
START = 1_700_000_000.0


class Clocked(Store):
    """A disk backend with a retention period, on a clock that the test moves."""

    def __init__(self, path: Path, period: float | None = PERIOD) -> None:
        super().__init__(path)
        self.time = START
        self.fs.now = lambda: self.time  # type: ignore[method-assign]  # a clock for one object
        self.programs = type(self.programs)(
            path, "deferred-", 0.0, JSON, self.fs, dead_tasks_retention_period=period
        )
        self.open()

    def tick(self) -> float | None:
        return self.do(self.programs.tick(self.time))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Clocked]:
    opened = Clocked(tmp_path / "s")
    yield opened
    opened.kill()


def test_the_boundary(store: Clocked) -> None:
    """D35: kept for the period to its last moment; then dropped, counted, by a remove's steps."""
    store.bury("a")
    store.time += 7
    store.bury("b")
    assert store.tick() == START + PERIOD
    store.time = math.nextafter(START + PERIOD, 0)
    assert store.tick() == START + PERIOD and store.dead() == ["a", "b"]
    store.time = START + PERIOD
    assert store.tick() == START + PERIOD + 7
    assert {"SetMark", "FsyncStaging", "RenameStaging", "FsyncDir"} <= set(store.trace)
    assert store.dead() == ["b"] and store.stats()["dead_tasks_expired"] == 1
    store.time = START + PERIOD + 7
    store.tick()
    assert store.dead() == [] and store.stats()["dead_tasks_expired"] == 2


def test_nothing_goes_without_a_period(tmp_path: Path) -> None:
    """D35, D5: the default keeps everything, and looks at nothing."""
    store = Clocked(tmp_path / "s", period=None)
    store.bury("a")
    store.time += 1e9
    assert store.tick() is None and store.trace == []
    assert store.dead() == ["a"]
    store.kill()


def test_the_newest_record_of_an_id_stays(store: Clocked) -> None:
    """D26, D35: records go by their own time; lines that are not ours have none and stay."""
    store.bury("a")
    with open(store.data_file(), "ab") as file:
        file.write(seal(b'{"task_id":"foreign"}'))
    store.time += PERIOD / 2
    store.bury("a")
    store.time = START + PERIOD
    store.tick()
    assert store.dead() == ["a"] and b"foreign" in store.data_file().read_bytes()
    assert store.stats()["dead_tasks_expired"] == 1


def test_sweeps_are_not_more_frequent_than_they_need_be(store: Clocked) -> None:
    """D35: a steady flow of deaths makes a sweep for each share of the period, not for each."""
    for _ in range(30):
        store.bury("a")
        store.time += 1
    sweeps = 0
    for _ in range(int(PERIOD)):
        store.time += 1
        store.tick()
        sweeps += "RenameStaging" in store.trace
    assert store.dead() == [] and sweeps <= 30 / (PERIOD / 20) + 1


@pytest.mark.parametrize("wrong", [1e12, math.inf])
def test_a_wrong_time_of_the_caller_drops_nothing(store: Clocked, wrong: float) -> None:
    """D35: what this system's clock says is not over yet is kept."""
    store.bury("a")
    store.do(store.programs.tick(wrong))
    assert store.dead() == ["a"]


def test_a_clock_that_was_set_back(store: Clocked) -> None:
    """D35: tasks stay longer, none goes early, and sweeps are not put off for ever."""
    store.time = START + 1e6
    store.bury("future")
    store.tick()
    store.time = START
    store.bury("now")
    store.time = START + PERIOD
    store.tick()
    assert store.dead() == ["future"]


def test_a_clock_that_was_set_forward(store: Clocked) -> None:
    """D35: by that clock their time is over; what died by the same clock stays."""
    store.bury("a")
    store.time = START + 1e6
    store.bury("b")
    store.tick()
    assert store.dead() == ["b"]


def test_without_ticks_the_next_add_does_it(store: Clocked) -> None:
    """D1, D35: and its answer does not hang on the sweep."""
    store.bury("a")
    store.time += PERIOD
    store.fs.arm(Fault(0, OSError(errno.EIO, "no"), only="rename"))
    store.bury("b")
    assert store.dead() == ["a", "b"] and store.stats()["dead_sweeps_failed"] == 1
    store.fs.arm(None)
    store.time += PERIOD / 20
    store.bury("c")
    assert store.dead() == ["b", "c"]
    store.check_clean()


def test_several_processes(tmp_path: Path) -> None:
    """D31, D35: each looks by itself; every task is dropped once."""
    stores = [Clocked(tmp_path / "s") for _ in range(3)]
    for task_id in "abc":
        stores[0].bury(task_id)
    for store in stores:
        store.time = START + PERIOD
        store.tick()
    assert sum(store.stats().get("dead_tasks_expired", 0) for store in stores) == 3
    assert stores[0].dead() == []
    for store in stores:
        store.kill()


@pytest.mark.parametrize("period", [0, -1, math.inf, math.nan, "1d", True])
def test_nonsense(tmp_path: Path, period: object) -> None:
    """D5, D35: a period that cannot be meant opens nothing."""
    with pytest.raises(ConfigError, match="dead_tasks_retention_period"):
        configure("disk", path=tmp_path / "s", dead_tasks_retention_period=period)
    assert not (tmp_path / "s").exists()


def test_it_is_an_option_of_the_one_entry(tmp_path: Path) -> None:
    """D5, D35: sync and asyncio alike."""
    with configure("disk", path=tmp_path / "s", dead_tasks_retention_period=0.001) as disk:
        assert isinstance(disk, Disk)
        disk.add_dead_task("a", None, "no", "T", 1)

    async def under_asyncio() -> dict[str, int]:
        options = {"path": tmp_path / "s", "dead_tasks_retention_period": 1e-9}
        disk = await aio.configure("disk", **options)
        await disk.tick(START + 1e9)
        await disk.close()
        return await disk.stats()

    assert asyncio.run(under_asyncio())["dead_tasks_expired"] == 1


def test_a_queue_drives_it(tmp_path: Path) -> None:
    """D1, D35: its ticks are enough, and a sweep to come keeps no queue from being idle."""
    disk = Disk(tmp_path / "s", dead_tasks_retention_period=1e-6)
    disk.add_dead_task("a", None, "no", "T", 1)
    with Queue(disk) as queue:
        queue.run(until_idle=True)
        assert queue.stats()["dead_tasks_expired"] == 1


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6) | st.just(math.inf))))
def test_when_sweeps_are_due(looks: list[tuple[float, float]]) -> None:
    """D35: at every moment the next sweep is due within a period, whatever the clock did."""
    sweeps = Sweeps(PERIOD)
    for now, oldest in looks:
        if sweeps.begin(now):
            assert not sweeps.begin(now), "one caller sweeps"
            sweeps.end(now, oldest)
        assert now < sweeps.due_at <= now + PERIOD
        assert sweeps.begin(sweeps.due_at)
        sweeps.end(now, oldest)


texts = st.text(alphabet='",\\:failed_at1.', max_size=30)


@given(texts, texts, texts, st.floats(-1e300, 1e300))
def test_the_time_of_a_line(task_id: str, message: str, context: str, time: float) -> None:
    """D35: what the quick look finds is what the record says, whatever else its texts say."""
    dead = DeadTask(f"x{task_id}", message, 1, context, message, message, time)
    body = dead_line(JSON, dead)[9:-1]
    parsed = parse_dead(JSON, body)
    assert parsed is not None and failed_at(body) == parsed.failed_at == time
