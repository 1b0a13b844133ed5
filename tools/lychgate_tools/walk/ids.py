"""Task ids beside their model: module WalIds (W4).

A worker is a `TaskIds` with its `Wal`: it makes ids and adds them, and learns the newest stamp of
the files that its start takes over. Compared are each worker's last stamp, the ids in its file and
the ids in files without an owner. A stamp is one microsecond of the wall clock; the model's draws
are numbers, the engine's 64 random bits, so an id must only be new where the model's is.

Any state can be built: the files, a start for each worker on its own file, then its last stamp.
A worker stops by `close` or by a kill, in turns. An id is forgotten by a removal and a rotation,
since a removal alone leaves the id in the file.
"""

from __future__ import annotations

import copy
from typing import Any

from lychgate._drive import run
from lychgate._ids import TaskIds
from lychgate._lines import LineScanner
from lychgate._names import wal_name
from lychgate._records import JSON, parse_wal, wal_add_line
from lychgate._stats import Stats
from lychgate._wal import Wal
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import image_of
from lychgate_conformance.lab._simfs import SimFs

from lychgate_tools.walk.beside import changed, compare_views
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import Mismatch

_DIRECTORY = "/s"
_PREFIX = "p-"
_TICK_S = 1e-6

Id = tuple[int, int]


class _Worker:
    """A process that makes ids."""

    def __init__(self, fs: SimFs) -> None:
        self.fs = fs
        self.ids = TaskIds(fs)
        self.wal = Wal(_DIRECTORY, _PREFIX, 1e9, fs, self.ids, Stats())

    def fork(self) -> _Worker:
        """The child has the parent's memory."""
        child = _Worker(self.fs.fork())
        child.ids._last = self.ids._last
        child.wal._by_process = copy.deepcopy(self.wal._by_process)
        return child

    def make(self) -> str:
        task_id = self.ids.next()
        run(self.wal.add(task_id, _line(task_id)), self.fs)
        return task_id

    def forget(self, task_id: str) -> None:
        run(self.wal.remove(task_id), self.fs)
        run(self.wal._in_turn(self.wal._rotate_by_size), self.fs)

    def held(self) -> set[str]:
        own = self.wal._by_process.get(self.fs.pid())
        return set() if own is None or own.file is None else set(own.file.live)


class IdsWorld:
    """The engine in one state of the graph."""

    def __init__(self, graph: Graph, state: int) -> None:
        self._graph = graph
        self._machine = Machine(image_of({f"{_DIRECTORY[1:]}/.keep": b""}))
        self._machine.clock = self._value(state, "clock") * _TICK_S
        self._known: dict[str, Id] = {}
        self._files = 0
        self._workers: dict[Any, _Worker] = {}
        for w in sorted(self._value(state, "up"), key=str):
            self._put(self._value(state, "held")[w])
            worker = self._start(w)
            worker.ids._last = self._value(state, "last")[w]
        self._put(self._value(state, "free"))

    def _value(self, state: int, variable: str) -> Any:
        return self._graph.value(state, variable)

    def close(self) -> None:
        for worker in self._workers.values():
            worker.fs.kill()

    def _put(self, ids: frozenset[Id]) -> None:
        """A file without an owner."""
        self._files += 1
        name = wal_name(_PREFIX, "20260101", self._files, bytes(8))
        for stamp, draw in ids:
            self._known[f"{stamp:020d}-{draw:016x}"] = stamp, draw
        texts = [text for text, known in self._known.items() if known in ids]
        if texts:
            node = self._machine.disk.create(self._machine.directory(_DIRECTORY).number, name)
            self._machine.disk.write(node.number, 0, b"".join(map(_line, texts)))

    def _start(self, w: Any) -> _Worker:
        worker = self._workers[w] = _Worker(SimFs(self._machine))
        run(worker.wal.start(), worker.fs)
        return worker

    # --- following an edge ----------------------------------------------------------------------

    def step(self, source: int, action: str, target: int) -> None:
        if action == "SetClock":
            self._machine.clock = self._value(target, "clock") * _TICK_S
        elif action == "Forget":
            self._forget(self._all_ids(source) - self._all_ids(target))
        elif action == "MakeId":
            (made,) = self._value(target, "made") - self._value(source, "made")
            (w,) = changed(self._value(source, "last"), self._value(target, "last"))
            text = self._workers[w].make()
            if text in self._known:
                raise Mismatch(f"{w} makes {text} a second time")
            self._known[text] = made
            if int(text.partition("-")[0]) != made[0]:
                raise Mismatch(f"{w} makes {text}, in the model {made}")
        else:
            (w,) = self._value(source, "up") ^ self._value(target, "up")
            if action == "StartWorker":
                self._start(w)
            elif action == "ForkWorker":
                (parent,) = self._workers.values()
                self._workers[w] = parent.fork()
            else:
                assert action == "StopWorker", action
                self._stop(w, gently=source % 2 == 0)

    def _stop(self, w: Any, gently: bool) -> None:
        worker = self._workers.pop(w)
        if gently:
            run(worker.wal.close(), worker.fs)
        worker.fs.kill()

    def _all_ids(self, state: int) -> frozenset[Id]:
        found: frozenset[Id] = self._value(state, "free")
        return found.union(*self._value(state, "held").values())

    def _forget(self, gone: frozenset[Id]) -> None:
        (text,) = [text for text, known in self._known.items() if known in gone]
        for worker in self._workers.values():
            if text in worker.held():
                worker.forget(text)
                return
        for node in self._machine.disk.nodes.values():
            node.data[:] = bytes(node.data).replace(_line(text), b"")

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, state: int) -> None:
        model: dict[str, object] = {"up": self._value(state, "up")}
        engine: dict[str, object] = {"up": frozenset(self._workers)}
        owned: set[str] = set()
        for w, worker in self._workers.items():
            model[f"last of {w}"] = self._value(state, "last")[w]
            engine[f"last of {w}"] = worker.ids._last
            model[f"ids of {w}"] = self._value(state, "held")[w]
            engine[f"ids of {w}"] = self._model_ids(worker.held())
            owned |= worker.held()
        model["free"] = self._value(state, "free")
        engine["free"] = self._model_ids(self._on_disk() - owned)
        compare_views(engine, model)

    def _model_ids(self, texts: set[str]) -> frozenset[Id]:
        return frozenset(self._known[text] for text in texts)

    def _on_disk(self) -> set[str]:
        """Every id that stands in a file, in whatever record."""
        found: set[str] = set()
        for inode in self._machine.directory(_DIRECTORY).entries.values():
            for line in LineScanner().feed(bytes(self._machine.disk.nodes[inode].data)):
                record = None if line.body is None else parse_wal(line.body)
                assert record is not None, "the engine writes whole lines"
                found.add(record.task_id)
        return found


def _line(task_id: str) -> bytes:
    return wal_add_line(JSON, task_id, None, None)


class Side:
    """WalIds beside the engine, for `lychgate walk`."""

    rebuilds: frozenset[str] = frozenset()

    def __init__(self, graph: Graph, config: str) -> None:
        self._graph = graph

    def starts(self) -> list[int]:
        """Any state can be built."""
        return list(range(len(self._graph.states)))

    def world(self, state: int) -> IdsWorld:
        return IdsWorld(self._graph, state)
