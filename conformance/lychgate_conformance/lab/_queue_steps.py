"""Steps of a queue over the backend: the engine's own programs, one facade call at a time.

    put:j     enqueue a job under this id                        (U1)
    run       take the next task that is due, and run it well    (U2, U7)
    fail      the same, but the run fails for good               (U3)
    flaky     the same, but the run fails and is tried again     (U2)
    back:j    bring a dead task back, under the id `j-again`     (U4, U8)
    load      what a queue does when it starts                   (U6, U7)

Rules of this file
  * A program of `lychgate._queue_flow` yields its calls; each becomes a `Call` of the run, so that
    the oracle follows it and a crash can be put between any two of its steps. The ids that a
    backend would make up are given here, so that they are the same in every interleaving.
  * What is stored is a job; the oracle tells jobs apart by a digest of what they say.
  * Before a job runs, the run must be counted in the store (U7): that is looked at here, for no
    image shows it.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from lychgate import _queue_flow as flow
from lychgate._backend import Abilities
from lychgate._backend import Call as Effect
from lychgate._errors import LychgateError
from lychgate._queue_core import Core, Item, Limits, Wakeups
from lychgate._queue_drive import Program, Run
from lychgate._queue_job import Job
from lychgate._task import Registry

from lychgate_conformance.lab._calls import Call, Calls, Violation
from lychgate_conformance.lab._simfs import SimFs
from lychgate_conformance.lab._target import serial_of
from lychgate_conformance.lab._workload import Step

_ABILITIES = Abilities(
    tick=False, sync=True, stats=False, close=False, claims=False, claim_interval=1.0
)

registry = Registry()


@registry.task(name="lab.job", max_retries=1, retry_in={ValueError: 5.0, KeyError: None})
def job() -> None:
    """The lab decides how a run ends; nobody calls this."""


class SimClock:
    """The queue's clock: the machine's."""

    def __init__(self, fs: SimFs) -> None:
        self._fs = fs

    def now(self) -> float:
        return self._fs.now()

    def elapsed(self) -> float:
        return self._fs.now()

    def draw(self) -> int:
        return 0

    def pid(self) -> int:
        return self._fs.pid()

    def wait(self, condition: threading.Condition, seconds: float) -> None:
        """Nobody waits: a step is one program."""

    async def pause(self, event: asyncio.Event, seconds: float) -> None:
        """Nobody waits: a step is one program."""


def new_queue(fs: SimFs) -> Core:
    """The empty memory of a queue in one process."""
    nobody = Wakeups(_nothing, _nothing, _nothing)
    core = Core(_ABILITIES, registry, Limits(), SimClock(fs), threading.RLock(), nobody)
    core.taking = True
    return core


def _nothing() -> None:
    pass


def queue_calls(core: Core, step: Step) -> Calls:
    """The facade calls of a queue's step; what a call raises goes into the program."""
    item = core.take() if step.kind in ("run", "fail", "flaky") else None
    program = _program(core, step, item)
    if program is None:
        return
    ends: dict[str, BaseException] = {"fail": KeyError("lab"), "flaky": ValueError("lab")}
    stored: object = None
    value: object = None
    error: BaseException | None = None
    while True:
        try:
            effect = program.send(value) if error is None else program.throw(error)
        except (StopIteration, LychgateError):
            return  # done, or the caller of the queue gets an error
        except Exception as raised:
            raise Violation(f"unexpected-error: {raised!r} out of {step}") from raised
        value, error = None, None
        if isinstance(effect, Run):
            _check_count(effect.item, stored)
            value = ends.get(step.kind)
            continue
        try:
            value = yield _call(effect, step)
        except LychgateError as raised:
            error = raised
        if effect.method == "add_task":
            stored = effect.args[0] if error is None else None


def _program(core: Core, step: Step, item: Item | None) -> Program[Any] | None:
    fresh = step.key if step.kind == "put" else f"{step.key}-again"
    if core.knows(fresh):
        return None  # no backend gives an id twice, so nobody is asked to
    if step.kind == "put":
        spec = registry.declared(job)
        with core.lock:
            core.admit()
        return flow.enqueue(core, spec, Job(spec.name, (), {}, core.clock.now()), None)
    if step.kind == "back":
        return flow.retry_dead(core, step.key)
    if step.kind == "load":
        return flow.load(core)
    return None if item is None else flow.attempt(core, item)


def _call(effect: Effect[Any], step: Step) -> Call:
    """The call of the run that makes a queue's call."""
    method, args = effect.method, effect.args
    if method == "add_task":
        fresh = step.key if step.kind == "put" else f"{step.key}-again"
        key = fresh if args[2] is None else str(args[2])
        return Call("task", key, serial_of(args[0]), args=args[:2])
    if method == "add_dead_task":
        context, _, task_class, attempts = args[1:]
        return Call("add", str(args[0]), serial_of([context, task_class, attempts]), args=args[1:])
    if method == "remove_task":
        return Call("done", str(args[0]), handoff=step.kind in ("fail", "load"))
    if method == "remove_dead_tasks":
        assert isinstance(args[0], list) and len(args[0]) == 1, "one dead task at a time"
        return Call("remove", args[0][0], handoff=True)
    kinds = {"find_dead_task": "find", "pending_tasks": "pending", "sync": "sync"}
    return Call(kinds[method], str(args[0]) if args else "")


def _check_count(item: Item, stored: object) -> None:
    said = stored if isinstance(stored, dict) else {}
    if said.get("running") is not True or said.get("attempts") != item.job.attempts:
        raise Violation(f"run-not-counted: {item.task_id} runs, and the store does not say so")
