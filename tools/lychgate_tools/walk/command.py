"""`lychgate walk`: every edge of a model's state graph, taken by the engine.

At each edge the engine takes the same step on the simulated file system, and its whole state is
compared with the model's. A step that the engine can take and the spec cannot, or the reverse,
ends the walk with both sides shown. Coverage must be 100 % for every quick model.
"""

from __future__ import annotations

import argparse
import re
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from unittest import mock

from lychgate import _lock
from lychgate_tools import manifest as manifests
from lychgate_tools.manifest import Model
from lychgate_tools.models import default_jobs
from lychgate_tools.spec_dir import Spec, locate
from lychgate_tools.tlc import cfg, toolchain
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    print_json,
    seconds,
    table,
)
from lychgate_tools.walk import graph, store
from lychgate_tools.walk.tour import Walk, walk

SIDES = {"MC_Lock": store, "MC_DeadTasks": store}
"""The engine's side, by root module."""


@dataclass(frozen=True)
class Outcome:
    """What the walk of one model gave."""

    model: str
    states: int
    walk: Walk
    seconds: float
    path: tuple[str, ...]  # of a failure: its steps, and what changed in the last of them

    @property
    def coverage(self) -> float:
        return 100 * self.walk.walked / self.walk.edges if self.walk.edges else 100.0


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "walk",
        "take every edge of the models' state graphs on the engine",
        "lychgate walk\n  lychgate walk Lock --json",
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="only these models")
    parser.add_argument("--spec", metavar="DIR", help="the directory with manifest.toml")
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="models at once")


def run(args: argparse.Namespace) -> int:
    spec = locate(args.spec)
    models = _chosen(spec, args.models)
    toolchain.find()  # fetched once, before several processes would
    outcomes = _walk_all(spec, models, args.jobs or default_jobs("quick"))
    code = ExitCode.OK if all(o.walk.complete for o in outcomes) else ExitCode.SHORT
    if args.json:
        print_json([_json(outcome) for outcome in outcomes])
        return code
    headers = ("model", "states", "edges", "walked", "steps", "coverage", "time")
    print(table(headers, [_row(outcome) for outcome in outcomes]))
    for outcome in outcomes:
        if outcome.walk.failure is not None:
            print(f"\n{outcome.model}: {outcome.walk.failure[1]}")
            print("\n".join(f"  {line}" for line in outcome.path))
            print(f"again: lychgate walk {outcome.model}")
    return code


def walkable(models: tuple[Model, ...]) -> list[Model]:
    """The quick models with an engine's side: the correct design, safety only."""
    return [
        model
        for model in models
        if model.positive
        and model.time_class == "quick"
        and model.module in SIDES
        and not model.liveness
    ]


def _chosen(spec: Spec, names: list[str]) -> list[Model]:
    manifest = manifests.load(spec.manifest)
    possible = walkable(manifest.models)
    if not names:
        return possible
    chosen = manifest.chosen(names, "quick")
    for model in chosen:
        if model not in possible:
            known = ", ".join(found.name for found in possible)
            raise UserError(f"{model.name} cannot be walked; there are: {known}", ExitCode.USAGE)
    return chosen


def _walk_all(spec: Spec, models: list[Model], jobs: int) -> list[Outcome]:
    found: dict[str, Outcome] = {}
    with ProcessPoolExecutor(max_workers=jobs) as pool, Progress("walk", unit="models") as progress:
        progress.total = len(models)
        by_size = sorted(models, key=lambda model: -(model.distinct or 0))
        futures: dict[Future[Outcome], str] = {
            pool.submit(walk_model, spec, model): model.name for model in by_size
        }
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            for future in done:
                found[futures[future]] = future.result()
            progress.update(len(found), ", ".join(sorted(futures[future] for future in waiting)))
    return [found[model.name] for model in models]


def walk_model(spec: Spec, model: Model) -> Outcome:
    """Walk one model to its end, or to the first edge on which engine and model part ways."""
    begun = time.monotonic()
    config = spec.config(model.config)
    found = graph.load(spec.modules(), model.module, config)
    side = SIDES[model.module]
    with mock.patch.object(_lock, "LOCK_ATTEMPTS_MAX", _tries_of(config)):
        done = walk(found, side.starts_of(found), lambda state: side.StoreWorld(found, state))
    path = () if done.failure is None else _explain(found, done.failure[0])
    return Outcome(model.name, len(found.states), done, time.monotonic() - begun, path)


def _tries_of(config: str) -> int:
    """The cap of the retry loop is a constant of the model (D14)."""
    constants = " ".join(cfg.parse(config).names("CONSTANTS"))
    match = re.search(r"MaxTries = (\d+)", constants)
    return int(match[1]) if match else _lock.LOCK_ATTEMPTS_MAX


def _explain(found: graph.Graph, path: list[tuple[int, str, int]]) -> tuple[str, ...]:
    lines = [action for _, action, _ in path]
    if path:
        source, _, target = path[-1]
        lines += [
            f"{name}: {found.value(source, name)} -> {found.value(target, name)}"
            for name in found.variables
            if found.value(source, name) != found.value(target, name)
        ]
    return tuple(lines)


def _row(outcome: Outcome) -> tuple[object, ...]:
    return (
        outcome.model,
        outcome.states,
        outcome.walk.edges,
        outcome.walk.walked,
        outcome.walk.steps,
        f"{outcome.coverage:.1f} %",
        seconds(outcome.seconds),
    )


def _json(outcome: Outcome) -> dict[str, object]:
    failure = outcome.walk.failure
    return {
        "model": outcome.model,
        "states": outcome.states,
        "edges": outcome.walk.edges,
        "walked": outcome.walk.walked,
        "steps": outcome.walk.steps,
        "seconds": round(outcome.seconds, 1),
        "failure": None if failure is None else {"message": failure[1], "path": outcome.path},
    }
