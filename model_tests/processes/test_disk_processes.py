"""Real processes on one directory, killed between any two steps (D10, D14, D16, D32, W2, W3, W12).

Hypothesis mixes the steps of three workers and kills them where it likes. The machine keeps what
callers may rely on: ids that must be found, ids that must not, and those of which nobody knows,
because the call that would have changed them was killed. A later look settles these.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)
from processes.stepped import TIMED_OUT, Answer, NoSync, Worker

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")

WORKERS = 3
SLOTS = st.integers(0, WORKERS - 1)
EXAMPLES = int(os.environ.get("LYCHGATE_EXAMPLES", "100"))
"""How many paths Hypothesis tries; more for a nightly run."""


@dataclass
class Known:
    """What the callers of one store know of its ids."""

    there: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)

    def note(self, key: str, present: bool | None) -> None:
        self.there.discard(key)
        self.maybe.discard(key)
        if present is not False:
            (self.maybe if present is None else self.there).add(key)

    def check(self, found: Iterable[str], free: set[str]) -> None:
        """What was found is what is known, but for ids that changed meanwhile."""
        ids = set(found)
        assert self.there - free <= ids, f"lost: {self.there - free - ids}"
        strange = ids - free - self.there - self.maybe
        assert not strange, f"came back, or was never added: {strange}"

    def settle(self, found: Iterable[str], free: set[str]) -> None:
        ids = set(found)
        for key in self.maybe - free:
            self.note(key, key in ids)


@dataclass
class Call:
    """A call under way: its keys may change until it ends, and what changed while it ran."""

    method: str
    keys: list[str]
    meanwhile: set[str] = field(default_factory=set)


DEAD_CHANGES = ("add_dead_task", "remove_dead_tasks")
WAL_CHANGES = ("open", "add_task", "remove_task", "close")


class Processes(RuleBasedStateMachine):
    """Workers that are begun, stepped and killed; subclasses say which calls they make."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp(prefix="pytest-processes-"))
        self.workers: list[Worker | None] = [None] * WORKERS
        self.calls: list[Call | None] = [None] * WORKERS
        self.ready = [False] * WORKERS
        self.own: list[set[str]] = [set() for _ in range(WORKERS)]
        self.dead, self.tasks = Known(), Known()
        self.twins: set[str] = set()  # tasks that a kill may have left in two files (W12)
        self.count = 0

    def teardown(self) -> None:
        try:
            for slot in range(WORKERS):
                self.end(slot)
            self.look()
        finally:
            for worker in filter(None, self.workers):
                worker.kill()
            shutil.rmtree(self.path)

    def key(self) -> str:
        self.count += 1
        return f"k:{self.count}"

    # --- calls ------------------------------------------------------------------------------------

    def begin(self, slot: int, method: str, keys: list[str], *arguments: object) -> None:
        worker = self.workers[slot]
        assert worker is not None and self.calls[slot] is None
        call = self.calls[slot] = Call(method, keys)
        if method in DEAD_CHANGES:
            for other in filter(None, self.calls):
                other.meanwhile.update(keys)
                if other.method in DEAD_CHANGES:
                    call.meanwhile.update(other.keys)
        if method == "list_dead_tasks":
            for other in filter(None, self.calls):
                if other.method in DEAD_CHANGES:
                    call.meanwhile.update(other.keys)
        self.advance(slot, worker.begin(method, *arguments))

    def advance(self, slot: int, answer: Answer) -> None:
        call = self.calls[slot]
        assert call is not None
        if not answer.done:
            return
        self.calls[slot] = None
        if answer.error == TIMED_OUT:  # nothing changed (D14)
            if call.method == "add_dead_task":
                self.dead.note(call.keys[0], False)
            return
        assert answer.error is None, answer.error
        self.ended(slot, call, answer.result)

    def ended(self, slot: int, call: Call, result: object) -> None:
        """A call has returned: what is known now."""
        if call.method == "open":
            self.ready[slot] = True
            self.begin(slot, "pending_tasks", [])
            self.finish(slot)
        elif call.method == "add_task":
            self.tasks.note(call.keys[0], True)
            self.own[slot].add(call.keys[0])
        elif call.method == "remove_task":
            self.tasks.note(call.keys[0], None if call.keys[0] in self.twins else False)
            self.own[slot].discard(call.keys[0])
        elif call.method == "add_dead_task":
            self.dead.note(call.keys[0], True)
        elif call.method == "remove_dead_tasks":
            self.removed_dead(call, result)
        elif call.method == "list_dead_tasks":
            assert isinstance(result, list) and len(result) == len(set(result))
            self.dead.check(result, call.meanwhile)
            self.dead.settle(result, call.meanwhile)
        elif call.method == "pending_tasks":
            assert isinstance(result, list)
            assert len(result) == len(set(result))
            assert self.own[slot] <= set(result), "an own task is missing (W3)"
            known = self.tasks.there | self.tasks.maybe
            assert set(result) <= known, f"came back: {set(result) - known}"
            self.own[slot] = set(result)

    def removed_dead(self, call: Call, result: object) -> None:
        keys, free = set(call.keys), call.meanwhile
        sure = keys & self.dead.there - free
        unsure = keys & (self.dead.maybe | free)
        assert isinstance(result, int)
        assert len(sure) <= result <= len(sure | unsure), "the count of removed ids (D12)"
        for key in keys:
            self.dead.note(key, False if key not in free else None)

    def finish(self, slot: int) -> None:
        """Take steps until the call ends; who holds the lock may keep it, then it times out."""
        while self.calls[slot] is not None:
            worker = self.workers[slot]
            assert worker is not None
            self.advance(slot, worker.step(1000))

    def end(self, slot: int) -> None:
        """Kill a worker; what its call would have changed is unknown now."""
        worker, call = self.workers[slot], self.calls[slot]
        if worker is None:
            return
        worker.kill()
        self.workers[slot], self.calls[slot], self.ready[slot] = None, None, False
        self.own[slot] = set()
        if call is None:
            return
        if call.method in WAL_CHANGES:  # it may have been copying files (W11, W12)
            self.twins |= self.tasks.there | self.tasks.maybe
        known = self.dead if call.method in DEAD_CHANGES else self.tasks
        if call.method != "open":
            for key in call.keys:
                if call.method.startswith("add_") or key in known.there:
                    known.note(key, None)

    def look(self) -> None:
        """All workers are gone; the next one finds everything that was promised."""
        assert not any(self.workers)
        self.workers[0] = Worker(self.path)
        self.begin(0, "open", [])
        self.finish(0)
        self.tasks.check(self.own[0], set())
        self.begin(0, "list_dead_tasks", [])
        self.finish(0)

    # --- rules ------------------------------------------------------------------------------------

    def idle(self, slot: int) -> bool:
        return self.ready[slot] and self.calls[slot] is None

    @rule(slot=SLOTS)
    def start(self, slot: int) -> None:
        if self.workers[slot] is None:
            self.workers[slot] = Worker(self.path)
            self.begin(slot, "open", [])

    @rule(slot=SLOTS)
    def add(self, slot: int) -> None:
        if self.idle(slot):
            key = self.key()
            self.tasks.note(key, None)
            self.begin(slot, "add_task", [key], "x" * 60, None, key)

    @rule(slot=SLOTS, data=st.data())
    def remove(self, slot: int, data: st.DataObject) -> None:
        if self.idle(slot) and self.own[slot]:
            key = data.draw(st.sampled_from(sorted(self.own[slot])))
            self.begin(slot, "remove_task", [key], key)

    @rule(slot=SLOTS)
    def bury(self, slot: int) -> None:
        if self.idle(slot):
            key = self.key()
            self.dead.note(key, None)
            self.begin(slot, "add_dead_task", [key], key, None, "no", "Job", 1)

    @rule(slot=SLOTS, data=st.data())
    def remove_dead(self, slot: int, data: st.DataObject) -> None:
        known = sorted(self.dead.there | self.dead.maybe)
        if self.idle(slot) and known:
            keys = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
            self.begin(slot, "remove_dead_tasks", keys, keys)

    @rule(slot=SLOTS)
    def list_dead(self, slot: int) -> None:
        if self.idle(slot):
            self.begin(slot, "list_dead_tasks", [])

    @rule(slot=SLOTS)
    def pending(self, slot: int) -> None:
        if self.idle(slot):
            self.begin(slot, "pending_tasks", [])

    @rule(slot=SLOTS)
    def close(self, slot: int) -> None:
        if self.idle(slot):
            self.ready[slot] = False
            self.begin(slot, "close", [])
            self.finish(slot)
            self.end(slot)

    @rule(slot=SLOTS, count=st.integers(1, 12))
    def step(self, slot: int, count: int) -> None:
        worker = self.workers[slot]
        if worker is not None and self.calls[slot] is not None:
            self.advance(slot, worker.step(count))

    @rule(slot=SLOTS)
    def complete(self, slot: int) -> None:
        self.finish(slot)

    @rule(slot=SLOTS)
    def kill(self, slot: int) -> None:
        self.end(slot)

    @precondition(lambda self: not any(self.calls))
    @rule()
    def delete_lock_file(self) -> None:
        """D24: whoever deletes it while nobody is inside does no harm."""
        (self.path / "deferred-dead_tasks.lock").unlink(missing_ok=True)

    @precondition(lambda self: not any(self.calls))
    @rule()
    def kill_all_and_look(self) -> None:
        for slot in range(WORKERS):
            self.end(slot)
        self.look()


TestProcesses = Processes.TestCase
TestProcesses.settings = settings(max_examples=EXAMPLES, stateful_step_count=60, deadline=None)

PLANTED: dict[str, tuple[type, str, Callable[..., object]]] = {
    "no-flock": (NoSync, "try_lock", lambda fs, fd: True),
    "ack-before-write": (NoSync, "append", lambda fs, fd, data: len(data)),
    "staging-not-published": (NoSync, "rename", lambda fs, old, new: None),
    "wal-kept": (NoSync, "unlink", lambda fs, path: None),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine can fail: on locks that do not lock, writes that are not made (W3, D12, D24)."""
    owner, method, wrong = PLANTED[name]
    monkeypatch.setattr(owner, method, wrong)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(
            Processes,
            settings=settings(
                max_examples=1000,
                stateful_step_count=60,
                deadline=None,
                derandomize=True,
                database=None,
                phases=[Phase.generate],
                report_multiple_bugs=False,
            ),
        )
