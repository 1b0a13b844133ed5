"""`lychgate walk`: every edge of a model's state graph, taken by the engine.

At each edge the engine takes the same step on the simulated file system, and its whole state is
compared with the model's. A step that the engine can take and the spec cannot, or the reverse,
ends the walk with both sides shown. Coverage must be 100 % for every quick model.
"""

from __future__ import annotations

import argparse
import gc
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

from lychgate_tools import manifest as manifests
from lychgate_tools.manifest import Model
from lychgate_tools.models import default_jobs
from lychgate_tools.spec_dir import Spec, locate
from lychgate_tools.tlc import toolchain
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
from lychgate_tools.walk import graph, sides
from lychgate_tools.walk.tour import Walk, walk


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
    parser.add_argument(
        "--states-max", type=int, default=0, metavar="N", help="only models of at most N states"
    )
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="models at once")


def run(args: argparse.Namespace) -> int:
    spec = locate(args.spec)
    models, left_out = _chosen(spec, args.models, args.states_max)
    toolchain.find()  # fetched once, before several processes would
    outcomes = _walk_all(spec, models, args.jobs or default_jobs("quick"))
    code = ExitCode.OK if all(o.walk.complete for o in outcomes) else ExitCode.SHORT
    if args.json:
        print_json({"models": [_json(outcome) for outcome in outcomes], "not_walked": left_out})
        return code
    headers = ("model", "states", "edges", "walked", "steps", "coverage", "time")
    print(table(headers, [_row(outcome) for outcome in outcomes]))
    for name, reason in left_out.items():
        print(f"not walked: {name}, {reason}")
    for outcome in outcomes:
        if outcome.walk.failure is not None:
            print(f"\n{outcome.model}: {outcome.walk.failure[1]}")
            print("\n".join(f"  {line}" for line in outcome.path))
            print(f"again: lychgate walk {outcome.model}")
    return code


def _chosen(
    spec: Spec, names: list[str], states_max: int
) -> tuple[list[Model], dict[str, str]]:
    """The models to walk, and why others are not."""
    manifest = manifests.load(spec.manifest)
    reasons = {model.name: sides.excluded(model) for model in manifest.models}
    if not names:
        asked = sides.possible(manifest.models)
        too_large = f"more than {states_max:,} states"
        for model in asked:
            if states_max and (model.distinct or 0) > states_max:
                reasons[model.name] = reasons[model.name] or too_large
        left_out = {model.name: reasons[model.name] for model in asked if reasons[model.name]}
        return [model for model in asked if not reasons[model.name]], left_out
    chosen = manifest.chosen(names, "quick")
    for model in chosen:
        if reasons[model.name]:
            raise UserError(f"{model.name} is not walked: {reasons[model.name]}", ExitCode.USAGE)
    return chosen, {}


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
    root, config = sides.plain(model.module, spec.config(model.config))
    found = graph.load(spec.modules(), root, config)
    if model.distinct not in (None, len(found.states)):
        raise UserError(
            f"the graph of {model.name} has {len(found.states)} states and the manifest says "
            f"{model.distinct}: run `lychgate check {model.name}`",
            ExitCode.SHORT,
        )
    found = sides.walked(root, found)
    gc.freeze()  # the graph is never garbage: looking through it again costs a third of the walk
    side = sides.SIDES[root](found, config)
    with sides.constants(config):
        done = walk(found, side)
    path = () if done.failure is None else _explain(found, done.failure[0])
    return Outcome(model.name, len(found.states), done, time.monotonic() - begun, path)


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
        "coverage": round(outcome.coverage, 2),
        "steps": outcome.walk.steps,
        "seconds": round(outcome.seconds, 1),
        "failure": None if failure is None else {"message": failure[1], "path": outcome.path},
    }
