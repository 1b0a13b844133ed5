"""Ctrl-C and SIGTERM during a run over stdio: a valid partial report, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conformance.languages import LOG_STORE, python_adapter
from lychgate_tools.cli import main

WAIT_S = 120.0


def adapters_below(path: Path) -> list[str]:
    """Processes whose environment names the directory."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MARK={path}".encode() in environ.read_bytes():
                found.append(environ.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_reports_what_it_did(
    number: signal.Signals, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F3: exit code 130, a report that says it is not whole, no process, no directory of a case."""
    cases, report = tmp_path / "cases", tmp_path / "report"
    words = ["conform", "--level", "0", "--path", str(cases), "--report", str(report), "--"]
    process = subprocess.Popen(
        [sys.executable, "-m", "lychgate_tools.cli", *words, *python_adapter(LOG_STORE).words],
        env={**os.environ, "MARK": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + WAIT_S
    while not list(cases.glob("lychgate-run-*/lychgate-case-*")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(number)
    out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130, err
    assert b"Traceback" not in err and b"interrupted" in err
    (path,) = report.glob("*.json")
    said = json.loads(path.read_text())
    assert not said["complete"] and said["exit_code"] == 2
    assert main(["verify", str(path)]) == 0
    assert "stands" in capsys.readouterr().out
    assert list(cases.iterdir()) == [] and adapters_below(tmp_path) == []
