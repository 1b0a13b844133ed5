"""The facade: what a queue asks of a backend, and the calls as values.

Rules of this file
  * Seven methods are required (D2). `tick`, `sync`, `stats` and `close` are optional and looked for
    once. Any object that has them will do; nothing is inherited.
  * Dependencies point one way: queue -> backend -> storage (D1). A backend never schedules, never
    retries and owns no timers. What needs time it does in `tick(now)`, which says when it wants to
    be called again, and the queue calls it. None means: not before the next change. A time stands,
    whatever is changed until then.
  * `pending_scope` tells what `pending_tasks` gives (Q11). `owned_all`, the default: every live
    task of this process, read once at start; delayed tasks wait in the queue's memory.
    `due_unclaimed`: a batch of due tasks that this worker now owns, asked for again and again,
    every `claim_interval` seconds at least; delayed tasks wait in the store, and a retry gives the
    task back. Such a backend counts its claims itself, so the queue writes no count (U7).

The queue's programs (`_queue_flow.py`) await a `Call`; a driver makes it, on a sync or on an async
backend. So both queues share every decision, and a test can put a crash between any two calls.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from lychgate._errors import ConfigError, LychgateError
from lychgate._records import DeadTask

R = TypeVar("R")

Pending = tuple[str, object, float | None]
"""Id, task, and when it is due (None: at once)."""

CLAIM_INTERVAL_S = 5.0


class Backend(Protocol):
    """The seven required methods. All ids are task ids; times are seconds since the Unix epoch."""

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        """Store a task and give its id; with a known id, replace what is stored under it."""

    def remove_task(self, task_id: str) -> None:
        """Forget a task; an unknown id is no error."""

    def pending_tasks(self) -> list[Pending]:
        """The live tasks, `Undecodable` in place of one that cannot be read."""

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        """Store a dead task: durable when it returns."""

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[DeadTask]:
        """A page of the dead tasks, in the order of the store."""

    def find_dead_task(self, task_id: str) -> DeadTask | None:
        """The newest valid record of an id."""

    def remove_dead_tasks(self, task_ids: list[str]) -> int:
        """Drop every record of these ids; how many ids were found."""


class AsyncBackend(Protocol):
    """The same seven as coroutines (`lychgate.aio`)."""

    async def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str: ...

    async def remove_task(self, task_id: str) -> None: ...

    async def pending_tasks(self) -> list[Pending]: ...

    async def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None: ...

    async def list_dead_tasks(
        self, limit: int | None = None, offset: int = 0
    ) -> list[DeadTask]: ...

    async def find_dead_task(self, task_id: str) -> DeadTask | None: ...

    async def remove_dead_tasks(self, task_ids: list[str]) -> int: ...


class ClaimLost(LychgateError):
    """Another worker owns the task by now: this one may not finish, retry or bury it (Q6)."""


_REQUIRED = tuple(name for name in vars(Backend) if not name.startswith("_"))

CHANGES = frozenset({"add_task", "remove_task", "add_dead_task", "remove_dead_tasks"})
"""Calls after which a backend may want a `tick` that it did not ask for before."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a backend can do besides the seven methods."""

    tick: bool
    sync: bool
    stats: bool
    close: bool
    claims: bool
    claim_interval: float


def probe(backend: object) -> Abilities:
    """Look once at what a backend offers. Raises ConfigError when a required method is missing."""
    missing = [name for name in _REQUIRED if not callable(getattr(backend, name, None))]
    if missing:
        raise ConfigError(
            f"{type(backend).__name__} is no backend: it lacks {', '.join(missing)}; "
            "configure() gives one"
        )
    scope = getattr(backend, "pending_scope", "owned_all")
    if scope not in ("owned_all", "due_unclaimed"):
        raise ConfigError(f"pending_scope is 'owned_all' or 'due_unclaimed', not {scope!r}")
    optional = {
        name: callable(getattr(backend, name, None)) for name in ("tick", "sync", "stats", "close")
    }
    interval = float(getattr(backend, "claim_interval", CLAIM_INTERVAL_S))
    return Abilities(**optional, claims=scope == "due_unclaimed", claim_interval=interval)


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """One call on the facade, to be made by a driver."""

    method: str
    args: tuple[object, ...] = ()

    def __await__(self) -> Generator[Call[Any], Any, R]:
        result: R = yield self
        return result


def add_task(task: object, publish_at: float | None, task_id: str | None = None) -> Call[str]:
    return Call("add_task", (task, publish_at, task_id))


def remove_task(task_id: str) -> Call[None]:
    return Call("remove_task", (task_id,))


def pending_tasks() -> Call[list[Pending]]:
    return Call("pending_tasks")


def add_dead_task(
    task_id: str, context: object, error: BaseException, task_class: str, attempts: int
) -> Call[None]:
    return Call("add_dead_task", (task_id, context, error, task_class, attempts))


def list_dead_tasks() -> Call[list[DeadTask]]:
    return Call("list_dead_tasks")


def find_dead_task(task_id: str) -> Call[DeadTask | None]:
    return Call("find_dead_task", (task_id,))


def remove_dead_tasks(task_ids: list[str]) -> Call[int]:
    return Call("remove_dead_tasks", (task_ids,))


def tick(now: float) -> Call[float | None]:
    return Call("tick", (now,))


def sync() -> Call[None]:
    return Call("sync")
