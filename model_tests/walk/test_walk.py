"""The state graph and the walk along it, on graphs made by hand.

The walk over TLC's graphs is `lychgate walk` itself, which `./run` calls; here its parts are shown
to notice what they must notice.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from unittest import mock

import pytest

from lychgate import _dead, _lock
from lychgate._op import Program
from lychgate._ops import RenameStaging
from lychgate_tools.tlc import toolchain
from lychgate_tools.tlc.values import Fn
from lychgate_tools.spec_dir import locate
from lychgate_tools.walk import graph as graphs
from lychgate_tools.walk import store
from lychgate_tools.walk.cells import CELL, Cells, ids_in, line_of
from lychgate_tools.walk.graph import Graph
from lychgate_tools.walk.tour import Mismatch, walk

DOT = r"""strict digraph DiskGraph {
7 [label="/\\ x = 1\n/\\ s = [ a |->\n    \"b\" ]",style = filled]
7 -> -8 [label="Step",color="black",fontcolor="black"];
-8 [label="/\\ x = 2\n/\\ s = [ a |->\n    \"b\" ]"];
-8 -> 7 [label="Back",color="black",fontcolor="black"];
-8 -> -8 [label="Stay",color="black",fontcolor="black"];
{rank = same; 7;}
}"""


def test_a_dump_is_read_with_wrapped_values_and_negative_numbers() -> None:
    """TLC wraps values at 80 columns and prints fingerprints as they are."""
    found = graphs.parse_dump(iter(DOT.splitlines(keepends=True)))
    assert found.variables == ("s", "x")
    assert [found.value(state, "x") for state in (0, 1)] == [1, 2]
    assert found.value(1, "s") == Fn([("a", "b")])
    assert found.initial == [0]
    assert found.edges == [[("Step", 1)], [("Back", 0), ("Stay", 1)]]


def test_a_damaged_cache_is_made_again(tmp_path: Path) -> None:
    """Whatever stands in the cache, the graph is right or is asked of TLC."""
    found = graphs.parse_dump(iter(DOT.splitlines(keepends=True)))
    path = tmp_path / "graph.json.gz"
    graphs._write(path, found)
    assert graphs._read(path) == found
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        assert graphs._read(path) is None
    path.write_bytes(gzip.compress(b'{"states": []}'))
    assert graphs._read(path) is None
    assert [p.name for p in tmp_path.iterdir()] == ["graph.json.gz"]


def test_a_damaged_cache_costs_another_run_of_tlc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run for a model, one more after damage; an edit to a module that it needs is another
    model, one to a module that it does not need is none."""
    runs: list[str] = []

    def run_tlc(modules: Mapping[str, str], root: str, *rest: object) -> Graph:
        runs.append(root)
        return graphs.parse_dump(iter(DOT.splitlines(keepends=True)))

    monkeypatch.setattr(toolchain, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(graphs, "_from_tlc", run_tlc)
    modules = {"Top": "EXTENDS Naturals,\n  Low", "Low": "B == INSTANCE Deep", "Deep": "1"}
    for _ in range(2):
        found = graphs.load({**modules, "Other": "1"}, "Top", "cfg")
    assert len(runs) == 1
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    assert graphs.load({**modules, "Other": "2"}, "Top", "cfg") == found and len(runs) == 2
    assert graphs.load(modules, "Top", "cfg") == found and len(runs) == 2
    graphs.load({**modules, "Deep": "2"}, "Top", "cfg")
    assert len(runs) == 3


class Recorder:
    """A world that follows every edge and notes it; `refuses` an action if told to."""

    def __init__(self, seen: set[tuple[int, str, int]], refuses: str = "") -> None:
        self.seen = seen
        self.refuses = refuses

    def step(self, source: int, action: str, target: int) -> None:
        if action == self.refuses:
            raise Mismatch(f"no {action} here")
        self.seen.add((source, action, target))

    def compare(self, state: int) -> None:
        pass

    def close(self) -> None:
        pass


class Recording:
    """A side that notes what is walked and built."""

    rebuilds = frozenset(("Crash",))

    def __init__(
        self,
        seen: set[tuple[int, str, int]],
        refuses: str = "",
        starts: tuple[int, ...] = (0,),
    ) -> None:
        self.seen, self.refuses, self._starts = seen, refuses, starts
        self.built: list[int] = []

    def starts(self) -> list[int]:
        return list(self._starts)

    def world(self, state: int) -> Recorder:
        self.built.append(state)
        return Recorder(self.seen, self.refuses)


def test_a_walk_takes_every_edge() -> None:
    """100 % of the edges, those behind long paths included."""
    size = 40
    states = range(size)
    edges = [[("Next", (n + 1) % size), ("Jump", (n * 7 + 3) % size)] for n in states]
    graph = Graph(("x",), {"x": [str(n) for n in states]}, [(n,) for n in states], [0], edges)
    seen: set[tuple[int, str, int]] = set()
    done = walk(graph, Recording(seen))
    wanted = {(s, a, t) for s, out in enumerate(edges) for a, t in out if s != t}
    assert seen == wanted and done.complete and done.walked == done.edges == len(wanted)


def test_what_a_crash_leaves_is_built_once_for_all_its_edges() -> None:
    """No step of the engine leads there; the edges count, and the state is compared."""
    edges = [[("Next", 1), ("Crash", 2)], [("Crash", 2)], [("Again", 0)]]
    graph = Graph(("x",), {"x": ["1", "2", "3"]}, [(0,), (1,), (2,)], [0], edges)
    seen: set[tuple[int, str, int]] = set()
    side = Recording(seen, starts=(0, 2))
    done = walk(graph, side)
    assert seen == {(0, "Next", 1), (2, "Again", 0)}
    assert done.complete and done.edges == done.walked == 4
    assert side.built[0] == 2 and len(side.built) == 3


def test_a_walk_ends_where_engine_and_model_part_ways() -> None:
    """The path to the step is kept, with what was wrong."""
    graph = Graph(("x",), {"x": ["1", "2"]}, [(0,), (1,)], [0], [[("Good", 1)], [("Bad", 0)]])
    done = walk(graph, Recording(set(), refuses="Bad"))
    assert not done.complete
    assert done.failure == ([(0, "Good", 1), (1, "Bad", 0)], "no Bad here")


def test_an_engine_that_breaks_ends_the_walk_with_its_path() -> None:
    """Not with a trace of calls that says nothing of the state."""

    class Breaks(Recorder):
        def step(self, source: int, action: str, target: int) -> None:
            raise AssertionError("a rule of the engine")

    side = Recording(set())
    graph = Graph(("x",), {"x": ["1", "2"]}, [(0,), (1,)], [0], [[("Step", 1)], []])
    with mock.patch.object(side, "world", lambda state: Breaks(set())):
        done = walk(graph, side)
    assert done.failure is not None and done.failure[0] == [(0, "Step", 1)]
    assert "AssertionError in step" in done.failure[1] and "a rule of the engine" in done.failure[1]


def test_cells_and_bytes_are_the_same_pieces() -> None:
    """A record is two cells; each cell of each record is another one."""
    cells = Cells(["a", "b"])
    data = line_of("a") + bytes(CELL) + line_of("b")
    assert cells.to_cells(data) == ("a<", "a>", "0", "b<", "b>")
    assert cells.to_bytes(cells.to_cells(data)) == data
    assert ids_in(line_of("b") + line_of("a")) == ["b", "a"]


# --- the engine beside a small model of TLC ------------------------------------------------------

SMALL = """CONSTANTS
  Names <- AllNames
  Fds <- AllFds
  Inodes <- Inodes4
  Records = {"a", "b"}
  AtomicRename = TRUE
  HonestFsync = TRUE
  TornWrites = TRUE
  NulTails = TRUE
  StaleTails = FALSE
  FailModes = {"keep"}
  Workers = {"w1"}
  Fibers = {"f1"}
  MaxTries = 2
  LockFds <- OneLockFd
  Plan <- PlanAddRemove
  Budget <- FailOnce
  Store = "ready"
INIT DeadInit
NEXT DeadNext
"""


@pytest.fixture(scope="module")
def small() -> Graph:
    """An add and a remove by one worker, any step of which may fail once."""
    return graphs.load(locate().modules(), "MC_DeadTasks", SMALL)


def outcome(graph: Graph) -> str:
    """What the walk of the engine ends with, empty for full coverage."""
    with mock.patch.object(_lock, "LOCK_ATTEMPTS_MAX", 2):
        side = store.Side(graph, SMALL)
        done = walk(graph, side)
    assert (done.failure is None) == done.complete
    return "" if done.failure is None else done.failure[1]


def test_the_engine_takes_every_step_of_the_small_model(small: Graph) -> None:
    """Control of the mutants below: full coverage, nothing to say (D10, D12)."""
    assert outcome(small) == ""


async def _nothing(*args: object) -> None:
    """In the place of a step that a mutant leaves out."""


async def _no_staging_check(self: _dead.DeadStore) -> None:
    await RenameStaging(self._staging, self._live)


@pytest.mark.parametrize(
    ("owner", "name", "broken", "said"),
    [
        (_lock.StoreLock, "set_mark", _nothing, "in the model"),
        (_lock.StoreLock, "clear_mark", _nothing, "in the model"),
        (_dead.DeadStore, "_publish", _no_staging_check, "in the model"),
        (_dead, "append_all", _nothing, "in the model"),
    ],
    ids=["mark never set", "mark never cleared", "directory never synced", "nothing written"],
)
def test_a_step_left_out_of_the_engine_ends_the_walk(
    small: Graph, owner: object, name: str, broken: Callable[..., Program[None]], said: str
) -> None:
    """A step that the spec takes and the engine does not is shown from both sides (D10, D32)."""
    with mock.patch.object(owner, name, broken):
        assert said in outcome(small)


def test_a_step_of_the_spec_under_another_name_ends_the_walk(small: Graph) -> None:
    """One name everywhere: an action that no engine step is called by cannot be taken (D10)."""
    edges = [[("Stat" if a == "StatData" else a, t) for a, t in out] for out in small.edges]
    renamed = Graph(small.variables, small.texts, small.states, small.initial, edges)
    assert "- model  w1.f1: Fail, Stat\n+ engine w1.f1: StatData" in outcome(renamed)
