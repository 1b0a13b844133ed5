"""`Store`: one backend object as a case sees it, wherever it lives.

The seven calls, with the shape of every answer checked on the way: an id is text, a count is a
count, a dead task has its fields (D2, D30). A call that raises becomes `CallError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lychgate_conformance._server import DEAD_FIELDS
from lychgate_conformance._verdict import Failed, NotClaimed
from lychgate_conformance._wire import ErrorText, Json, decode, encode, short

if TYPE_CHECKING:
    from lychgate_conformance._stage import Worker


class CallError(Exception):
    """A call of the backend raised. A case that does not expect that has failed."""

    def __init__(self, method: str, error: Json) -> None:
        super().__init__(f"{method} raised {error['type']}: {short(error['text'])}")
        self.method = method
        self.type_name: str = error["type"]
        self.bases: list[str] = error["bases"]
        self.text: str = error["text"]
        self.errno: int | None = error["errno"]
        self.definite: bool | None = error["definite"]
        self.code: str | None = error["code"]
        """A code of the protocol, where the backend has such."""
        self.trace: str = error["trace"]


@dataclass(frozen=True, slots=True)
class Pending:
    """A task that waits."""

    task_id: str
    task: object
    publish_at: float | None


@dataclass(frozen=True, slots=True)
class Dead:
    """A dead task as it was listed or found."""

    task_id: str
    task_class: str
    attempts: int
    context: object
    error_class: str
    error_message: str
    failed_at: float
    enqueued_at: float | None


@dataclass(frozen=True, slots=True)
class Call:
    """A call to be made: by a thread, a forked child, or ahead of its answer."""

    handle: int
    method: str
    args: tuple[object, ...] = ()
    kwargs: tuple[tuple[str, object], ...] = ()

    def request(self) -> Json:
        return {
            "do": "call",
            "handle": self.handle,
            "method": self.method,
            "args": [encode(arg) for arg in self.args],
            "kwargs": {name: encode(arg) for name, arg in self.kwargs},
        }


def value_of(call: Call, reply: Json) -> object:
    """What a reply says, as the type that the method promises. CallError when it raised."""
    if "error" in reply:
        raise CallError(call.method, reply["error"])
    check = _SHAPES.get(call.method)
    return reply["ok"] if check is None else check(reply["ok"])


class Store:
    """The facade of one opened backend object."""

    def __init__(self, worker: Worker, handle: int) -> None:
        self._worker = worker
        self.handle = handle

    def call(self, method: str, *args: object, **kwargs: object) -> Call:
        """A call, not made yet."""
        return Call(self.handle, method, args, tuple(kwargs.items()))

    def make(self, call: Call, spoil: bool = False) -> object:
        reply = self._worker.ask({**call.request(), "spoil": spoil})
        return value_of(call, reply)

    # --- tasks --------------------------------------------------------------------------------

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        call = self.call("add_task", task, publish_at=publish_at, task_id=task_id)
        return str(self.make(call))

    def remove_task(self, task_id: str) -> None:
        self.make(self.call("remove_task", task_id))

    def pending_tasks(self) -> list[Pending]:
        found = self.make(self.call("pending_tasks"))
        assert isinstance(found, list)
        return found

    def pending_ids(self) -> list[str]:
        """The ids of the pending tasks, sorted: their order is nobody's promise."""
        return sorted(it.task_id for it in self.pending_tasks())

    # --- dead tasks ---------------------------------------------------------------------------

    def add_dead_task(
        self,
        task_id: str,
        context: object = None,
        exception: ErrorText | None = None,
        task_class: str = "shop.Ship",
        attempts: int = 1,
    ) -> None:
        error = exception or ErrorText("out of stock")
        self.make(self.call("add_dead_task", task_id, context, error, task_class, attempts))

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Dead]:
        found = self.make(self.call("list_dead_tasks", limit=limit, offset=offset))
        assert isinstance(found, list)
        return found

    def dead_ids(self) -> list[str]:
        """The ids of the dead tasks as they are listed."""
        return [it.task_id for it in self.list_dead_tasks()]

    def find_dead_task(self, task_id: str) -> Dead | None:
        found = self.make(self.call("find_dead_task", task_id))
        assert found is None or isinstance(found, Dead)
        return found

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        count = self.make(self.call("remove_dead_tasks", list(task_ids)))
        assert isinstance(count, int)
        return count

    # --- what not every backend has -----------------------------------------------------------

    def offers(self, method: str) -> bool:
        reply = self._worker.ask({"do": "has", "handle": self.handle, "method": method})
        return bool(reply["ok"])

    def optional(self, method: str, *args: object) -> object:
        """Call a method that a backend may lack; NotClaimed when it does."""
        if not self.offers(method):
            raise NotClaimed(f"the backend has no {method}()")
        return decode(self.make(self.call(method, *args)))

    def close(self) -> None:
        """Close it where it can be closed; otherwise let go of it."""
        if self.offers("close"):
            self.make(self.call("close"))
        self.forget()

    def forget(self) -> None:
        self._worker.ask({"do": "forget", "handle": self.handle})


# --- shapes of answers ------------------------------------------------------------------------


def _id(value: Json) -> str:
    if not isinstance(value, str) or not value:
        raise Failed(f"add_task gave {short(value)} instead of a task id")
    return value


def _pending(value: Json) -> list[Pending]:
    if not isinstance(value, list):
        raise Failed(f"pending_tasks gave {short(decode(value))} instead of a list")
    tasks = []
    for item in value:
        if not isinstance(item, list) or len(item) != 3 or not isinstance(item[0], str):
            shown = short(decode(item))
            raise Failed(f"pending_tasks has {shown} instead of (task_id, task, publish_at)")
        if not (item[2] is None or _is_number(item[2])):
            raise Failed(f"pending_tasks has the publish_at {short(item[2])}")
        tasks.append(Pending(item[0], decode(item[1]), item[2]))
    return tasks


def _dead(value: Json) -> Dead:
    if not isinstance(value, dict) or "dead" not in value:
        raise Failed(f"a dead task is {short(decode(value))}, not a record")
    fields: dict[str, Any] = {name: decode(field) for name, field in value["dead"].items()}
    missing = [name for name in DEAD_FIELDS if name not in fields]
    if missing:
        raise Failed(f"a dead task has no {', '.join(missing)}")
    kinds = {"task_id": str, "task_class": str, "error_class": str, "error_message": str}
    for name, kind in kinds.items():
        if not isinstance(fields[name], kind):
            raise Failed(f"a dead task has the {name} {short(fields[name])}")
    if not isinstance(fields["attempts"], int) or isinstance(fields["attempts"], bool):
        raise Failed(f"a dead task has the attempts {short(fields['attempts'])}")
    for name in ("failed_at", "enqueued_at"):
        if not (_is_number(fields[name]) or (name == "enqueued_at" and fields[name] is None)):
            raise Failed(f"a dead task has the {name} {short(fields[name])}")
    return Dead(**fields)


def _dead_list(value: Json) -> list[Dead]:
    if not isinstance(value, list):
        raise Failed(f"list_dead_tasks gave {short(decode(value))} instead of a list")
    return [_dead(item) for item in value]


def _dead_or_none(value: Json) -> Dead | None:
    return None if value is None else _dead(value)


def _count(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Failed(f"remove_dead_tasks gave {short(decode(value))} instead of a count")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_SHAPES = {
    "add_task": _id,
    "pending_tasks": _pending,
    "list_dead_tasks": _dead_list,
    "find_dead_task": _dead_or_none,
    "remove_dead_tasks": _count,
}
