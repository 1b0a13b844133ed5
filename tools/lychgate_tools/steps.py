"""Step identity: the engine's ops, the spec's actions and the labels of the docs are one set.

`lychgate._ops` and `lychgate._delivery_ops` are the table. This module reads it (without a file
system: a recorder stands in for the port and notes which call each op makes), reads docs/steps.md,
and compares both with the actions that SANY finds in the spec. The tidy tests run it. A module is
made of the engine's steps if docs/steps.md names it; others, which compose or abstract them, may
have actions of their own.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from lychgate import _delivery_ops, _ops
from lychgate._fs import Fs
from lychgate._op import Op
from lychgate_tools.manifest import Manifest
from lychgate_tools.spec_dir import Spec
from lychgate_tools.tlc import cfg, sany
from lychgate_tools.tlc.toolchain import Toolchain


class _Recorder:
    """A port that does nothing and remembers what it was asked."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: object) -> None:
            self.calls.append(name)

        return call


def engine_steps() -> dict[str, tuple[str, ...]]:
    """Each op class of the engine and the calls on the port that one `perform` makes."""
    found: dict[str, tuple[str, ...]] = {}
    table = {name: (one, m) for m in (_ops, _delivery_ops) for name, one in vars(m).items()}
    for name, (one, module) in sorted(table.items()):
        if not inspect.isclass(one) or not issubclass(one, Op) or one.__module__ != module.__name__:
            continue
        if name.startswith("_") or inspect.isabstract(one):
            continue
        arguments = [None] * len(dataclasses.fields(cast(Any, one)))
        recorder = _Recorder()
        one(*arguments).perform(cast(Fs, recorder))
        found[name] = tuple(recorder.calls)
    return found


def spec_actions(tools: Toolchain, spec: Spec, manifest: Manifest) -> dict[str, set[str]]:
    """Per module of the spec, the actions that the behaviour of some model of the design has.

    Not of rejected designs: a step that only they have is none of the spec.
    """
    modules = spec.modules()
    behaviours: dict[str, set[str]] = {}
    for model in manifest.models:
        if not model.positive:
            continue
        name = cfg.parse(spec.config(model.config)).behaviour
        behaviours.setdefault(model.module, set()).add(name)
    found: dict[str, set[str]] = {}
    for root, names in sorted(behaviours.items()):
        parsed = sany.parse(tools, modules, root)
        for name in names:
            for action in parsed.actions(name):
                found.setdefault(action.place.module, set()).add(action.name)
    return found


@dataclasses.dataclass(frozen=True)
class Labels:
    """docs/steps.md: steps with module and call, and the actions that are no step."""

    steps: Mapping[str, tuple[str, str]]  # step -> module, call
    others: frozenset[str]  # actions


def read_labels(path: Path) -> Labels:
    steps: dict[str, tuple[str, str]] = {}
    others: set[str] = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        name = re.fullmatch(r"`(\w+)`", cells[0])
        if name is None:
            continue
        if len(cells) == 4:
            steps[name[1]] = (cells[1], cells[2].strip("`"))
        elif len(cells) == 3:
            others.add(name[1])
    return Labels(steps, frozenset(others))


def differences(
    engine: Mapping[str, tuple[str, ...]],
    spec: Mapping[str, Iterable[str]],
    labels: Labels,
    unmodelled: Mapping[str, str],
) -> list[str]:
    """What is not the same in engine, spec and docs, one line each."""
    problems = [
        f"{name}: makes {len(calls)} calls on the port, not one ({', '.join(calls) or 'none'})"
        for name, calls in engine.items()
        if len(calls) != 1
    ]
    homes: dict[str, set[str]] = {}
    for module, actions in spec.items():
        for action in set(actions) & set(engine):
            homes.setdefault(action, set()).add(module)
    for name in sorted(set(engine) | set(labels.steps)):
        if name not in engine:
            problems.append(f"{name}: docs/steps.md has a step that the engine lacks")
        elif name not in labels.steps:
            problems.append(f"{name}: the engine has a step that docs/steps.md lacks")
        else:
            module, call = labels.steps[name]
            real = homes.get(name, {"-"})
            if module not in real or (call,) != engine[name]:
                told = f"{module}, {call}"
                truth = f"{' or '.join(sorted(real))}, {' '.join(engine[name])}"
                problems.append(f"{name}: docs/steps.md says {told}, it is {truth}")
    for name in sorted(engine):
        if name not in homes and name not in unmodelled:
            problems.append(f"{name}: no action of the spec, and no reason in [[unmodelled]]")
        if name in homes and name in unmodelled:
            problems.append(f"{name}: in [[unmodelled]], yet an action of {min(homes[name])}")
    for name in sorted(set(unmodelled) - set(engine)):
        problems.append(f"{name}: in [[unmodelled]], yet no step")
    for module in sorted({module for module, _ in labels.steps.values()} - {"-"}):
        for action in sorted(set(spec.get(module, ())) - set(engine)):
            if action not in labels.others:
                problems.append(f"{module}.{action}: neither a step of the engine nor explained")
    known = {action for actions in spec.values() for action in actions}
    problems += [
        f"{name}: docs/steps.md explains an action that no spec has"
        for name in sorted(labels.others)
        if name not in known
    ]
    return problems
