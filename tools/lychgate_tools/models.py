"""Running the models of a manifest, several at once, and comparing what came out with it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TypeVar

from lychgate_tools.manifest import MEASURED, Model
from lychgate_tools.spec_dir import Spec
from lychgate_tools.spec_text import Source
from lychgate_tools.tlc import cfg
from lychgate_tools.tlc.output import Coverage, Verdict
from lychgate_tools.tlc.runner import Runner, Task
from lychgate_tools.ui import ExitCode, Progress, UserError

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Limits:
    """What a run may use: processes at once, memory of each, seconds of each."""

    jobs: int
    memory: str
    timeout_s: float | None


@dataclass(frozen=True)
class Result:
    """One model, run and compared. No problems means that TLC said what the manifest says."""

    model: Model
    verdict: Verdict
    seconds: float
    problems: tuple[str, ...]

    @property
    def code(self) -> ExitCode:
        if not self.problems:
            return ExitCode.OK
        if self.verdict.outcome == "error":
            return _ERROR_CODES.get(self.verdict.kind, ExitCode.SHORT)
        return ExitCode.SHORT


_SMALL_MAX = 50_000
_START_STATES = 3_000  # starting a JVM takes as long as finding so many states
_ERROR_CODES = {
    "memory": ExitCode.FAULT,
    "killed": ExitCode.FAULT,
    "tool": ExitCode.FAULT,
    "timeout": ExitCode.INCONCLUSIVE,
}


def default_jobs(time_class: str) -> int:
    """Small models side by side, one more than there are processors, since a short run waits for
    files a tenth of its time; at most four, for their memory. A large one has the machine alone."""
    return min(4, 1 + (os.cpu_count() or 1)) if time_class == "quick" else 1


def task_of(spec: Spec, modules: dict[str, str], model: Model, limits: Limits) -> Task:
    if model.module not in modules:
        raise UserError(f"model {model.name}: no module {model.module}.tla in {spec.root}")
    config = spec.config(model.config)
    wrong = cfg.parse(config).unsound(model.liveness)
    if wrong:
        raise UserError(f"model {model.name}: {wrong}", ExitCode.SHORT)
    return Task(
        modules=modules,
        root=model.module,
        config=config,
        liveness=model.liveness,
        deadlock=model.deadlock,
        coverage=model.time_class == "quick" and model.positive and model.coverage,
        small=model.time_class == "quick" and (model.distinct or 0) < _SMALL_MAX,
        memory=limits.memory,
        timeout_s=limits.timeout_s,
    )


def run_models(
    spec: Spec, models: Sequence[Model], runner: Runner, limits: Limits, progress: Progress
) -> list[Result]:
    """Run all models, the largest first, and give the results in the manifest's order."""
    modules = spec.modules()
    source = Source(modules)
    tasks = {model.name: task_of(spec, modules, model, limits) for model in models}
    states = _StateCount(models, progress)

    def one(model: Model) -> Result:
        task = tasks[model.name]
        run = runner.run(task, lambda distinct: states.partly(model, distinct))
        states.done(model, run.verdict.distinct)
        verdict = _named(run.verdict, source, model.module, cfg.parse(task.config).properties)
        return Result(model, verdict, run.seconds, tuple(compare(model, verdict)))

    ordered = sorted(models, key=lambda model: -(model.distinct or 0))
    results = in_parallel(one, ordered, limits.jobs, runner, states.show)
    found = {result.model.name: result for result in results}
    return [found[model.name] for model in models]


def in_parallel(
    call: Callable[[Item], Answer],
    items: Iterable[Item],
    jobs: int,
    runner: Runner,
    tick: Callable[[], None],
) -> list[Answer]:
    """`call` of every item, in order. An interrupt ends the children and goes on up."""
    pool = ThreadPoolExecutor(max_workers=jobs)
    try:
        futures: list[Future[Answer]] = [pool.submit(call, item) for item in items]
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
            tick()
        return [future.result() for future in futures]
    except BaseException:
        runner.stop()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _named(
    verdict: Verdict, source: Source, root: str, properties: Sequence[str]
) -> Verdict:
    """The verdict with the violated property's name in place of its place in the source."""
    if verdict.outcome != "violates" or verdict.violated.isidentifier():
        return verdict
    name = verdict.violated
    name = source.property_at(name, root, properties) if name else " or ".join(properties)
    return Verdict(**{**vars(verdict), "violated": name})


