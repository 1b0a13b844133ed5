"""What TLC printed (`-tool`), turned into a verdict that can be trusted.

TLC's exit code alone proves nothing: rc 0 was seen with violations (`-continue`), with unexplored
states (a time budget, an error inside a liveness property) and with liveness left out (`-dfid`).
A run is a pass only if all of this holds:

  * the exit code is 0;
  * message 2193 says "Model checking completed. No error has been found.";
  * the final statistics say "0 states left on queue.";
  * no message has the severity of an error, and no line starts with "Error:";
  * where the model has a liveness property, TLC set it up (2212) and finished it (2267).

A violation is believed only if message and exit code agree. Everything else is an error, with the
kind that the caller can act on: `parse`, `config`, `memory`, `killed`, `timeout`, `evaluation`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from lychgate_tools.tlc.values import Value, parse_state

_START = re.compile(r"@!@!@STARTMSG (\d+):(\d+) @!@!@")
_END = re.compile(r"@!@!@ENDMSG (\d+) @!@!@")
_STATS = re.compile(
    r"([\d,]+) states generated[^,]*(?:, | \([^)]*\), )([\d,]+) distinct states found"
    r"(?: \([^)]*\))?, ([\d,]+) states left on queue"
)
_COVERED = re.compile(r"<(\S+) line (\d+), .* of module (\S+?)>: (\d+):(\d+)")
_STEP = re.compile(r"\d+: <?(Initial predicate|\S+)(?:.* of module (\S+?)>)?")

_ERROR, _BUG = 1, 2  # severities of TLC's message codes


@dataclass(frozen=True)
class Message:
    code: int
    severity: int
    text: str


@dataclass(frozen=True)
class TraceState:
    """One state of a counter-example and the action that led to it."""

    action: str  # "Initial predicate" for the first
    module: str
    values: dict[str, Value]


@dataclass(frozen=True)
class Coverage:
    """How often an action was taken: new states it found, steps it made."""

    module: str
    action: str
    distinct: int
    generated: int


@dataclass
class Output:
    """Everything that a run of TLC said, by message; fed line by line while it runs."""

    messages: list[Message] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)  # lines outside of any message
    on_progress: Callable[[int], None] | None = None  # called with the distinct states so far
    _open: list[tuple[int, int, list[str]]] = field(default_factory=list)

    def feed(self, line: str) -> None:
        """One line. Messages nest: TLC prints the cause of an exception inside the exception."""
        line = line.rstrip("\r\n")
        start, end = _START.search(line), _END.search(line)
        if start is not None:
            self._keep(line[: start.start()])
            self._open.append((int(start[1]), int(start[2]), []))
        elif end is not None and self._open:
            self._keep(line[: end.start()])
            self._close()
        else:
            self._keep(line)

    def finish(self) -> None:
        """Call once, after the last line: a message that was cut off counts as said."""
        while self._open:
            self._close()

    def _keep(self, text: str) -> None:
        if self._open:
            self._open[-1][2].append(text)
        elif text.strip():
            self.loose.append(text)

    def _close(self) -> None:
        code, severity, lines = self._open.pop()
        message = Message(code, severity, "\n".join(lines).strip("\n"))
        self.messages.append(message)
        if code == 2200 and self.on_progress is not None:
            found = _STATS.search(message.text)
            if found is not None:
                self.on_progress(_int(found[2]))

    def first(self, *codes: int) -> Message | None:
        return next((message for message in self.messages if message.code in codes), None)


@dataclass(frozen=True)
class Verdict:
    """`outcome` is `ok`, `violates` or `error`; the rest is what was measured on the way there."""

    outcome: str
    violated: str = ""  # property by name, where TLC or the model file names it
    kind: str = ""  # of an error
    detail: str = ""  # one line for a person
    distinct: int | None = None
    generated: int | None = None
    depth: int | None = None
    trace: tuple[TraceState, ...] = ()
    loop_to: int | None = None  # the state (from 1) to which a lasso returns; 0: it stutters
    coverage: tuple[Coverage, ...] = ()

    @property
    def said(self) -> str:
        """As the manifest writes an expectation: `ok`, `violates NAME`, `error KIND`."""
        if self.outcome == "violates":
            return f"violates {self.violated}"
        return self.outcome if self.outcome == "ok" else f"error {self.kind}"


_VIOLATIONS = {
    2110: ("invariant", 12),
    2107: ("invariant", 12),
    2112: ("action", 13),
    2108: ("init", 13),
    2116: ("temporal", 13),
    2114: ("deadlock", 11),
}
_MEMORY = (1001, 1002)
_STACK = 1005


def judge(
    output: Output, code: int, stderr: str, liveness: bool | None, temporal: str = ""
) -> Verdict:
    """The verdict of one run.

    `liveness` says whether a temporal property must have been checked; None takes what TLC did.
    `temporal` is the name of the model's only PROPERTY: of temporal ones TLC does not say which is
    violated, of refinements it gives a place in the source.
    """
    measured = _measure(output)
    failed = next((m for m in output.messages if m.code in _VIOLATIONS), None)
    errors = [m for m in output.messages if m.severity in (_ERROR, _BUG)]
    strays = [line for line in output.loose if line.startswith("Error:")]
    if failed is not None:
        kind, expected = _VIOLATIONS[failed.code]
        told = _line(failed.text)
        if code != expected:
            return _error(measured, "verdict", f"exit code {code} contradicts: {told}")
        if output.first(2217) is None and failed.code not in (2107, 2108):
            return _error(measured, "verdict", f"no counter-example was given: {told}")
        violated = _violated_name(kind, failed.text, temporal)
        return _with(measured, outcome="violates", violated=violated, detail=told)
    trouble = _trouble(output, code, stderr, errors)
    if trouble is not None:
        return _error(measured, *trouble)
    if strays:
        return _error(measured, "evaluation", strays[0])
    return _passed(output, measured, liveness)


def _passed(output: Output, measured: Verdict, liveness: bool | None) -> Verdict:
    """The second half of the rule: nothing went wrong, but did TLC also finish?"""
    completed = output.first(2193)
    if completed is None or "No error has been found" not in completed.text:
        return _error(measured, "unfinished", "TLC did not say that model checking completed")
    stats = output.first(2199)
    if stats is None or not re.search(r"\b0 states left on queue", stats.text):
        return _error(measured, "unfinished", "states were left on the queue")
    temporal = output.first(2212) is not None
    if liveness and not temporal:
        return _error(measured, "liveness", "the model should check liveness and TLC checked none")
    if temporal and liveness is False:
        return _error(measured, "liveness", "the manifest lacks liveness = true: TLC checked some")
    if temporal and output.first(2267) is None:
        return _error(measured, "liveness", "TLC did not finish checking the temporal properties")
    return _with(measured, outcome="ok")


def _trouble(
    output: Output, code: int, stderr: str, errors: list[Message]
) -> tuple[str, str] | None:
    """Kind and one line for a run that did not end in a verdict; None when nothing was wrong."""
    told = "\n".join([*(m.text for m in errors), *output.loose, stderr])
    if any(m.code in _MEMORY for m in errors) or "OutOfMemoryError" in told:
        return "memory", "TLC ran out of memory: give it more, e.g. --memory 4g"
    if "There is insufficient memory for the Java Runtime" in told:
        return "memory", "Java could not get its memory: give it less (--memory 1g)"
    if code < 0:
        return "killed", f"TLC was killed by signal {-code}; too little memory on the machine?"
    if any(m.code == _STACK for m in errors):
        return "evaluation", "TLC's stack overflowed: the spec recurses too deep"
    if code == 150 or any(m.code == 3002 for m in errors):
        return "parse", complaint("\n".join(output.loose) + "\n" + stderr)
    if code == 151 or output.first(5006) is not None:
        said = output.first(5006) or (errors[0] if errors else None)
        return "config", _line(said.text) if said else "TLC refused the model file"
    if errors:
        return "evaluation", _line(errors[0].text)
    if code != 0:
        return "tool", _line(stderr) or f"TLC ended with exit code {code} and said nothing"
    return None


def _measure(output: Output) -> Verdict:
    stats, depth = output.first(2199), output.first(2194)
    found = _STATS.search(stats.text) if stats is not None else None
    level = re.search(r"is (\d+)\.", depth.text) if depth is not None else None
    trace, loop_to = _trace(output)
    return Verdict(
        outcome="",
        generated=_int(found[1]) if found else None,
        distinct=_int(found[2]) if found else None,
        depth=int(level[1]) if level else None,
        trace=trace,
        loop_to=loop_to,
        coverage=_coverage(output),
    )


def _trace(output: Output) -> tuple[tuple[TraceState, ...], int | None]:
    states: list[TraceState] = []
    loop_to: int | None = None
    for message in output.messages:
        if message.code == 2218:
            loop_to = 0
        elif message.code == 2122:
            found = re.match(r"\s*(\d+):", message.text)
            loop_to = int(found[1]) if found else None
        elif message.code == 2217:
            head, _, body = message.text.partition("\n")
            step = _STEP.match(head)
            if step is not None:
                states.append(TraceState(step[1], step[2] or "", parse_state(body)))
    if not states:  # a violation in an initial state is shown inside its message
        first = output.first(2107, 2108)
        if first is not None:
            body = first.text.partition("\n")[2]
            if body.strip():
                states.append(TraceState("Initial predicate", "", parse_state(body)))
    return tuple(states), loop_to


def _coverage(output: Output) -> tuple[Coverage, ...]:
    """Per action, the last count: TLC prints the table again each time the interval passes."""
    found: dict[tuple[str, str, int], Coverage] = {}
    for message in output.messages:
        if message.code != 2772:
            continue
        match = _COVERED.search(message.text)
        if match is not None:
            name, line, module = match[1], int(match[2]), match[3]
            found[module, name, line] = Coverage(module, name, int(match[4]), int(match[5]))
    return tuple(found.values())


def _violated_name(kind: str, text: str, temporal: str) -> str:
    if kind == "deadlock":
        return "Deadlock"
    found = re.search(r"(?:Invariant|Action property|Property) (.+?) is violated", text)
    named = found[1] if found is not None else ""
    return named if named and " " not in named else temporal or named


def complaint(said: str) -> str:
    """SANY's complaint in one line: what is wrong, and where."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    starts = ("Encountered", "Lexical error", "*** Errors:", "Cannot find")
    at = next((i for i, line in enumerate(lines) if line.startswith(starts)), None)
    if at is None:
        rest = [line for line in lines if not line.startswith(("Parsing file", "Semantic proc"))]
        return rest[-1] if rest else "SANY rejected the spec"
    if lines[at].startswith("*** Errors:"):  # the place, then the error
        return " ".join(lines[at + 1 : at + 3])
    module = next((line for line in lines if line.startswith("Could not parse module")), "")
    return f"{lines[at]} {module}".strip()


def _error(measured: Verdict, kind: str, detail: str) -> Verdict:
    return _with(measured, outcome="error", kind=kind, detail=detail)


def _with(
    measured: Verdict, outcome: str, violated: str = "", kind: str = "", detail: str = ""
) -> Verdict:
    return Verdict(
        outcome,
        violated,
        kind,
        detail,
        measured.distinct,
        measured.generated,
        measured.depth,
        measured.trace,
        measured.loop_to,
        measured.coverage,
    )


def _line(text: str) -> str:
    return " ".join(text.split())[:300]


def _int(text: str) -> int:
    return int(text.replace(",", ""))
