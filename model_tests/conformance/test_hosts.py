"""Hosts, stage and runner: time limits, kills, and nothing left behind."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lychgate_conformance import Options, Verdict, load_target
from lychgate_conformance._case import Case
from lychgate_conformance._control import Control
from lychgate_conformance._host import Pool, ProcessHost
from lychgate_conformance._runner import Runner
from lychgate_conformance._stage import Clock, Stage
from lychgate_conformance._store import CallError
from lychgate_conformance._verdict import ExitCode, exit_code
from lychgate_conformance._wire import Opaque, Strange, Undecodable, decode, encode

CONTROL = "lychgate_conformance._control:Control"

HANGS = """
import time
from lychgate_conformance._control import Control

class Hangs(Control):
    def remove_task(self, task_id):
        time.sleep(3600)
"""


@pytest.fixture
def hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"hangs_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(HANGS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return f"{name}:Hangs"


def alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not looked at does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def a_case(function: object, limit_s: float = 30.0) -> Case:
    assert callable(function)
    return Case("L0-TEST-001", 0, "a test of the suite", ("D2",), (), function, limit_s)


def test_a_call_that_hangs_is_inconclusive_and_its_process_ends(hangs: str, tmp_path: Path) -> None:
    runner = Runner(load_target(hangs), Options(path=str(tmp_path)))
    result = runner.run_case(a_case(lambda stage: stage.open().remove_task("t"), limit_s=1.0))
    assert result.verdict is Verdict.INCONCLUSIVE
    after = runner.run_case(a_case(lambda stage: stage.open().add_task("t")))
    assert after.verdict is Verdict.PASS
    runner.end()
    assert [it.name for it in tmp_path.iterdir() if it.is_dir() and it.name != "__pycache__"] == []


def test_a_case_without_a_budget_has_its_own_time_and_no_more() -> None:
    """With a budget it has its share, and the time of one call beyond."""
    assert Clock(1.0).left() <= 1.0
    assert 1.0 < Clock(1.0, call_limit_s=30.0, share_s=5.0).left() <= 30.0


def test_every_process_of_a_case_ends_with_it() -> None:
    """Idle, busy, forked and unrelated ones alike."""
    pids: list[int] = []
    sessions: list[int] = []

    def starts_processes(stage: Stage) -> None:
        for worker in stage.workers(2):
            store = worker.open()
            sessions.append(worker.process.pid)
            pids.append(worker.ask({"do": "bystander"})["ok"])
            worker.fork([store.call("pending_tasks")], linger=True)

    runner = Runner(load_target(CONTROL), Options())
    assert runner.run_case(a_case(starts_processes)).verdict is Verdict.PASS
    runner.end()
    deadline = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [pid for pid in pids if alive(pid)] == []
    wait_for_the_end_of_sessions(sessions)


def test_a_forked_child_that_hangs_ends_with_its_case(hangs: str) -> None:
    """Even when the process that forked it had to be killed."""
    pids: list[int] = []

    def forks(stage: Stage) -> None:
        worker = stage.worker()
        store = worker.open()
        pids.append(worker.process.pid)
        worker.fork([store.call("remove_task", "t")])

    runner = Runner(load_target(hangs), Options())
    assert runner.run_case(a_case(forks, limit_s=1.5)).verdict is Verdict.INCONCLUSIVE
    runner.end()
    wait_for_the_end_of_sessions(pids)


def wait_for_the_end_of_sessions(leaders: list[int]) -> None:
    """Each process of the suite begins a session; nothing of it may be left."""

    def left() -> list[str]:
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) in leaders and fields[0] != "Z":
                found.append(stat.parent.name)
        return found

    deadline = time.monotonic() + 20
    while left() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert left() == []


def test_a_defect_of_a_case_is_the_suites_and_not_the_backends() -> None:
    def defect(stage: Stage) -> None:
        raise KeyError("oops")

    runner = Runner(load_target(CONTROL, in_process=True), Options())
    result = runner.run_case(a_case(defect))
    runner.end()
    assert (result.verdict, result.message) == (Verdict.HARNESS_ERROR, "KeyError: 'oops'")
    assert "defect" in result.trace


def test_a_backend_that_no_process_can_import_is_not_measured_at_level_1() -> None:
    runner = Runner(load_target(lambda **options: Control(**options)), Options())
    assert runner.run_case(a_case(lambda stage: stage.open().add_task("t"))).verdict is Verdict.PASS
    result = runner.run_case(a_case(lambda stage: stage.worker()))
    runner.end()
    assert result.verdict is Verdict.NOT_MEASURED


def test_replies_that_were_written_before_a_kill_are_all_read(tmp_path: Path) -> None:
    pool = Pool(CONTROL)
    host = pool.take()
    options = {"path": str(tmp_path), "prefix": "p-", "fsync_frequency": 0.5}
    assert "ok" in host.ask({"do": "open", "handle": 1, **options}, 30)
    for n in range(50):
        host.send(
            {
                "do": "call",
                "handle": 1,
                "method": "add_task",
                "args": [n],
                "kwargs": {"task_id": f"t{n}"},
            }
        )
    replies = [host.take(30) for _ in range(10)]
    host.kill()
    replies += host.drain()
    assert [it["ok"] for it in replies] == [f"t{n}" for n in range(len(replies))]
    stored = {it[0] for it in Control(str(tmp_path), "p-").pending_tasks()}
    assert stored - {it["ok"] for it in replies} <= {f"t{len(replies)}"}
    host.end()
    pool.end()


def test_a_large_value_crosses_while_both_sides_write(tmp_path: Path) -> None:
    host = ProcessHost(CONTROL)
    options = {"path": str(tmp_path), "prefix": "p-", "fsync_frequency": 0.5}
    host.ask({"do": "open", "handle": 1, **options}, 60)
    big = "x" * 3_000_000
    for _ in range(3):
        host.send(
            {
                "do": "call",
                "handle": 1,
                "method": "add_task",
                "args": [big],
                "kwargs": {"task_id": "t"},
            }
        )
        host.send({"do": "call", "handle": 1, "method": "pending_tasks", "args": [], "kwargs": {}})
    for _ in range(3):
        assert host.take(60)["ok"] == "t"
        assert host.take(60)["ok"] == [["t", big, None]]
    host.end()


def test_values_keep_their_kind_on_the_wire() -> None:
    for value in (
        None,
        True,
        1,
        1.0,
        "\ud83d\0",
        [1, [True]],
        {"a": {"$": 1}},
        {1: 2},
        b"\xff",
        Opaque(),
    ):
        assert repr(decode(encode(value))) == repr(value)
    assert decode(encode((1, 2))) == [1, 2]
    assert isinstance(decode(encode(float("nan"))), Strange)
    assert isinstance(decode(encode(object())), Strange)
    assert decode(encode(Undecodable("zip", b"x"))) == Undecodable("zip", b"x")


def test_an_error_keeps_what_the_suite_asks_of_it() -> None:
    error = CallError(
        "open",
        {
            "type": "E",
            "bases": ["E", "OSError"],
            "text": "t",
            "errno": 5,
            "definite": True,
            "code": "storage",
            "trace": "",
        },
    )
    assert str(error) == "open raised E: 't'" and error.errno == 5 and error.definite is True
    assert error.code == "storage"


def test_exit_codes_tell_the_worst() -> None:
    """Not knowing never hides a failure, and trying nothing is no success."""
    codes = {
        (): ExitCode.INCONCLUSIVE,
        (Verdict.PASS, Verdict.NOT_CLAIMED, Verdict.SKIPPED): ExitCode.CONFORMANT,
        (Verdict.NOT_CLAIMED,): ExitCode.INCONCLUSIVE,
        (Verdict.PASS, Verdict.NOT_MEASURED): ExitCode.INCONCLUSIVE,
        (Verdict.PASS, Verdict.INCONCLUSIVE): ExitCode.INCONCLUSIVE,
        (Verdict.PASS, Verdict.HARNESS_ERROR, Verdict.INCONCLUSIVE): ExitCode.FAULT,
        (Verdict.FAIL, Verdict.HARNESS_ERROR): ExitCode.NOT_CONFORMANT,
    }
    assert {seen: exit_code(seen) for seen in codes} == codes


def test_no_descriptor_leaks() -> None:
    before = len(os.listdir("/proc/self/fd"))
    runner = Runner(load_target(CONTROL), Options())
    runner.run_case(a_case(lambda stage: stage.worker().open().add_task("t")))
    runner.end()
    assert len(os.listdir("/proc/self/fd")) == before
