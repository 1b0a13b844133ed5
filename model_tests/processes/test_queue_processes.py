"""Queues in real processes, killed after any step of the disk (U2, U3, U4, U7, U8, W3).

Hypothesis starts workers that enqueue and run tasks over one directory, two at a time, and gives
some of them a fuse: the number of steps after which the process kills itself with SIGKILL. Nothing
that was acknowledged may be without a fate: run, dead, or still to be run by the next worker.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from processes.stepped import LIFE_S, NoSync

from lychgate import Disk, Limits, Queue, Registry, current
from lychgate import _queue_flow as flow
from lychgate._backend import remove_task
from lychgate._osfs import OsFs

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

EXAMPLES = int(os.environ.get("LYCHGATE_EXAMPLES", "100")) // 2
CRASHES_MAX = 3
LIMITS = Limits(concurrency=2, crashes_max=CRASHES_MAX)
KINDS = ("good", "bad", "flaky")
WORKERS = 2


def note(path: Path, name: str, label: str) -> None:
    """One line at the end of a file, by one call: a kill leaves all of it or nothing."""
    fd = os.open(path / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{label}\n".encode())
    os.close(fd)


def noted(path: Path, name: str) -> Counter[str]:
    file = path / name
    return Counter(file.read_text().split()) if file.exists() else Counter()


def declare(path: Path) -> tuple[Registry, dict[str, Callable[[str], None]]]:
    """Tasks that end well, never do, and do at the second run."""
    tasks = Registry()

    @tasks.task(name="good")
    def good(label: str) -> None:
        note(path, "ran", label)

    @tasks.task(name="bad", max_retries=0)
    def bad(label: str) -> None:
        raise ValueError(label)

    @tasks.task(name="flaky", retry_in={OSError: 0.0})
    def flaky(label: str) -> None:
        run = current()
        assert run is not None
        if run.attempt == 1:
            raise OSError(label)
        note(path, "ran", label)

    return tasks, {"good": good, "bad": bad, "flaky": flaky}


def work(path: Path, labels: list[str], fuse: int | None, retry: bool) -> None:
    """The life of a worker process."""
    signal.alarm(LIFE_S)
    logging.disable(logging.CRITICAL)
    setattr(OsFs, "fsync", NoSync.fsync)
    setattr(OsFs, "fsync_dir", NoSync.fsync_dir)
    steps: list[None] = []

    def observe(*step: object) -> None:
        steps.append(None)
        if len(steps) == fuse:
            os.kill(os.getpid(), signal.SIGKILL)

    tasks, targets = declare(path)
    with Queue(Disk(path / "store", observe=observe), LIMITS, registry=tasks) as queue:
        if retry:
            queue.retry_all_dead()
        for label in labels:
            queue.enqueue(targets[label.rstrip("0123456789")], label)
            note(path, "acknowledged", label)
        queue.run(until_idle=True, signals=False)


class Queues(RuleBasedStateMachine):
    """Workers over one directory."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="pytest-queues-"))
        self.workers: dict[int, int] = {}  # slot -> process id
        self.count = 0
        self.kills = 0
        self.retried = False

    def teardown(self) -> None:
        try:
            for slot in list(self.workers):
                self.end(slot)
            self.check()
        finally:
            for pid in self.workers.values():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            shutil.rmtree(self.path)

    @rule(
        slot=st.integers(0, WORKERS - 1),
        kinds=st.lists(st.sampled_from(KINDS), max_size=4),
        fuse=st.none() | st.integers(1, 120),
        retry=st.booleans(),
    )
    def start(self, slot: int, kinds: list[str], fuse: int | None, retry: bool) -> None:
        """A new worker in this slot, as soon as the one before it has ended."""
        self.end(slot)
        labels = []
        for kind in kinds:
            self.count += 1
            labels.append(f"{kind}{self.count}")
        self.retried |= retry
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                work(self.path, labels, fuse, retry)
                code = 0
            finally:
                os._exit(code)
        self.workers[slot] = pid

    @rule(slot=st.integers(0, WORKERS - 1))
    def end(self, slot: int) -> None:
        """Wait for a worker: it ends when nothing is left to do, or at its fuse."""
        pid = self.workers.pop(slot, None)
        if pid is not None:
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            assert code in (0, -signal.SIGKILL), f"a worker ended with {code}"
            self.kills += code != 0

    def check(self) -> None:
        """A last worker takes over everything; then each task has the fate that it must have."""
        self.start(0, [], None, False)
        self.end(0)
        ran = noted(self.path, "ran")
        with Disk(self.path / "store") as store:
            assert store.pending_tasks() == [], "nothing waits for ever"
            jobs: list[Any] = [found.context for found in store.list_dead_tasks()]
        dead = Counter(str(job["args"][0]) for job in jobs)
        for label in noted(self.path, "acknowledged"):
            if label.startswith("bad"):
                assert dead[label], f"{label} is lost (U4)"
            elif not ran[label]:
                assert dead[label] and self.kills >= CRASHES_MAX, f"{label} is lost (U3, U7)"
        if not self.kills:
            assert set(ran.values()) <= {1}, "without a crash every task runs once (U3)"
            assert self.retried or set(dead.values()) <= {1}, "and dies once (U4)"


TestQueues = Queues.TestCase
TestQueues.settings = settings(max_examples=EXAMPLES, stateful_step_count=10, deadline=None)


async def removed_first(core: object, task_id: str, *rest: object) -> None:
    """`bury` with its two calls swapped: a crash between them loses the task."""
    await remove_task(task_id)
    await real_bury(core, task_id, *rest)  # type: ignore[arg-type]  # passed on as they came


async def nothing(*arguments: object) -> None:
    """A call that is left out."""


real_bury = flow.bury


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("bury", removed_first, "is lost"),
        ("add_dead_task", nothing, "is lost"),
        ("remove_task", nothing, "every task runs once|waits for ever"),
    ],
)
def test_a_planted_fault_is_found(
    name: str, wrong: object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine can fail: on a removal that comes first, on calls that are not made (U3, U4)."""
    monkeypatch.setattr(flow, name, wrong)
    with pytest.raises((AssertionError, ExceptionGroup)) as found:
        run_state_machine_as_test(
            Queues,
            settings=settings(
                max_examples=300,
                stateful_step_count=10,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                report_multiple_bugs=False,
            ),
        )
    assert re.search(said, "".join(traceback.format_exception(found.value)))
