"""`lychgate inspect`: explains every file, damaged ones too, and never writes (L4, L15, F3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from delivery.delivery_damage import COMPACTED, MANY, SEGMENT, WIDE, made

from lychgate import Disk
from lychgate_tools.cli import main
from lychgate_tools.inspect import explain

SCRIPT = [*MANY, "quarantine"]


def write(directory: Path, files: dict[str, bytes]) -> list[Path]:
    paths = []
    for name, data in files.items():
        path = directory / Path(name).name
        path.write_bytes(data)
        paths.append(path)
    return paths


def test_every_file_of_a_queue(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """L15: each file is explained, nothing in it makes no sense, and no byte changes."""
    files = made([*COMPACTED, "claim", "quarantine"])
    for path in write(tmp_path, files):
        before = path.read_bytes()
        assert main(["inspect", str(path)]) == 0, capsys.readouterr().out
        assert path.read_bytes() == before
    shown = capsys.readouterr().out
    for word in ("generation 1", "item 1, event 1", "quarantine", "reason why", "marker", "boot-1"):
        assert word in shown, word


def test_every_kind_of_record(tmp_path: Path) -> None:
    """L2: type, number, event and fields of each record."""
    (path,) = [p for p in write(tmp_path, made(SCRIPT, WIDE)) if p.name in SEGMENT]
    kind, rows = explain(path, path.name)
    assert kind == "segment"
    assert [row.what for row in rows] == ["item", "item", *["claim", "retry"] * 2, "claim",
                                          "quarantine"]
    assert sum(row.size for row in rows) == path.stat().st_size


def test_cut_and_flipped_everywhere(tmp_path: Path) -> None:
    """L4: at any cut and any flipped byte it says where sense ends, and what stands behind."""
    data = made(SCRIPT, WIDE)[SEGMENT]
    path = tmp_path / Path(SEGMENT).name
    path.write_bytes(data)
    whole = explain(path, path.name)[1]
    starts = {row.offset for row in whole}
    for size in range(0, len(data), 7):
        path.write_bytes(data[:size])
        rows = explain(path, path.name)[1]
        assert all(row.ok for row in rows) == (size in starts), size
        assert sum(row.size for row in rows) == size
    for at in range(0, len(data), 5):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        rows = explain(path, path.name)[1]
        bad = [row for row in rows if not row.ok]
        assert len(bad) == 1 and bad[0].offset <= at < bad[0].offset + bad[0].size
        assert len(rows) == len(whole), "every other record is still shown"


def test_json_and_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """L15: --json, exit code 1 for damage, 3 for a missing file, --as for a renamed one."""
    path = tmp_path / "copy"
    path.write_bytes(made(SCRIPT, WIDE)[SEGMENT] + b"torn")
    assert main(["inspect", str(path)]) == 1
    assert "give --as NAME" in capsys.readouterr().out
    assert main(["inspect", "--json", "--as", Path(SEGMENT).name, str(path)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "segment" and told["rows"][-1]["what"] == "no record"
    assert "torn" in told["rows"][-1]["detail"]
    assert main(["inspect", str(tmp_path / "nowhere")]) == 3
    assert main(["inspect"]) == 4
    path.write_bytes(b"")
    assert main(["inspect", str(path)]) == 1
    path.write_bytes(made([])["q/queue.manifest"][:30])
    assert main(["inspect", str(path)]) == 1
    assert "no manifest" in capsys.readouterr().out


def test_files_of_the_disk_backend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """D8, D16, W1: WAL, dead tasks and lock file; a torn and a bad line are told."""
    with Disk(tmp_path, fsync_frequency=0) as disk:
        key = disk.add_task({"n": 1})
        disk.add_task({"n": 2}, publish_at=5.0, task_id="second")
        disk.remove_task(key)
        disk.add_dead_task("dead-1", {}, ValueError("x"), "cls", 3)
        for path in sorted(tmp_path.iterdir()):
            assert main(["inspect", str(path)]) == 0
        (wal,) = tmp_path.glob("deferred-0-*")
        (tmp_path / "deferred-dead_tasks-0.tmp").write_bytes(b"torn")
    shown = capsys.readouterr().out
    for word in ("add", "rem", "due at 5.0", "dead-1", "in boot"):
        assert word in shown, word
    assert main(["inspect", str(tmp_path / "deferred-dead_tasks-0.tmp")]) == 1
    assert "torn line" in capsys.readouterr().out
    wal.write_bytes(b"00000000:add:a:0:null\n" + wal.read_bytes())
    assert main(["inspect", str(wal)]) == 1
    (tmp_path / "renamed").write_bytes(wal.read_bytes().partition(b"\n")[2])
    assert main(["inspect", str(tmp_path / "renamed")]) == 0
