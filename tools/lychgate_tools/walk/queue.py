"""The queue beside its model: module Queue.

A step of the model is one effect of the queue's programs: a call on the backend, or a run. They are
driven with a shelf in place of the backend, as both queues drive them. Compared are the tasks and
dead tasks that the store shows, with owner and recorded runs; which workers run; what each has in
memory and no fiber has taken; and where each fiber stands, with which task in hand.

Mapped, with the reason
  * `find_dead_task` changes nothing and is taken with the `add_task` behind it;
  * the model takes any task that waits, the engine the first: the order is that of due times, which
    the model leaves out;
  * what took too many workers with it is given up by the program of the start; in the model by the
    fiber that finds it, and nobody runs before the start is over;
  * a tick or sync shows nothing; what a host crash leaves is taken from the model's state.
"""

from __future__ import annotations

import errno
from typing import Any

from lychgate import DeadTasksLockTimeout, StorageError
from lychgate import _queue_flow as flow
from lychgate._backend import Call
from lychgate._queue_core import Limits
from lychgate._queue_drive import Run
from lychgate._queue_job import Job, to_json
from lychgate._records import DeadTask
from lychgate._task import Registry

from lychgate_tools.tlc.cfg import constant
from lychgate_tools.tlc.values import ModelValue
from lychgate_tools.walk.beside import Steps, View, changed, compare_views
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.queue_worker import NOW, QueueWorker, Running, Shelf, take_first
from lychgate_tools.walk.tour import Mismatch

_EFFECTS = {
    "Count": "add_task", "RunOk": "run", "RunFails": "run", "RunKills": "run", "Retry": "add_task",
    "AddDead": "add_dead_task", "AddDeadTimesOut": "add_dead_task", "AddDeadFails": "add_dead_task",
    "RemoveTask": "remove_task", "RetrySync": "sync", "RetryDrop": "remove_dead_tasks",
}  # fmt: skip
_PCS = {
    "run": "run", "add_task": "retry", "add_dead_task": "giveup", "remove_task": "remove",
    "sync": "sync", "remove_dead_tasks": "drop",
}  # fmt: skip
_NEXT = {
    "retry": "Retry", "giveup": "AddDead", "remove": "RemoveTask", "sync": "RetrySync",
    "drop": "RetryDrop",
}  # fmt: skip


class QueueModel:
    """A graph of Queue, and its constants."""

    def __init__(self, graph: Graph, config: str) -> None:
        self.graph = graph
        self.steps = Steps(graph, self.who)
        self.poison = constant(config, "Poison").strip("{} ").split(", ")
        self.limits = Limits(crashes_max=int(constant(config, "DeathsMax")))
        self.registry = Registry()
        self.targets: dict[str, Any] = {}
        retries = int(constant(config, "MaxAttempts")) - 1
        for name in constant(config, "Jobs").strip("{} ").split(", "):
            self.targets[name] = self.registry.task(
                name=name, max_retries=retries, retry_in={Exception: 0.0}
            )(_target())

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


def _text(identity: tuple[ModelValue, int]) -> str:
    return f"{identity[0]}/{identity[1]}"