def compare(model: Model, verdict: Verdict) -> list[str]:
    """What differs from the manifest, one line each."""
    if verdict.said != model.expect:
        detail = f" ({verdict.detail})" if verdict.detail else ""
        return [f"expected {model.expect}, got {verdict.said}{detail}"]
    problems: list[str] = []
    measured = measurements(model, verdict)
    for key in MEASURED:
        recorded = getattr(model, key)
        if key not in measured:
            continue
        if recorded is None:
            said = f"{key} is {measured[key]:,} and not recorded"
            problems.append(f"{said} (lychgate check --record)")
        elif recorded != measured[key]:
            problems.append(f"{key} was {recorded:,}, is {measured[key]:,}")
    return problems


def measurements(model: Model, verdict: Verdict) -> dict[str, int]:
    """The numbers that the manifest keeps of such a model: the size of a graph that was searched
    to its end, the length of a counter-example."""
    if verdict.outcome == "ok":
        pairs = {"distinct": verdict.distinct, "depth": verdict.depth}
    else:
        pairs = {"trace_length": len(verdict.trace)}
    return {key: value for key, value in pairs.items() if value is not None}


def dead_actions(results: Iterable[Result]) -> list[tuple[str, str]]:
    """Module and action of every action that some quick model has and none ever takes. Models that
    must fail do not count: a step that only a rejected design takes would go unnoticed."""
    taken: dict[tuple[str, str], int] = {}
    for result in results:
        for line in result.verdict.coverage:
            key = (line.module, line.action)
            taken[key] = taken.get(key, 0) + line.generated
    return sorted(key for key, count in taken.items() if count == 0)


def merged_coverage(results: Iterable[Result]) -> list[Coverage]:
    """Per action, over all models."""
    found: dict[tuple[str, str], Coverage] = {}
    for result in results:
        for line in result.verdict.coverage:
            key = (line.module, line.action)
            before = found.get(key, Coverage(line.module, line.action, 0, 0))
            found[key] = Coverage(
                line.module,
                line.action,
                before.distinct + line.distinct,
                before.generated + line.generated,
            )
    return [found[key] for key in sorted(found)]


class _StateCount:
    """Distinct states found so far over all models, for the progress line."""

    def __init__(self, models: Sequence[Model], progress: Progress) -> None:
        self._progress = progress
        self._expected = {model.name: model.distinct or 0 for model in models}
        self._found = {model.name: 0 for model in models}
        self._running: dict[str, None] = {}
        self._ended = 0
        self._guard = threading.Lock()
        progress.total = sum(self._expected.values())

    def partly(self, model: Model, distinct: int) -> None:
        with self._guard:
            self._running[model.name] = None
            self._found[model.name] = self._counted(model, distinct)
        self.show()

    def done(self, model: Model, distinct: int | None) -> None:
        with self._guard:
            self._running.pop(model.name, None)
            self._found[model.name] = self._expected[model.name] or self._counted(model, distinct)
            self._ended += 1
        self.show()

    def _counted(self, model: Model, distinct: int | None) -> int:
        """With recorded numbers, a share of them, so that done and total speak of the same."""
        if not self._progress.total:
            return distinct or 0
        return min(distinct or 0, self._expected[model.name])

    def show(self) -> None:
        with self._guard:
            note = f"{self._ended}/{len(self._found)} models"
            if self._running:
                note += f", now {', '.join(self._running)}"
            found = sum(self._found.values())
            over = found + _START_STATES * self._ended
            whole = self._progress.total + _START_STATES * len(self._found)
        self._progress.update(found, note, over / whole if self._progress.total else 0.0)
