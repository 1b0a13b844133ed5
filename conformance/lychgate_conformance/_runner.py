"""One run: the cases that were asked for, on one target, one after the other.

The order and the seeds depend on the case ids and `Options.seed` alone, so that one case alone
does exactly what it does within a whole run.
"""

from __future__ import annotations

import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lychgate_conformance._case import LEVELS, Case, all_cases, suite_digest
from lychgate_conformance._claims import as_mapping, merge
from lychgate_conformance._host import Host
from lychgate_conformance._report import Report, Result, Understated
from lychgate_conformance._stage import CALL_LIMIT_S, Clock, Stage
from lychgate_conformance._store import CallError
from lychgate_conformance._target import Target
from lychgate_conformance._verdict import (
    AdapterFault,
    BackendDied,
    CaseEnd,
    Inconclusive,
    NoConnection,
    UsageError,
    Verdict,
)
from lychgate_conformance._wire import Json

Progress = Callable[[int, int, Case], None]
"""Told before each case: how many are done, of how many, and the next."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run, and how."""

    levels: tuple[int, ...] = ()
    """Empty: all."""
    case_ids: tuple[str, ...] = ()
    """Empty: all of the levels."""
    profile: str | None = None
    """Of which profile the levels are; None: of all. A run takes the backend's."""
    skip: Mapping[str, str] = field(default_factory=dict)
    """Case id: the user's reason."""
    seed: int = 0
    path: str | None = None
    """Where the files go; None: the system's temporary directory."""
    replay_options: tuple[str, ...] = ()
    """What a replay command needs besides case and seed, such as overridden claims."""
    call_limit_s: float = CALL_LIMIT_S
    """How long one call may take; longer is inconclusive."""
    budget_s: float | None = None
    """After this many seconds no further case is begun."""
    expected: Mapping[str, str] = field(default_factory=dict)
    """Case id: why it is known to fail."""
    schedule: str = ""
    """The one schedule that a case of level 5 plays; empty: all of its own."""
    probe: bool = False
    """Try claims that are lower than they could be, once the cases are done."""


def select(options: Options) -> list[Case]:
    """The cases that the options name. UsageError for what does not exist."""
    cases = {case.id: case for case in all_cases()}
    for case_id in [*options.case_ids, *options.skip]:
        if case_id not in cases:
            raise UsageError(f"no case named {case_id!r}")
    for level in options.levels:
        if level not in LEVELS:
            raise UsageError(f"no level {level}; there are: {', '.join(map(str, LEVELS))}")
    if options.case_ids:
        return [cases[case_id] for case_id in sorted(set(options.case_ids))]
    return [
        it
        for it in cases.values()
        if (not options.levels or it.level in options.levels)
        and options.profile in (None, it.profile)
    ]


_ELSEWHERE = "not claimed: uses_path"


def _out_of_reach(case: Case) -> str:
    """Why a case about files is NOT MEASURED where the store lies on a server (Q1)."""
    crash = "survives_host_crash" in case.needs
    what = "the host that would crash is its server's" if crash else "it has no files here"
    return (
        f"its store lies behind a connection, and {what}; with --claim survives_host_crash=no "
        "only what can be tried is asked for"
    )


