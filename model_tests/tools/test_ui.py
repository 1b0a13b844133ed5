"""What a person sees: tables that fit, progress that says how long, names that are suggested."""

from __future__ import annotations

import io

import pytest

from lychgate_tools import ui
from lychgate_tools.ui import ExitCode, Progress, nearest, seconds, table, unknown

ROWS = [("Lock", "ok", 162, None), ("DeadTasks", "violates Mutex", 1234567, 7)]
HEADERS = ("model", "TLC says", "distinct", "trace")


def test_table_lines_up_numbers_to_the_right() -> None:
    lines = table(HEADERS, ROWS, columns=80).splitlines()
    assert lines[2].startswith("Lock       ok")
    assert lines[2].endswith("      162      -")
    assert lines[3].endswith("1,234,567      7")


@pytest.mark.parametrize("columns", [20, 30, 40])
def test_narrow_terminals_get_blocks(columns: int) -> None:
    """In 40 columns a row becomes lines of its own; nothing is cut and nothing empty is shown."""
    text = table(HEADERS, ROWS, columns=columns)
    assert "trace: -" not in text
    assert all(len(line) <= columns for line in text.splitlines())
    if columns > 26:
        assert "DeadTasks\n  TLC says: violates Mutex\n  distinct: 1,234,567\n  trace: 7" in text
    else:
        assert "DeadTasks\n  TLC says: violates\n    Mutex\n  distinct:\n    1,234,567\n" in text


def test_text_of_any_kind_is_only_shown() -> None:
    """What a terminal would act on, or no encoding holds, is escaped; the rest is as it was."""
    assert ui.plain("é a\n\x1b[31m\ud800") == "é a\\n\\x1b[31m\\ud800"


def test_long_text_is_wrapped_where_there_are_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has none: a line stays a line there."""
    text = "word " * 20 + "x" * 50
    assert all(len(line) <= 40 for line in ui.wrapped(text, "  ", "    ", columns=40))
    monkeypatch.delenv("COLUMNS", raising=False)
    assert ui.wrapped(text, stream=io.StringIO()) == [text]


def test_no_colour_in_a_pipe_nor_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" not in ui.colour("bad", "bad", io.StringIO())
    assert "\x1b[31m" in ui.colour("bad", "bad", Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert ui.colour("bad", "bad", Terminal()) == "bad"


def test_progress_says_rate_and_time_left() -> None:
    line = Progress("TLC", 2000, "states").line(500, 5.0, "now Lock")
    assert line == "TLC  500/2,000 states  100/s  15 s left  now Lock"
    assert "30 s left" in Progress("TLC", 2000).line(2000, 10.0, share=0.25)
    assert "left" not in Progress("TLC", 0).line(5, 1.0)
    assert Progress("TLC", 10).line(0, 0.0) == "TLC  0/10"


def test_progress_is_silent_at_first_and_plain_in_a_pipe() -> None:
    out = io.StringIO()
    with Progress("TLC", 10, stream=out) as progress:
        progress.update(3)
        progress.message("a line that stays")
    assert out.getvalue() == "a line that stays\n"


@pytest.mark.parametrize(
    ("value", "text"), [(0.84, "0.8 s"), (42.4, "42 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")]
)
def test_durations(value: float, text: str) -> None:
    assert seconds(value) == text


def test_unknown_names() -> None:
    assert nearest("Lokc", ["Lock", "Wal"]) == "; did you mean Lock?"
    assert nearest("zzz", ["Lock"]) == ""
    error = unknown("model", "zzz", ["Wal", "Lock"])
    assert error.message == "no model named 'zzz'; there are: Lock, Wal"
    assert error.code == ExitCode.USAGE
