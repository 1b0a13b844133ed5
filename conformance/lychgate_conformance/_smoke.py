"""Smoke: is it the adapter that is at fault, or the backend?

A dozen checks of the protocol on one adapter, in a second. A check that fails says which of the two
it is: what an adapter may do wrong has a name in `_findings`; anything else is the backend's. After
a fault of the adapter nothing more is tried, since nothing that it says can be trusted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from lychgate_conformance import _smoke_queue
from lychgate_conformance._check import expect, expect_equal
from lychgate_conformance._claims import STDIO, Claims, merge
from lychgate_conformance._findings import Finding
from lychgate_conformance._session import Command, Reply, Session
from lychgate_conformance._verdict import (
    BackendDied,
    ExitCode,
    Failed,
    Inconclusive,
    NotMeasured,
    UsageError,
)
from lychgate_conformance._wire import Json, dump_line, short

CALL_LIMIT_S = 30.0
OPTIONS = {"prefix": "deferred-", "fsync_frequency": 0.5}

OK, ADAPTER, BACKEND, LEFT_OUT = "ok", "adapter", "backend", "left out"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one check ended. `finding` is the name of an adapter's fault."""

    check: str
    title: str
    verdict: str
    message: str = ""
    finding: str = ""
    stderr: str = ""


@dataclass(slots=True)
class Smoke:
    """What smoke found out."""

    command: tuple[str, ...]
    name: str = ""
    outcomes: list[Outcome] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def exit_code(self) -> ExitCode:
        verdicts = {it.verdict for it in self.outcomes}
        if ADAPTER in verdicts:
            return ExitCode.FAULT
        return ExitCode.NOT_CONFORMANT if BACKEND in verdicts else ExitCode.CONFORMANT


class Ground:
    """What a check stands on: an adapter, a directory, a time for each call."""

    def __init__(self, command: Command, path: Path, limit_s: float) -> None:
        self.path = path
        self._limit_s = limit_s
        self._command = command
        self.session = Session(command)

    @property
    def queue(self) -> bool:
        """Whether the adapter is that of a delivery queue."""
        return self.claims.profile == "delivery"

    @property
    def options(self) -> dict[str, Json]:
        """What a store is opened with."""
        return {} if self.queue else dict(OPTIONS)

    @property
    def claims(self) -> Claims:
        try:
            return merge(STDIO, self.session.hello().claims)
        except UsageError as error:
            what = f"reply to hello: ok.claims: {error}"
            raise Finding("not-by-schema", what, self.session.line) from error

    def offers(self, capability: str) -> None:
        """NotMeasured when the adapter does not."""
        if capability not in self.session.hello().capabilities:
            raise NotMeasured(f"the adapter does not offer {capability}")

    def ask(self, verb: str, **fields: Json) -> Json:
        """What a request gives; Failed when it is refused."""
        reply = self.reply(verb, **fields)
        if reply.error is not None:
            error = reply.error
            raise Failed(f"{verb} was refused: {error['code']}: {short(error['message'])}")
        return reply.ok

    def stores(self) -> None:
        """NotMeasured for a backend that stores nothing."""
        if not self.claims.stores:
            raise NotMeasured("the backend claims to store nothing")

    def reply(self, verb: str, **fields: Json) -> Reply:
        return self.session.ask(verb, self._limit_s, **fields)

    def raw(self, message: Json) -> Reply:
        """The reply to a message that no schema knows."""
        message = {"id": self.session.next_id, **message}
        self.session.send_raw(dump_line(message), message)
        return self.session.take(self._limit_s)

    def open(self, store: int = 1) -> None:
        self.ask("open", store=store, path=str(self.path), options=self.options)

    def pending(self) -> dict[str, Json]:
        return {it["task_id"]: it["task"] for it in self.ask("pending_tasks", store=1)}

    def add(self, task: Json, task_id: str | None = None) -> Reply:
        return self.reply("add_task", store=1, task=task, publish_at=None, task_id=task_id)

    def start_again(self) -> None:
        """The end of the input, then another process."""
        self.session.exit(self._limit_s)
        self.session.end()
        self.session = Session(self._command)


# --- the checks -------------------------------------------------------------------------------


def _greets(ground: Ground) -> None:
    assert ground.claims


def _unknown(ground: Ground) -> None:
    """What does not exist gets a definite error, and the adapter goes on."""
    look = "items" if ground.queue else "pending_tasks"
    for message in ({"do": "no_such_verb"}, {"do": look, "store": 4711}):
        reply = ground.raw(message)
        if reply.error is None or not reply.error["definite"]:
            said = "ok" if reply.error is None else "an error that is not definite"
            what = f"{message['do']} of nothing was answered with {said}"
            raise Finding("not-by-schema", what, ground.session.line)


