"""A host whose server is an adapter: the suite's requests in the words of the protocol.

What an adapter cannot be told to do (it lacks the capability) makes a case NOT MEASURED where it is
claimed. `spoil` has no meaning here, since whatever crosses a pipe is a copy.
"""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lychgate_conformance._server import BYSTANDER
from lychgate_conformance._session import Command, Reply, Session
from lychgate_conformance._verdict import BackendDied, NotMeasured
from lychgate_conformance._wire import Json, decode, encode

METHODS = {
    "add_task": ("task", "publish_at", "task_id"),
    "remove_task": ("task_id",),
    "pending_tasks": (),
    "add_dead_task": ("task_id", "context", "exception", "task_class", "attempts"),
    "list_dead_tasks": ("limit", "offset"),
    "find_dead_task": ("task_id",),
    "remove_dead_tasks": ("task_ids",),
    "tick": ("now",),
    "sync": (),
    "stats": (),
    "close": (),
    "enqueue": ("payload",),
    "claim": ("lease_ms",),
    "ack": ("seq", "receipt"),
    "retry": ("seq", "receipt", "delay_ms"),
    "quarantine": ("seq", "receipt", "reason"),
    "items": (),
    "clock": ("now_ms",),
    "recover": (),
}
"""Method: the fields of its request, in the order of its arguments."""

_DEFAULTS: dict[str, Json] = {"publish_at": None, "task_id": None, "limit": None, "offset": 0}
_OPTIONAL = ("tick", "sync", "stats", "crash_check", "clock", "recover")

_CLASSES = {"plain": "ValueError", "foreign": "ForeignError", "mute": "_MuteError"}

_BASES = {
    "refused": ("Refused", "ValueError"),
    "bad_option": ("ConfigError", "ValueError"),
    "lock_timeout": ("DeadTasksLockTimeout", "TimeoutError", "OSError"),
    "storage": ("StorageError", "OSError"),
}
"""Error code: the classes that the same error has in Python, for cases that ask for them."""


