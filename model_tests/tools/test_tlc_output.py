"""The verdict rule on canned output: nothing that TLC was seen to say wrongly passes for true."""

from __future__ import annotations

import pytest

from lychgate_tools.tlc.output import Output, Verdict, judge


def said(code: int, text: str, severity: int = 0) -> str:
    return f"@!@!@STARTMSG {code}:{severity} @!@!@\n{text}\n@!@!@ENDMSG {code} @!@!@\n"


COMPLETED = said(2193, "Model checking completed. No error has been found.\n  Estimates of ...")
STATS = said(2199, "14 states generated, 10 distinct states found, 0 states left on queue.")
LEFT = said(2199, "1,400 states generated, 1,010 distinct states found, 7 states left on queue.")
DEPTH = said(2194, "The depth of the complete state graph search is 7.")
TEMPORAL = said(2212, "Implied-temporal checking--satisfiability problem has 1 branches.")
FINISHED = said(2267, "Finished checking temporal properties in 00s at 2026-11-30 12:26:13")
INVARIANT = said(2110, "Invariant Low is violated.", 1)
FIRST = said(2217, "1: <Initial predicate>\n/\\ n = 0\n/\\ held = {}\n", 4)
SECOND = said(
    2217,
    "2: <LockTry line 8, col 3 to line 13, col 16 of module Lock>\n/\\ n = 1\n/\\ held = {p1}\n",
    4,
)
STUTTER = said(2218, "3: Stuttering", 4)
BACK = said(2122, "2: Back to state: <B line 6, col 6 to line 6, col 35 of module Loop>\n", 4)


def verdict(
    text: str, code: int = 0, liveness: bool | None = False, stderr: str = "", temporal: str = ""
) -> Verdict:
    output = Output()
    for line in text.splitlines(keepends=True):
        output.feed(line)
    output.finish()
    return judge(output, code, stderr, liveness, temporal)


def test_a_pass_and_its_numbers() -> None:
    got = verdict(COMPLETED + STATS + DEPTH)
    assert got.said == "ok"
    assert (got.generated, got.distinct, got.depth) == (14, 10, 7)


@pytest.mark.parametrize(
    ("why", "text", "liveness"),
    [
        ("nothing at all", "", False),
        ("a time budget: completed, states left", COMPLETED + LEFT, False),
        ("no statistics", COMPLETED, False),
        ("rc 0 without the completion message", STATS + DEPTH, False),
        ("an error in a liveness property", said(2102, "Attempted", 1) + COMPLETED + STATS, False),
        ("a line that starts with Error:", "Error: something\n" + COMPLETED + STATS, False),
        ("liveness left out (-dfid)", COMPLETED + STATS, True),
        ("liveness set up and not finished", TEMPORAL + COMPLETED + STATS, True),
        ("liveness checked where none is declared", TEMPORAL + FINISHED + COMPLETED + STATS, False),
    ],
)
def test_false_greens(why: str, text: str, liveness: bool) -> None:
    """Each was seen with exit code 0, or would be easy to overlook."""
    assert verdict(text, 0, liveness).outcome == "error", why


def test_violation_with_exit_code_zero_is_no_verdict() -> None:
    """-continue gives exit code 0 with violations; neither is believed."""
    got = verdict(INVARIANT + FIRST + COMPLETED + STATS, 0)
    assert (got.outcome, got.kind) == ("error", "verdict")


@pytest.mark.parametrize("code", [1, 75, 150, 255])
def test_completed_with_an_odd_exit_code(code: int) -> None:
    assert verdict(COMPLETED + STATS, code).outcome == "error"


def test_liveness_passes_only_when_finished() -> None:
    assert verdict(TEMPORAL + FINISHED + COMPLETED + STATS, 0, True).said == "ok"
    assert verdict(COMPLETED + STATS, 0, None).said == "ok"


def test_invariant_by_name_with_its_trace() -> None:
    got = verdict(INVARIANT + FIRST + SECOND + LEFT, 12)
    assert got.said == "violates Low"
    assert [state.action for state in got.trace] == ["Initial predicate", "LockTry"]
    assert got.trace[1].module == "Lock"
    assert got.trace[1].values["n"] == 1
    assert got.loop_to is None


def test_violation_in_an_initial_state() -> None:
    """The state stands inside the message; the counter-example has one state."""
    text = said(2107, "Invariant Low is violated by the initial state:\n/\\ n = 9\n", 1)
    got = verdict(text, 12)
    assert got.said == "violates Low"
    assert [state.values for state in got.trace] == [{"n": 9}]


