"""One run: the cases that were asked for, on one target, one after the other.

The order and the seeds depend on the case ids and `Options.seed` alone, so that one case alone
does exactly what it does within a whole run.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lychgate_conformance._case import LEVELS, Case, all_cases
from lychgate_conformance._host import Host
from lychgate_conformance._report import Report, Result
from lychgate_conformance._stage import Stage
from lychgate_conformance._store import CallError
from lychgate_conformance._target import Target
from lychgate_conformance._verdict import (
    AdapterFault,
    BackendDied,
    CaseEnd,
    Inconclusive,
    UsageError,
    Verdict,
)

Progress = Callable[[int, int, Case], None]
"""Told before each case: how many are done, of how many, and the next."""


@dataclass(frozen=True, slots=True)
class Options:
    """What to run, and how."""

    levels: tuple[int, ...] = ()
    """Empty: all."""
    case_ids: tuple[str, ...] = ()
    """Empty: all of the levels."""
    skip: Mapping[str, str] = field(default_factory=dict)
    """Case id: the user's reason."""
    seed: int = 0
    path: str | None = None
    """Where the files go; None: the system's temporary directory."""
    replay_options: tuple[str, ...] = ()
    """What a replay command needs besides case and seed, such as overridden claims."""


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
    return [it for it in cases.values() if not options.levels or it.level in options.levels]


class Runner:
    """Runs cases on one target; those that need no process of their own share one host."""

    def __init__(self, target: Target, options: Options) -> None:
        self.target = target
        self.options = options
        self._host: Host | None = None
        self._pool = target.new_pool()

    def run_case(self, case: Case) -> Result:
        """The result of one case; never raises for what the backend does."""
        if case.id in self.options.skip:
            return self._result(case, Verdict.SKIPPED, self.options.skip[case.id])
        if (unmet := case.unmet(self.target.claims)) is not None:
            return self._result(case, Verdict.NOT_CLAIMED, unmet)
        begun = time.monotonic()
        verdict, message, trace = self._try(case)
        return self._result(case, verdict, message, trace, time.monotonic() - begun)

    def _try(self, case: Case) -> tuple[Verdict, str, str]:
        if self._host is None:
            self._host = self.target.new_host()
        seed = f"{self.options.seed}:{case.id}"
        base = self.options.path
        stage = Stage(self.target, self._host, self._pool, base, seed, case.limit_s)
        verdict, message, trace = Verdict.HARNESS_ERROR, "", ""
        try:
            case.function(stage)
            verdict = Verdict.PASS
        except CallError as error:
            verdict, message, trace = Verdict.FAIL, str(error), error.trace
        except CaseEnd as error:
            verdict, message = error.verdict, str(error)
        except AdapterFault as error:
            verdict, message, trace = Verdict.HARNESS_ERROR, str(error), error.trace
        except Exception as error:  # a defect of the case itself
            verdict, message = Verdict.HARNESS_ERROR, f"{type(error).__name__}: {error}"
            trace = traceback.format_exc()
        finally:
            self._clear(stage, sound=verdict is Verdict.PASS)
        return verdict, message, trace

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

    def _result(
        self, case: Case, verdict: Verdict, message: str, trace: str = "", seconds: float = 0.0
    ) -> Result:
        how = ("--case", case.id, "--seed", str(self.options.seed), *self.options.replay_options)
        target = self.target.words
        if self.target.command is None:
            words = ["lychgate", "conform", *target, *how]
        else:
            words = ["lychgate", "conform", *how, *target]
        return Result(case, verdict, message, trace, seconds, tuple(words))


def run(target: Target, options: Options, progress: Progress | None = None) -> Report:
    """Run and report. On Ctrl-C the report holds what was done, and says that it is not whole."""
    cases = select(options)
    runner = Runner(target, options)
    results: list[Result] = []
    complete = False
    begun = time.monotonic()
    try:
        for done, case in enumerate(cases):
            if progress is not None:
                progress(done, len(cases), case)
            results.append(runner.run_case(case))
        complete = True
    except KeyboardInterrupt:
        pass
    finally:
        runner.end()
    return _report(target, options, results, complete, time.monotonic() - begun)


def _report(
    target: Target, options: Options, results: Sequence[Result], complete: bool, seconds: float
) -> Report:
    return Report(
        backend=target.name,
        type_name=target.type_name,
        claims=target.claims,
        declared=target.declared,
        seed=options.seed,
        results=tuple(results),
        complete=complete,
        seconds=seconds,
    )
