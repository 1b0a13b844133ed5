"""`python python_adapter.py module:factory [claim=value …]`: an adapter for any Python backend.

The factory is called with `path`, `prefix` and `fsync_frequency` and gives an object with the seven
methods; or, where its claims have `"profile": "delivery"`, with `path` and options of its own, and
gives one with the calls of a delivery queue, which answers as docs/protocol.md says. Its attribute
`claims`, where it has one, is a mapping; words of the command line come on top. Nothing but the
standard library is used: copy this file, or read it and write your own.
"""

from __future__ import annotations

import base64
import builtins
import importlib
import json
import os
import select
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

Json = Any

FIELDS = (
    *("task_id", "task_class", "attempts", "context"),
    *("error_class", "error_message", "failed_at", "enqueued_at"),
)
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
    "enqueue": ("payload",),
    "claim": ("lease_ms",),
    "ack": ("seq", "receipt"),
    "retry": ("seq", "receipt", "delay_ms"),
    "quarantine": ("seq", "receipt", "reason"),
    "items": (),
    "clock": ("now_ms",),
    "recover": (),
}
"""Method: its arguments, which are the fields of the request."""

OPTIONAL = ("tick", "sync", "stats", "clock", "recover")


class Adapter:
    """The verbs of the protocol on objects of one factory."""

    def __init__(self, factory: Callable[..., Any], claims: Mapping[str, Json]) -> None:
        self.factory = factory
        self.claims = {**getattr(factory, "claims", {}), **claims}
        self.queue = self.claims.get("profile") == "delivery"
        self.stores: dict[int, Any] = {}
        self.output = -1
        self.started: list[subprocess.Popen[bytes]] = []

    def answer(self, message: Json) -> Json:
        """The reply to one request."""
        begun = time.monotonic_ns()
        reply: dict[str, Json] = {"id": message["id"]}
        try:
            verb = getattr(self, f"do_{message['do']}", None)
            if verb is not None:
                reply["ok"] = verb(message)
            elif message["do"] in METHODS:
                reply["ok"] = self.call(message)
            else:
                reply["error"] = error("unsupported", f"no verb {message['do']}", True)
        except Exception as problem:  # whatever the backend raises
            reply["error"] = describe(problem, message["do"])
        reply["t"] = [begun, time.monotonic_ns()]
        return reply

    def do_hello(self, message: Json) -> Json:
        offers = [it for it in OPTIONAL if callable(getattr(self.factory, it, None))]
        fork = ["fork"] if hasattr(os, "fork") and not self.queue else []
        return {
            "protocol": 1,
            "name": getattr(self.factory, "__qualname__", "a factory")[:80],
            "claims": self.claims,
            "capabilities": [*offers, *fork, "chdir", "parallel", "times", "crash_check"],
        }

    def do_open(self, message: Json) -> Json:
        self.stores[message["store"]] = self.factory(path=message["path"], **message["options"])
        return None

    def do_close(self, message: Json) -> Json:
        close(self.stores.pop(message["store"]))
        return None

    def do_chdir(self, message: Json) -> Json:
        os.chdir(message["path"])
        return None

    def do_parallel(self, message: Json) -> Json:
        """Each plan on a thread, all at once."""
        plans = message["plans"]
        answers: list[list[Json]] = [[] for _ in plans]
        barrier = threading.Barrier(len(plans))

        def work(n: int) -> None:
            barrier.wait()
            answers[n] = [self.answer(call) for call in plans[n]]

        threads = [threading.Thread(target=work, args=(n,)) for n in range(len(plans))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def do_fork(self, message: Json) -> Json:
        """The first plan here, the second in a child."""
        mine, theirs = message["plans"]
        answers, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            self.child(theirs, told, message["linger"])
        os.close(told)
        os.read(answers, 1)  # it has come up: both begin now
        replies = [self.answer(call) for call in mine]
        with os.fdopen(answers) as lines:
            said = json.loads(lines.readline())
        if not message["linger"]:
            os.waitpid(pid, 0)
        return [replies, said]

    def child(self, calls: list[Json], told: int, linger: bool) -> NoReturn:
        """The forked child: its calls and its end. It never writes to the adapter's output."""
        try:
            os.close(self.output)
            os.write(told, b" ")
            with os.fdopen(told, "w") as replies:
                replies.write(json.dumps([self.answer(call) for call in calls]) + "\n")
            if linger:
                wait = select.poll()  # until whoever asks the adapter goes away
                wait.register(0, 0)
                wait.poll()
        finally:
            os._exit(0)

    def do_spawn(self, message: Json) -> Json:
        """An unrelated program, with whatever is inheritable."""
        quiet = subprocess.DEVNULL
        self.started.append(subprocess.Popen(message["words"], close_fds=False, stdout=quiet))
        return None

    def do_crash_check(self, message: Json) -> Json:
        store = self.factory(path=message["path"], **message["options"])
        try:
            if self.queue:
                return {"items": shape("items", store.items())}
            return {
                "pending": shape("pending_tasks", store.pending_tasks()),
                "dead": shape("list_dead_tasks", store.list_dead_tasks()),
            }
        finally:
            close(store)

    def call(self, message: Json) -> Json:
        """One method of one store."""
        name = message["do"]
        method = getattr(self.stores[message["store"]], name)
        return shape(name, method(*(argument(field, message[field]) for field in METHODS[name])))


def close(store: Any) -> None:
    if callable(getattr(store, "close", None)):
        store.close()


# --- values: JSON, but for objects with the key "$" -------------------------------------------


def argument(field: str, value: Json) -> Any:
    return exception(value) if field == "exception" else decode(value)


def exception(value: Json) -> BaseException:
    """An exception of that class name; one whose text cannot be made where there is no message."""
    known = getattr(builtins, value["class"], None)
    if isinstance(known, type) and issubclass(known, Exception) and value["message"] is not None:
        return known(value["message"])
    made = type(value["class"], (Exception,), {} if value["message"] is not None else MUTE)
    problem: BaseException = made(value["message"])
    return problem


def _no_text(self: object) -> str:
    raise RuntimeError("this exception has no text")


MUTE = {"__str__": _no_text}


def decode(value: Json) -> Any:
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: decode(item) for key, item in value.items()}
    if value["$"] == "bytes":
        return base64.b64decode(value["data"])
    if value["$"] == "pairs":
        return {decode(key): decode(item) for key, item in value["pairs"]}
    return object()  # "opaque": what no codec can store


