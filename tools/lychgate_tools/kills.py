"""`lychgate check --mutants`: does every property of every model that passes notice a fault?

Two arms: the spec as it is (the control, which must pass) and the spec with one fault. A run checks
only the properties that still lack a killer and stops at the first violation; then the same mutant
runs again with the rest. So no run looks for what is known, and `-continue`, whose exit code says
nothing, is not needed. Small models go first: a property that dies there is not tried in larger
ones. With --all every mutant meets every property.

A property is what the model file names. Two models share one if their root modules see the same
definition of it. Which mutant comes next depends on what still lacks a killer: a lost fairness
condition cannot break an invariant, a value of no type is what a type invariant is there for. A
model in which mutant after mutant finds nothing (one worker can break no mutual exclusion) is left
for the next one, and taken up again when all have had their turn.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lychgate_tools.manifest import Model
from lychgate_tools.models import Limits, default_jobs, in_parallel, task_of
from lychgate_tools.mutate import Mutant, mutants
from lychgate_tools.spec_dir import Spec, reports_dir
from lychgate_tools.spec_text import Source
from lychgate_tools.tlc import cfg, sany, toolchain
from lychgate_tools.tlc.output import Verdict
from lychgate_tools.tlc.runner import Run, Runner, Task
from lychgate_tools.ui import ExitCode, Progress, UserError, colour, print_json, seconds, table

KILLED, SURVIVED, BROKEN, UNDECIDED = "killed", "survived", "broken", "undecided"
_PATIENCE = 5.0  # a mutant may take this many times as long as the control
_PATIENCE_MIN_S = 30.0
_FRUITLESS_MAX = (12, 48, 10**9)  # mutants in a row without a kill, in the first round and later

Key = tuple[str, str]  # the module that defines a property, and its name


@dataclass
class Trial:
    """One mutant in one model: what each property that was tried said."""

    mutant: Mutant
    model: str
    outcome: dict[Key, str] = field(default_factory=dict)
    note: str = ""


@dataclass
class Matrix:
    """What is known so far; shared by the threads that run mutants."""

    properties: dict[Key, str]  # -> the model that it is tried in first
    killers: dict[Key, str] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    not_run: int = 0
    runs: int = 0
    guard: threading.Lock = field(default_factory=threading.Lock)

    def open_in(self, keys: Sequence[Key]) -> list[Key]:
        """Those of `keys` that still lack a killer."""
        with self.guard:
            return [key for key in keys if key not in self.killers]


def run(args: argparse.Namespace, spec: Spec, models: list[Model]) -> int:
    if not models:
        raise UserError("no model that is expected to pass: nothing to mutate", ExitCode.USAGE)
    reports = reports_dir(args.reports)
    limits = Limits(args.jobs or default_jobs("quick"), args.memory or "1g", args.timeout)
    deadline = time.monotonic() + args.budget
    source = Source(spec.modules())
    ordered = sorted(models, key=lambda model: model.distinct or 0)
    keys = {model.name: _keys(spec, source, model) for model in ordered}
    matrix = Matrix({})
    for model in ordered:
        for key in keys[model.name]:
            matrix.properties.setdefault(key, model.name)
    started = time.monotonic()
    path = reports / "spec-mutants.json"
    campaigns: list[_Campaign] = []
    try:
        with Runner(toolchain.find()) as runner, Progress("mutants", unit="runs") as progress:
            campaigns += [
                _Campaign(spec, model, runner, limits, matrix, keys[model.name])
                for model in ordered
            ]
            for patience in _FRUITLESS_MAX[-1:] if args.all else _FRUITLESS_MAX:
                for campaign in campaigns:
                    if args.all or matrix.open_in(keys[campaign.model.name]):
                        campaign.run(deadline, args.all, patience, progress)
    finally:  # an interrupted campaign keeps what it found
        matrix.not_run = sum(
            campaign.left
            for campaign in campaigns
            if args.all or matrix.open_in(keys[campaign.model.name])
        )
        report = _report(matrix, time.monotonic() - started)
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if args.json:
        print_json(report)
    else:
        _print(matrix, path, time.monotonic() - started)
    return int(report["exit_code"])


def _keys(spec: Spec, source: Source, model: Model) -> list[Key]:
    """The properties of a model, by the module that defines each."""
    checked = cfg.parse(spec.config(model.config)).checked
    return [(source.defining(model.module, name) or model.module, name) for name in checked]


class _Deck:
    """The mutants of a model that were not tried yet, dealt by what they may kill. Those that have
    killed something in another model come first."""

    _ORDERS = {
        "temporal": ("unfair", "never", "guard", "frozen", "condition", "garbage"),
        "type": ("garbage", "garbage", "frozen", "garbage", "bound", "guard"),
        "other": ("guard", "condition", "frozen", "kept", "lost", "bound", "garbage"),
    }

    def __init__(self, found: Sequence[Mutant], potent: Collection[str]) -> None:
        self._kinds: dict[str, deque[Mutant]] = {"potent": deque()}
        for mutant in found:
            kind = "potent" if mutant.name in potent else mutant.operator
            self._kinds.setdefault(kind, deque()).append(mutant)
        self._turn = 0
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return sum(len(dealt) for dealt in self._kinds.values())

    def deal(self, wanted: Sequence[Key], properties: Sequence[str]) -> Mutant:
        """The next mutant for one of the wanted properties, each in its turn."""
        with self._guard:
            round_, index = divmod(self._turn, len(wanted))
            self._turn += 1
            order = self._ORDERS[self._sort(wanted[index][1], properties)]
            order = order[round_ % len(order) :] + order[: round_ % len(order)]
            rest = tuple(kind for kind in self._kinds if kind not in order)
            kinds = ("potent", *order, *rest)
            kind = next(kind for kind in kinds if self._kinds.get(kind))
            return self._kinds[kind].popleft()

    @staticmethod
    def _sort(name: str, properties: Sequence[str]) -> str:
        if name in properties:
            return "temporal"
        return "type" if "Type" in name else "other"


class _Campaign:
    """The mutants of one model."""

    def __init__(
        self,
        spec: Spec,
        model: Model,
        runner: Runner,
        limits: Limits,
        matrix: Matrix,
        keys: list[Key],
    ) -> None:
        self.model = model
        self.runner = runner
        self.limits = limits
        self.matrix = matrix
        self.keys = keys
        self.modules = spec.modules()
        self.task = task_of(spec, self.modules, model, limits)
        self.config = cfg.parse(self.task.config)
        self.patience_s = _PATIENCE_MIN_S
        self._deck: _Deck | None = None
        self._fruitless = 0

    @property
    def left(self) -> int:
        """Mutants not tried; at least one where nobody has counted them yet."""
        return 1 if self._deck is None else len(self._deck)

    def _prepare(self) -> _Deck:
        """The control run, then the mutants."""
        names = [name for _, name in self.keys]
        control = self._tlc(self.modules, names, None)
        if control.verdict.outcome != "ok":
            raise UserError(
                f"control run of {self.model.name}: {control.verdict.said} "
                f"({control.verdict.detail}): mend the spec first",
                ExitCode.SHORT,
            )
        self.patience_s = max(_PATIENCE_MIN_S, _PATIENCE * control.seconds)
        parsed = sany.parse(self.runner.tools, self.modules, self.model.module)
        found = mutants(parsed, self.modules, self.config.behaviour, self.config.checked)
        with self.matrix.guard:
            potent = set(self.matrix.killers.values())
        return _Deck(found, potent)

    def run(self, deadline: float, every: bool, patience: int, progress: Progress) -> None:
        """Try mutants until none is wanted, the time is over, or `patience` found nothing."""
        if time.monotonic() > deadline:
            return
        self._fruitless = 0
        deck = self._deck = self._prepare() if self._deck is None else self._deck

        def one(_: int) -> None:
            wanted = list(self.keys) if every else self.matrix.open_in(self.keys)
            if wanted and self._fruitless < patience and time.monotonic() < deadline:
                mutant = deck.deal(wanted, self.config.properties)
                killed = self._try(mutant, wanted, every)
                self._fruitless = 0 if killed else self._fruitless + 1

        def tick() -> None:
            closed = len(self.matrix.killers)
            note = f"{closed}/{len(self.matrix.properties)} properties killed, {self.model.name}"
            left = [name for _, name in self.matrix.open_in(self.keys)]
            progress.update(self.matrix.runs, f"{note}: {', '.join(left[:3])}" if left else note)

        in_parallel(one, range(len(deck)), self.limits.jobs, self.runner, tick)

    def _try(self, mutant: Mutant, wanted: list[Key], every: bool) -> bool:
        """Run a mutant until it violates none of the properties that are still of interest.
        Whether it violated any."""
        trial = Trial(mutant, self.model.name)
        modules = mutant.applied(self.modules)
        left = {key[1]: key for key in wanted}
        while left:
            verdict = self._tlc(modules, list(left), mutant).verdict
            killed = self._violated(verdict, modules, list(left), mutant)
            if not killed:
                trial.outcome.update(dict.fromkeys(left.values(), self._last_word(verdict)))
                trial.note = verdict.detail if verdict.outcome == "error" else ""
                break
            for key in [left.pop(name) for name in killed]:
                trial.outcome[key] = KILLED
                with self.matrix.guard:
                    self.matrix.killers.setdefault(key, mutant.name)
            if not every:
                still = self.matrix.open_in(list(left.values()))
                left = {name: key for name, key in left.items() if key in still}
        with self.matrix.guard:
            self.matrix.trials.append(trial)
        return KILLED in trial.outcome.values()

    def _violated(
        self, verdict: Verdict, modules: dict[str, str], left: list[str], mutant: Mutant
    ) -> list[str]:
        """Which of `left` the verdict kills. TLC does not name a temporal property: where there are
        several, each is asked alone."""
        if verdict.outcome != "violates":
            return []
        temporal = [name for name in left if name in self.config.properties]
        if verdict.violated in left:
            return [verdict.violated]
        if len(temporal) == 1:
            return temporal
        alone = [self._tlc(modules, [name], mutant).verdict for name in temporal]
        return [
            name for name, said in zip(temporal, alone, strict=True) if said.outcome == "violates"
        ]

    def _last_word(self, verdict: Verdict) -> str:
        if verdict.outcome == "ok":
            return SURVIVED
        return UNDECIDED if verdict.kind in ("timeout", "memory", "killed") else BROKEN

    def _tlc(self, modules: dict[str, str], names: list[str], mutant: Mutant | None) -> Run:
        """Run TLC on these properties; `None` is the control, which may take its time."""
        text = self.config.checking(frozenset(names)) + (mutant.constants if mutant else "")
        temporal = any(name in self.config.properties for name in names)
        task = Task(
            modules=modules,
            root=self.task.root,
            config=text,
            liveness=self.task.liveness and temporal,
            deadlock=False,
            coverage=False,
            small=self.task.small,
            memory=self.limits.memory,
            timeout_s=self.limits.timeout_s or (self.patience_s if mutant else None),
            lenient=True,
        )
        with self.matrix.guard:
            self.matrix.runs += 1
        return self.runner.run(task)


# --- the report -------------------------------------------------------------------------------


def _report(matrix: Matrix, took_s: float) -> dict[str, Any]:
    open_keys = [key for key in matrix.properties if key not in matrix.killers]
    if not open_keys:
        code = ExitCode.OK
    else:
        code = ExitCode.INCONCLUSIVE if matrix.not_run else ExitCode.SHORT
    return {
        "schema": "lychgate-spec-mutants-1",
        "exit_code": int(code),
        "seconds": round(took_s, 1),
        "runs": matrix.runs,
        "mutants_not_run": matrix.not_run,
        "properties": [
            {
                "module": key[0],
                "name": key[1],
                "model": model,
                "killer": matrix.killers.get(key),
            }
            for key, model in matrix.properties.items()
        ],
        "trials": [
            {
                "mutant": trial.mutant.name,
                "model": trial.model,
                "outcome": {".".join(key): word for key, word in trial.outcome.items()},
                "note": trial.note,
            }
            for trial in matrix.trials
        ],
    }


def _print(matrix: Matrix, path: Path, took_s: float) -> None:
    for module in dict.fromkeys(key[0] for key in matrix.properties):
        keys = [key for key in matrix.properties if key[0] == module]
        rows = [
            (trial.mutant.name, *(_MARKS.get(trial.outcome.get(key, ""), "") for key in keys))
            for trial in matrix.trials
            if any(trial.outcome.get(key) == KILLED for key in keys)
        ]
        print(f"{module}: mutants that kill, x = kills, . = survives, ? = undecided")
        names = [name for _, name in keys]
        print(table(("mutant", *names), rows) if rows else "  none")
        print()
    rows_all = [
        (f"{module}.{name}", model, matrix.killers.get((module, name), "NO KILLER"))
        for (module, name), model in matrix.properties.items()
    ]
    print(table(("property", "model", "first killer"), rows_all))
    print()
    counts = {word: 0 for word in (KILLED, SURVIVED, BROKEN, UNDECIDED)}
    for trial in matrix.trials:
        words = set(trial.outcome.values())
        counts[next(word for word in counts if word in words)] += 1
    tried = ", ".join(f"{count} {word}" for word, count in counts.items())
    print(f"{len(matrix.trials)} mutants in {matrix.runs} runs, {seconds(took_s)}: {tried}")
    if matrix.not_run:
        print(colour(f"{matrix.not_run} mutants were not run: the budget ended first", "note"))
    missing = [key for key in matrix.properties if key not in matrix.killers]
    kept = f"{len(matrix.properties) - len(missing)} of {len(matrix.properties)} properties"
    print(f"{kept} are killed by a mutant")
    print(f"report: {path}")


_MARKS = {KILLED: "x", SURVIVED: ".", UNDECIDED: "?", BROKEN: "!"}
