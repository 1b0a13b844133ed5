"""`Stage`: what a case holds in its hands. A directory of its own, processes, a seed, a clock.

Nothing outlives the case: every process that it started is killed by its own id, every object it
opened is closed, its directory is removed.
"""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from lychgate_conformance._claims import Claims
from lychgate_conformance._host import Host, Hosts, KillableHost
from lychgate_conformance._queue import BEGIN_MS, Queue, open_request
from lychgate_conformance._store import Call, CallError, Store
from lychgate_conformance._target import Target
from lychgate_conformance._verdict import Inconclusive, NotMeasured
from lychgate_conformance._wire import Json

PREFIX = "deferred-"
"""The prefix of every store that a case does not name otherwise."""

CALL_LIMIT_S = 30.0
"""How long one call may take; longer is inconclusive."""


class Clock:
    """The time that a case has."""

    def __init__(
        self, limit_s: float, call_limit_s: float = CALL_LIMIT_S, share_s: float | None = None
    ) -> None:
        """`share_s`: the case's share of a budget, None where the run has none."""
        now = time.monotonic()
        with_share_s = 0.0 if share_s is None else share_s + call_limit_s
        self._end = now + max(limit_s, with_share_s)
        self._call_limit_s = call_limit_s
        self._share_end = now + (share_s or 0.0)

    def has_share(self) -> bool:
        """Whether a budget leaves time for more than the case needs."""
        return time.monotonic() < self._share_end

    def left(self) -> float:
        """Seconds for the next wait; Inconclusive when the case has none left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise Inconclusive("the case did not end within its time")
        return min(left, self._call_limit_s)


class Worker:
    """Somebody who holds backend objects: the shared host, or a process of its own."""

    def __init__(self, host: Host, clock: Clock, path: Path, sets_time: bool) -> None:
        self.host = host
        self._clock = clock
        self._path = path
        self._sets_time = sets_time
        self._handles = 0

    def ask(self, request: Json) -> Json:
        return self.host.ask(request, self._clock.left())

    def open(
        self,
        path: Path | str | None = None,
        prefix: str = PREFIX,
        fsync_frequency: float = 0.5,
        **extra: object,
    ) -> Store:
        """Open the backend. CallError("open") when the factory raises."""
        request = self._open_request(path, prefix, fsync_frequency, extra)
        self._result("open", self.ask(request))
        return Store(self, self._handles)

    def open_queue(
        self, path: Path | None = None, now_ms: int = BEGIN_MS, **options: object
    ) -> Queue:
        """Open a delivery queue at this time of its clock. CallError("open") when it is refused."""
        request = self._queue_request(path, now_ms, options)
        self._result("open", self.ask(request))
        return Queue(self, self._handles, request["extra"].get("now_ms"))

    def _queue_request(
        self,
        path: Path | None = None,
        now_ms: int = BEGIN_MS,
        options: Mapping[str, object] = MappingProxyType({}),
    ) -> Json:
        """Opens under the next handle."""
        self._handles += 1
        where = str(self._path if path is None else path)
        at = now_ms if self._sets_time else None
        return open_request(where, self._handles, at, options)

    def _open_request(
        self,
        path: Path | str | None = None,
        prefix: str = PREFIX,
        fsync_frequency: float = 0.5,
        extra: Mapping[str, object] = MappingProxyType({}),
    ) -> Json:
        """Opens under the next handle."""
        self._handles += 1
        return {
            "do": "open",
            "handle": self._handles,
            "path": str(self._path if path is None else path),
            "prefix": prefix,
            "fsync_frequency": fsync_frequency,
            "extra": dict(extra),
        }

    def chdir(self, path: Path) -> None:
        self._result("chdir", self.ask({"do": "chdir", "path": str(path)}))

    def umask(self, mask: int) -> int:
        before = self._result("umask", self.ask({"do": "umask", "mask": mask}))
        assert isinstance(before, int)
        return before

    def parallel(self, plans: Sequence[Sequence[Call]]) -> list[list[Json]]:
        """Each plan in a thread of its own, all at once; the replies of each."""
        request = {"do": "parallel", "plans": [[call.request() for call in it] for it in plans]}
        answers = self._result("parallel", self.ask(request))
        assert isinstance(answers, list)
        return answers

    def _result(self, what: str, reply: Json) -> Json:
        if "error" in reply:
            raise CallError(what, reply["error"])
        return reply["ok"]


class ProcessWorker(Worker):
    """A worker whose process is its own, and so can be killed."""

    def __init__(self, host: KillableHost, clock: Clock, path: Path, sets_time: bool) -> None:
        super().__init__(host, clock, path, sets_time)
        self.process = host

    def send(self, call: Call) -> None:
        """Ask without waiting; `take` gives the replies in order."""
        self.process.send(call.request())

    def take(self) -> Json:
        return self.process.take(self._clock.left())

    def begin_open(self) -> Store:
        """Ask to open without waiting; `end_open` must follow before the store is used."""
        self.process.send(self._open_request())
        return Store(self, self._handles)

    def begin_queue(self, path: Path | None = None) -> None:
        """Ask to open a queue without waiting; `end_open` tells how that ended."""
        self.process.send(self._queue_request(path))

    def end_open(self) -> None:
        self._result("open", self.take())

    def kill(self) -> list[Json]:
        """SIGKILL. The replies that it had still given, in order."""
        self.process.kill()
        return self.process.drain()

    def exit(self) -> None:
        """End like an ordinary program that forgot to close."""
        self.process.exit(self._clock.left())

    def fork(
        self, theirs: Sequence[Call], mine: Sequence[Call] = (), linger: bool = False
    ) -> tuple[list[Json], list[Json]]:
        """Fork; the child makes `theirs` and ends (or lingers idle), the parent makes `mine`."""
        request = {
            "do": "fork",
            "theirs": [call.request() for call in theirs],
            "mine": [call.request() for call in mine],
            "linger": linger,
        }
        answers = self._result("fork", self.ask(request))
        return answers["theirs"], answers["mine"]

    def peak_memory(self) -> int:
        """The most bytes of memory that the process has had so far."""
        peak = self._result("peak memory", self.ask({"do": "memory"}))
        assert isinstance(peak, int)
        return peak

    def start_bystander(self) -> None:
        """Start an unrelated program from within this worker; it lives until the case ends."""
        self._result("start of a program", self.ask({"do": "bystander"}))


class Stage:
    """One case's world."""

    def __init__(
        self,
        target: Target,
        host: Host,
        pool: Hosts | None,
        base: str | None,
        seed: str,
        clock: Clock,
    ) -> None:
        self._pool = pool
        self.target = target
        self.claims: Claims = target.claims
        self.notes: list[str] = []
        """What a case wants said beside a pass: how much was looked at, what was left out."""
        self.schedule = ""
        """Level 5: play this one schedule in place of the case's own."""
        self.replay: tuple[str, ...] = ()
        """What a replay command needs besides the case, to do no more than show a failure."""
        self.image: Json = None
        """The image that failed, for the report (`blackbox._evidence`)."""
        self.clock = clock
        self.rng = random.Random(seed)
        self.root = Path(tempfile.mkdtemp(prefix="lychgate-case-", dir=base)).resolve()
        self.path = self.root / "store"
        self.prefix = PREFIX
        self.here = Worker(host, self.clock, self.path, target.clock)
        self._processes: list[KillableHost] = []

    def open(
        self,
        path: Path | str | None = None,
        prefix: str = PREFIX,
        fsync_frequency: float = 0.5,
        **extra: object,
    ) -> Store:
        """Open the backend on the shared host."""
        return self.here.open(path, prefix, fsync_frequency, **extra)

    def open_queue(
        self, path: Path | None = None, now_ms: int = BEGIN_MS, **options: object
    ) -> Queue:
        """Open a delivery queue on the shared host."""
        return self.here.open_queue(path, now_ms, **options)

    def reopen_queue(self, queue: Queue) -> Queue:
        """Close and open again, in the same process, at the same time of its clock."""
        now_ms = queue.now_ms
        queue.close()
        return self.open_queue(now_ms=now_ms)

    def reopen(self, store: Store) -> Store:
        """Close and open again, in the same process."""
        store.close()
        return self.open()

    @property
    def pool(self) -> Hosts:
        """Gives out processes. NotMeasured when no other process can load the backend."""
        if self._pool is None:
            raise NotMeasured("no other process can import this factory: name it as module:factory")
        return self._pool

    def worker(self) -> ProcessWorker:
        """A new process."""
        process = self.pool.take()
        self._processes.append(process)
        return ProcessWorker(process, self.clock, self.path, self.target.clock)

    def workers(self, count: int) -> list[ProcessWorker]:
        return [self.worker() for _ in range(count)]

    def wait(self, seconds: float) -> None:
        """Let time pass, where a moment is what the case is about."""
        time.sleep(min(seconds, self.clock.left()))

    def errors(self) -> str:
        """The ends of what the processes of the case wrote to their standard error."""
        texts = [host.errors() for host in (self.here.host, *self._processes)]
        return "\n".join(filter(None, texts))

    def end(self, reset: bool) -> None:
        """Leave nothing behind; `reset` when the shared host is to be used again."""
        for process in self._processes:
            process.end()
        try:
            if reset:
                self.here.ask({"do": "reset"})
        finally:
            shutil.rmtree(self.root, ignore_errors=True)
