"""One run: workers and their fibers on one machine, one step at a time, by choice.

Rules of this file
  * A choice picks who takes the next step: 0 goes on with the fiber that took the last one (or the
    next that can go), 1, 2, … one of the others, and the numbers behind those kill the process of
    the fiber that is about to go: at once, or after 1, half, or all but one byte of the write that
    it is about to make. A run is a function of its choices, so a list of integers replays it.
  * A fiber that has slept waits until somebody gave something back (an unlock, a close, the end of
    an operation): before that it would only sleep again, or time out. Where one attempt is all that
    there is, it may go on at once and does time out.
  * An operation starts, for the oracle, with its first step and ends with its last.
"""

from __future__ import annotations

from copy import deepcopy

from lychgate._errors import LychgateError
from lychgate._op import StepError
from lychgate._records import JSON

from lychgate_conformance.lab._calls import Violation, opening
from lychgate_conformance.lab._disk import Crashed, Machine
from lychgate_conformance.lab._faults import Fault, Lasting, Loss
from lychgate_conformance.lab._fiber import Fiber, Worker, started
from lychgate_conformance.lab._judge import judge, owned_twice
from lychgate_conformance.lab._micro import history_of
from lychgate_conformance.lab._oracle import MAYBE, NO, Oracle
from lychgate_conformance.lab._simfs import SimFs
from lychgate_conformance.lab._starts import LOCK
from lychgate_conformance.lab._target import PATH, Target
from lychgate_conformance.lab._workload import Fiber as Steps
from lychgate_conformance.lab._workload import Step, Workload

_GIVES_BACK = frozenset(("Unlock", "CloseLock", "CloseWal"))
_WRITES = frozenset(
    ("AppendRecord", "WriteStaging", "AppendWal", "CopyWal", "SetMark", "ClearMark")
)


