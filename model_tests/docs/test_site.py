"""`lychgate site`: complete, linked, searchable, and nothing of it comes from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conformance.browser import Browser

from lychgate_tools.cli import main
from lychgate_tools.site.build import slug
from lychgate_tools.site.links import broken
from lychgate_tools.ui import ExitCode

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site") / "made"
    assert main(["site", str(place)]) == ExitCode.OK
    return place


def test_every_page_is_there_and_in_the_navigation(site: Path) -> None:
    """One page for each of docs/, the README as the first; no link is broken."""
    index = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / f"{page.stem}.html").is_file()
        assert f'<li><a href="{page.stem}.html">' in index, page.name
    assert broken(site) == []


def test_what_the_links_show_is_in_the_site(site: Path) -> None:
    """Files of the checkout that a page links to are there as text, line by line."""
    shown = (site / "source" / "spec" / "Lock.tla.html").read_text(encoding="utf-8")
    assert '<span id="L1">-------' in shown and 'href="../../site.css"' in shown


def test_the_pages_say_nothing_that_html_takes_for_a_tag(site: Path) -> None:
    """`<br>` in tables is the only tag that a page may hold."""
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        text = re.sub(r"(?ms)^```.*?^```$|`[^`]*`", "", page.read_text(encoding="utf-8"))
        assert not set(re.findall(r"</?[a-zA-Z][^>\n]*>", text)) - {"<br>"}, page.name


def test_making_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An older site is replaced, what it had more is gone, and foreign files are left alone."""
    place = tmp_path / "made"
    assert main(["site", str(place), "--json"]) == ExitCode.OK
    assert json.loads(capsys.readouterr().out)["broken"] == []
    (place / "gone.html").write_text("<p>", encoding="utf-8")
    mark = place / "lychgate-site.txt"
    mark.write_text(f"{mark.read_text(encoding='utf-8')}gone.html\n", encoding="utf-8")
    assert main(["site", str(place)]) == ExitCode.OK
    assert not (place / "gone.html").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("", encoding="utf-8")
    assert main(["site", str(tmp_path / "full")]) == ExitCode.USAGE
    assert main(["site", str(tmp_path / "full" / "mine")]) == ExitCode.FAULT


def test_broken_links_are_found(tmp_path: Path) -> None:
    """A file, a place, and a resource from afar."""
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="#x"></a><a href="#y"></a><a href="b.html"></a><a href="a.html#z"></a>'
        '<a href="https://example.org/"></a><img src="https://example.org/i.png">',
        encoding="utf-8",
    )
    assert [it.partition(": ")[2] for it in broken(tmp_path)] == [
        "#y: no such place on the page",
        "b.html: no such file",
        "a.html#z: no such place on the page",
        "https://example.org/i.png would be fetched from afar",
    ]


@pytest.mark.parametrize(
    ("heading", "name"),
    [("What a crash may lose", "what-a-crash-may-lose"), ("Time: `tick`, sync", "time-tick-sync")],
)
def test_headings_have_the_ids_of_the_repository(heading: str, name: str) -> None:
    assert slug(heading) == name


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.end()


def key(browser: Browser, name: str, text: str = "") -> None:
    browser.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, text=text)
    browser.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name)


def test_search_by_keyboard(site: Path, browser: Browser) -> None:
    """`/` begins, words narrow down, arrows choose, Enter goes there, Escape ends it."""
    browser.resize(1200, 900)
    browser.open(site / "index.html")
    key(browser, "/", "/")
    browser.wait_for("document.activeElement.name === 'q'")
    browser.call("Input.insertText", text="lock file never delete")
    first = "document.querySelector('#found a')"
    browser.wait_for(f"{first}?.getAttribute('href') === 'guide.html#the-lock-file'")
    key(browser, "ArrowDown")
    browser.wait_for("document.querySelector('#found [aria-selected]')?.id === 'found-0'")
    assert browser.js("document.activeElement.getAttribute('aria-activedescendant')") == "found-0"
    browser.js(f"{first}.click()")
    browser.wait_for("location.href.endsWith('guide.html#the-lock-file')")
    browser.wait_for("document.readyState === 'complete'")
    key(browser, "/", "/")
    browser.wait_for("document.activeElement.name === 'q'")
    browser.call("Input.insertText", text="zzzz")
    browser.wait_for("document.querySelector('#found').textContent === 'nothing found'")
    key(browser, "Escape")
    browser.wait_for("document.querySelector('#found').hidden")
    assert browser.errors == []


@pytest.mark.parametrize("width", [320, 390, 800, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_every_screen(width: int, scheme: str, site: Path, browser: Browser) -> None:
    """No page is wider than a phone, in either scheme; a dark one is dark."""
    browser.resize(width, 800)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=features)
    for page in ("index", "guide", "traceability", "decisions"):
        browser.open(site / f"{page}.html", f"?{width}{scheme}")
        html = "document.documentElement"
        assert browser.js(f"{html}.scrollWidth - {html}.clientWidth") <= 0, page
    paper = browser.js("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", paper))) < 200) == (scheme == "dark")
    assert browser.errors == []
