"""One adapter process and what is said between it and us, checked in both directions.

docs/protocol.md is the text, schemas/protocol-1.json the form. Nothing that an adapter says is
believed before it has been checked here: every line, every field, the order of the replies, and
the paths that it names, which are looked at and never opened.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lychgate_conformance import _group
from lychgate_conformance._findings import Finding
from lychgate_conformance._pipes import LineTooLong, Pipes
from lychgate_conformance._schema import load
from lychgate_conformance._verdict import BackendDied, Inconclusive
from lychgate_conformance._wire import Json, dump_line, short

PROTOCOL = 1
SUITE = "lychgate conformance"

START_LIMIT_S = 60.0

CODES: dict[str, bool | None] = {
    "refused": True,
    "bad_option": True,
    "lock_timeout": True,
    "closed": True,
    "claim_lost": True,
    "locked": True,
    "poisoned": True,
    "full": True,
    "unsupported": True,
    "storage": None,
    "corrupt": None,
    "internal": False,
}
"""Error code: definite or not; None where the error itself has to say."""

_PATHS_MAX = 32
_TAGS = ("bytes", "pairs", "opaque", "undecodable")


@dataclass(frozen=True, slots=True)
class Hello:
    """What an adapter says of itself."""

    name: str
    version: str
    claims: dict[str, object]
    capabilities: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request, and the nanoseconds between which the call ran."""

    ok: Json
    error: Json | None
    begun: int
    ended: int


@dataclass(frozen=True, slots=True)
class Command:
    """How an adapter is started."""

    words: tuple[str, ...]
    disk_bytes_max: int = _group.DISK_BYTES_MAX
    start_limit_s: float = START_LIMIT_S
    end_limit_s: float = START_LIMIT_S