def test_action_property_by_name() -> None:
    text = said(2112, "Action property Shrink is violated.", 1)
    assert verdict(text + FIRST + SECOND + LEFT, 13).said == "violates Shrink"


def test_refinement_is_named_by_its_place_or_by_the_only_property() -> None:
    place = "line 9, col 17 to line 9, col 27 of module Abs"
    text = said(2112, f"Action property {place} is violated.", 1)
    assert verdict(text + FIRST + LEFT, 13).violated.startswith("line 9, col 17")
    assert verdict(text + FIRST + LEFT, 13, temporal="Refines").said == "violates Refines"


def test_temporal_violation_takes_the_only_property() -> None:
    text = TEMPORAL + said(2116, "Temporal properties were violated.\n", 1)
    tail = FINISHED + STATS
    stuttering = verdict(text + FIRST + SECOND + STUTTER + tail, 13, True, temporal="End")
    assert (stuttering.said, stuttering.loop_to, len(stuttering.trace)) == ("violates End", 0, 2)
    lasso = verdict(text + FIRST + SECOND + BACK + tail, 13, True)
    assert (lasso.violated, lasso.loop_to) == ("", 2)


def test_deadlock() -> None:
    text = said(2114, "Deadlock reached.", 1)
    assert verdict(text + FIRST + LEFT, 11).said == "violates Deadlock"


def test_a_violation_without_a_trace_is_no_verdict() -> None:
    assert verdict(INVARIANT + LEFT, 12).outcome == "error"


@pytest.mark.parametrize(
    ("kind", "text", "code", "stderr"),
    [
        ("memory", said(1001, "TLC ran out of memory.", 1), 255, ""),
        ("memory", "Terminating due to java.lang.OutOfMemoryError: Java heap space\n", 3, ""),
        ("memory", "", 1, "There is insufficient memory for the Java Runtime Environment"),
        ("killed", "", -9, ""),
        ("evaluation", said(1005, "stack overflow", 1), 255, ""),
        ("evaluation", said(2111, "Evaluating invariant Eval failed.\n...", 1) + FIRST, 76, ""),
        ("config", said(2229, "The invariant Nope is not defined", 1), 151, ""),
        ("parse", said(3002, "Parsing or semantic analysis failed.", 1), 150, ""),
        ("tool", "", 1, "Error: Could not find or load main class tlc2.TLC"),
    ],
)
def test_errors_have_kinds(kind: str, text: str, code: int, stderr: str) -> None:
    """A caller tells a fault of the machine from one of the spec."""
    got = verdict(text, code, stderr=stderr)
    assert (got.outcome, got.kind) == ("error", kind)
    assert got.detail and "\n" not in got.detail


def test_parse_error_says_where() -> None:
    loose = (
        "Parsing file Bad.tla\n***Parse Error***\n"
        'Encountered "Beginning of definition" at line 5, column 1\n'
        "Could not parse module Bad from file Bad.tla\n"
    )
    got = verdict(loose + said(3002, "Parsing or semantic analysis failed.", 1), 150)
    assert "line 5, column 1" in got.detail
    assert "module Bad" in got.detail


def test_nested_and_cut_off_messages() -> None:
    """TLC prints a message inside a message; a killed TLC leaves one open."""
    inner = "@!@!@STARTMSG 5006:0 @!@!@\nat line 3\n@!@!@ENDMSG 5006 @!@!@\n"
    got = verdict(f"@!@!@STARTMSG 1000:1 @!@!@\nexception: {inner}", 255)
    assert (got.kind, got.detail) == ("config", "at line 3")


def test_coverage_takes_the_last_table() -> None:
    early = said(2772, "<LockTry line 7, col 1 to line 7, col 10 of module Lock>: 1:2")
    late = said(2772, "<LockTry line 7, col 1 to line 7, col 10 of module Lock>: 6:8")
    (line,) = verdict(early + late + COMPLETED + STATS).coverage
    assert (line.module, line.action, line.distinct, line.generated) == ("Lock", "LockTry", 6, 8)


def test_progress_is_reported_while_it_runs() -> None:
    seen: list[int] = []
    output = Output(on_progress=seen.append)
    text = (
        "Progress(189) at ...: 2,293,445 states generated (9 s/min), "
        "776,838 distinct states found (9 ds/min), 9,628 states left on queue."
    )
    for line in said(2200, text).splitlines():
        output.feed(line)
    assert seen == [776838]