class Runner:
    """Runs cases on one target; those that need no process of their own share one host."""

    def __init__(self, target: Target, options: Options) -> None:
        self.target = target
        self.options = options
        self._host: Host | None = None
        self._pool = target.new_pool()
        self._ground: tempfile.TemporaryDirectory[str] | None = None
        self._replay: tuple[str, ...] = ()  # words that show the last case's failure and no more
        self._image: Json = None  # the one that failed
        self._no_connection = ""  # what a case has said that saw none

    def run_case(self, case: Case, share_s: float | None = None) -> Result:
        """The result of one case; never raises for what the backend does.

        `share_s`: its share of the budget, for cases that can use more time than they need.
        """
        if case.id in self.options.skip:
            return self._result(case, Verdict.SKIPPED, self.options.skip[case.id])
        claims = self.target.claims
        if (unmet := case.unmet(claims)) is not None:
            if unmet == _ELSEWHERE and case.level >= 2 and claims.survives_host_crash:
                return self._result(case, Verdict.NOT_MEASURED, _out_of_reach(case))
            return self._result(case, Verdict.NOT_CLAIMED, unmet)
        if self._no_connection and case.level >= 2 and not claims.uses_path:
            return self._result(case, Verdict.NOT_CLAIMED, self._no_connection)
        begun = time.monotonic()
        self._replay, self._image = (), None
        verdict, message, trace, stderr = self._try(case, share_s)
        return self._result(case, verdict, message, trace, stderr, time.monotonic() - begun)

    def _try(self, case: Case, share_s: float | None) -> tuple[Verdict, str, str, str]:
        if self._host is None:
            self._host = self.target.new_host()
        if self._ground is None:  # what an interrupt leaves of a case goes with it
            self._ground = tempfile.TemporaryDirectory(
                prefix="lychgate-run-", dir=self.options.path, ignore_cleanup_errors=True
            )
        seed = f"{self.options.seed}:{case.id}"
        clock = Clock(case.limit_s, self.options.call_limit_s, share_s)
        stage = Stage(self.target, self._host, self._pool, self._ground.name, seed, clock)
        stage.schedule = self.options.schedule
        verdict, message, trace, stderr = Verdict.HARNESS_ERROR, "", "", ""
        try:
            case.function(stage)
            verdict, message = Verdict.PASS, "; ".join(stage.notes)
        except CallError as error:
            verdict, message, trace = Verdict.FAIL, str(error), error.trace
        except CaseEnd as error:
            verdict, message = error.verdict, str(error)
            self._no_connection = message if isinstance(error, NoConnection) else ""
        except AdapterFault as error:
            verdict, message, trace = Verdict.HARNESS_ERROR, str(error), error.trace
        except Exception as error:  # a defect of the case itself
            verdict, message = Verdict.HARNESS_ERROR, f"{type(error).__name__}: {error}"
            trace = traceback.format_exc()
        finally:
            if verdict is not Verdict.PASS:
                stderr = stage.errors()
                self._replay, self._image = stage.replay, stage.image
            self._clear(stage, sound=verdict is Verdict.PASS)
        return verdict, message, trace, stderr

    def _clear(self, stage: Stage, sound: bool) -> None:
        """Ends the stage; a host that saw trouble is not used again."""
        if not sound:
            self._end_host()
        try:
            stage.end(reset=sound)
        except (BackendDied, Inconclusive):
            self._end_host()

    def _end_host(self) -> None:
        if self._host is not None:
            self._host.end()
            self._host = None

    def end(self) -> None:
        """Leave no process behind."""
        self._end_host()
        if self._pool is not None:
            self._pool.end()
        if self._ground is not None:
            self._ground.cleanup()
            self._ground = None

    def untried(self, case: Case, why: str) -> Result:
        """The result of a case that is not begun any more."""
        return self._result(case, Verdict.INCONCLUSIVE, f"not tried: {why}")

    def _result(
        self,
        case: Case,
        verdict: Verdict,
        message: str,
        trace: str = "",
        stderr: str = "",
        seconds: float = 0.0,
    ) -> Result:
        how = ("--case", case.id, "--seed", str(self.options.seed), *self._replay)
        how += self.options.replay_options
        target = self.target.words
        if self.target.command is None:
            words = ["lychgate", "conform", *target, *how]
        else:
            words = ["lychgate", "conform", *how, *target]
        expected = self.options.expected.get(case.id)
        return Result(
            case, verdict, message, trace, stderr, seconds, tuple(words), expected, self._image
        )


class Patience:
    """When to begin no further case: the budget is used up, or there is no use in going on."""

    def __init__(self, budget_s: float | None) -> None:
        self._budget_s = budget_s
        self._begun = time.monotonic()
        self._streak: list[Verdict] = []

    def saw(self, verdict: Verdict) -> None:
        if verdict not in (Verdict.NOT_CLAIMED, Verdict.SKIPPED, Verdict.NOT_MEASURED):
            self._streak = [*self._streak[1 - STREAK :], verdict]

    def share_s(self, cases: int) -> float | None:
        """What is left of the budget for each of so many cases; None without a budget."""
        if self._budget_s is None:
            return None
        return max(0.0, self._budget_s - (time.monotonic() - self._begun)) / cases

    def end(self) -> str | None:
        """Why to stop; None while there is reason to go on."""
        if self._budget_s is not None and time.monotonic() - self._begun > self._budget_s:
            return f"the budget of {self._budget_s:g} s is used up"
        hopeless = (Verdict.HARNESS_ERROR, Verdict.INCONCLUSIVE)
        if len(self._streak) == STREAK and all(it in hopeless for it in self._streak):
            return f"{STREAK} cases in a row ended in harness errors or without an answer"
        return None


STREAK = 4
"""After so many cases without a verdict on the backend nothing more is tried."""


