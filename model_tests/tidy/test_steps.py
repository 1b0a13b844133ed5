"""Step identity: ops of the engine, actions of the spec and labels of the docs are one set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lychgate_tools import manifest, steps
from lychgate_tools.manifest import Model
from lychgate_tools.spec_dir import Spec
from lychgate_tools.spec_text import Source
from lychgate_tools.steps import Labels, differences
from lychgate_tools.tlc import cfg, toolchain

ROOT = Path(__file__).resolve().parents[2]


def test_engine_spec_and_docs_agree() -> None:
    """A step that one of the three lacks, or calls by another name, is named."""
    spec = Spec(ROOT / "spec")
    known = manifest.load(spec.manifest)
    problems = differences(
        steps.engine_steps(),
        steps.spec_actions(toolchain.find(), spec, known),
        steps.read_labels(ROOT / "docs" / "steps.md"),
        known.unmodelled,
    )
    assert not problems, "\n" + "\n".join(problems)


def test_models_without_coverage_have_no_action_of_their_own() -> None:
    """`lychgate check` finds dead actions among those that some model with coverage has."""
    spec = Spec(ROOT / "spec")
    source = Source(spec.modules())

    def actions(model: Model) -> set[tuple[str, str]]:
        behaviour = cfg.parse(spec.config(model.config)).behaviour
        return {
            (module, name)
            for module, name in source.reachable(model.module, behaviour)
            if re.search(r"'|\bUNCHANGED\b", source.modules[module].definitions[name][1])
        }

    models = [
        model
        for model in manifest.load(spec.manifest).models
        if model.time_class == "quick" and model.positive
    ]
    counted = set().union(*(actions(model) for model in models if model.coverage))
    assert len(counted) > 200, "of the spec's actions"
    alone = {model.name: actions(model) - counted for model in models if not model.coverage}
    assert {name: left for name, left in alone.items() if left} == {}


ENGINE: dict[str, tuple[str, ...]] = {"LockTry": ("try_lock",), "MakeDir": ("make_dir",)}
SPEC = {"Lock": {"LockTry", "Kill"}, "Queue": {"Enqueue"}}
LABELS = Labels(
    {"LockTry": ("Lock", "try_lock"), "MakeDir": ("-", "make_dir")}, frozenset({"Kill"})
)
REASONS = {"MakeDir": "once"}


def test_agreement_is_silence() -> None:
    """Modules without a step of the engine may call their actions as they like."""
    assert differences(ENGINE, SPEC, LABELS, REASONS) == []


@pytest.mark.parametrize(
    ("engine", "spec", "labels", "reasons", "says"),
    [
        ({**ENGINE, "Unlock": ("unlock",)}, SPEC, LABELS, REASONS, "docs/steps.md lacks"),
        ({"LockTry": ("try_lock",)}, SPEC, LABELS, {}, "a step that the engine lacks"),
        (ENGINE, SPEC, LABELS, {}, "no action of the spec, and no reason"),
        ({**ENGINE, "LockTry": ("status", "try_lock")}, SPEC, LABELS, REASONS, "makes 2 calls"),
        (ENGINE, {"Lock": {"LockTry", "Kill", "Barge"}}, LABELS, REASONS, "Lock.Barge: neither"),
        (ENGINE, {"Lock": {"LockTry"}}, LABELS, REASONS, "explains an action that no spec has"),
        (ENGINE, {"Wal": {"LockTry", "Kill"}}, LABELS, REASONS, "docs/steps.md says"),
        (ENGINE, SPEC, LABELS, {**REASONS, "LockTry": "no"}, "yet an action of Lock"),
        (ENGINE, SPEC, LABELS, {**REASONS, "Gone": "no"}, "Gone: in [[unmodelled]], yet no step"),
    ],
)
def test_every_difference_is_named(
    engine: dict[str, tuple[str, ...]],
    spec: dict[str, set[str]],
    labels: Labels,
    reasons: dict[str, str],
    says: str,
) -> None:
    assert any(says in problem for problem in differences(engine, spec, labels, reasons))


def test_every_step_has_its_one_call() -> None:
    found = steps.engine_steps()
    assert len(found) >= 40
    assert all(len(calls) == 1 for calls in found.values())
