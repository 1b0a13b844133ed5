"""The trace page in a real browser: steps, links, outcomes, violations, keys, print, size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conformance.browser import Browser
from pages.lesson_traces import made

from lychgate_tools.page.document import Builder, Document, Lanes, Step, piece
from lychgate_tools.page.html import as_html

STEP = "document.querySelector('.row[aria-current]').querySelector('.n').textContent"
WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
LONG = 10_000


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.end()


def page(document: Document, tmp_path_factory: pytest.TempPathFactory, name: str) -> Path:
    path = tmp_path_factory.mktemp("page") / f"{name}.html"
    path.write_text(as_html(document), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = "rename-without-directory-fsync"
    return page(made(name).document, tmp_path_factory, name)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three workers and 10,000 steps, one of which is broken."""
    made = Builder(title="long", verdict="It is long.", holds=False, source="engine")
    made.invariant("promise", "what was said", "")
    made.object("i1", "file", "inode 1")
    for number in range(3):
        made.worker(f"w{number}", f"worker {number}")
    for n in range(LONG):
        record = [piece("record", f"r{n}")]
        verdict = "broken" if n == 7_777 else "holds"
        step = Step("AppendRecord", "write", f"w{n % 3}", "write(2)", f"record {n}",
                    verdicts=[verdict])  # fmt: skip
        made.add(step, {"i1": Lanes((), record, (record, None))})
    return page(made.document(), tmp_path_factory, "long")


def key(browser: Browser, name: str) -> None:
    text = {"text": name} if len(name) == 1 else {}
    browser.call("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
    browser.call("Input.dispatchKeyEvent", type="keyUp", key=name)


def text(browser: Browser, selector: str) -> Any:
    return browser.js(f"document.querySelector({json.dumps(selector)}).innerText")


def test_keys_step_through_a_trace(lesson: Path, browser: Browser) -> None:
    document = made("rename-without-directory-fsync").document
    browser.open(lesson)
    first = document["meta"]["begin"]
    assert browser.js(STEP) == str(first)
    key(browser, "ArrowRight")
    assert browser.js(STEP) == str(first + 1)
    assert document["steps"][first + 1]["action"] in text(browser, "#now")
    assert browser.js("location.hash") == f"#step={first + 1}"
    key(browser, "Home")
    assert browser.js(STEP) == "0"
    key(browser, "End")
    assert browser.js(STEP) == str(len(document["steps"]) - 1)
    assert "What the crash may leave" in text(browser, "#crash")
    assert "step" in text(browser, "#live") or browser.js("live.textContent").startswith("step")
    assert browser.errors == []


def test_a_link_leads_to_a_step_both_ways(lesson: Path, browser: Browser) -> None:
    browser.open(lesson, "?again#step=17")
    assert browser.js(STEP) == "17"
    browser.js("location.hash = '#step=3'")
    browser.wait_for(f"{STEP} === '3'")
    browser.js("document.querySelector('[data-go=on]').click()")
    assert browser.js("location.hash") == "#step=4"
    assert browser.errors == []


def test_it_finds_the_violation_and_switches_outcomes(lesson: Path, browser: Browser) -> None:
    """D12: the removed record is back in the outcome that the page shows first, not in all."""
    browser.open(lesson, "?violation")
    key(browser, "n")
    assert "broken" in text(browser, "#now")
    assert "a removed record came back: p" in text(browser, "#outcome")
    seen = {text(browser, "#outcome strong")}
    for _ in range(browser.js("document.querySelectorAll('#crash button').length") - 1):
        key(browser, "o")
        seen.add(text(browser, "#outcome strong"))
        pressed = "document.querySelectorAll('#crash [aria-pressed=true]').length"
        assert browser.js(pressed) == 1
    assert len(seen) == 2 and any(it.startswith("✓") for it in seen)
    key(browser, "n")
    assert "broken" in text(browser, "#now"), "the only one is the next one as well"
    assert browser.errors == []


def test_three_lanes_moves_and_sources(lesson: Path, browser: Browser) -> None:
    document = made("rename-without-directory-fsync").document
    steps = [it["action"] for it in document["steps"]]
    browser.open(lesson, f"?lanes#step={steps.index('RenameStaging')}")
    lanes = browser.js("[...document.querySelectorAll('.file:first-child h4')].length")
    assert lanes == 3
    assert "process memory → OS cache" in text(browser, ".file .moved")
    shown = browser.js("document.querySelectorAll('.file').length")
    key(browser, "f")
    assert browser.js("document.querySelectorAll('.file').length") > shown
    browser.js("document.querySelector('#source button').click()")
    assert "RenameStaging(w, f) ==" in text(browser, "#excerpt mark")
    assert browser.errors == []


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_screen(width: int, lesson: Path, browser: Browser) -> None:
    browser.resize(width, 800)
    browser.open(lesson, f"?width={width}#step=33")
    assert browser.js(WIDE) <= 0
    browser.resize(1280, 800)
    assert browser.errors == []


def test_a_table_for_print_and_screen_readers(lesson: Path, browser: Browser) -> None:
    document = made("rename-without-directory-fsync").document
    browser.open(lesson, "?table")
    assert browser.js("document.getElementById('rows').ariaRowCount") == str(len(document["steps"]))
    browser.js("dispatchEvent(new Event('beforeprint'))")
    assert browser.js("document.querySelectorAll('#table tbody tr').length") == len(
        document["steps"]
    )
    assert text(browser, "#table").count("BROKEN") >= 1
    assert browser.errors == []


def test_the_data_can_be_taken_away(lesson: Path, browser: Browser) -> None:
    browser.open(lesson, "?data")
    data = browser.js("document.getElementById('trace').textContent")
    assert json.loads(data) == made("rename-without-directory-fsync").document
    browser.js("addEventListener('click', (it) => it.preventDefault(), true); download_.click()"
               .replace("download_", "document.getElementById('download')"))  # fmt: skip
    assert browser.js("document.getElementById('download').href").startswith("blob:")
    assert browser.errors == []


def test_ten_thousand_steps_show_a_few_rows(long: Path, browser: Browser) -> None:
    """Only rows in sight exist, wherever the page is, and stepping far costs one state."""
    browser.open(long)
    count = "document.querySelectorAll('.row').length"
    for place, number in (("Home", 0), ("End", LONG - 1), ("n", 7_777)):
        key(browser, place)
        assert browser.js(STEP) == str(number)
        assert 10 < browser.js(count) < 100
        assert f"r{number}" in text(browser, ".file")
    order = "[...document.querySelectorAll('.row .n')].map((it) => Number(it.textContent))"
    for place in ("PageUp", "ArrowDown", "PageUp"):
        key(browser, place)
        numbers = browser.js(order)
        assert numbers == sorted(numbers) and len(numbers) < 100
    assert browser.js("document.querySelectorAll('.track i').length") == 3
    assert browser.errors == []
