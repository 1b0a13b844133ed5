"""A front of the crash lab for the delivery queue: every image, kill and fault of a script.

    run       a script of calls, driven step by step on the simulated disk
    crash     before and after every step: every image of the `portable` model, and the kill
    depth 2   some of those images: opened again, a short script, crashed at every step as well
    fault     one call fails in some way; the owner recovers and goes on; crashes as above

The oracle is `may` of spec/Delivery.tla: for every number the states that may be found, one once a
call has returned, two while it is under way. Beside it: no number is given twice, and the log bytes
of every directory stay within the bound of L12.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lychgate._delivery import DeliveryPrograms
from lychgate._delivery_answers import Claimed, Enqueued
from lychgate._delivery_errors import DeliveryError, Result
from lychgate._delivery_files import parse_segment_name
from lychgate._delivery_layout import Limits
from lychgate._drive import run as drive_now
from lychgate._errors import LychgateError, StorageError
from lychgate._op import Program
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._faults import SYNC_CALLS, Fault, Loss
from lychgate_conformance.lab._image import Image, cached_image, image_of
from lychgate_conformance.lab._models import PORTABLE
from lychgate_conformance.lab._simfs import SimFs

PATH = "/q"
LOCK_PATH = "q/queue.lock"
LIMITS = Limits(items_max=9, payload_bytes_max=8, segment_bytes=280, segments_max=2)

Standing = tuple[str, int, str, bytes]
"""An item as found: state, attempts, reason, payload."""

AGAIN_EVERY = 4
"""Of so many recoveries one is recovered again: it must find the same."""


class Died(Exception):
    """SIGKILL came after a step that the script named."""


class Broken(AssertionError):
    """A promise that did not hold, and the way to it."""


@dataclass(frozen=True)
class Outcome:
    """What a recovery finds on an image."""

    items: tuple[tuple[int, Standing], ...] = ()
    high: int = 0
    error: str = ""


@dataclass
class Oracle:
    """What callers were told."""

    may: dict[int, set[Standing | None]] = field(default_factory=dict)
    given: int = 0

    def copy(self) -> Oracle:
        return Oracle({n: set(found) for n, found in self.may.items()}, self.given)

    def now(self, sequence: int) -> Standing | None:
        (found,) = self.may.get(sequence, {None})
        return found

    def begins(self, sequence: int, standing: Standing | None) -> None:
        self.may.setdefault(sequence, {None}).add(standing)

    def ends(self, sequence: int, standing: Standing | None) -> None:
        self.may[sequence] = {standing}
        self.given = max(self.given, sequence)

    def settle(self, found: Outcome) -> None:
        """A recovery has looked: what it saw is what everybody sees from now on."""
        seen = dict(found.items)
        self.may = {n: {seen.get(n)} for n in {*self.may, *seen}}
        self.given = max(self.given, found.high)

    def judge(self, found: Outcome) -> str:
        """What is wrong with an outcome."""
        if found.error:
            return found.error
        seen = dict(found.items)
        for n in {*self.may, *seen}:
            if seen.get(n) not in self.may.get(n, {None}):
                return f"item {n} is {seen.get(n)}, not one of {self.may.get(n)}"
        if found.high < self.given:
            return f"number {found.high + 1} would be given again; {self.given} was"
        return ""


def _plain(state: str) -> str:
    """Leases run out while nobody looks, so a claimed item is one that was claimed."""
    return "quarantined" if state == "quarantined" else "there"


def look(programs: DeliveryPrograms, fs: SimFs) -> Outcome:
    found: list[tuple[int, Standing]] = []
    for item in programs.items():
        payload = drive_now(programs.read(item.sequence), fs).payload
        assert payload is not None
        standing = (_plain(item.state), item.attempts, item.reason, payload)
        found.append((item.sequence, standing))
    return Outcome(tuple(found), programs.stats()["sequence_high"])


def log_bytes(files: Iterable[tuple[str, int]]) -> int:
    return sum(n for path, n in files if parse_segment_name(path.rpartition("/")[2]) is not None)


def _without_mark(image: Image) -> object:
    """The image, but for what a lock file says that does not say "clean": all of that is the same.
    (Whether a clean mark of another boot is believed is for the engine to decide.)"""
    mark = image.get(LOCK_PATH)
    if not isinstance(mark, bytes) or mark.startswith(b"clean"):
        return image
    pairs = zip(image.paths, image.contents, strict=True)
    return tuple(pair for pair in pairs if pair[0] != LOCK_PATH)


class Lab:
    """Explores scripts; memory of recoveries and image sets is shared by all of them."""

    def __init__(
        self, limits: Limits = LIMITS, seconds_images: int = 3, after_fault: int = 8
    ) -> None:
        self.limits = limits
        self.enumerator = Enumerator(PORTABLE)
        self.outcomes: dict[tuple[object, str], Outcome] = {}
        self.seconds = seconds_images
        self.after_fault = after_fault
        """Crash points that are looked at after a fault has struck, every second one."""
        self.done: set[object] = set()
        self.images = self.steps = self.recoveries = self.points = 0
        self.partial: set[str] = set()

    # --- images -------------------------------------------------------------------------------

    def recover(self, image: Image, boot: str) -> Outcome:
        """What a new process finds, and that finding it twice is finding the same."""
        key = (_without_mark(image), boot)
        known = self.outcomes.get(key)
        if known is None:
            self.recoveries += 1
            machine = Machine(image, boot=boot)
            known = self._open(machine)
            if not known.error and self.recoveries % AGAIN_EVERY == 0:
                again = self._open(Machine(cached_image(machine.disk), boot=boot))
                if again != known:
                    known = Outcome(error=f"recovered twice: {known} and then {again}")
                size = log_bytes((p, len(c)) for p, c in cached_image(machine.disk).files().items())
                if size > self.limits.disk_bytes_max:
                    known = Outcome(error=f"{size} log bytes after a recovery")
            self.outcomes[key] = known
        return known

    def _open(self, machine: Machine) -> Outcome:
        fs = SimFs(machine)
        programs = DeliveryPrograms(PATH, self.limits, fs)
        try:
            drive_now(programs.open(), fs)
            return look(programs, fs)
        except LychgateError as error:
            return Outcome(error=f"{type(error).__name__}: {error}")
        finally:
            fs.kill()

    def crash(self, run: Run, excused: bool) -> dict[Outcome, Image]:
        """Judge the kill and every image of this moment."""
        self.points += 1
        dead = self.recover(cached_image(run.machine.disk), run.machine.boot)
        run.check(run.oracle.judge(dead), "kill")
        images = self.enumerator.at(run.machine.disk)
        if images.partial:
            self.partial.add(images.partial)
        found: dict[Outcome, Image] = {}
        for image in images.images():
            self.images += 1
            size = log_bytes((p, len(c)) for p, c in image.files().items())
            if not excused and size > self.limits.disk_bytes_max:
                run.check(f"{size} log bytes, over {self.limits.disk_bytes_max}", image)
            outcome = self.recover(image, run.machine.boot + "+")
            run.check(run.oracle.judge(outcome), image)
            found.setdefault(outcome, image)
        return found

    # --- scripts ------------------------------------------------------------------------------

    def explore(
        self, script: str, depth: int = 2, fault: Fault | None = None, image: Image | None = None
    ) -> Run:
        """A script, crashed at every step. Raises Broken."""
        run = Run(self, script, image or image_of({}), fault, f"boot-{depth}", Oracle())
        self._drive(run, depth)
        return run

    def _drive(self, run: Run, depth: int) -> None:
        lossy = run.fault is not None and run.fault.loss is not Loss.KEPT
        size, left = -1, self.after_fault
        for _ in run.go():
            self.steps += 1
            if run.fault is not None:
                left -= bool(run.processes[0].struck)
                if left == self.after_fault or left < 0 or left % 2:
                    continue
            if len(run.machine.disk.log) == size and run.quiet:
                continue
            size, run.quiet = len(run.machine.disk.log), True
            found = self.crash(run, lossy and run.fs.struck == "fsync_dir")
            if depth > 1:
                for image in list(found.values())[: self.seconds]:
                    told = sorted((n, frozenset(s)) for n, s in run.oracle.may.items())
                    key = (image, tuple(told))
                    if key not in self.done:
                        self.done.add(key)
                        self._second(run, image, depth - 1)

    def _second(self, run: Run, image: Image, depth: int) -> None:
        again = Run(self, SECOND, image, None, run.machine.boot + "+", run.oracle.copy())
        again.way = [*run.way, f"crash: {sorted(image.files())}"]
        self._drive(again, depth)

    def calls(self, script: str) -> list[str]:
        """The calls that a script's first process makes, by name."""
        run = Run(self, script, image_of({}), None, "boot", Oracle())
        names: list[str] = []
        run.fs.listen(lambda name, _: names.append(name))
        for _ in run.go():
            pass
        return names


