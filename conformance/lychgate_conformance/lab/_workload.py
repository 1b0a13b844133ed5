"""What the workers of a run do, as values with a text form, and how all of them are generated.

    text     start ; frequency ; worker / worker        e.g.  two;0;add:a,list|find:a/remove:p
    worker   fiber | fiber
    fiber    step , step

Steps (the part behind `:` is a task id):

    add remove list find         the dead-task store
    task done pending sync tick  the WAL
    giveup                       add_dead_task, then remove_task (U3)
    retry                        find, add_task under a fresh id, sync, remove_dead_tasks (U4)
    put run fail flaky back load what a queue does with a job (`_queue_steps`; U1-U8)
    reopen                       close, and open again in the same process
    wait                         a second passes: a batch of the WAL falls due
    lose-lock                    somebody deletes the lock file while nobody holds it (D24)
    unlock-file                  the same at any time: no part of the campaign, for no check helps
    fork                         a child that goes on with the same backend: add:c, task:k, pending

A worker opens its backend before its first step. Every record carries the number of the step that
wrote it, so that no two are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

QUEUE_KINDS = frozenset(("put", "run", "fail", "flaky", "back", "load"))
STEPS_WITH_ID = frozenset(
    ("add", "remove", "find", "task", "done", "giveup", "retry", "put", "back")
)
STEPS_WITHOUT_ID = frozenset(
    ("list", "pending", "sync", "tick", "reopen", "fork", "wait", "lose-lock", "unlock-file")
    + ("run", "fail", "flaky", "load")
)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a fiber."""

    kind: str
    key: str = ""

    def __post_init__(self) -> None:
        wanted = STEPS_WITH_ID if self.key else STEPS_WITHOUT_ID
        if self.kind not in wanted:
            raise ValueError(f"unknown step {str(self)!r}")

    def __str__(self) -> str:
        return f"{self.kind}:{self.key}" if self.key else self.kind


Fiber = tuple[Step, ...]
Worker = tuple[Fiber, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """What stands on the disk at first, how often the WAL is fsynced, and what everybody does."""

    start: str
    frequency: float
    workers: tuple[Worker, ...]

    def __str__(self) -> str:
        workers = "/".join(
            "|".join(",".join(map(str, fiber)) for fiber in worker) for worker in self.workers
        )
        return f"{self.start};{self.frequency:g};{workers}"

    @property
    def steps(self) -> int:
        return sum(len(fiber) for worker in self.workers for fiber in worker)

    def serial(self, worker: int, fiber: int, step: int) -> int:
        """The number of a step: 11 for the first one of the first fiber of the first worker."""
        return 100 * worker + 10 * (fiber + 1) + step + 1


def parse_workload(text: str) -> Workload:
    """The workload behind its text; ValueError when it is none."""
    parts = text.split(";")
    if len(parts) != 3:
        raise ValueError(f"a workload is 'start;frequency;steps', not {text!r}")
    start, frequency, rest = parts
    workers = tuple(
        tuple(steps_of(fiber) for fiber in worker.split("|")) for worker in rest.split("/")
    )
    return Workload(start, float(frequency), workers)


def steps_of(text: str) -> Fiber:
    """The steps behind their text; ValueError when one of them is none."""
    return tuple(_step(word) for word in text.split(",") if word)


def _step(word: str) -> Step:
    kind, _, key = word.strip().partition(":")
    return Step(kind, key)


DEAD_STEPS = ("add:a", "add:b", "remove:a", "remove:p", "list", "find:a")
WAL_STEPS = ("task:t", "task:u", "done:t", "done:u", "pending", "sync")
HAND_STEPS = ("task:t", "giveup:t", "giveup:u", "retry:p", "remove:p", "sync")
QUEUE_STEPS = ("put:j", "run", "fail", "flaky", "back:j", "load", "reopen")
ALL_STEPS = tuple(dict.fromkeys((*DEAD_STEPS, *WAL_STEPS, *HAND_STEPS, "reopen")))

SHAPES: tuple[tuple[int, ...], ...] = ((1,), (2,), (1, 1), (2, 1), (1, 1, 1))
"""Fibers per worker."""


def sequences(alphabet: tuple[str, ...], length: int) -> Iterator[Fiber]:
    """All sequences of exactly this length that are worth a run: they end with a change or a read
    that follows one, and `b` comes after `a`."""
    steps = [_step(word) for word in alphabet]
    for sequence in product(steps, repeat=length):
        keys = [step.key for step in sequence if step.kind == "add"]
        if "b" in keys and "a" not in keys[: keys.index("b")]:
            continue
        if all(step.kind in ("list", "find", "pending") for step in sequence) and length > 1:
            continue
        yield sequence


def generate(
    alphabet: tuple[str, ...],
    length: int,
    shapes: tuple[tuple[int, ...], ...],
    starts: tuple[str, ...],
    frequency: float,
) -> Iterator[Workload]:
    """All workloads of `length` steps in all, over these shapes and starts; small shapes first."""
    for shape in shapes:
        fibers = sum(shape)
        if fibers > length:
            continue
        for lengths in _splits(length, fibers):
            for parts in product(*(list(sequences(alphabet, n)) for n in lengths)):
                workers = _distribute(parts, shape)
                if workers is not None:
                    for start in starts:
                        yield Workload(start, frequency, workers)


def _splits(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(1, total - parts + 2):
        for rest in _splits(total - first, parts - 1):
            yield (first, *rest)


def _distribute(parts: tuple[Fiber, ...], shape: tuple[int, ...]) -> tuple[Worker, ...] | None:
    """The fibers put into workers; None when the result makes no sense or is a mirror image."""
    found: list[Worker] = []
    rest = list(parts)
    for count in shape:
        worker, rest = tuple(rest[:count]), rest[count:]
        if count > 1 and any(step.kind == "reopen" for fiber in worker for step in fiber):
            return None  # the other fiber would find its backend closed
        if list(worker) != sorted(worker, key=_order):
            return None
        found.append(worker)
    if len(set(shape)) == 1 and found != sorted(found, key=lambda w: [_order(f) for f in w]):
        return None
    return tuple(found) if _owners_are_plain(found) else None


def _order(fiber: Fiber) -> tuple[str, ...]:
    return tuple(map(str, fiber))


def _owners_are_plain(workers: list[Worker]) -> bool:
    """Whether no task id is written by two fibers: who owns which version stays decidable."""
    seen: dict[str, int] = {}
    fibers = [fiber for worker in workers for fiber in worker]
    for number, fiber in enumerate(fibers):
        for step in fiber:
            if step.kind in ("task", "done", "giveup", "put"):
                if seen.setdefault(step.key, number) != number:
                    return False
                if step.key == "u" and len(workers) > 1:
                    return False  # any worker may have taken over the task of the starting files
    return True
