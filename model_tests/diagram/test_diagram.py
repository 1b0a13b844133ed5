"""`lychgate diagram`: what it draws is TLC's graph, reduced."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lychgate_tools import diagram
from lychgate_tools.cli import main
from lychgate_tools.diagram import ANYWHERE, DIAGRAMS, Drawn
from lychgate_tools.manifest import load
from lychgate_tools.spec_dir import locate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "diagrams"


def test_every_diagram_is_of_a_quick_model_that_holds() -> None:
    """A picture of a broken design would teach it."""
    models = {model.name: model for model in load(locate(None).manifest).models}
    for drawn in DIAGRAMS.values():
        model = models[drawn.model]
        assert model.positive and model.time_class == "quick"


def test_arrows_from_most_places_become_one() -> None:
    """A crash may come anywhere: one arrow says it."""
    ring = {("a", "b"): {"B"}, ("b", "c"): {"C"}, ("c", "a"): {"A"}}
    falls = {(place, "down"): {"Crash"} for place in "abc"}
    reduced = diagram._reduced({**ring, **falls})
    assert (ANYWHERE, "down", ("Crash",)) in reduced
    assert len(reduced) == len(ring) + 1
    assert diagram._reduced(ring) == tuple((a, b, tuple(steps)) for (a, b), steps in ring.items())


def test_the_lock_is_taken_checked_and_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    """D10, D15, D24: as the spec has it, from TLC's own graph."""
    assert main(["diagram", "lock", "--json"]) == 0
    (drawn,) = json.loads(capsys.readouterr().out)
    arrows = {(it["from"], it["to"]): it["steps"] for it in drawn["arrows"]}
    assert drawn["initial"] == ["down"]
    assert arrows["LockTry", "CheckLock"] == ["LockTry"]
    assert arrows["CheckLock", "CloseLock"] == ["CheckLock", "FailLock"]
    assert arrows[ANYWHERE, "down"] == ["Kill"]
    assert ("OpenLock", "CheckLock") not in arrows


@pytest.mark.parametrize("form", ["text", "mermaid", "dot"])
def test_every_form_has_every_arrow(form: str) -> None:
    """A program's steps stand together; names with blanks are quoted."""
    arrows = (("idle", "start.Open", ("Call",)), ("start.Open", "not due", ("Open", "Fail")))
    text = diagram.FORMATS[form](Drawn("small", "a test", "None", ("idle",), arrows))
    assert text.count("->" if form != "mermaid" else "-->") == 2 + (form == "mermaid")
    for word in ("Call", "Fail", "not due"):
        assert word in text


def test_the_pictures_of_the_docs_are_of_this_spec() -> None:
    """Each carries a digest of what it was drawn from; the cheap ones are drawn again."""
    assert {path.stem for path in PAGE.glob("*.svg")} == set(DIAGRAMS)
    for name in ("lock", "journal", "sql-task"):
        svg = (PAGE / f"{name}.svg").read_text(encoding="utf-8")
        drawn = diagram.draw(name, locate(None))
        assert diagram.digest_in(svg) == diagram.digest(drawn), "lychgate diagram --format svg"


@pytest.mark.skipif(shutil.which("dot") is None, reason="no `dot` on PATH: install graphviz")
def test_a_picture_carries_what_it_was_drawn_from() -> None:
    """And no comment of the program that drew it, which differs by version."""
    drawn = Drawn("small", "a test", "None", ("idle",), (("idle", "busy", ("Call",)),))
    svg = diagram.as_svg(drawn)
    assert diagram.digest_in(svg) == diagram.digest(drawn)
    assert svg.count("<!--") == 1 and "Call" in svg and svg.rstrip().endswith("</svg>")


def test_mistakes_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown name, a place that cannot be written, no Graphviz."""
    assert main(["diagram", "lok"]) == 4
    assert "did you mean lock?" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["diagram", "lock", "--output", str(tmp_path / "file")]) == 4
    assert "cannot write" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert main(["diagram", "lock", "--format", "svg"]) == 2
    assert "apt-get install graphviz" in capsys.readouterr().err