class QueueWorld:
    """The engine in one state of the graph."""

    def __init__(self, model: QueueModel, state: int) -> None:
        self._model = model
        self._shelf = Shelf()
        self._workers: dict[Any, QueueWorker] = {}
        assert not self._value(state, "up"), "a state without workers can be built"
        self._shelf.used = {_text(i) for i in self._value(state, "used")}
        for i, entry in self._value(state, "task").items():
            if entry["now"]:
                self._shelf.tasks[_text(i)] = self._stored(i, self._value(state, "count")[i])
                self._shelf.owners[_text(i)] = None
        for i, entry in self._value(state, "dead").items():
            if entry["now"]:
                context = self._stored(i, {"runs": 1, "deaths": 0, "open": False})
                name = str(i[0])
                self._shelf.dead[_text(i)] = DeadTask(_text(i), name, 1, context, "E", "", NOW)

    def _stored(self, i: tuple[ModelValue, int], count: Any) -> dict[str, object]:
        link = f"{i[0]}/{i[1] - 1}" if i[1] else None
        runs, deaths = count["runs"], count["deaths"]
        return to_json(Job(str(i[0]), (), {}, NOW, runs, deaths, count["open"], link))

    def _value(self, state: int, variable: str) -> Any:
        return self._model.graph.value(state, variable)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.end()

    # --- following an edge ----------------------------------------------------------------------

    def step(self, source: int, action: str, target: int) -> None:
        up, up2 = self._value(source, "up"), self._value(target, "up")
        if action == "Start":
            (w,) = up2 - up
            model = self._model
            self._workers[w] = QueueWorker(w, self._shelf, model.registry, model.limits)
            self._workers[w].load()
        elif action in ("Stop", "Kill", "RunKills"):
            (w,) = up - up2
            self._leave(w, gently=action == "Stop")
        elif action == "Sync":
            for worker in self._workers.values():
                worker.whole(flow.turn(worker.core))
        elif action == "Enqueue":
            (i,) = self._value(target, "used") - self._value(source, "used")
            self._enqueue(self._value(target, "at")[i], str(i[0]))
        elif action == "Forget":
            before, after = self._value(source, "dead"), self._value(target, "dead")
            (i,) = [i for i in before if before[i]["now"] and not after[i]["now"]]
            del self._shelf.dead[_text(i)]
        else:
            self._fiber_step(source, action, target)

    def _leave(self, w: Any, gently: bool) -> None:
        worker = self._workers.pop(w)
        if gently:
            worker.core.stop()
            worker.whole(flow.leave(worker.core))
        worker.end()

    def _enqueue(self, w: Any, job: str) -> None:
        core = self._workers[w].core
        spec, entry, due = flow.entry(core, self._model.targets[job], (), {}, None, None)
        if not core.admit():
            raise Mismatch(f"{w} takes no more tasks")
        self._workers[w].whole(flow.enqueue(core, spec, entry, due))

    def _fiber_step(self, source: int, action: str, target: int) -> None:
        (p,) = changed(self._value(source, "pc"), self._value(target, "pc"))
        worker, i = self._workers[p[0]], self._value(target, "cur")[p]
        if action == "TakeExhausted":
            loading, worker.loading = worker.loading, None
            if loading is None or loading.task_id != _text(i):
                raise Mismatch(f"the start of {p[0]} does not give up {_text(i)}")
            worker.fibers[p] = loading
            return
        if action == "Count":
            item = take_first(worker.core, _text(i))
            if item is None:
                raise Mismatch(f"no fiber of {p[0]} may take {_text(i)}")
            worker.begin(p, flow.attempt(worker.core, item), item.task_id)
        elif action == "RetryDead":
            worker.begin(p, flow.retry_dead(worker.core, _text(i)), _text(i))
            self._effect(worker, p, "find_dead_task", "")
            action = "Count"  # its next effect is an `add_task`, too
        self._effect(worker, p, _EFFECTS[action], action)

    def _effect(self, worker: QueueWorker, p: Any, expected: str, action: str) -> None:
        running = worker.fibers[p]
        effect = running.effect
        if _name(running) != expected:
            raise Mismatch(f"the model takes {action}, the engine of {p} would take {effect}")
        result: object = None
        error: BaseException | None = None
        if isinstance(effect, Run):
            result = ValueError("a run that fails") if action == "RunFails" else None
        elif action == "AddDeadTimesOut":
            error = DeadTasksLockTimeout("the lock stayed taken")
        else:
            result = worker.perform(effect)
        if action == "AddDeadFails":  # after the record was written (D19)
            cause = OSError(errno.EIO, "Input/output error")
            error = StorageError("FsyncData", cause, "dead_tasks-0", False)
        if worker.advance(running, result, error):
            del worker.fibers[p]

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, state: int) -> None:
        compare_views(self._engine_view(state), self._model_view(state))
        would: list[tuple[str, str]] = []
        for p, pc in self._value(state, "pc").items():
            if pc == "run":
                poisoned = str(self._value(state, "cur")[p][0]) in self._model.poison
                would.append((str(p), "RunKills" if poisoned else "RunOk"))
            elif pc != "idle":
                would.append((str(p), _NEXT[pc]))
            elif p[0] in self._workers:
                would += self._takes(str(p), self._workers[p[0]])
        self._model.steps.check(state, would)

    def _takes(self, p: str, worker: QueueWorker) -> list[tuple[str, str]]:
        """What an idle fiber would do with the tasks that wait."""
        if worker.loading is not None:
            return [(p, "TakeExhausted")]
        return [(p, "Count")] if worker.waiting() else []

    def _model_view(self, state: int) -> View:
        task, at, count = (self._value(state, name) for name in ("task", "at", "count"))
        found: dict[str, object] = {
            "dead": frozenset(
                _text(i) for i, entry in self._value(state, "dead").items() if entry["now"]
            ),
            "up": self._value(state, "up"),
        }
        for i, entry in task.items():
            if entry["now"]:
                runs = tuple(count[i][name] for name in ("runs", "open", "deaths"))
                owner = at[i] if at[i] in self._value(state, "ready") else None
                found[f"task {_text(i)}"] = str(owner), runs
        for w in self._value(state, "up"):
            found[f"memory of {w}"] = frozenset(map(_text, self._value(state, "ready")[w]))
        for p, pc in self._value(state, "pc").items():
            if pc != "idle":
                found[f"fiber {p}"] = pc, _text(self._value(state, "cur")[p])
        return found

    def _engine_view(self, state: int) -> View:
        shelf = self._shelf
        found: dict[str, object] = {
            "dead": frozenset(shelf.dead), "up": frozenset(self._workers),
        }  # fmt: skip
        for key, task in shelf.tasks.items():
            runs = task["attempts"], task["running"], task["crashes"]
            found[f"task {key}"] = str(shelf.owners[key]), runs
        for w, worker in self._workers.items():
            found[f"memory of {w}"] = worker.waiting()
            for p, running in worker.fibers.items():
                found[f"fiber {p}"] = _PCS.get(_name(running), _name(running)), running.task_id
        return found


def _name(running: Running) -> str:
    return running.effect.method if isinstance(running.effect, Call) else "run"


class Side:
    """Queue beside the engine, for `lychgate walk`."""

    rebuilds = frozenset(("HostCrash",))

    def __init__(self, graph: Graph, config: str) -> None:
        self._model = QueueModel(graph, config)

    def starts(self) -> list[int]:
        """States in which no worker runs: they can be built as they are."""
        graph = self._model.graph
        return [state for state in range(len(graph.states)) if not graph.value(state, "up")]

    def world(self, state: int) -> QueueWorld:
        return QueueWorld(self._model, state)