class Session:
    """An adapter process. Requests may be sent ahead; replies come in their order."""

    def __init__(self, command: Command, umask: int = -1) -> None:
        self.command = command
        try:
            self._pipes = Pipes(partial(self._start, umask))
        except OSError as error:
            what = f"{short(command.words[0])} cannot be started: {error.strerror or error}"
            raise Finding("does-not-start", what) from error
        self._pipes.on_wait = self._watch
        self._ids = 0
        self._lines = 0
        self._waiting: deque[Json] = deque()  # not sent yet
        self._open: deque[tuple[Json, int]] = deque()  # sent, when, and not answered
        self._paths: deque[str] = deque(maxlen=_PATHS_MAX)  # where stores were opened of late
        self._looked = time.monotonic()
        self._hello: Hello | None = None

    def _start(self, umask: int, stdin: int, stdout: int, stderr: int) -> _group.Group:
        words, size = self.command.words, self.command.disk_bytes_max
        self.group = _group.Group(words, stdin, stdout, stderr, umask, size)
        return self.group

    @property
    def pid(self) -> int:
        return self.group.pid

    @property
    def output(self) -> str:
        """The pipe of its standard output, as Linux names it."""
        return self._pipes.output

    @property
    def unanswered(self) -> int:
        return len(self._open) + len(self._waiting)

    @property
    def next_id(self) -> int:
        return self._ids

    @property
    def line(self) -> int:
        """How many lines of output have been read."""
        return self._lines

    # --- the greeting -------------------------------------------------------------------------

    def hello(self) -> Hello:
        """The adapter's greeting, once asked for."""
        if self._hello is None:
            self._send_now(self._request("hello", {"protocol": PROTOCOL, "suite": SUITE}))
            try:
                said = self._take(self.command.start_limit_s)
            except BackendDied as error:
                raise Finding("does-not-start", str(error), trace=self.errors()) from error
            except Inconclusive as error:
                limit = f"{self.command.start_limit_s:g} s"
                what = f"no greeting within {limit}"
                raise Finding("no-greeting", what, trace=self.errors()) from error
            if said.error is not None:
                what = f"the greeting is an error: {short(said.error['message'])}"
                raise Finding("no-greeting", what, self._lines)
            found = said.ok
            self._hello = Hello(
                found["name"],
                found.get("version", ""),
                found["claims"],
                frozenset(found["capabilities"]),
            )
        return self._hello

    # --- requests -----------------------------------------------------------------------------

    def request(self, verb: str, **fields: Json) -> Json:
        """A message with the next id, checked."""
        return self._request(verb, fields)

    def _request(self, verb: str, fields: dict[str, Json]) -> Json:
        message = {"id": self._ids, "do": verb, **fields}
        problem = load("protocol-1").problem(message, f"{verb}.request")
        assert problem is None, f"our own request is wrong: {problem}"
        self._ids += 1
        return message

    def send(self, verb: str, **fields: Json) -> None:
        """Queue a request. Without the capability `times` each waits for the reply before it."""
        capabilities = self.hello().capabilities
        self._waiting.append(self.request(verb, **fields))
        if "times" in capabilities or not self._open:
            self._send_now(self._waiting.popleft())

    def _send_now(self, message: Json) -> None:
        if message["do"] in ("open", "crash_check", "migrate"):
            if message["path"] not in self._paths:
                self._paths.append(message["path"])
        self._open.append((message, time.monotonic_ns()))
        self._pipes.write(dump_line(message))

    def send_raw(self, line: bytes, message: Json) -> None:
        """A line of our own making, answered like `message`; for the smoke checks."""
        self.hello()
        self._ids = max(self._ids, message["id"] + 1)
        self._open.append((message, time.monotonic_ns()))
        self._pipes.write(line)

    def take(self, limit_s: float) -> Reply:
        """The next reply. BackendDied, Inconclusive or Finding when there is none."""
        self.hello()
        return self._take(limit_s)

    def ask(self, verb: str, limit_s: float, **fields: Json) -> Reply:
        assert self.unanswered == 0, "a reply to an earlier request was not taken"
        self.send(verb, **fields)
        return self.take(limit_s)

    def has_reply(self) -> bool:
        return self._pipes.has_line()

    def _take(self, limit_s: float) -> Reply:
        line = self._line(time.monotonic() + limit_s)
        if line is None:
            rest = self._pipes.unfinished_line()
            also = f", after {short(rest, 60)} without an end of line" if rest else ""
            raise BackendDied(f"the adapter's process ended{also}: {self._pipes.last_words()}")
        return self._read(line)

    def _line(self, deadline: float) -> bytes | None:
        try:
            line = self._pipes.next_line(deadline)
        except LineTooLong:
            self.kill()
            raise Finding("endless-line", "a line of over 256 MiB", self._lines + 1) from None
        self._watch()
        self._lines += line is not None
        return line

    def drain(self, limit_s: float) -> list[Reply]:
        """After a kill: the replies that had been written."""
        self._waiting.clear()
        self._pipes.forget_unwritten()
        deadline = time.monotonic() + limit_s
        replies = []
        while (line := self._line(deadline)) is not None:
            if self._hello is not None:
                replies.append(self._read(line))
        return replies

    # --- replies ------------------------------------------------------------------------------

    def _read(self, line: bytes) -> Reply:
        now = time.monotonic_ns()
        reply = self._message(line)
        if reply["id"] not in [request["id"] for request, _ in self._open]:
            what = f"a reply to request {reply['id']}, which is not open"
            raise self._finding("unrequested", what)
        request, sent = self._open[0]
        if reply["id"] != request["id"]:
            wanted = f"the oldest request without one is {request['id']} ({request['do']})"
            raise self._finding("out-of-order", f"a reply to request {reply['id']}; {wanted}")
        self._open.popleft()
        if self._waiting:
            self._send_now(self._waiting.popleft())
        self._check(request, reply)
        begun, ended = _between(reply.get("t"), sent, now)
        return Reply(reply.get("ok"), reply.get("error"), begun, ended)

    def _message(self, line: bytes) -> Json:
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            what = f"byte {error.start} of {short(line, 60)}"
            raise self._finding("not-utf-8", what) from None
        try:
            reply = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            what = f"{short(text, 60)} is not JSON ({short(str(error), 80)})"
            raise self._finding("noise-on-stdout", what) from None
        if not isinstance(reply, dict):
            raise self._finding("noise-on-stdout", f"{short(text, 60)} is no object")
        problem = load("protocol-1").problem(reply, "reply")
        if problem is not None:
            raise self._finding("not-by-schema", str(problem))
        return reply

    def _check(self, request: Json, reply: Json) -> None:
        """That a reply fits its request; plans are checked call by call."""
        verb = request["do"]
        if "error" in reply:
            self._check_error(reply["error"])
            return
        ok = reply["ok"]
        if verb == "hello" and isinstance(ok, dict) and ok.get("protocol", 1) != PROTOCOL:
            said = f"the adapter speaks version {short(ok['protocol'], 20)}, this is {PROTOCOL}"
            raise self._finding("wrong-protocol", said)
        problem = load("protocol-1").problem(ok, f"{verb}.result")
        if problem is not None:
            field = f"ok.{problem.field}".removesuffix(".").replace(".[", "[")
            raise self._finding("not-by-schema", f"reply to {verb}: {field}: {problem.what}")
        if verb in ("parallel", "fork"):
            self._check_plans(request, ok)
        elif verb == "open":
            self._check_files(request["path"], (ok or {}).get("files", []))
        else:
            self._check_values(ok)

    def _check_plans(self, request: Json, answers: Json) -> None:
        plans = request["plans"]
        if [len(plan) for plan in plans] != [len(answer) for answer in answers]:
            what = f"reply to {request['do']}: not one reply for each call"
            raise self._finding("not-by-schema", what)
        for plan, answer in zip(plans, answers, strict=True):
            for call, reply in zip(plan, answer, strict=True):
                if reply["id"] != call["id"]:
                    what = f"in a plan, request {call['id']} has the reply {reply['id']}"
                    raise self._finding("out-of-order", what)
                self._check(call, reply)

    def _check_error(self, error: Json) -> None:
        fixed = CODES[error["code"]]
        if fixed is not None and error["definite"] != fixed:
            said = "definite" if fixed else "not definite"
            what = f"error.definite: {error['code']} is always {said}"
            raise self._finding("error-class", what)

    def _check_files(self, path: str, files: Sequence[str]) -> None:
        root = os.path.realpath(path)
        for name in files:
            there = os.path.realpath(os.path.join(root, name))
            if os.path.isabs(name) or os.path.commonpath([root, there]) != root:
                what = f"ok.files: {short(name, 80)} leads out of the store's directory"
                raise self._finding("path-outside", what)

    def _check_values(self, value: Json) -> None:
        """Tagged objects at any depth: what has the key `$` is one of those that exist."""
        stack = [value]
        while stack:
            item = stack.pop()
            if isinstance(item, dict):
                if "$" in item:
                    tag = item["$"]
                    if not isinstance(tag, str) or tag not in _TAGS:
                        what = f"$: {short(tag, 40)} is none of {', '.join(_TAGS)}"
                        raise self._finding("not-by-schema", what)
                    problem = load("protocol-1").problem(item, tag)
                    if problem is not None:
                        raise self._finding("not-by-schema", f"a value of kind {tag}: {problem}")
                stack += item.values()
            elif isinstance(item, list):
                stack += item

    def _finding(self, name: str, what: str) -> Finding:
        """A finding ends the process: nothing that it says later can be trusted."""
        self.kill()
        return Finding(name, what, self._lines, self.errors())

    def _watch(self) -> None:
        """Now and then: does the store fill the disk?"""
        now = time.monotonic()
        if now - self._looked >= 0.25:
            self._looked = now
            self._measure()

    def _measure(self) -> None:
        for path in self._paths:
            if (size := _group.size_of(path)) > self.command.disk_bytes_max:
                what = f"{size:,} bytes in {path}; the limit is {self.command.disk_bytes_max:,}"
                raise self._finding("fills-disk", what)

    # --- the end ------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL to the whole group, and wait until it is gone."""
        self._pipes.kill()

    def kill_alone(self) -> None:
        """SIGKILL to the adapter's own process: what it has started lives on, until `end`."""
        self.group.kill_leader()

    def exit(self, limit_s: float) -> None:
        """The end of the input: the process ends by itself, and alone."""
        self._measure()
        self._pipes.end_input()
        deadline = time.monotonic() + min(limit_s, self.command.end_limit_s)
        while self.group.poll() is None:
            if time.monotonic() > deadline:
                raise self._finding("does-not-end", "its input ended, and it goes on")
            if self._pipes.has_line() and not self._open:  # it may still have replies to write
                raise self._finding("unrequested", "lines after the end of its input")
            time.sleep(0.001)
        left = self.group.leftovers()
        if left:
            what = f"{len(left)} processes that it started run on after its end"
            raise self._finding("leaves-children", what)

    def end(self) -> None:
        """Nothing of the adapter is left."""
        self._pipes.close()
        self.group.reap()

    def errors(self) -> str:
        return self._pipes.errors()


def _between(times: Json, sent: int, now: int) -> tuple[int, int]:
    """The adapter's times, as far as they can be true: within those of its pipes."""
    if times is not None:
        begun, ended = max(sent, times[0]), min(now, times[1])
        if begun <= ended:
            return begun, ended
    return sent, now


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number in JSON")