class Run:
    """One run in progress."""

    def __init__(
        self,
        target: Target,
        workload: Workload,
        machine: Machine,
        oracle: Oracle,
        *,
        fault: Fault | None = None,
        kills: int = 0,
        revival: Steps = (),
        ordered: bool = False,
        phase: int = 1,
    ) -> None:
        self.target = target
        self.workload = workload
        self.machine = machine
        self.oracle = oracle
        self.fault = fault
        self.kills_left = kills
        self.revival = revival
        self.ordered = ordered
        self.workers: list[Worker] = []
        self.fibers: list[Fiber] = []
        self.current: Fiber | None = None
        self.trace: list[tuple[int, str, object]] = []
        self.failures = 0
        """Calls that raised."""
        self._objects: dict[str, int] = {}
        self._seen_log = 0
        for number, fibers in enumerate(workload.workers):
            worker = self._spawn(number)
            for place, steps in enumerate(fibers):
                numbered: list[tuple[Step | None, int]] = [
                    (step, 1000 * (phase - 1) + workload.serial(number, place, n))
                    for n, step in enumerate(steps)
                ]
                first: list[tuple[Step | None, int]] = [(None, 0)] if place == 0 else []
                self.fibers.append(Fiber(worker, first + numbered))
        if fault is not None:
            self.workers[0].fs.inject(fault)
        if phase > 1:
            oracle.rebooted()

    def _spawn(self, number: int) -> Worker:
        fs = SimFs(self.machine)
        worker = Worker(number, fs, self.target.make(fs, self.workload.frequency))
        self.workers.append(worker)
        return worker

    # --- choices --------------------------------------------------------------------------------

    def enabled(self) -> list[Fiber]:
        """Who can go, the fiber that went last first."""
        able = [
            f
            for f in self.fibers
            if not f.done and (f.worker.is_open or f.calls is not None or f.steps[:1] == _OPEN)
        ]
        awake = [f for f in able if not f.parked]
        if not awake:
            for fiber in able:
                fiber.parked = False
            awake = able
        if self.current in awake:
            start = awake.index(self.current)
        else:
            last = self.fibers.index(self.current) if self.current is not None else -1
            order = [n for n, f in enumerate(awake) if self.fibers.index(f) > last]
            start = order[0] if order else 0
        return awake[start:] + awake[:start] + [f for f in able if f.parked and self._gives_up(f)]

    def _gives_up(self, fiber: Fiber) -> bool:
        """Whether a fiber that sleeps may time out before anybody gives anything back."""
        return self.target.lock_attempts == 1 and fiber.naps == 1

    def kinds_of_kill(self, fiber: Fiber) -> list[int]:
        """How many bytes of its next write a fiber may leave when it is killed."""
        if not self.kills_left:
            return []
        if fiber.op is not None and fiber.op.action in _WRITES:
            size = len(getattr(fiber.op, "data"))
            return sorted({0, 1, size // 2, size - 1})
        return [0]

    def take(self, choice: int) -> None:
        """Take one step. Raises Violation."""
        able = self.enabled()
        if choice < len(able):
            self._advance(able[choice])
            return
        fiber = able[0]
        keep = self.kinds_of_kill(fiber)[choice - len(able)]
        self._kill(fiber, keep)

    # --- one step -------------------------------------------------------------------------------

    def _advance(self, fiber: Fiber) -> None:
        self.current = fiber
        fiber.turns += 1
        if fiber.program is None:
            self._begin(fiber)
        op = fiber.op
        if op is None:
            return  # the call ended without a step
        worker = fiber.worker
        result: object = None
        error: OSError | None = None
        try:
            result = op.perform(worker.fs)
        except OSError as raised:
            error = raised
        action = op.action
        outcome = result if error is None else -(error.errno or 0)
        self.trace.append((worker.number, action, op))
        shown = tuple(outcome) if isinstance(outcome, list) else outcome
        worker.history = hash((worker.history, self.fibers.index(fiber), action, shown))
        if action == "Sleep":
            fiber.parked = True
            fiber.naps += 1
        elif action in _GIVES_BACK:
            self._wake()
        self._resume(fiber, result, error)

    def _resume(self, fiber: Fiber, result: object, error: OSError | None) -> None:
        try:
            if error is None:
                fiber.op = fiber.program.send(result)
            else:
                fiber.op = fiber.program.throw(error)
        except StopIteration as stop:
            self._finish(fiber, stop.value, None)
        except LychgateError as raised:
            self._finish(fiber, None, raised)
        except StepError as raised:
            raise Violation(f"unexpected-error: {raised!r} leaked out of {fiber.call}") from raised
        except Crashed:
            raise
        except Exception as raised:
            raise Violation(f"unexpected-error: {raised!r} out of {fiber.call}") from raised

    def _wake(self) -> None:
        for fiber in self.fibers:
            fiber.parked, fiber.naps = False, 0

    def _begin(self, fiber: Fiber) -> None:
        """Start the next call of a fiber."""
        if fiber.calls is None:
            step, serial = fiber.steps.pop(0)
            worker = fiber.worker
            fiber.calls = opening() if step is None else worker.calls_of(step, serial)
            try:
                fiber.call = next(fiber.calls)
            except StopIteration:
                fiber.calls = fiber.op = None  # a step with nothing to do
                return
        call = fiber.call
        assert call is not None
        if call.kind == "fork":
            self._fork(fiber)
            return
        if call.kind in EVENTS:
            self._happen(fiber, call.kind)
            return
        worker = fiber.worker
        if call.kind == "open" and worker.is_open:
            worker.backend = self.target.make(worker.fs, self.workload.frequency)
            worker.queue = None
        fiber.change, fiber.program = started(self.oracle, worker, call, self._owned(worker))
        fiber.op = None
        self._resume(fiber, None, None)

    def _happen(self, fiber: Fiber, kind: str) -> None:
        """Something that is no call of the backend."""
        lock = self.machine.look_up(f"/{LOCK}")
        if kind == "wait":
            self.machine.clock += 1.0
        elif lock is not None and (kind == "unlock-file" or lock.number not in self.machine.locks):
            self.machine.unlink(f"/{LOCK}")
        self.trace.append((fiber.worker.number, EVENTS[kind], None))
        fiber.worker.history = hash((fiber.worker.history, kind))
        fiber.calls = None

    def _fork(self, fiber: Fiber) -> None:
        """A child with a copy of the parent's memory, and its descriptors if nobody closes them; it
        has work of its own."""
        parent = fiber.worker
        fs = parent.fs.fork(self.target.closes_at_fork)
        backend = deepcopy(parent.backend, {id(parent.fs): fs, id(JSON): JSON})
        child = Worker(len(self.workers), fs, backend)
        child.is_open = True
        self.workers.append(child)
        number = 100 * child.number + 50
        steps: list[tuple[Step | None, int]] = [(s, number + n) for n, s in enumerate(CHILD)]
        self.fibers.append(Fiber(child, steps))
        self.trace.append((parent.number, f"fork: worker {child.number}", None))
        parent.history = hash((parent.history, "fork"))
        fiber.calls = fiber.op = None

    # --- the end of a call ----------------------------------------------------------------------

    def _finish(self, fiber: Fiber, result: object, error: LychgateError | None) -> None:
        call, change, calls = fiber.call, fiber.change, fiber.calls
        assert call is not None and change is not None and calls is not None
        fiber.program = fiber.op = None
        self._wake()
        if error is not None:
            self.failures += 1
            self.oracle.finish(change, NO if error.definite else MAYBE)
            self.trace.append((fiber.worker.number, f"{call.kind}:{call.key} fails", error))
            if call.kind == "open":
                fiber.worker.is_open = fiber.worker.alive = False
            elif call.kind == "close":
                fiber.worker.owned.clear()
            try:
                fiber.call = calls.throw(error)
            except (StopIteration, LychgateError):
                fiber.calls = None
            return
        if call.kind == "open":
            fiber.worker.is_open = True
        owned = self._owned(fiber.worker)
        text = judge(
            self.oracle, fiber.worker, call, change, result, owned, self.cache_was_lost
        )
        if not (text or self.failures):
            text = owned_twice(self.workers, fiber.worker)
        if text:
            raise Violation(text)
        self.trace.append((fiber.worker.number, f"{call.kind}:{call.key} returns", result))
        try:
            fiber.call = calls.send(result)
        except StopIteration:
            fiber.calls = None

    def _owned(self, worker: Worker) -> frozenset[str] | None:
        """The ids that this worker must show; None for all. With others about, or a fault that may
        have made a file unreadable (W14), only what it added itself is surely its own."""
        alone = len(self.workers) == 1 and not worker.fs.faulty
        return None if alone else frozenset(worker.owned)

    # --- death ----------------------------------------------------------------------------------

    def _kill(self, fiber: Fiber, keep: int) -> None:
        """SIGKILL for the fiber's process, in the middle of its next write when `keep` says so."""
        worker = fiber.worker
        self.kills_left -= 1
        if keep and fiber.op is not None:
            fs = worker.fs
            fs.inject(Fault(at=fs.calls + 1, keep=keep))
            fiber.op.perform(fs)
        what = f"SIGKILL after {keep} bytes" if keep else "SIGKILL"
        self.trace.append((worker.number, what, None))
        worker.alive = False
        worker.fs.kill()
        worker.history = hash((worker.history, "kill", keep))
        for other in self.fibers:
            if other.worker is worker:
                self._abandon(other)
        self._wake()
        if self.revival:
            fresh = self._spawn(len(self.workers))
            fresh.number = len(self.workers) - 1
            steps: list[tuple[Step | None, int]] = [
                (step, 900 + n) for n, step in enumerate(self.revival)
            ]
            self.fibers.append(Fiber(fresh, [(None, 0), *steps]))

    def _abandon(self, fiber: Fiber) -> None:
        """A fiber whose process is gone: what was in flight may or may not have happened."""
        if fiber.change is not None and fiber.program is not None:
            self.oracle.finish(fiber.change, MAYBE)
        self._close(fiber)

    def _close(self, fiber: Fiber) -> None:
        program, fiber.program, fiber.op = fiber.program, None, None
        if program is not None:
            try:
                program.close()
            except RuntimeError as raised:
                raise Violation(f"clean-up-in-a-crash: {fiber.call} awaited a step") from raised

    def abandon(self) -> None:
        """Give the whole run up."""
        for fiber in self.fibers:
            self._close(fiber)

    @property
    def cache_was_lost(self) -> bool:
        """Whether a failed sync took back what the kernel had: then the end of a process is to a
        batched WAL what the end of the host is, and no program can help it."""
        fault = self.fault
        lost = fault is not None and fault.loss is Loss.REVERTED
        return lost and any(worker.fs.struck == "fsync" for worker in self.workers)

    def check_end(self) -> None:
        """After a run that went to its end: whoever is idle holds no lock, and a fault that is gone
        makes no later call fail (F2). Raises Violation."""
        if self.enabled():
            return
        fault = self.fault
        if fault is not None and fault.lasting is Lasting.ONCE and len(self.fibers) == 1:
            if self.failures > 1:
                raise Violation(f"fault-lingers: {self.failures} calls failed after one fault")
        for worker in self.workers:
            if worker.alive and worker.is_open and self.holds_store_lock(worker):
                raise Violation(f"lock-left-taken: by worker {worker.number}")

    def holds_store_lock(self, worker: Worker) -> bool:
        """Whether a worker holds the lock of the dead-task store: never between two operations."""
        node = self.machine.look_up(f"/{LOCK}") if self.machine.has_dir(PATH) else None
        return node is not None and worker.fs.has(self.machine.locks.get(node.number))

    # --- keys -----------------------------------------------------------------------------------

    def disk_key(self) -> tuple[tuple[str, int], ...]:
        """Equal only for equal histories of every inode and directory, in any interleaving; with
        `ordered`, only for equal histories of the whole disk."""
        disk = self.machine.disk
        objects = self._objects
        for op in disk.log[self._seen_log :]:
            for label, what in history_of(op, disk):
                where = "" if self.ordered else label
                objects[where] = hash((objects.get(where, 0), label, what))
        self._seen_log = len(disk.log)
        return tuple(sorted(objects.items()))

    def key(self) -> tuple[object, ...]:
        """Equal only for states from which everything that follows is equal."""
        nodes = self.machine.disk.nodes
        return (
            self.disk_key(),
            tuple(worker.history for worker in self.workers),
            tuple((nodes[inode].label, self._holder(d)) for inode, d in self.machine.locks.items()),
            None if self.current is None else self.fibers.index(self.current),
            self.machine.clock,
            tuple((fiber.turns, fiber.parked, fiber.naps) for fiber in self.fibers),
            self.oracle.signature(),
        )

    def _holder(self, description: object) -> int:
        for number, worker in enumerate(self.workers):
            if worker.fs.has(description):
                return number
        return -1


EVENTS = {
    "wait": "a second passes",
    "lose-lock": "somebody deletes the lock file, unless it is held",
    "unlock-file": "somebody deletes the lock file",
}
"""Steps that are no call of the backend."""

_OPEN: list[tuple[Step | None, int]] = [(None, 0)]

CHILD: Steps = (Step("add", "c"), Step("task", "k"), Step("pending"))
"""What a forked child does."""
