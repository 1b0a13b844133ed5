"""`lychgate dead`: what an operator sees and changes, on disk and in a database."""

from __future__ import annotations

import fcntl
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tools import dead_stores
from tools.dead_stores import backend, bury, dead_ids, make, opened

from lychgate import Disk, Undecodable, _lock
from lychgate_tools.cli import main
from lychgate_tools.ui import ExitCode

Run = Callable[..., tuple[int, list[dict[str, object]]]]


@pytest.fixture(params=dead_stores.KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store."""
    return make(request.param, tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command with --json: exit code and the lines of standard output."""

    def call(*words: str) -> tuple[int, list[dict[str, object]]]:
        capsys.readouterr()
        code = main(["dead", *words, "--json"])
        return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return call


def ids(lines: list[dict[str, object]]) -> list[object]:
    return [line["task_id"] for line in lines]


def test_pages_survive_changes(target: str, run: Run) -> None:
    """D16: whoever is there all the time is shown once, whatever goes and comes meanwhile."""
    bury(target, *"abcdefghi")
    seen: list[object] = []
    _, page = run("list", target, "--limit", "3")
    seen += ids(page)
    with backend(target) as worker:
        worker.remove_dead_tasks(["a", "c", "e"])  # shown, the last shown, not shown
        worker.add_dead_task("later", None, "no", "T", 1)
    while page:
        _, page = run("list", target, "--limit", "3", "--cursor", str(page[-1]["cursor"]))
        seen += ids(page)
    assert len(seen) == len(set(seen)) and {"b", "d", "f", "g", "h", "i"} <= set(seen)
    assert seen[-1] == "later"


def test_filters(target: str, run: Run) -> None:
    """D30: by class, error and time, in any combination; a text is found in the context as well."""
    bury(target, "a", error=ValueError("x"))
    bury(target, "b", error=TimeoutError("x"), name="mail.send")
    bury(target, "c", error=TimeoutError("needle"), name="mail.read")
    time_of_b = run("show", target, "b")[1][0]["failed_at"]
    for words, found in [
        (["--class", "mail.*"], ["b", "c"]),
        (["--class", "shop.send", "--class", "mail.read"], ["a", "c"]),
        (["--error", "Timeout*", "--class", "*.send"], ["b"]),
        (["--since", str(time_of_b)], ["b", "c"]),
        (["--until", str(time_of_b)], ["a"]),
        (["--since", "1h", "--until", "2990-01-01"], ["a", "b", "c"]),
        (["--since", "2990-01-01T00:00:00+02:00"], []),
    ]:
        assert sorted(ids(run("list", target, *words)[1]), key=str) == found, words
        assert run("count", target, *words)[1] == [{"records": len(found)}]
        assert ids(run("export", target, *words)[1]) == found
        assert ids(run("retry", target, "--dry-run", *words)[1]) == found
    assert ids(run("find", target, "needle")[1]) == ["c"]
    assert ids(run("find", target, '["a"]')[1]) == ["a"]
    by = {"by": ["--by", "error"], "class": ["--by", "class", "--class", "mail.send"]}
    assert {"error": "TimeoutError", "records": 2} in run("count", target, *by["by"])[1]
    assert run("count", target, *by["class"])[1] == [{"class": "mail.send", "records": 1}]


def test_show_has_every_record_of_an_id(target: str, run: Run) -> None:
    """D26: in the order of the store; what is not there is exit code 1."""
    bury(target, "a", error="first")
    bury(target, "b", "a", error="second")
    code, lines = run("show", target, "a", "nobody")
    assert code == ExitCode.SHORT
    assert [line["error_message"] for line in lines] == ["first", "second"]


def test_remove_and_purge(target: str, run: Run) -> None:
    """D12, D26: all of an id, all that a filter names; a dry run changes nothing."""
    bury(target, *"abcab")
    assert ids(run("remove", target, "a", "--dry-run")[1]) == ["a", "a"]
    assert run("remove", target, "a")[1] == [{"removed": 2}]
    assert run("remove", target, "a", "b")[0] == ExitCode.SHORT
    bury(target, "m", name="mail.send")
    assert ids(run("purge", target, "--class", "mail.*", "--dry-run")[1]) == ["m"]
    assert run("purge", target, "--class", "mail.*")[1] == [{"removed": 1}]
    assert dead_ids(target) == ["c"]
    assert run("purge", target, "--all") == (ExitCode.OK, [{"removed": 1}])
    assert dead_ids(target) == []


def test_only_what_was_seen_is_removed(target: str) -> None:
    """D17, U8: a record that came after the look stays, even of the same id."""
    bury(target, "a", "b")
    with opened(target) as store:
        refs = [record.ref for record in store.records()]
        bury(target, "a", error="newer")
        assert store.remove(refs) == 2
    with backend(target) as worker:
        assert [dead.error_message for dead in worker.list_dead_tasks()] == ["newer"]


def test_reading_keeps_no_worker_waiting(target: str) -> None:
    """D14: the lock is not held while records are looked at, and they are those of one moment."""
    bury(target, "a", "b")
    with opened(target) as store:
        records = store.records()
        first = next(records)
        bury(target, "c")
        with backend(target) as worker:
            worker.remove_dead_tasks(["a"])
        left = [record.dead.task_id for record in records]
        assert (first.dead.task_id, left) in [("a", ["b"]), ("a", [])]
    assert dead_ids(target) == ["b", "c"]


def test_export_and_import_lose_nothing(
    target: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D25, D30: any id, text and payload, through both kinds of store and back, and only once."""
    with backend(target) as worker:
        deep = {"deep": [1, 2.5, None, "é"]}
        worker.add_dead_task("é\n:\0\ud800", deep, ValueError("é\n"), "T", 1)
        worker.add_dead_task("raw", Undecodable("pickle", bytes(range(256))), "no", "T", 0)
        worker.add_dead_task("bad", Undecodable("json", b"{broken"), "no", "T", 2**40)
        before = worker.list_dead_tasks()
    exported = tmp_path / "dead.jsonl"
    assert main(["dead", "export", target, "--output", str(exported)]) == ExitCode.OK
    for kind in dead_stores.KINDS:
        other = make(kind, tmp_path, "other")
        assert run("import", other, str(exported), "--dry-run")[1][0]["added"] == 3
        assert dead_ids(other) == []
        done = {"added": 3, "present": 0, "wrong": 0, "dry_run": False}
        assert run("import", other, str(exported)) == (ExitCode.OK, [done])
        again = {"added": 0, "present": 3, "wrong": 0, "dry_run": False}
        assert run("import", other, str(exported)) == (ExitCode.OK, [again])
        with backend(other) as worker:
            assert worker.list_dead_tasks() == before
        capsys.readouterr()
        assert main(["dead", "export", other]) == ExitCode.OK
        assert capsys.readouterr().out == exported.read_text()


@pytest.mark.parametrize(
    "change",
    ["", "{", "[]", {"task_id": ""}, {"attempts": "1"}, {"attempts": -1}, {"failed_at": math.inf},
     {"failed_at": None}, {"error_class": 3}, {"codec": "x", "data": "?", "context": ...},
     {"error_message": "x" * 9000}],
)  # fmt: skip
def test_import_of_a_wrong_line(target: str, run: Run, tmp_path: Path, change: object) -> None:
    """F3: it is named and left out, the others are stored, and the exit code is 1."""
    bury(target, "a")
    assert main(["dead", "export", target, "--output", str(tmp_path / "x")]) == ExitCode.OK
    good = (tmp_path / "x").read_text()
    if isinstance(change, dict):
        fields = {**json.loads(good), **change}
        change = json.dumps({name: value for name, value in fields.items() if value is not ...})
    (tmp_path / "x").write_text(f"{change}\n{good}")
    code, (said,) = run("import", make("disk", tmp_path, "other"), str(tmp_path / "x"))
    assert (code, said["added"], said["wrong"]) == (ExitCode.SHORT, 1, 1)


def test_verify_names_file_and_offset(run: Run, tmp_path: Path) -> None:
    """D11, D16, F3: a bad line, a foreign one, a lie, a torn end; and nothing is written."""
    target = make("disk", tmp_path)
    bury(target, "a", "b")
    assert run("verify", target) == (ExitCode.OK, [])
    data = tmp_path / "s" / "deferred-dead_tasks-0"
    good = data.read_bytes()
    first = good.index(b"\n") + 1
    data.write_bytes(good[:20] + b"#" + good[21:] + b"torn")
    os.unlink(tmp_path / "s" / "deferred-dead_tasks.lock")
    before = {path: (path.read_bytes(), path.stat()) for path in (tmp_path / "s").iterdir()}
    code, found = run("verify", target)
    assert code == ExitCode.SHORT
    assert [(it["offset"], it["bytes"]) for it in found] == [(0, first), (len(good), 4)]
    assert found[0]["where"] == str(data)
    after = {path: (path.read_bytes(), path.stat()) for path in (tmp_path / "s").iterdir()}
    assert {p: (b, s.st_mtime_ns) for p, (b, s) in after.items()} == {
        p: (b, s.st_mtime_ns) for p, (b, s) in before.items()
    }
    assert ids(run("list", target)[1]) == ["b"]
    assert run("export", target)[0] == ExitCode.SHORT  # it is not all that was there


def test_a_lock_that_stays_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """D14: the command waits as long as any caller, then says so; nothing is changed."""
    monkeypatch.setattr(_lock, "LOCK_ATTEMPTS_MAX", 3)
    target = make("disk", tmp_path)
    with open(tmp_path / "s" / "deferred-dead_tasks.lock", "rb+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["dead", "list", target]) == ExitCode.FAULT
    assert "stayed locked" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["list", "nowhere"], "no dead tasks in nowhere"),
        (["list", "s", "--prefix", "other-"], "another --prefix?"),
        (["list", "sqlite:///nowhere.db"], "lychgate sql apply"),
        (["list", "tape://x"], "no database is known"),
        (["list", "s", "--cursor", "7"], "is no cursor"),
        (["list", "s", "--since", "yesterday"], "is no time"),
        (["list", "s", "--limit", "0"], "at least 1"),
        (["purge", "s"], "name filters, or say --all"),
        (["purge", "s", "--all", "--class", "x"], "exclude each other"),
        (["retry", "s"], "name ids or filters, or say --all"),
        (["retry", "s", "a", "--all"], "exclude each other"),
        (["retry", "s", "--all", "--rate", "0"], "more than 0"),
        (["import", "s", "nowhere"], "cannot read nowhere"),
        (["export", "s", "--output", "no/where"], "name another --output"),
        (["bury", "s"], "invalid choice"),
    ],
)
def test_wrong_command_lines(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """D5: one line that says what to do; nothing is made."""
    monkeypatch.chdir(tmp_path)
    make("disk", tmp_path)
    assert main(["dead", *words]) in (ExitCode.USAGE, ExitCode.FAULT)
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 1 and says in err[0], err
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize("action", ["list", "show", "count", "verify"])
def test_narrow_and_plain(
    action: str, target: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """D25: 40 columns are enough, and no text of a task reaches the terminal as a command."""
    monkeypatch.setenv("COLUMNS", "40")
    task_id = "an-id-that-is-longer-than-any-terminal-is-wide-" * 3
    bury(target, task_id, error=ValueError("\x1b[31m red " * 30), name="a.b" * 30)
    capsys.readouterr()
    words = {"show": [task_id], "count": ["--by", "class"]}.get(action, [])
    assert main(["dead", action, target, *words]) == ExitCode.OK
    out = capsys.readouterr().out
    assert "\x1b" not in out and all(len(line) <= 40 for line in out.splitlines()), out


def test_a_locale_without_the_character(tmp_path: Path) -> None:
    """D25: a terminal that cannot show it gets an escape, not a traceback."""
    with Disk(tmp_path / "s") as disk:
        disk.add_dead_task("é\ud800", None, "no", "T", 1)
    command = [sys.executable, "-m", "lychgate_tools.cli", "dead", "list", str(tmp_path / "s")]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=True)
    assert r"\xe9\ud800" in done.stdout