def _opens(ground: Ground) -> None:
    ground.open()
    expect_equal("pending tasks of a new store", ground.pending(), {})


def _tasks(ground: Ground) -> None:
    ground.stores()
    reply = ground.add({"n": [1, True, None, "é"]})
    expect(reply.error is None, f"add_task was refused: {reply.error}")
    expect_equal("pending tasks", ground.pending(), {reply.ok: {"n": [1, True, None, "é"]}})
    ground.ask("remove_task", store=1, task_id=reply.ok)
    ground.ask("remove_task", store=1, task_id="never-added")
    expect_equal("pending tasks after the removal", ground.pending(), {})


def _dead(ground: Ground) -> None:
    ground.stores()
    error = {"class": "ValueError", "message": "out of stock"}
    rest = {"context": {"n": 1}, "exception": error, "task_class": "shop.Ship", "attempts": 3}
    ground.ask("add_dead_task", store=1, task_id="dead", **rest)
    listed = ground.ask("list_dead_tasks", store=1, limit=None, offset=0)
    expect_equal("dead tasks", [it["task_id"] for it in listed], ["dead"])
    (found,) = listed
    said = [found[name] for name in ("task_id", "task_class", "attempts", "context")]
    expect_equal("the dead task", said, ["dead", "shop.Ship", 3, {"n": 1}])
    expect_equal("its error", found["error_message"], "out of stock")
    same = ground.ask("find_dead_task", store=1, task_id="dead")
    expect_equal("what find gives", same, found)
    count = ground.ask("remove_dead_tasks", store=1, task_ids=["dead", "never-added"])
    expect_equal("the count", count, 1)
    left = ground.ask("list_dead_tasks", store=1, limit=None, offset=0)
    expect_equal("dead tasks after the removal", left, [])


def _values(ground: Ground) -> None:
    """Bytes in base64, an object with the key `$`, text with newline and NUL."""
    ground.stores()
    values: list[Json] = [
        {"$": "bytes", "data": "AP8KgA=="},
        {"$": "pairs", "pairs": [["$", 1]]},
        "two\nlines\0 \u2028",
    ]
    for value in values:
        reply = ground.add(value)
        if reply.error is not None:
            may = reply.error["code"] == "refused" and not (
                isinstance(value, str) and ground.claims.any_text
            )
            expect(may, f"{short(value)} was refused: {reply.error['message']}")
            continue
        found = ground.pending().get(reply.ok, "(missing)")
        expect_equal("a value that was stored", found, value)
        ground.ask("remove_task", store=1, task_id=reply.ok)


def _refusals(ground: Ground) -> None:
    """An error that says that nothing happened is held to it."""
    ground.stores()
    before = ground.pending()
    for task, task_id in (({"$": "opaque"}, None), ("t", "\ud83d"), ("t", "x" * 100_000)):
        reply = ground.add(task, task_id)
        after = ground.pending()
        if reply.error is None:
            ground.ask("remove_task", store=1, task_id=reply.ok)
        elif reply.error["definite"] and after != before:
            what = f"add_task says {reply.error['code']}, and the task waits"
            raise Finding("lies-about-error", what, ground.session.line)
        before = ground.pending()


def _optional(ground: Ground) -> None:
    """What is offered is answered."""
    offered = ground.session.hello().capabilities
    for verb, fields in (("tick", {"now": time.time()}), ("sync", {}), ("stats", {})):
        if verb in offered:
            ground.ask(verb, store=1, **fields)
    if "parallel" in offered:
        call = ground.session.request("pending_tasks", store=1)
        ground.ask("parallel", plans=[[call]])
    if "fork" in offered:
        calls = [ground.session.request("pending_tasks", store=1) for _ in range(2)]
        ground.ask("fork", plans=[[it] for it in calls], linger=False)
    if "chdir" in offered:
        ground.ask("chdir", path=str(ground.path.parent))


def _restarts(ground: Ground) -> None:
    """The end of the input is the end of the process, and what was acknowledged is kept."""
    ground.stores()
    reply = ground.add("kept")
    expect(reply.error is None, f"add_task was refused: {reply.error}")
    wanted = {reply.ok: "kept"} if ground.claims.survives_restart else {}
    ground.start_again()
    ground.open()
    found = ground.pending()
    expect(wanted.items() <= found.items(), "a task that was acknowledged is lost in a restart")


