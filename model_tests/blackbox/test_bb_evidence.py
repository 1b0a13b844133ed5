"""A failing image stands in the report and can be put before the adapter again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lychgate_conformance import Options, Verdict, load_target, run
from lychgate_conformance._report import as_json
from lychgate_conformance._schema import load
from lychgate_conformance.blackbox._evidence import image_from
from lychgate_conformance.blackbox._strace import strace_path
from lychgate_conformance.lab._image import DIRECTORY, Symlink, image_of
from lychgate_tools.cli import main

MUTANT = "lychgate_conformance.mutants.durable:DeadNotFsynced"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in which the dead task that was acknowledged is lost."""
    if strace_path() is None:
        pytest.skip("needs strace: install the package of that name")
    found = run(load_target(MUTANT), Options(case_ids=("L3-DLQ-001",)))
    assert found.results[0].verdict is Verdict.FAIL
    path = tmp_path_factory.mktemp("report") / "report.json"
    path.write_text(json.dumps(as_json(found)))
    return path


Captured = pytest.CaptureFixture[str]


def test_the_image_is_put_before_the_adapter_again(
    report: Path, tmp_path: Path, capsys: Captured
) -> None:
    """D17: the same bytes, and the same is seen; the files can be had as well."""
    (result,) = json.loads(report.read_text())["results"]
    digest = result["image"]["digest"]
    assert f"image {digest}:" in result["message"]
    place = tmp_path / "image"
    words = ["replay", str(report), "--image", digest[:6], "--write", str(place), "--json"]
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["same"] and said["digest"] == digest and said["case"] == "L3-DLQ-001"
    assert (place / "store" / "deferred-dead").read_bytes() == b""
    assert main(words) == 4 and "is not empty" in capsys.readouterr().err


def test_what_is_seen_otherwise_is_told(report: Path, tmp_path: Path, capsys: Captured) -> None:
    changed = json.loads(report.read_text())
    image = changed["results"][0]["image"]
    image["seen"] = "dead=['a'] waiting=[]"
    other = tmp_path / "other.json"
    other.write_text(json.dumps(changed))
    assert main(["replay", str(other), "--image", image["digest"]]) == 1
    shown = capsys.readouterr().out
    assert "then: dead=['a'] waiting=[]\nnow:  dead=[] waiting=[]\nnot as in the report" in shown


def test_an_unknown_digest_is_refused(report: Path, capsys: Captured) -> None:
    assert main(["replay", str(report), "--image", "zz"]) == 4
    assert "there are: " in capsys.readouterr().err


def test_a_report_with_a_strange_image_is_none(report: Path) -> None:
    changed = json.loads(report.read_text())
    assert load("report-1").problem(changed) is None
    del changed["results"][0]["image"]["seen"]
    assert load("report-1").problem(changed) is not None


def test_every_kind_of_file_is_kept() -> None:
    entry: Callable[..., dict[str, str]] = dict
    found = {
        "entries": [
            entry(path="s"), entry(path="s/a", bytes="AP8="), entry(path="s/l", target="a")
        ],
        "links": [],
    }  # fmt: skip
    assert image_from(found) == image_of({"s": DIRECTORY, "s/a": b"\0\xff", "s/l": Symlink("a")})
