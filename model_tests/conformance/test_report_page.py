"""The HTML report in a real browser: it filters, links, fits a phone, and says no error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conformance.browser import Browser
from lychgate_conformance import Options, load_target, run
from lychgate_conformance._html import as_html

IDS = ("L0-ADD-001", "L0-ADD-003", "L0-DEAD-005", "L0-DEAD-014", "L0-DMG-001")
SHOWN = "[...document.querySelectorAll('tr[data-verdict]')].filter(it => it.offsetParent)"
NAMES = f"{SHOWN}.map(it => it.id).join(' ')"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cases that pass, two that fail, one that is not claimed."""
    spec = "lychgate_conformance.mutants.dead:NewestFirst"
    report = run(load_target(spec), Options(case_ids=IDS))
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(as_html(report), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.end()


def test_the_page_shows_trouble_first_and_filters(page: Path, browser: Browser) -> None:
    browser.open(page)
    assert browser.js(NAMES) == "L0-DEAD-005 L0-DEAD-014"
    assert browser.js("document.querySelector('output').textContent") == "2 of 5 cases"
    browser.js("document.querySelector('input[value=pass]').click()")
    assert browser.js(NAMES) == "L0-ADD-001 L0-ADD-003 L0-DEAD-005 L0-DEAD-014"
    browser.js("document.querySelector('input[value=fail]').click()")
    browser.js("document.querySelector('[name=text]').focus()")
    browser.call("Input.insertText", text="l0-add-003")
    assert browser.js(NAMES) == "L0-ADD-003"
    assert browser.js("document.querySelector('output').textContent") == "1 of 5 cases"
    assert browser.errors == []


def test_a_link_leads_to_a_case_that_the_filter_hides(page: Path, browser: Browser) -> None:
    browser.open(page.with_name("report.html"), "?again#L0-DMG-001")
    assert "L0-DMG-001" in browser.js(NAMES)
    browser.js("addEventListener('hashchange', () => { window.seen = " + NAMES + " })")
    browser.js("location.hash = '#L0-ADD-001'")
    browser.wait_for("window.seen")
    assert "L0-ADD-001" in browser.js("window.seen")
    assert browser.errors == []


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_screen(width: int, page: Path, browser: Browser) -> None:
    browser.resize(width, 800)
    browser.open(page, f"?width={width}")
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert browser.js(wide) <= 0
    assert browser.js(NAMES) == "L0-DEAD-005 L0-DEAD-014"
    assert browser.errors == []


def test_the_data_of_the_run_is_in_the_page(page: Path, browser: Browser) -> None:
    browser.open(page, "?data")
    said = browser.js("JSON.parse(document.getElementById('report').textContent).executed.join()")
    assert said == "L0-ADD-001,L0-ADD-003,L0-DEAD-005,L0-DEAD-014"
