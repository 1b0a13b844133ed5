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
from lychgate_tools.trace.format import Event, Trace
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
        return module.arms_of(self.parsed(kind), self.modules, kind)

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
        known = {*self.arms(kind), *kind.told}
        self._demand(trace, 1, kind.constant in trace.constants, f"no constant {kind.constant}")
        for event in trace.events:
            hint = "" if event.action in known else nearest(event.action, known)
            said = f"{kind.module} has no action {event.action!r}{hint}"
            self._demand(trace, event.line, event.action in known, said)
            for name in self._missing(kind, event):
                self._demand(trace, event.line, False, f"{event.action} needs a {name}")
            for name in (event.worker, event.fiber):
                self._demand(trace, event.line, not name or name.isidentifier(),
                             f"{name!r} is not a name")  # fmt: skip
        names = set(kind.names)
        said = f"seen has to hold {', '.join(sorted(names))}"
        for line, seen in ((1, trace.seen), *((e.line, e.seen) for e in trace.events)):
            self._demand(trace, line, not names or set(seen) == names, said)

    def _missing(self, kind: Kind, event: Event) -> list[str]:
        """Who has to act in an event, and is not named."""
        action = self.parsed(kind).named(event.action)
        names = {"w", "f"} if action is None else set(module.parameters(action, self.modules))
        found = (("w", event.worker, "worker"), ("f", event.fiber, "fiber"))
        return [what for name, value, what in found if name in names and not value]

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
            small=tree.distinct < 50_000,
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