SECOND = "open enqueue:z claim ack"


class Run:
    """One script in progress."""

    def __init__(
        self, lab: Lab, script: str, image: Image, fault: Fault | None, boot: str, oracle: Oracle
    ) -> None:
        self.lab = lab
        self.script = script.split()
        self.machine = Machine(image, boot=boot)
        self.fault = fault
        self.oracle = oracle
        self.way: list[str] = []
        self.quiet = False
        self.failures = 0
        self.processes: list[SimFs] = []
        self._fresh()
        self.claims: list[tuple[int, int]] = []
        self.dies_after = ""
        self.dead = False

    def _fresh(self) -> None:
        self.fs = SimFs(self.machine)
        self.processes.append(self.fs)
        if self.fault is not None and len(self.processes) == 1:
            self.fs.inject(self.fault)
        self.queue = DeliveryPrograms(PATH, self.lab.limits, self.fs)

    def check(self, text: str, where: object) -> None:
        if text:
            way = "\n  ".join([*self.way, f"fault: {self.fault}", f"at: {where}"])
            raise Broken(f"{text}\n  {way}")

    def go(self) -> Iterator[None]:
        """Every step; yields before each, and once after the last."""
        for call in self.script:
            self.way.append(call)
            yield from self._call(*call.split(":"))
            self.quiet = False
        yield

    def _steps(self, program: Program[object]) -> Iterator[None]:
        """Drive one program; its value is in `self.value`."""
        value: object = None
        error: BaseException | None = None
        try:
            while True:
                op = program.send(value) if error is None else program.throw(error)
                yield
                value = error = None
                try:
                    value = op.perform(self.fs)
                    self.way.append(op.action)
                    if op.action == self.dies_after:
                        raise Died
                except OSError as raised:
                    error = raised
                    self.way.append(f"{op.action} fails")
        except StopIteration as stop:
            self.value: object = stop.value
        finally:
            program.close()

    def _guarded(self, program: Program[object]) -> Iterator[None]:
        """The same, and what an owner does about an error: recover, or open again, once."""
        self.value = None
        try:
            yield from self._steps(program)
        except Died:
            self.way.append("SIGKILL")
            self.dies_after = ""
            self.fs.kill()
            self.dead = True
        except StorageError:
            self.failures += 1
            self.check("" if self.fs.faulty and self.failures == 1 else "fails again", "a call")
            yield from self._mend()
        except DeliveryError as error:
            self.check(f"unexpected: {error!r}", "a call")

    def _mend(self) -> Iterator[None]:
        if self.queue.stats()["poisoned"] and self.queue._lock.held:
            yield from self._steps(self.queue.recover())
        elif self.queue.stats()["poisoned"] or self.queue._closed:
            self._fresh()
            yield from self._steps(self.queue.open())
        self._settle()

    def _settle(self) -> None:
        found = look(self.queue, self.fs)
        self.check(self.oracle.judge(found), "an open")
        self.oracle.settle(found)
        self.quiet = False

    def _call(self, name: str, text: str = "", more: str = "") -> Iterator[None]:
        if name == "open":
            if self.fs.calls:
                self.fs.kill()
                self._fresh()
            self.dead = False
            yield from self._guarded(self.queue.open())
            if not self.dead:
                self._settle()
        elif name == "close":
            yield from self._guarded(self.queue.close())
        elif name == "kill":
            self.fs.kill()
        elif name == "die":
            self.dies_after = text
        elif name == "recover":
            yield from self._guarded(self.queue.recover())
            self._settle()
        elif name == "enqueue":
            yield from self._enqueue(text.encode())
        elif name == "claim":
            yield from self._claim()
        elif name == "wait":
            self.machine.clock += 1000.0
        else:
            yield from self._finish(name, text)

    def _enqueue(self, payload: bytes) -> Iterator[None]:
        n = self.queue.stats()["sequence_high"] + 1
        standing = ("there", 0, "", payload)
        self.check("" if n > self.oracle.given else f"number {n} comes again", "an enqueue")
        self.oracle.begins(n, standing)
        yield from self._guarded(self.queue.enqueue(payload))
        if isinstance(self.value, Enqueued) and self.value.result is Result.OK:
            self.check("" if self.value.sequence == n else "another number", "an enqueue")
            self.oracle.ends(n, standing)
        elif isinstance(self.value, Enqueued):
            self.oracle.may[n] = {None}

    def _claim(self) -> Iterator[None]:
        able = [i.sequence for i in self.queue.items() if i.state == "available"]
        if able:
            was = self.oracle.now(able[0])
            assert was is not None
            now = (was[0], was[1] + 1, was[2], was[3])
            self.oracle.begins(able[0], now)
        yield from self._guarded(self.queue.claim(500_000))
        if isinstance(self.value, Claimed) and self.value.claim is not None:
            claim = self.value.claim
            self.check("" if claim.sequence == able[0] else "not the oldest", "a claim")
            self.claims.append((claim.sequence, claim.receipt))
            self.oracle.ends(able[0], now)

    def _finish(self, name: str, text: str) -> Iterator[None]:
        if not self.claims:
            return
        n, receipt = self.claims.pop(0)
        was = self.oracle.now(n)
        if was is None:
            return
        if name == "ack":
            after, program = None, self.queue.ack(n, receipt)
        elif name == "retry":
            after, program = was, self.queue.retry(n, 0, receipt)
        else:
            after = ("quarantined", was[1], text, was[3])
            program = self.queue.quarantine(n, text, receipt)
        self.oracle.begins(n, after)
        yield from self._guarded(program)
        if self.value is Result.OK:
            self.oracle.ends(n, after)
        elif isinstance(self.value, Result):
            self.oracle.may[n] = {was}


def faults(calls: list[str]) -> Iterator[Fault]:
    """Each call fails; writes take a part first; syncs lose what they should have kept."""
    for at, name in enumerate(calls, start=1):
        if name in SYNC_CALLS:
            yield from (Fault(at, errno.EIO, loss=loss) for loss in Loss)
        elif name in ("append", "overwrite"):
            yield Fault(at, errno.ENOSPC)
            yield Fault(at, errno.ENOSPC, keep=20)
            yield Fault(at, 0, keep=20)
        else:
            yield Fault(at, errno.EIO)
