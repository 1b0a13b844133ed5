"""The queue's programs over a store that crashes: nothing is lost (U1-U4, U6-U8).

The machine drives the programs of `_queue_flow.py` effect by effect over `MemoryStore`, in any
interleaving, lets any call fail before or after it took effect, kills the process or the host
between any two effects, and starts again.

The promise, checked after every step: whatever was acknowledged has run, is live, or is dead. What
a host crash may take is what was never durable.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from engine.queue_doubles import Broken, FakeClock, MemoryStore
from engine.queue_rig import quiet
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lychgate import _queue_flow as flow
from lychgate._backend import Call, ClaimLost, probe
from lychgate._queue_core import Core, Item, Limits, Wakeups
from lychgate._queue_drive import Effect, Program, Run
from lychgate._queue_errors import NotRetriable
from lychgate._task import Registry

CRASHES_MAX = 2


def nothing() -> None:
    pass


registry = Registry()


@registry.task(name="work", max_retries=2, retry_in={ValueError: 5.0, KeyError: None})
def work(label: str) -> None:
    raise AssertionError("the machine decides how a run ends")


def labels(values: list[object]) -> set[str]:
    """Whose work stored values are."""
    return {value["args"][0] for value in values if isinstance(value, dict) and value["args"]}


@dataclass
class Flight:
    """A program and the effect that it waits for; `done` is called with its result."""

    program: Program[Any]
    label: str | None = None
    item: Item | None = None
    effect: Effect | None = None
    result: object = None

    def advance(self, value: object = None, error: BaseException | None = None) -> bool:
        """Send what came of the effect; False at the end."""
        try:
            if error is None:
                self.effect = self.program.send(value)
            else:
                self.effect = self.program.throw(error)
            return True
        except StopIteration as stop:
            self.result = stop.value
            return False
        except (Broken, ClaimLost, NotRetriable) as raised:
            self.result = raised
            return False


OUTCOMES = st.sampled_from(["ok"] * 8 + ["before", "after"])
ENDS = st.sampled_from(["ok", "fail", "stop", "stop", "kill"])
KINDS = st.sampled_from(["job", "job", "poison"])
CHOICES = st.lists(st.tuples(st.integers(0, 3), OUTCOMES, ENDS), min_size=4, max_size=8)
Choices = list[tuple[int, str, str]]


class CrashingQueue(RuleBasedStateMachine):
    """One process at a time over one store, which outlives them all."""

    scope = "owned_all"

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = MemoryStore(self.clock, self.scope)
        self.made = 0
        self.acknowledged: set[str] = set()
        self.vouched: set[str] = set()  # durable once, so nothing may lose them
        self.ran: set[str] = set()
        self.running: set[str] = set()  # ids, to see that none runs twice at a time
        self.deaths: Counter[str] = Counter()  # in a row, while an id ran
        self.flights: list[Flight] = []
        self.start_process()
        self.finish(flow.load(self.core))

    def start_process(self) -> None:
        limits = Limits(concurrency=3, crashes_max=CRASHES_MAX)
        wakeups = Wakeups(nothing, nothing, nothing)
        self.core = Core(
            probe(self.store), registry, limits, self.clock, threading.RLock(), wakeups
        )
        self.core.taking = True
        self.flights = []
        self.running.clear()

    def launch(self, flight: Flight) -> None:
        if flight.advance():
            self.flights.append(flight)
        else:
            self.land(flight)

    def land(self, flight: Flight) -> None:
        if flight.label is not None and isinstance(flight.result, str):
            self.acknowledged.add(flight.label)

    # --- what the outside does ----------------------------------------------------------------

    @rule(delay=st.sampled_from([None, None, 30.0]), kind=KINDS, choices=CHOICES)
    def enqueue(self, delay: float | None, kind: str, choices: Choices) -> None:
        self.made += 1
        label = f"{kind}{self.made}"
        spec, job, due = flow.entry(self.core, work, (label,), {}, delay, None)
        if self.core.admit():
            self.launch(Flight(flow.enqueue(self.core, spec, job, due), label))
        self.step(choices)

    @precondition(lambda self: self.store.dead)
    @rule(which=st.none() | st.integers(0, 3), choices=CHOICES)
    def retry(self, which: int | None, choices: Choices) -> None:
        if which is None:
            self.launch(Flight(flow.retry_all_dead(self.core)))
        else:
            dead_id = self.store.dead[which % len(self.store.dead)].task_id
            self.launch(Flight(flow.retry_dead(self.core, dead_id)))
        self.step(choices)

    @rule(seconds=st.sampled_from([0.0, 10.0, 100.0]))
    def fsync_and_wait(self, seconds: float) -> None:
        self.store.sync()
        self.clock.time += seconds

    # --- what the process does ----------------------------------------------------------------

    @rule(choices=CHOICES)
    def take(self, choices: Choices) -> None:
        """Runs and, when one is due, a turn of the loop."""
        while (item := self.core.take()) is not None:
            assert item.task_id not in self.running, "no id runs twice at a time"
            assert self.deaths[item.task_id] < CRASHES_MAX, "a killer is buried, not run (U7)"
            self.running.add(item.task_id)
            self.launch(Flight(flow.attempt(self.core, item), item=item))

        if not self.core.seconds_to_turn():
            self.launch(Flight(flow.turn(self.core)))
        self.step(choices)

    def step(self, choices: Choices) -> None:
        """Some effects of the programs in flight, in some order, with some outcome."""
        for which, outcome, end in choices:
            if not self.flights:
                return
            flight = self.flights[which % len(self.flights)]
            if isinstance(flight.effect, Run):
                self.end_run(flight, end)
            else:
                self.make(flight, outcome)

    def make(self, flight: Flight, outcome: str) -> None:
        assert isinstance(flight.effect, Call)
        value: object = None
        error: Exception | None = None
        try:
            if outcome != "before":
                value = self.call(flight.effect)
            if outcome != "ok":
                error = Broken(flight.effect.method)
        except ClaimLost as raised:
            error = raised
        self.go_on(flight, value, error)

    def end_run(self, flight: Flight, how: str) -> None:
        assert flight.item is not None
        if how == "kill" or str(flight.item.job.args[0]).startswith("poison"):
            self.crash()
            return
        del self.deaths[flight.item.task_id]
        if how == "ok":
            self.ran.add(str(flight.item.job.args[0]))
        self.go_on(flight, {"ok": None, "fail": ValueError(), "stop": KeyError()}[how], None)

    def go_on(self, flight: Flight, value: object, error: BaseException | None) -> None:
        if flight.advance(value, error):
            return
        self.flights.remove(flight)
        if flight.item is not None:
            self.running.discard(flight.item.task_id)
        self.land(flight)

    @precondition(lambda self: self.flights)
    @rule(kept=st.none() | st.integers(0, 8), early=st.sampled_from([0, 0, 0, 1, 2, 3]))
    def crash(self, kept: int | None = None, early: int = 0) -> None:
        """The process dies, or the host; one more dies after a few effects of its start."""
        if kept is None:
            if not self.core.abilities.claims:  # those that claim count their claims themselves
                self.deaths.update(
                    flight.item.task_id
                    for flight in self.flights
                    if flight.item is not None and isinstance(flight.effect, Run)
                )
            self.store.crash()
        else:
            self.store.host_crash(kept)
            self.acknowledged &= self.vouched
            self.deaths.clear()  # their counts may be lost
        for flight in self.flights:
            flight.program.close()
        self.start_process()
        if early:
            loading = Flight(flow.load(self.core))
            more = loading.advance()
            while early and more:
                assert isinstance(loading.effect, Call)
                more = loading.advance(self.call(loading.effect))
                early -= 1
            loading.program.close()
            self.store.crash()
            self.start_process()
        self.finish(flow.load(self.core))

    def call(self, call: Call[Any]) -> object:
        return getattr(self.store, call.method)(*call.args)

    @precondition(lambda self: self.flights)
    @rule()
    def stop_with_grace_run_out(self) -> None:
        runs = {
            flight.item.task_id: flight.item.job.attempts
            for flight in self.flights
            if flight.item is not None and isinstance(flight.effect, Run)
        }
        self.core.stop()
        self.finish(flow.leave(self.core))
        for task_id, attempts in runs.items():
            value, _ = self.store.live().get(task_id, (None, None))
            assert not isinstance(value, dict) or value["attempts"] < attempts
        for flight in self.flights:
            flight.program.close()
        self.flights.clear()  # what ran was given back, so the end of the process is no death
        self.crash()

    def finish(self, program: Program[Any]) -> None:
        """Drive a program to its end on a healthy store."""
        flight = Flight(program)
        more = flight.advance()
        while more:
            assert isinstance(flight.effect, Call)
            try:
                more = flight.advance(self.call(flight.effect))
            except ClaimLost as raised:
                more = flight.advance(error=raised)

    # --- what must hold -----------------------------------------------------------------------

    @invariant()
    def nothing_is_lost(self) -> None:
        dead = labels([task.context for task in self.store.dead])
        live = labels([task for task, _ in self.store.live().values()])
        durable = labels([task for task, _ in self.store.durable.values()])
        self.vouched |= (durable | dead) & self.acknowledged
        lost = self.acknowledged - self.ran - live - dead
        assert not lost, f"a crash of the process now would lose {lost}"
        gone = self.vouched - self.ran - durable - dead
        assert not gone, f"a crash of the host now could lose {gone}"

    @invariant()
    def attempts_are_bounded(self) -> None:
        for value, _ in self.store.live().values():
            assert isinstance(value, dict)
            assert value["attempts"] <= 100 and value["crashes"] <= CRASHES_MAX

    def teardown(self) -> None:
        """A healthy process brings everything to an end: it has run or it is dead."""
        self.crash()
        for _ in range(400):
            while self.flights:
                flight = self.flights[0]
                if isinstance(flight.effect, Run):
                    self.end_run(flight, "ok")
                else:
                    self.make(flight, "ok")
            self.take([])
            wait = self.core.seconds_to_turn()
            if not self.flights and math.isfinite(wait):
                self.clock.time += wait
        assert not self.store.live()
        dead = labels([task.context for task in self.store.dead])
        assert self.acknowledged <= self.ran | dead


class ClaimingCrashingQueue(CrashingQueue):
    """The same over a store that hands out claims (Q4, Q11)."""

    scope = "due_unclaimed"


_settings = settings(max_examples=80, stateful_step_count=20, deadline=None)
TestCrashingQueue = CrashingQueue.TestCase
TestCrashingQueue.settings = _settings
TestClaimingCrashingQueue = ClaimingCrashingQueue.TestCase
TestClaimingCrashingQueue.settings = _settings