def run(target: Target, options: Options, progress: Progress | None = None) -> Report:
    """Run and report. On Ctrl-C the report holds what was done, and says that it is not whole."""
    suite_digest()  # kept from now on: the report names the suite as it was when it began
    options = replace(options, profile=target.claims.profile)
    cases = select(options)
    runner = Runner(target, options)
    results: list[Result] = []
    understated: tuple[Understated, ...] = ()
    patience = Patience(options.budget_s)
    complete = False
    begun = time.monotonic()
    try:
        for done, case in enumerate(cases):
            if (why := patience.end()) is not None:
                results.append(runner.untried(case, why))
                continue
            if progress is not None:
                progress(done, len(cases), case)
            results.append(runner.run_case(case, patience.share_s(len(cases) - done)))
            patience.saw(results[-1].verdict)
        complete = True
        if options.probe and patience.end() is None:
            understated = probe(target, options)
    except KeyboardInterrupt:
        pass
    finally:
        runner.end()
    return Report(
        backend=target.name,
        type_name=target.type_name,
        command=target.command.words if target.command is not None else (),
        claims=target.claims,
        declared=target.declared,
        seed=options.seed,
        levels=options.levels,
        case_ids=options.case_ids,
        expected=dict(options.expected),
        understated=understated,
        results=tuple(results),
        complete=complete,
        seconds=time.monotonic() - begun,
    )


_TASK_PROBES: dict[str, tuple[object, tuple[str, ...]]] = {
    "survives_restart": (True, ("L1-OPEN-001", "L1-OPEN-002", "L1-OPEN-003")),
    "survives_process_kill": (True, ("L1-KILL-001", "L1-KILL-002", "L1-KILL-003")),
    "survives_host_crash": (True, ("L3-DLQ-001", "L3-INIT-001", "L3-WAL-001")),
    "multi_process": (True, ("L1-RACE-001", "L1-RACE-002", "L1-RACE-005")),
    "multi_thread": (True, ("L1-THR-001", "L1-THR-003", "L1-THR-004")),
    "fork_safe": (True, ("L1-FORK-001", "L1-FORK-003", "L1-FORK-007")),
    "caller_ids": (True, ("L0-ADD-002", "L0-ADD-005", "L0-REM-004")),
    "list_order": ("file", ("L0-DEAD-005", "L0-DEAD-006")),
    "any_text": (True, ("L0-TEXT-004", "L0-TEXT-006", "L0-TEXT-007")),
    "exact_numbers": (True, ("L0-ADD-007", "L0-DEAD-020")),
    "uses_path": (True, ("L0-FILE-001", "L0-FILE-002", "L0-FILE-005")),
    "reclaims_space": (True, ("L0-ROT-003",)),
}
_QUEUE_PROBES: dict[str, tuple[object, tuple[str, ...]]] = {
    "survives_restart": (True, ("L1-QOPEN-001", "L1-QOPEN-002")),
    "survives_process_kill": (True, ("L1-QKILL-001", "L1-QKILL-002")),
    "survives_host_crash": (True, ("L3-QCRASH-001", "L3-QCRASH-002")),
    "exclusive": (True, ("L1-QLOCK-001", "L1-QLOCK-002")),
    "claim_order": ("number", ("L0-QCLAIM-002", "L0-QCLAIM-005")),
    "receipts": (True, ("L0-QEND-007",)),
    "dense_numbers": (True, ("L0-QPUT-004",)),
    "uses_path": (True, ("L0-QPUT-005",)),
    "reclaims_space": (True, ("L0-QROOM-004",)),
}
_PROBES = {"tasks": _TASK_PROBES, "delivery": _QUEUE_PROBES}
"""Claim: the higher value, and cases that a backend passes only if it keeps that."""


def probe(target: Target, options: Options) -> tuple[Understated, ...]:
    """Claims that are lower than what the backend was seen to do."""
    if not target.claims.stores:
        return ()
    found = []
    claimed = as_mapping(target.claims)
    for name, (value, ids) in _PROBES[target.claims.profile].items():
        if claimed[name] == value:
            continue
        higher = replace(target, claims=merge(target.claims, {name: value}))
        runner = Runner(higher, replace(options, skip={}, expected={}))
        cases = {it.id: it for it in all_cases()}
        try:
            passed = all(runner.run_case(cases[it]).verdict is Verdict.PASS for it in ids)
        finally:
            runner.end()
        if passed:
            found.append(Understated(name, value, ids))
    return tuple(found)
