"""The pieces put together beside their model: module Store.

The queue's programs over the disk backend, on the simulated file system. Compared are the tasks in
the WAL files and whose files they are; the dead tasks that the live path shows; who holds the lock
and whether the mark is set; and each worker's memory and fibers.

Steps of the model are several of the engine, all of which the walks of Wal, DeadTasks and Queue
take one by one. Where a fiber stands between two steps of the model:

    sync, remove   before that call               FsyncData, FsyncDir, RenameStaging, AppendRecord
    add, drop      before add_dead_task or            before that step
                   remove_dead_tasks              add.Unlock    before CloseData, with the record
                                                  drop.Unlock   before ClearMark      durable

Mapped, with the reason
  * taking, counting and running a task are one step, as in the model;
  * a retry of a dead task begins when `find_dead_task` has found it: reading changes nothing;
  * a start does not republish: the model leaves that to the next change, as a start does that finds
    the lock taken;
  * what a host crash leaves is taken from the model's state.
"""

from __future__ import annotations

import errno
from typing import Any

from lychgate import _queue_flow as flow
from lychgate._lines import LineScanner
from lychgate._lock import UNFINISHED_MARK, clean_mark
from lychgate._names import dead_data_name, dead_lock_name, is_wal_name, wal_name
from lychgate._queue_job import Job, to_json
from lychgate._records import JSON, DeadTask, dead_line, record_id, wal_add_line
from lychgate._task import Registry
from lychgate._wal_file import Replay
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import Content, image_of
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.tlc.cfg import constant
from lychgate_tools.walk.beside import Steps, View, changed, compare_views
from lychgate_tools.walk.composed_worker import DIRECTORY, PREFIX, ComposedWorker, Fiber
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.queue_worker import NOW, take_first
from lychgate_tools.walk.tour import Mismatch

_LIVE, _LOCK = (f"{DIRECTORY}/{name(PREFIX)}" for name in (dead_data_name, dead_lock_name))
_AT = {
    "add_dead_task": "add", "remove_dead_tasks": "drop", "remove_task": "remove", "sync": "sync",
    "AppendRecord": "add.AppendRecord", "FsyncData": "add.FsyncData", "CloseData": "add.Unlock",
    "ClearMark": "drop.Unlock",
}  # fmt: skip
_STOPS = {
    "LockTry": ("AppendRecord", "RenameStaging"), "RenameStaging": ("FsyncDir",),
    "FsyncDir": ("AppendRecord", "ClearMark"), "AppendRecord": ("FsyncData",),
    "FsyncData": ("CloseData",), "Unlock": ("remove_task",), "AppendRemoval": (),
    "FsyncSuccessor": ("remove_dead_tasks",), "TimesOut": ("remove_task",),
}  # fmt: skip
_STEPS = {
    "add": "LockTry", "drop": "LockTry", "remove": "AppendRemoval", "sync": "FsyncSuccessor",
}  # fmt: skip


class StoreModel:
    """A graph of Store, and its constants."""

    def __init__(self, graph: Graph, config: str) -> None:
        self.graph = graph
        self.steps = Steps(graph, self.who)
        self.registry = Registry()
        self.targets: dict[str, Any] = {}
        for name in constant(config, "Jobs").strip("{} ").split(", "):
            task = self.registry.task(name=name, max_retries=0)
            self.targets[name] = task(_target())

    def who(self, source: int, action: str, target: int) -> str:
        """The fiber that moves, if it is one."""
        before: Any = self.graph.value(source, "pc")
        after: Any = self.graph.value(target, "pc")
        found = changed(before, after)
        return str(found[0]) if len(found) == 1 else ""


def _target() -> Any:
    def job() -> None:
        pass

    return job


