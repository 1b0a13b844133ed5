"""Where backend objects live: opens them, calls them, and answers with plain values.

One server runs beside the suite (`LocalHost`) or in a process of its own (`_child`). Requests and
replies are the dictionaries described at each `_do_…` method; a reply carries the result or the
error of the call, and the monotonic times between which the call ran (one clock for all processes
of a machine, so that histories of several processes can be ordered).

What only some backends need is imported where it is used: a run starts a hundred of these.

The backend is foreign code: it may raise anything, print, hang or end the process. Nothing of that
is hidden here; the other side tells them apart.
"""

from __future__ import annotations

import inspect
import os
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from lychgate_conformance._contract import describe_backend, profile_of
from lychgate_conformance._resolve import Factory
from lychgate_conformance._wire import ErrorText, Json, decode, dump_line, encode, load_line

if TYPE_CHECKING:
    import asyncio
    import subprocess

DEAD_FIELDS = (
    "task_id",
    "task_class",
    "attempts",
    "context",
    "error_class",
    "error_message",
    "failed_at",
    "enqueued_at",
)

_FORK_LIMIT_S = 30.0

# What an unrelated program does: nothing, until our end of its standard input closes.
BYSTANDER = "import select; p = select.poll(); p.register(0, 0); p.poll()"


class Server:
    """Backend objects by handle, and the verbs on them."""

    def __init__(self, factory: Factory, private_fds: tuple[int, ...] = ()) -> None:
        self._factory = factory
        self._private_fds = private_fds
        self._objects: dict[int, Any] = {}
        self._runner: asyncio.Runner | None = None
        self._left_behind: asyncio.Runner | None = None
        self._home = os.getcwd()
        self._bystanders: list[subprocess.Popen[bytes]] = []

    def answer(self, request: Json) -> Json:
        """The reply to one request."""
        verb: Callable[[Json], Json] = getattr(self, f"_do_{request['do']}")
        reply = _timed(partial(verb, request))
        reply["n"] = request.get("n")
        return reply

    # --- verbs --------------------------------------------------------------------------------

    def _do_open(self, request: Json) -> Json:
        """`handle`, `path`, `extra` options: opens one object; for a task store, `prefix` and
        `fsync_frequency` as well."""
        usual = {it: request[it] for it in ("prefix", "fsync_frequency") if it in request}
        made = self._factory(path=request["path"], **usual, **request.get("extra", {}))
        self._objects[request["handle"]] = self._settle(made)
        return None

    def _do_about(self, request: Json) -> Json:
        """The factory's profile, and whether the suite may set the clock of what it opens."""
        settable = callable(getattr(self._factory, "clock", None))
        return {"profile": profile_of(self._factory), "clock": settable}

    def _do_call(self, request: Json) -> Json:
        """`handle`, `method`, `args`, `kwargs`; `spoil`: overwrite what was passed and returned."""
        args = [_argument(arg) for arg in request["args"]]
        kwargs = {name: _argument(arg) for name, arg in request["kwargs"].items()}
        method = getattr(self._objects[request["handle"]], request["method"])
        result = self._settle(method(*args, **kwargs))
        answer = _result(request["method"], result)
        if request.get("spoil"):
            for value in [result, *args, *kwargs.values()]:
                if isinstance(value, (list, dict)):
                    value.clear()
        return answer

    def _do_crash_check(self, request: Json) -> Json:
        """Opens the store of `path`, tells everything that it holds, closes it."""
        self._do_open({**request, "handle": -1})
        store = self._objects.pop(-1)
        methods = {"pending": "pending_tasks", "dead": "list_dead_tasks"}
        if profile_of(self._factory) == "delivery":
            methods = {"items": "items"}
        found = {
            name: _result(method, self._settle(getattr(store, method)()))
            for name, method in methods.items()
        }
        if callable(close := getattr(store, "close", None)):
            self._settle(close())
        return found

    def _do_describe(self, request: Json) -> Json:
        """What the object of `handle` is: see `_contract.describe_backend`."""
        return describe_backend(self._factory, self._objects[request["handle"]])

    def _all_calls(self, calls: list[Json]) -> list[Json]:
        """Replies to calls, one after the other."""
        return [_timed(partial(self._do_call, call)) for call in calls]

    def _do_has(self, request: Json) -> Json:
        """Whether the object of `handle` has a callable `method`."""
        return callable(getattr(self._objects[request["handle"]], request["method"], None))

    def _do_forget(self, request: Json) -> Json:
        """Lets go of the object of `handle` without closing it."""
        self._objects.pop(request["handle"], None)
        return None

    def _do_reset(self, request: Json) -> Json:
        """Closes every object, quietly, and goes back to the first working directory."""
        for backend in self._objects.values():
            close = getattr(backend, "close", None)
            try:
                self._settle(close() if callable(close) else None)
            except Exception:  # the case that opened it has its verdict already
                continue
        self._objects.clear()
        os.chdir(self._home)
        return None

    def _do_chdir(self, request: Json) -> Json:
        os.chdir(request["path"])
        return None

    def _do_umask(self, request: Json) -> Json:
        return os.umask(request["mask"])

    def _do_parallel(self, request: Json) -> Json:
        """`plans`: lists of calls; each list in a thread (asyncio task) of its own, at once."""
        plans: list[list[Json]] = request["plans"]
        objects = [self._objects[call["handle"]] for plan in plans for call in plan]
        if any(inspect.iscoroutinefunction(getattr(it, "add_task", None)) for it in objects):
            return self._settle(self._gather(plans))
        barrier = threading.Barrier(len(plans))
        answers: list[list[Json]] = [[] for _ in plans]

        def work(index: int) -> None:
            barrier.wait()
            answers[index] = self._all_calls(plans[index])

        threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(plans))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    async def _gather(self, plans: list[list[Json]]) -> list[list[Json]]:
        async def work(plan: list[Json]) -> list[Json]:
            answers: list[Json] = []
            for call in plan:
                method = getattr(self._objects[call["handle"]], call["method"])
                args = [_argument(arg) for arg in call["args"]]
                kwargs = {name: _argument(arg) for name, arg in call["kwargs"].items()}
                begun = time.monotonic_ns()
                try:
                    reply = {"ok": _result(call["method"], await method(*args, **kwargs))}
                except Exception as error:  # foreign code
                    reply = {"error": describe(error)}
                answers.append({**reply, "t": [begun, time.monotonic_ns()]})
            return answers

        import asyncio

        return await asyncio.gather(*(work(plan) for plan in plans))

    def _do_fork(self, request: Json) -> Json:
        """`theirs`: calls of a forked child, which then ends; `mine`: calls made here meanwhile."""
        ready, told = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._in_fork(told, request)
        os.close(told)
        _read(ready, 1, time.monotonic() + _FORK_LIMIT_S)  # it has come up: both begin now
        mine = self._all_calls(request["mine"])
        try:
            theirs = _read_line(ready, _FORK_LIMIT_S)
        finally:
            os.close(ready)
            if not request.get("linger"):
                _end_child(pid)
        return {"mine": mine, "theirs": theirs}

    def _in_fork(self, told: int, request: Json) -> None:
        """The forked child: its calls, its answer, its end. Never returns.

        An event loop does not live through a fork: the child begins one of its own, and leaves the
        parent's alone, for closing it would reach the parent.
        """
        self._left_behind, self._runner = self._runner, None
        watch = threading.Thread(target=_end_with_the_suite, daemon=True)
        watch.start()
        try:
            for fd in self._private_fds:
                os.close(fd)
            os.write(told, b".")
            theirs = self._all_calls(request["theirs"])
            os.write(told, dump_line(theirs))
            os.close(told)
            if request.get("linger"):
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                watch.join()
        finally:
            os._exit(0)

    def _do_bystander(self, request: Json) -> Json:
        """Starts an unrelated program that inherits whatever is inheritable; its process id."""
        import subprocess

        quiet = subprocess.DEVNULL
        command = [sys.executable, "-S", "-c", BYSTANDER]
        child = subprocess.Popen(command, close_fds=False, stdout=quiet, stderr=quiet)
        self._bystanders.append(child)
        return child.pid

    def _do_memory(self, request: Json) -> Json:
        """The most memory that this process ever had, in bytes."""
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024

    # --- foreign calls ------------------------------------------------------------------------

    def _settle(self, value: object) -> Any:
        """The value, awaited on a loop of our own when it is awaitable."""
        if not inspect.isawaitable(value):
            return value

        async def wait() -> object:
            return await value

        if self._runner is None:
            import asyncio

            self._runner = asyncio.Runner()
        program: Coroutine[Any, Any, object] = wait()
        return self._runner.run(program)


