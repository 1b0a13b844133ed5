"""A store behind a connection that is right: a server of a few lines, and a client with nothing
planted. The mutants of `behind` are this client with one fault.

    client  ["begin", store]   ->  the whole store, and nobody else has it
            ["commit", store]  ->  true: that is the store now, and others may have it
    the end of the connection: nothing has happened

Rules of this file
  * The server lives in the process of whoever tries mutants (`Shelf.serving`), so no end of a
    worker reaches it. It keeps stores in memory, by the path and prefix that they are opened with.
  * Whatever fails before the commit is sent is definite; from then on nobody knows. A connection on
    which anything has failed is dropped, and the next call makes a new one. One that had died in
    idleness is replaced at once, since nothing has been asked of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import socketserver
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

from lychgate_conformance._control import Control, DeadRecord

_PLACE = "LYCHGATE_SHELF"
State = dict[str, Any]
R = TypeVar("R")


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, place: str) -> None:
        super().__init__(place, _Session)
        self.states: dict[str, State] = defaultdict(lambda: {"tasks": {}, "dead": []})
        self.locks: dict[str, threading.Lock] = defaultdict(threading.Lock)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone away is nothing to be told."""


class _Session(socketserver.StreamRequestHandler):
    """One connection, one transaction after the other."""

    server: _Server

    def handle(self) -> None:
        while line := self.rfile.readline():
            _, name = json.loads(line)
            with self.server.locks[name]:
                self._say(self.server.states[name])
                if not (line := self.rfile.readline()):
                    return
                _, self.server.states[name] = json.loads(line)
                self._say(True)

    def _say(self, value: object) -> None:
        self.wfile.write(json.dumps(value).encode() + b"\n")


class ShelfError(OSError):
    """The server cannot be reached, or has gone."""

    def __init__(self, cause: OSError, definite: bool) -> None:
        super().__init__(cause.errno, f"the shelf's server: {cause}")
        self.definite = definite


class Shelf:
    """A backend whose store is on a server."""

    claims: ClassVar[Mapping[str, object]] = {
        "fsync_policy": "always", "pending_scope": "all", "multi_thread": False,
        "fork_safe": False,
    }  # fmt: skip

    def __init__(self, path: str, prefix: str = "", fsync_frequency: float = 0.0) -> None:
        self.name = f"{os.path.abspath(path)}/{prefix}"
        self.connection: socket.socket | None = None
        Shelf.transact(self, lambda state: None)  # whoever cannot reach it learns so here

    @staticmethod
    @contextmanager
    def serving() -> Iterator[None]:
        """A server for as long as the block runs; processes started in it find it."""
        with tempfile.TemporaryDirectory(prefix="lychgate-shelf-") as place:
            with _Server(f"{place}/socket") as server:
                thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
                thread.start()
                os.environ[_PLACE] = f"{place}/socket"
                try:
                    yield
                finally:
                    del os.environ[_PLACE]
                    server.shutdown()
                    thread.join()

    # --- the connection -----------------------------------------------------------------------

    def ask(self, word: str, value: object) -> Any:
        """One request and its answer. OSError when there is none."""
        self.say(word, value)
        return self.answer()

    def say(self, word: str, value: object) -> None:
        if self.connection is None:
            self.connection = socket.socket(socket.AF_UNIX)
            self.connection.connect(os.environ[_PLACE])
        self.connection.sendall(json.dumps([word, value]).encode() + b"\n")

    def answer(self) -> Any:
        assert self.connection is not None
        data = b""
        while not data.endswith(b"\n"):
            more = self.connection.recv(1 << 16)
            if not more:
                raise ConnectionResetError("it has closed the connection")
            data += more
        return json.loads(data)

    def drop(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    # --- transactions -------------------------------------------------------------------------

    def begin(self) -> State:
        """The store as it is."""
        was_idle = self.connection is not None
        try:
            found: State = self.ask("begin", self.name)
        except OSError as error:
            self.drop()
            if not was_idle:
                raise ShelfError(error, True) from error
            return self.begin()
        return found

    def commit(self, state: State) -> None:
        try:
            self.ask("commit", state)
        except OSError as error:
            self.drop()
            raise ShelfError(error, False) from error

    def transact(self, change: Callable[[State], R]) -> R:
        state = self.begin()
        try:
            result = change(state)
        except BaseException:
            self.drop()
            raise
        self.commit(state)
        return result

    # --- calls --------------------------------------------------------------------------------

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        new = secrets.token_hex(12) if task_id is None else task_id
        self.transact(lambda state: state["tasks"].update({new: [task, publish_at]}))
        return new

    def remove_task(self, task_id: str) -> None:
        self.transact(lambda state: state["tasks"].pop(task_id, None))

    def pending_tasks(self) -> list[tuple[str, object, float | None]]:
        tasks = self.transact(lambda state: state["tasks"])
        return [(key, task, at) for key, (task, at) in tasks.items()]

    def add_dead_task(
        self, task_id: str, context: object, exception: object, task_class: str, attempts: int
    ) -> None:
        record = Control.record(task_id, context, exception, task_class, attempts)
        self.transact(lambda state: state["dead"].append(record))

    def list_dead_tasks(self, limit: int | None = None, offset: int = 0) -> list[Any]:
        last = None if limit is None else offset + limit
        dead = self.transact(lambda state: state["dead"])
        return [DeadRecord(**it) for it in dead[offset:last]]

    def find_dead_task(self, task_id: str) -> Any:
        return next((it for it in reversed(self.list_dead_tasks()) if it.task_id == task_id), None)

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        gone = set(task_ids)

        def change(state: State) -> int:
            found = {it["task_id"] for it in state["dead"]} & gone
            state["dead"] = [it for it in state["dead"] if it["task_id"] not in gone]
            return len(found)

        return self.transact(change)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.drop()