class ComposedWorld:
    """The engine in one state of the graph."""

    def __init__(self, model: StoreModel, state: int) -> None:
        self._model = model
        self._ids: dict[str, Any] = {}  # the engine's ids, and the model's
        self._workers: dict[Any, ComposedWorker] = {}
        self._machine = self._mount(state)
        for w in sorted(self._value(state, "up"), key=str):
            self._workers[w] = self._worker()
            self._workers[w].open()

    def _value(self, state: int, variable: str) -> Any:
        return self._model.graph.value(state, variable)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.end()

    def _worker(self) -> ComposedWorker:
        return ComposedWorker(SimFs(self._machine), self._model.registry)

    def _mount(self, state: int) -> Machine:
        """An empty directory at the beginning, else what a crash has left."""
        files: dict[str, Content] = {f"{DIRECTORY[1:]}/.keep": b""}
        if not self._value(state, "up"):
            now = [i for i, entry in self._value(state, "task").items() if entry["now"]]
            if now:
                name = wal_name(PREFIX, "20260101", 1, bytes(8))
                lines = [wal_add_line(JSON, self._text(i), self._job(i), None) for i in now]
                files[f"{DIRECTORY[1:]}/{name}"] = b"".join(lines)
            lines = [dead_line(JSON, self._dead(i)) for i in self._value(state, "live")]
            files[_LIVE[1:]], files[_LOCK[1:]] = b"".join(lines), UNFINISHED_MARK
        return Machine(image_of(files))

    def _text(self, i: Any) -> str:
        text = f"{i[0]}/{i[1]}"
        self._ids[text] = i
        return text

    def _job(self, i: Any) -> dict[str, object]:
        link = f"{i[0]}/{i[1] - 1}" if i[1] else None
        return to_json(Job(str(i[0]), (), {}, NOW, retry_of=link))

    def _dead(self, i: Any) -> DeadTask:
        return DeadTask(self._text(i), str(i[0]), 1, self._job(i), "E", "", NOW)

    # --- following an edge ----------------------------------------------------------------------

    def step(self, source: int, action: str, target: int) -> None:
        if action == "Take":
            (w,) = self._value(target, "up") - self._value(source, "up")
            self._workers[w] = self._worker()
            self._workers[w].take()
        elif action == "Kill":
            (w,) = self._value(source, "up") - self._value(target, "up")
            self._workers.pop(w).end()
        elif action == "AppendNew":
            self._append_new(source, target)
        elif action == "FsyncWal":
            self._fsync(source, target)
        else:
            (p,) = changed(self._value(source, "pc"), self._value(target, "pc"))
            self._fiber_step(p, source, action, target)

    def _append_new(self, source: int, target: int) -> None:
        (i,) = self._value(target, "used") - self._value(source, "used")
        worker = self._workers[self._value(target, "at")[i]]
        core, job = worker.core, self._model.targets[str(i[0])]
        spec, entry, due = flow.entry(core, job, (), {}, None, None)
        if not core.admit():
            raise Mismatch("the queue takes no more tasks")
        self._ids[str(worker.whole(flow.enqueue(core, spec, entry, due)))] = i

    def _fsync(self, source: int, target: int) -> None:
        """The sync of a worker whose tasks become durable, or whose removals do."""
        task, task2 = self._value(source, "task"), self._value(target, "task")
        at = self._value(source, "at")
        owners = [at[i] for i in changed(task, task2) if at[i] in self._workers]
        for w in owners[:1] or list(self._workers):
            self._workers[w].sync()

    def _fiber_step(self, p: Any, source: int, action: str, target: int) -> None:
        worker = self._workers[p[0]]
        if action in ("RunOk", "RunFails"):
            self._run(worker, p, self._value(target, "cur")[p], fails=action == "RunFails")
            return
        if action == "AppendSuccessor":
            self._revive(worker, p, source, target)
            return
        fiber = worker.fibers[p]
        if action == "StoreFails":
            fiber.step(OSError(errno.EIO, "Input/output error"))
            fiber.until()
        else:
            fiber.until(*_STOPS[action])
        if fiber.at == "end":
            del worker.fibers[p]

    def _run(self, worker: ComposedWorker, p: Any, i: Any, fails: bool) -> None:
        text = next(text for text in worker.waiting() if self._ids[text] == i)
        item = take_first(worker.core, text)
        if item is None:
            raise Mismatch(f"no fiber of {p[0]} may take {text}")
        fiber = worker.begin(p, flow.attempt(worker.core, item), text)
        fiber.until("run")
        if fiber.at != "run":
            raise Mismatch(f"{p} does not run {text}, but comes to {fiber.at}")
        fiber.answer(ValueError("a run that fails") if fails else None, None)

    def _revive(self, worker: ComposedWorker, p: Any, source: int, target: int) -> None:
        i = self._value(target, "cur")[p]
        text = next(text for text in self._dead_ids() if self._ids[text] == i)
        dead = DeadTask(text, str(i[0]), 1, self._job(i), "E", "", NOW)
        known = worker.waiting()
        fiber = worker.revive(p, dead)
        fiber.until("sync")
        (new,) = worker.waiting() - known
        (self._ids[new],) = self._value(target, "used") - self._value(source, "used")

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, state: int) -> None:
        compare_views(self._engine_view(), self._model_view(state))
        holder = self._value(state, "holder")
        would: list[tuple[str, str]] = []
        for p, pc in self._value(state, "pc").items():
            action = _STEPS.get(pc) or pc.partition(".")[2]
            if action and (action != "LockTry" or not isinstance(holder, tuple)):
                would.append((str(p), action))
        self._model.steps.check(state, would)

    def _model_view(self, state: int) -> View:
        holder, at = self._value(state, "holder"), self._value(state, "at")
        up = self._value(state, "up")
        found: dict[str, object] = {
            "dead tasks": self._value(state, "live"),
            "up": up,
            "mark is set": self._value(state, "marked"),
            "holder": str(holder[0]) if isinstance(holder, tuple) else "",
        }
        for i, entry in self._value(state, "task").items():
            if entry["now"]:
                found[f"task {i}"] = str(at[i]) if at[i] in up else ""
        for w in up:
            found[f"memory of {w}"] = self._value(state, "ready")[w]
        for p, pc in self._value(state, "pc").items():
            if pc != "idle":
                found[f"fiber {p}"] = pc.removeprefix("republish."), self._value(state, "cur")[p]
        return found

    def _engine_view(self) -> View:
        lock = self._machine.look_up(_LOCK)
        assert lock is not None, "the lock file is never unlinked"
        held = self._machine.locks.get(lock.number)
        holders = [str(w) for w, worker in self._workers.items() if worker.fs.has(held)]
        found: dict[str, object] = {
            "dead tasks": frozenset(self._ids[text] for text in self._dead_ids()),
            "up": frozenset(self._workers),
            "mark is set": bytes(lock.data) != clean_mark(self._machine.boot),
            "holder": "".join(holders),
        }
        for text, owner in self._tasks().items():
            found[f"task {self._ids[text]}"] = owner
        for w, worker in self._workers.items():
            found[f"memory of {w}"] = frozenset(self._ids[text] for text in worker.waiting())
            for p, fiber in worker.fibers.items():
                found[f"fiber {p}"] = self._place(fiber), self._ids[fiber.task_id]
        return found

    def _place(self, fiber: Fiber) -> str:
        """Where a fiber stands, in the model's words."""
        return _AT.get(fiber.at) or (f"drop.{fiber.at}" if fiber.is_drop else fiber.at)

    def _tasks(self) -> dict[str, str]:
        """Live tasks of all WAL files, with the worker whose file it is."""
        owners: dict[str, str] = {}
        for w, worker in self._workers.items():
            own = worker.disk._wal._by_process.get(worker.fs.pid())
            if own is not None and own.file is not None:
                owners[own.file.path] = str(w)
        found: dict[str, str] = {}
        for name, inode in self._machine.directory(DIRECTORY).entries.items():
            if is_wal_name(PREFIX, name):
                replay = Replay()
                for line in LineScanner().feed(bytes(self._machine.disk.nodes[inode].data)):
                    replay.take(line)
                owner = owners.get(f"{DIRECTORY}/{name}", "")
                found.update((text, owner) for text in replay.live)
        return found

    def _dead_ids(self) -> list[str]:
        live = self._machine.look_up(_LIVE)
        lines = [] if live is None else LineScanner().feed(bytes(live.data))
        bodies = [line.body for line in lines if line.body is not None]
        return [(record_id(body) or b"").decode("ascii") for body in bodies]


class Side:
    """Store beside the engine, for `lychgate walk`."""

    rebuilds = frozenset(("HostCrash",))

    def __init__(self, graph: Graph, config: str) -> None:
        self._model = StoreModel(graph, config)

    def starts(self) -> list[int]:
        """The beginning, and states in which no worker runs: they can be built as they are."""
        graph = self._model.graph
        down = [state for state in range(len(graph.states)) if not graph.value(state, "up")]
        return [*graph.initial, *down]

    def world(self, state: int) -> ComposedWorld:
        return ComposedWorld(self._model, state)
