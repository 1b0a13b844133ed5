"""Checking traces with TLC, all of one kind in one run.

TLC says which traces have a behaviour of the spec beside them: the node of a trace's end is printed
when it is reached. For a trace that has none `explain` finds the step and the guard.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from lychgate_tools.spec_dir import Spec
from lychgate_tools.tlc import sany
from lychgate_tools.tlc.output import Verdict
from lychgate_tools.tlc.runner import Runner, Task
from lychgate_tools.tlc.sany import Parsed
from lychgate_tools.trace import module
from lychgate_tools.trace.format import Trace
from lychgate_tools.trace.kind import Kind
from lychgate_tools.trace.kinds import kind_of
from lychgate_tools.trace.module import Tree
from lychgate_tools.ui import ExitCode, UserError, nearest


@dataclass(frozen=True)
class Limits:
    """Memory of Java and seconds of one run of TLC."""

    memory: str = "2g"
    timeout_s: float = 600.0


@dataclass
class Batch:
    """Traces of one kind and one set of constants, and what TLC said of them."""

    kind: Kind
    traces: list[Trace]
    accepted: list[bool] = field(default_factory=list)
    distinct: int = 0  # steps that are left after equal beginnings were joined
    states: int = 0
    seconds: float = 0.0

    @property
    def steps(self) -> int:
        return sum(len(trace.events) for trace in self.traces)


@dataclass
class Checker:
    """A spec that was parsed once, and a runner."""

    spec: Spec
    runner: Runner
    limits: Limits = Limits()
    invariants: bool = False
    _parsed: dict[str, Parsed] = field(default_factory=dict)
    _arms: dict[str, dict[str, str]] = field(default_factory=dict)
    _heads: dict[tuple[str, str, str, str], str] = field(default_factory=dict)
    _modules: dict[str, str] = field(default_factory=dict)

    @property
    def modules(self) -> dict[str, str]:
        if not self._modules:
            self._modules = self.spec.modules()
        return self._modules

    def parsed(self, kind: Kind) -> Parsed:
        if kind.root not in self.modules:
            raise UserError(f"no module {kind.root}.tla in {self.spec.root}", ExitCode.FAULT)
        if kind.root not in self._parsed:
            self._parsed[kind.root] = sany.parse(self.runner.tools, self.modules, kind.root)
        return self._parsed[kind.root]

    def arms(self, kind: Kind) -> dict[str, str]:
        """Per action of the spec, how it is applied to an event; worked out once."""
        if kind.root not in self._arms:
            self._arms[kind.root] = module.arms_of(self.parsed(kind), self.modules, kind)
        return self._arms[kind.root]

    def check(
        self, traces: Sequence[Trace], on_progress: Callable[[int], None] | None = None
    ) -> list[Batch]:
        """All traces, one run of TLC for each kind and set of constants."""
        batches: dict[tuple[str, str], Batch] = {}
        for trace in traces:
            kind = kind_of(trace)
            self._look(trace, kind)
            key = kind.module, json.dumps(dict(trace.constants), sort_keys=True)
            batches.setdefault(key, Batch(kind, [])).traces.append(kind.prepared(trace))
        for batch in batches.values():
            self._run(batch, on_progress)
        return list(batches.values())

    def _look(self, trace: Trace, kind: Kind) -> None:
        """What no spec could make sense of is a mistake in the file and no verdict."""
        self._demand(trace, 1, kind.constant in trace.constants, f"no constant {kind.constant}")
        names, said = set(kind.names), f"seen has to hold {', '.join(sorted(kind.names))}"
        self._demand(trace, 1, not names or set(trace.seen) == names, said)
        seen = trace.seen
        for event in trace.events:
            head = kind.module, event.action, event.worker, event.fiber
            if head not in self._heads:
                self._heads[head] = self._wrong(kind, *head[1:])
            self._demand(trace, event.line, not self._heads[head], self._heads[head])
            if event.seen is not seen:
                seen = event.seen
                self._demand(trace, event.line, not names or set(seen) == names, said)

    def _wrong(self, kind: Kind, action: str, worker: str, fiber: str) -> str:
        """What is wrong with who did what in an event; empty if nothing is."""
        known = {*self.arms(kind), *kind.told}
        if action not in known:
            return f"{kind.module} has no action {action!r}{nearest(action, known)}"
        for name in (worker, fiber):
            if name and not name.isidentifier():
                return f"{name!r} is not a name"
        step = self.parsed(kind).named(action)
        needs = {"w", "f"} if step is None else set(module.parameters(step, self.modules))
        for parameter, name, what in (("w", worker, "worker"), ("f", fiber, "fiber")):
            if parameter in needs and not name:
                return f"{action} needs a {what}"
        return ""

    def _demand(self, trace: Trace, line: int, fine: bool, said: str) -> None:
        if not fine:
            raise UserError(f"{trace.name}:{line}: {said}", ExitCode.USAGE)

    def _run(self, batch: Batch, on_progress: Callable[[int], None] | None) -> None:
        begun = time.monotonic()
        tree = module.lay_out(batch.traces, batch.kind)
        verdict, printed = self.run_tree(batch.kind, batch.traces, tree, on_progress)
        reached = {int(line) for line in printed if line.isdigit()}
        batch.accepted = [False] * len(batch.traces)
        for node, numbers in tree.ends.items():
            for number in numbers:
                batch.accepted[number] = node in reached
        batch.distinct, batch.states = tree.distinct, verdict.distinct or 0
        batch.seconds = time.monotonic() - begun

    def run_tree(
        self,
        kind: Kind,
        traces: Sequence[Trace],
        tree: Tree,
        on_progress: Callable[[int], None] | None = None,
    ) -> tuple[Verdict, list[str]]:
        """Run TLC; its verdict on the run as such, and the lines that the spec printed."""
        definitions, values = kind.constants(traces)
        texts = module.sources(tree, kind, module.arms_text(self.arms(kind), kind), definitions)
        task = Task(
            modules={**self.modules, **texts},
            root=module.ROOT,
            config=module.config(values, kind.invariants if self.invariants else ()),
            deadlock=False,
            coverage=False,
            small=True,  # one state after another: the optimising compiler costs more than it gives
            memory=self.limits.memory,
            timeout_s=self.limits.timeout_s,
        )
        run = self.runner.run(task, on_progress)
        if run.verdict.outcome != "ok":
            raise failure(kind, run.verdict)
        return run.verdict, run.output.loose


_CODES = {"parse": ExitCode.SHORT, "timeout": ExitCode.INCONCLUSIVE}


def failure(kind: Kind, verdict: Verdict) -> UserError:
    """TLC has not judged the traces: one line, and the code that says whose fault it is."""
    if verdict.outcome == "violates":
        return UserError(f"a trace of {kind.module} {verdict.said}", ExitCode.SHORT)
    return UserError(
        f"traces of {kind.module} were not checked: {verdict.detail or verdict.said}",
        _CODES.get(verdict.kind, ExitCode.FAULT),
    )