class StdioHost:
    """One adapter, asked in the suite's own words."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._session: Session | None = None
        self._umask = -1
        self._stores: set[int] = set()
        self._moved = False
        self._lingers = False
        self._sent: list[Json] = []  # requests of `send`, not taken

    @property
    def session(self) -> Session:
        """The adapter; started when it is first needed."""
        if self._session is None:
            self._session = Session(self._command, self._umask)
        return self._session

    @property
    def pid(self) -> int:
        return self.session.pid

    @property
    def output(self) -> str:
        return self.session.output

    def start(self) -> None:
        """Start ahead, so that the adapter is ready when it is needed."""
        assert self.session.pid

    # --- one request --------------------------------------------------------------------------

    def ask(self, request: Json, limit_s: float) -> Json:
        assert not self._sent, "a reply to an earlier request was not taken"
        verb: Callable[[Json, float], Json] | None = getattr(self, f"_do_{request['do']}", None)
        if verb is not None:
            begun = time.monotonic_ns()
            return {"ok": verb(request, limit_s), "t": [begun, time.monotonic_ns()]}
        self.send(request)
        return self.take(limit_s)

    def send(self, request: Json) -> None:
        verb, fields = self._translated(request)
        self._sent.append(request)
        self.session.send(verb, **fields)
        if verb == "open":
            self._stores.add(request["handle"])

    def take(self, limit_s: float) -> Json:
        reply = self.session.take(limit_s)
        return self._answer(self._sent.pop(0), reply)

    def has_reply(self) -> bool:
        return self.session.has_reply()

    def drain(self, limit_s: float = 10.0) -> list[Json]:
        replies = self.session.drain(limit_s)
        return [self._answer(self._sent.pop(0), reply) for reply in replies]

    def _translated(self, request: Json) -> tuple[str, dict[str, Json]]:
        """The protocol's verb and fields for a request to open or to call."""
        if request["do"] in ("open", "crash_check"):
            usual = {it: request[it] for it in ("prefix", "fsync_frequency") if it in request}
            options = {**usual, **request.get("extra", {})}
            fields = {"path": request["path"], "options": options}
            if request["do"] == "crash_check":
                return "crash_check", fields
            return "open", {"store": request["handle"], **fields}
        assert request["do"] == "call", request["do"]
        names = METHODS[request["method"]]
        fields = {name: _DEFAULTS[name] for name in names if name in _DEFAULTS}
        fields |= dict(zip(names, request["args"], strict=False))
        fields |= request["kwargs"]
        if "exception" in fields:
            fields["exception"] = _exception(fields["exception"])
        return request["method"], {"store": request["handle"], **fields}

    def _answer(self, request: Json, reply: Reply) -> Json:
        """A reply in the suite's words."""
        times = [reply.begun, reply.ended]
        if reply.error is not None:
            return {"error": _error(reply.error, self.session.errors()), "t": times}
        method = request.get("method", request["do"])
        if method == "close":
            self._stores.discard(request["handle"])
        shape = _RESULTS.get(method)
        return {"ok": reply.ok if shape is None else shape(reply.ok), "t": times}

    # --- what is not a call -------------------------------------------------------------------

    def _do_about(self, request: Json, limit_s: float) -> Json:
        hello = self.session.hello()
        profile = hello.claims.get("profile", "tasks")
        return {"profile": profile, "clock": "clock" in hello.capabilities}

    def _do_describe(self, request: Json, limit_s: float) -> Json:
        hello = self.session.hello()
        return {
            "type": f"{hello.name} {hello.version}".strip(),
            "faults": [],
            "claims": hello.claims,
            "strange_claims": None,
            "family": "stdio",
        }

    def _do_has(self, request: Json, limit_s: float) -> Json:
        method = request["method"]
        return method not in _OPTIONAL or method in self.session.hello().capabilities

    def _do_forget(self, request: Json, limit_s: float) -> Json:
        """What was not closed stays open over there: the suite lets go of the number only."""
        return None

    def _do_reset(self, request: Json, limit_s: float) -> Json:
        """Closes every store, quietly; an adapter that was moved is not used again."""
        if self._session is None:
            return None
        for store in sorted(self._stores):
            self.session.ask("close", limit_s, store=store)
        self._stores.clear()
        if self._moved or self._umask != -1:
            self._end_session()
        self._moved, self._umask = False, -1
        return None

    def _do_chdir(self, request: Json, limit_s: float) -> Json:
        self._need("chdir", "changes its working directory")
        self._moved = True
        reply = self.session.ask("chdir", limit_s, path=request["path"])
        if reply.error is not None:
            raise NotMeasured(f"chdir is offered and fails: {reply.error['message']}")
        return None

    def _do_umask(self, request: Json, limit_s: float) -> Json:
        """A process takes its umask from the one that starts it; so another one is started."""
        if not self._stores:
            self._end_session()
        self._umask = request["mask"]
        return 0o022

    def _do_parallel(self, request: Json, limit_s: float) -> Json:
        self._need("parallel", "makes calls at once")
        return self._plans("parallel", request["plans"], limit_s)

    def _plans(self, verb: str, asked: Json, limit_s: float, **fields: Json) -> list[list[Json]]:
        """The replies of several lists of calls."""
        plans = []
        for plan in asked:
            calls = [self._translated(call) for call in plan]
            plans.append([self.session.request(name, **given) for name, given in calls])
        reply = self.session.ask(verb, limit_s, plans=plans, **fields)
        if reply.error is not None:
            raise NotMeasured(f"{verb} is offered and fails: {reply.error['message']}")
        span = (reply.begun, reply.ended)
        answers = []
        for plan, said in zip(asked, reply.ok, strict=True):
            replies = [_inner(it, span) for it in said]
            answers.append([self._answer(*it) for it in zip(plan, replies, strict=True)])
        return answers

    def _do_memory(self, request: Json, limit_s: float) -> Json:
        """The most memory that the process ever had, as the system knows it."""
        self.session.hello()
        try:
            status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            raise NotMeasured(f"{sys.platform} does not tell another process's memory") from None
        peak = next((line for line in status.splitlines() if line.startswith("VmHWM:")), None)
        if peak is None:
            raise BackendDied("the adapter's process ended")
        return int(peak.split()[1]) * 1024

    def _do_fork(self, request: Json, limit_s: float) -> Json:
        self._need("fork", "forks")
        self._lingers = self._lingers or request["linger"]
        plans = [request["mine"], request["theirs"]]
        mine, theirs = self._plans("fork", plans, limit_s, linger=request["linger"])
        return {"mine": mine, "theirs": theirs}

    def _do_bystander(self, request: Json, limit_s: float) -> Json:
        self._need("fork", "starts a program")
        self._lingers = True
        reply = self.session.ask("spawn", limit_s, words=[sys.executable, "-S", "-c", BYSTANDER])
        if reply.error is not None:
            raise NotMeasured(f"fork is offered and spawn fails: {reply.error['message']}")
        return None

    def _need(self, capability: str, what: str) -> None:
        if capability not in self.session.hello().capabilities:
            raise NotMeasured(f"no adapter {what} that lacks the capability {capability}")

    # --- the end ------------------------------------------------------------------------------

    def kill(self) -> None:
        if self._lingers:  # the case is about what outlives it
            self.session.kill_alone()
        else:
            self.session.kill()

    def exit(self, limit_s: float) -> None:
        self.session.exit(limit_s)

    def end(self) -> None:
        self._end_session()

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.end()
            self._session = None
            self._stores.clear()

    def errors(self) -> str:
        return "" if self._session is None else self._session.errors()