def encode(value: Any) -> Json:
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if isinstance(value, (bytes, bytearray)):
        return {"$": "bytes", "data": base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        if "$" in value or not all(isinstance(key, str) for key in value):
            return {"$": "pairs", "pairs": [[encode(k), encode(v)] for k, v in value.items()]}
        return {key: encode(item) for key, item in value.items()}
    if hasattr(value, "codec") and hasattr(value, "data"):
        data = base64.b64encode(value.data).decode("ascii")
        return {"$": "undecodable", "codec": value.codec, "data": data}
    return value


def shape(name: str, result: Any) -> Json:
    """A result as the protocol writes it."""
    if name == "pending_tasks":
        return [{"task_id": i, "task": encode(t), "publish_at": at} for i, t, at in result]
    if name == "list_dead_tasks":
        return [dead(it) for it in result]
    if name == "find_dead_task":
        return None if result is None else dead(result)
    return encode(result)


def dead(record: Any) -> Json:
    """A dead task, whether it is a mapping or an object with attributes."""
    if isinstance(record, Mapping):
        return {name: encode(record.get(name)) for name in FIELDS}
    return {name: encode(getattr(record, name, None)) for name in FIELDS}


# --- errors -----------------------------------------------------------------------------------


def error(code: str, message: str, definite: bool) -> dict[str, Json]:
    return {"code": code, "message": message, "definite": definite}


def describe(problem: Exception, verb: str) -> dict[str, Json]:
    """An exception in the protocol's words. What is not known to be definite is not."""
    said = getattr(problem, "definite", None)
    text = f"{type(problem).__name__}: {problem}"
    code = getattr(problem, "code", None)
    if isinstance(code, str):  # it says so itself
        found = {**error(code, text, said is True), "errno": getattr(problem, "errno", None)}
    elif isinstance(problem, KeyError) and verb != "open":
        found = error("closed", f"no such store or record: {text}", True)
    elif isinstance(problem, TimeoutError):
        found = error("lock_timeout", text, True)
    elif isinstance(problem, OSError):
        found = {**error("storage", text, said is True), "errno": problem.errno}
    elif isinstance(problem, (ValueError, TypeError)) and said is not False:
        found = error("bad_option" if verb == "open" else "refused", text, True)
    else:
        found = error("internal", text, False)
    return {**found, "detail": "".join(traceback.format_exception(problem))[-4000:]}


# --- lines ------------------------------------------------------------------------------------


def serve(factory: Callable[..., Any], claims: Mapping[str, Json] | None = None) -> None:
    """Answer until the input ends. Whatever the backend prints goes to standard error."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    adapter = Adapter(factory, claims or {})
    adapter.output = replies.fileno()
    for line in sys.stdin.buffer:
        reply = json.dumps(adapter.answer(json.loads(line)), allow_nan=False)
        replies.write(reply.encode("ascii") + b"\n")
        replies.flush()


def main(words: list[str]) -> int:
    if not words:
        print(f"usage: {sys.argv[0]} module:factory [claim=value …]", file=sys.stderr)
        return 4
    sys.path.insert(0, os.getcwd())
    module, _, names = words[0].partition(":")
    factory: Any = importlib.import_module(module)
    for name in names.split("."):
        factory = getattr(factory, name)
    yes_no: dict[str, Json] = {"yes": True, "no": False}
    claims = dict(word.split("=", 1) for word in words[1:])
    serve(factory, {name: yes_no.get(value, value) for name, value in claims.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