def _crash_check(ground: Ground) -> None:
    ground.offers("crash_check")
    wanted = ground.pending()
    ground.ask("close", store=1)
    seen = ground.ask("crash_check", path=str(ground.path), options=OPTIONS)
    found = {it["task_id"]: it["task"] for it in seen["pending"]}
    expect_equal("what crash_check sees", found, wanted)


def _ends(ground: Ground) -> None:
    ground.start_again()


CHECKS: dict[str, tuple[str, Callable[[Ground], None]]] = {
    "greets": ("the command starts and greets", _greets),
    "opens": ("a new store opens and is empty", _opens),
    "errors": ("what does not exist is answered with an error", _unknown),
    "tasks": ("a task is added, listed and removed", _tasks),
    "dead": ("a dead task is added, listed, found and removed", _dead),
    "values": ("bytes and text of any kind come back", _values),
    "refusals": ("an error that says nothing happened is true", _refusals),
    "optional": ("what is offered is answered", _optional),
    "restarts": ("a restart keeps what was acknowledged", _restarts),
    "crash-check": ("crash_check sees what a store holds", _crash_check),
    "ends": ("the process ends with its input, and alone", _ends),
}
"""Name: what is checked, in the order of checking."""

QUEUE_CHECKS: dict[str, tuple[str, Callable[[Ground], None]]] = {
    "greets": CHECKS["greets"],
    "opens": ("a new queue opens and is empty", _smoke_queue.opens),
    "errors": CHECKS["errors"],
    "items": ("an item is enqueued, claimed, given back and acked", _smoke_queue.items),
    "quarantine": ("an item is set aside, with its reason", _smoke_queue.quarantine),
    "refusals": ("what is refused changes nothing", _smoke_queue.refusals),
    "optional": CHECKS["optional"][:1] + (_smoke_queue.optional,),
    "restarts": CHECKS["restarts"][:1] + (_smoke_queue.restarts,),
    "crash-check": ("crash_check sees what a queue holds", _smoke_queue.crash_check),
    "ends": CHECKS["ends"],
}
"""The same for the adapter of a delivery queue."""


def smoke(command: Command, limit_s: float = CALL_LIMIT_S, base: str | None = None) -> Smoke:
    """Run the checks. Nothing of the adapter is left when this returns."""
    result = Smoke(command.words)
    begun = time.monotonic()
    with TemporaryDirectory(prefix="lychgate-smoke-", dir=base) as directory:
        with _ground(command, Path(directory) / "store", limit_s, result) as ground:
            for name, (title, check) in _checks(ground, result):
                if ground is None or result.exit_code is ExitCode.FAULT:
                    what = "not tried after a fault of the adapter"
                    result.outcomes.append(Outcome(name, title, LEFT_OUT, what))
                else:
                    result.outcomes.append(_outcome(name, title, check, ground))
            if ground is not None and result.exit_code is not ExitCode.FAULT:
                result.name = ground.session.hello().name
    result.seconds = time.monotonic() - begun
    return result


def _checks(
    ground: Ground | None, result: Smoke
) -> Iterator[tuple[str, tuple[str, Callable[[Ground], None]]]]:
    """The greeting, and then the checks of the profile that it names."""
    first, *rest = CHECKS.items()
    yield first
    if ground is not None and result.exit_code is not ExitCode.FAULT and ground.queue:
        first, *rest = QUEUE_CHECKS.items()
    yield from rest


@contextmanager
def _ground(
    command: Command, path: Path, limit_s: float, result: Smoke
) -> Iterator[Ground | None]:
    try:
        ground = Ground(command, path, limit_s)
    except Finding as finding:
        title = "the command starts"
        result.outcomes.append(Outcome("starts", title, ADAPTER, str(finding), finding.name))
        yield None
        return
    try:
        yield ground
    finally:
        ground.session.end()


def _outcome(
    name: str, title: str, check: Callable[[Ground], None], ground: Ground
) -> Outcome:
    try:
        check(ground)
    except Finding as error:
        stderr = error.trace or ground.session.errors()
        return Outcome(name, title, ADAPTER, str(error), error.name, stderr)
    except BackendDied as error:
        return _fault(name, title, Finding("dies", str(error)), ground)
    except Inconclusive:
        what = f"no reply to request {ground.session.next_id - 1} in time"
        return _fault(name, title, Finding("hangs", what), ground)
    except NotMeasured as error:
        return Outcome(name, title, LEFT_OUT, str(error))
    except Failed as error:
        return Outcome(name, title, BACKEND, str(error), stderr=ground.session.errors())
    return Outcome(name, title, OK)


def _fault(name: str, title: str, finding: Finding, ground: Ground) -> Outcome:
    stderr = ground.session.errors()
    return Outcome(name, title, ADAPTER, str(finding), finding.name, stderr)