class StdioPool:
    """Adapters for the cases of one run, one of them started ahead."""

    _AHEAD = 1

    def __init__(self, command: Command) -> None:
        self._command = command
        self._ready: list[StdioHost] = []

    def take(self) -> StdioHost:
        while len(self._ready) <= self._AHEAD:
            host = StdioHost(self._command)
            host.start()
            self._ready.append(host)
        return self._ready.pop(0)

    def end(self) -> None:
        while self._ready:
            self._ready.pop().end()


def _inner(said: Json, span: tuple[int, int]) -> Reply:
    begun, ended = said.get("t", span)
    begun, ended = max(begun, span[0]), min(ended, span[1])
    if begun > ended:
        begun, ended = span
    return Reply(said.get("ok"), said.get("error"), begun, ended)


def _exception(value: Json) -> Json:
    """An exception on the wire: its class, and its text where it has one."""
    assert value["$"] == "error", value
    message = None if value["kind"] == "mute" else value["message"]
    return {"class": _CLASSES[value["kind"]], "message": message}


def _error(error: Json, stderr: str) -> Json:
    code = error["code"]
    number = error.get("errno")
    name = errno.errorcode.get(number, str(number)) if number is not None else ""
    return {
        "type": " ".join(filter(None, (code, name))),
        "bases": [code, *_BASES.get(code, ()), "Exception"],
        "text": error["message"][:2000],
        "errno": number,
        "definite": error["definite"],
        "code": code,
        "trace": "\n".join(filter(None, (error.get("detail", ""), stderr)))[-8000:],
    }


def _time(value: Any) -> float | None:
    """A time as the suite compares it: not every language tells 1 from 1.0."""
    return None if value is None else float(value)


def _pending(found: Json) -> Json:
    return [[it["task_id"], it["task"], _time(it["publish_at"])] for it in found]


def _dead(record: Json) -> Json:
    times = {name: _time(record[name]) for name in ("failed_at", "enqueued_at")}
    return {"dead": {**record, **times}}


_RESULTS: dict[str, Callable[[Any], Json]] = {
    "open": lambda ok: None,
    "pending_tasks": _pending,
    "list_dead_tasks": lambda found: [_dead(it) for it in found],
    "find_dead_task": lambda found: None if found is None else _dead(found),
    "tick": _time,
    "stats": lambda counts: encode(decode(counts)),
    "crash_check": lambda ok: ok if "items" in ok else {
        "pending": _pending(ok["pending"]),
        "dead": [_dead(it) for it in ok["dead"]],
    },
}