def _timed(work: Callable[[], Json]) -> Json:
    begun = time.monotonic_ns()
    try:
        reply = {"ok": work()}
    except Exception as error:  # foreign code: the other side judges it
        reply = {"error": describe(error)}
    reply["t"] = [begun, time.monotonic_ns()]
    return reply


def describe(error: BaseException) -> Json:
    """An exception as plain values: names of its classes, text, errno, definite, traceback."""
    try:
        text = str(error)
    except Exception:  # foreign code
        text = "(no text)"
    definite = getattr(error, "definite", None)
    code = getattr(error, "code", None)
    return {
        "type": type(error).__qualname__,
        "bases": [kind.__qualname__ for kind in type(error).__mro__],
        "text": text[:2000],
        "errno": error.errno if isinstance(error, OSError) else None,
        "definite": definite if isinstance(definite, bool) else None,
        "code": code if isinstance(code, str) else None,
        "trace": "".join(traceback.format_exception(error))[-8000:],
    }


class _MuteError(Exception):
    """An exception whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("this exception has no text")


class ForeignError(Exception):
    """An exception of a class that no other process can import."""


def _argument(value: Json) -> object:
    decoded = decode(value)
    if isinstance(decoded, ErrorText):
        kinds = {"plain": ValueError, "foreign": ForeignError, "mute": _MuteError}
        return kinds[decoded.kind](decoded.message)
    return decoded


def _result(method: str, value: object) -> Json:
    if method == "list_dead_tasks" and isinstance(value, (list, tuple)):
        return [_record(item) for item in value]
    if method == "find_dead_task" and value is not None:
        return _record(value)
    return encode(value)


def _record(value: object) -> Json:
    """A dead task, whether it is an object with attributes or a mapping."""
    if isinstance(value, Mapping):
        return {"dead": {name: encode(value[name]) for name in DEAD_FIELDS if name in value}}
    found = {name: getattr(value, name) for name in DEAD_FIELDS if hasattr(value, name)}
    return {"dead": {name: encode(field) for name, field in found.items()}}


def _read(fd: int, size: int, deadline: float) -> bytes:
    """Some bytes from a pipe; TimeoutError or EOFError when none come."""
    left = deadline - time.monotonic()
    if left <= 0 or not select.select([fd], [], [], left)[0]:
        raise TimeoutError("the forked child gave no answer")
    chunk = os.read(fd, size)
    if not chunk:
        raise EOFError("the forked child ended without an answer")
    return chunk


def _read_line(fd: int, limit_s: float) -> Json:
    """One line from a pipe, whatever its length."""
    deadline = time.monotonic() + limit_s
    data = bytearray()
    while not data.endswith(b"\n"):
        data += _read(fd, 65536, deadline)
    return load_line(bytes(data))


def _end_with_the_suite() -> None:
    """Ends this process once the suite has closed its standard input, whatever else it is at."""
    poll = select.poll()
    poll.register(0, 0)
    poll.poll()
    os._exit(0)


def _end_child(pid: int) -> None:
    """Waits for a child of our own; kills it when it does not end."""
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return
        time.sleep(0.002)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
