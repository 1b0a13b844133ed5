"""`lychgate explain`: a scenario as a lesson, found by TLC or by the crash lab while you wait.

Question, trace, rule, guards: as text, as one HTML file (`--output`), or as a trace file
(`--json`). `--run DIR` does the broken thing on real files.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._hunt import ENGINE, find_mutant, led, target_named
from lychgate_conformance.lab._image import Image
from lychgate_conformance.lab._litmus_programs import LITMUS
from lychgate_conformance.lab._oracle import Oracle
from lychgate_conformance.lab._plan import Phase, Plan, Setting
from lychgate_conformance.lab._run import Run
from lychgate_conformance.lab._starts import find_start
from lychgate_conformance.lab._workload import parse_workload
from lychgate_tools import manifest as manifests
from lychgate_tools.check import limits_for
from lychgate_tools.models import task_of
from lychgate_tools.page import from_lab, from_litmus, from_tlc, lessons, output, real_files
from lychgate_tools.page.document import Builder, Document
from lychgate_tools.page.lessons import BY_NAME, LESSONS, Lesson
from lychgate_tools.page.sources import Sources
from lychgate_tools.spec_dir import locate
from lychgate_tools.tlc import toolchain
from lychgate_tools.tlc.output import Verdict
from lychgate_tools.tlc.runner import Runner
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    print_json,
    table,
    unknown,
)

_SUMMARY = "show a crash, a race or a failed call as a lesson"
_EXAMPLE = """lychgate explain --list
  lychgate explain ghost-inode --output ghost.html
  lychgate explain torn-append --run /tmp/torn

exit codes:
  0 the lesson was made   1 the trace no longer shows what the lesson is about
  3 fault of a tool   4 usage"""

_TLC_LIMIT_S = 120.0

RealFiles = Callable[[Path, real_files.Say], Image | None]
"""Does it on real files in a directory; the image of a host crash where there was one."""


@dataclass(frozen=True)
class Made:
    """A lesson with its trace, and how to do it on real files."""

    document: Document
    on_real_files: RealFiles


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "explain", _SUMMARY, _EXAMPLE)
    parser.add_argument("name", nargs="?", metavar="NAME", help="the scenario")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    output.add_options(parser)
    parser.add_argument(
        "--run", metavar="DIR", help="do it on real files in this empty directory, and show them"
    )


def run(args: argparse.Namespace) -> int:
    if args.list or args.name is None:
        if args.name is None and not args.list:
            raise UserError("name a scenario (see lychgate explain --list)", ExitCode.USAGE)
        return _list(args.json)
    if args.name not in BY_NAME:
        raise unknown("scenario", args.name, BY_NAME)
    where = real_files.prepared(Path(args.run)) if args.run else None
    with _working(args.name):
        made = make(BY_NAME[args.name])
    if where is not None:
        if args.output:
            output.write(made.document, Path(args.output))
        return _run(made, where, args.json)
    return output.give(args, made.document)


@contextmanager
def _working(name: str) -> Iterator[None]:
    """A line of progress while TLC or the lab is at work, neither of which says how far it is."""
    ended = threading.Event()
    with Progress("explaining", 1, "lesson") as progress:

        def tick() -> None:
            while not ended.wait(0.5):
                progress.update(0, name)

        ticking = threading.Thread(target=tick, daemon=True)
        ticking.start()
        try:
            yield
        finally:
            ended.set()
            ticking.join()


def _list(as_json: bool) -> int:
    if as_json:
        print_json([{"name": it.name, "title": it.title, "question": it.question}
                    for it in LESSONS])  # fmt: skip
    else:
        print(table(("scenario", "what it shows"), [(it.name, it.title) for it in LESSONS]))
    return ExitCode.OK


def _run(made: Made, where: Path, as_json: bool) -> int:
    said: list[str] = []
    image = made.on_real_files(where, said.append)
    kept = where / (real_files.LIVE if image is None else real_files.AFTER)
    files = {
        str(it.relative_to(kept)): it.read_bytes().decode("utf-8", "backslashreplace")
        for it in sorted(kept.rglob("*")) if it.is_file()
    }  # fmt: skip
    verdict = made.document["meta"]["verdict"]
    if as_json:
        print_json({"verdict": verdict, "steps": said, "directory": str(kept), "files": files})
        return ExitCode.OK
    head = f"In {kept}, as it is after the power failure:" if image else f"In {kept}, as it is:"
    listed = [f"  {name}: {ascii(text[:100])}" for name, text in files.items()] or ["  (nothing)"]
    for line in [*said, "", head, *listed, "", verdict]:
        output.say(line)
    return ExitCode.OK


# --- making a lesson --------------------------------------------------------------------------


def make(lesson: Lesson) -> Made:
    """Find the trace of a lesson now. UserError when it is not to be found any more."""
    source = lesson.source
    if isinstance(source, lessons.Model):
        return _from_tlc(lesson, source)
    if isinstance(source, lessons.Program):
        program = next(it for it in LITMUS if it.name == source.name)
        made, sources, left = from_litmus.builder(
            program, source.model, source.promise, source.about, lesson.title
        )

        def on_real_files(path: Path, say: real_files.Say) -> Image | None:
            real_files.litmus_again(program, left, path, say)
            return left

        return Made(_finished(lesson, made, sources), on_real_files)
    return _from_lab(lesson, source)


def _from_lab(lesson: Lesson, source: lessons.Mutant | lessons.Engine) -> Made:
    if isinstance(source, lessons.Mutant):
        finding = led(find_mutant(source.name)).finding
        if finding is None:
            raise UserError(f"no run shows the mutant {source.name} any more", ExitCode.SHORT)
        plan = finding.plan
    else:
        plan = _until(source)
    made, sources, film = from_lab.film(plan, lesson.title, lesson.says)
    start = find_start(plan.workload.start).image

    def on_real_files(path: Path, say: real_files.Say) -> Image | None:
        real_files.run_again(film.runs[0], start, film.left, path, say)
        return film.left

    return Made(_finished(lesson, made, sources), on_real_files)


def _until(source: lessons.Engine) -> Plan:
    """The run of the engine up to a moment, with the end of all processes there."""
    workload = parse_workload(source.workload)
    plan = Plan(ENGINE, "portable", workload, None, (), Setting())
    target, start = target_named(ENGINE, plan.setting), find_start(workload.start)
    oracle = Oracle(start.dead, start.tasks, workload.frequency)
    steps = 0
    with target.constants():
        again = Run(target, workload, Machine(start.image), oracle)
        while source.until not in [action for _, action, _ in again.trace]:
            again.take(0)
            steps += 1
        again.abandon()
    return plan.then(Phase((0,) * steps, None, "kill"))


def _from_tlc(lesson: Lesson, source: lessons.Model) -> Made:
    spec = locate()
    (model,) = manifests.load(spec.manifest).chosen([source.name], "quick")
    verdict, config = _checked(source)
    made = from_tlc.builder(spec, model, verdict, lesson.title, lesson.says, config)
    made.meta["holds"] = lesson.holds

    def on_real_files(path: Path, say: real_files.Say) -> Image | None:
        real_files.states_again(verdict.trace, path, say)
        return None

    return Made(_finished(lesson, made, made.sources), on_real_files)


def _checked(source: lessons.Model) -> tuple[Verdict, str]:
    """What TLC says of the model with the lesson's own definitions on top, and the model file."""
    spec = locate()
    (model,) = manifests.load(spec.manifest).chosen([source.name], "quick")
    task = task_of(spec, spec.modules(), model, limits_for("quick", 1, None, _TLC_LIMIT_S))
    if source.extra:
        root, config = "Lesson", task.config
        for old, new in source.changes:
            assert old in config, f"{model.config} has no line {old}"
            config = config.replace(old, new) if old else f"{config}\n{new}\n"
        text = f"---- MODULE {root} ----\nEXTENDS {model.module}\n{source.extra}\n====\n"
        task = replace(task, modules={**task.modules, root: text}, root=root, config=config,
                       coverage=False)  # fmt: skip
    with Runner(toolchain.find()) as runner:
        verdict = runner.run(task, lambda _: None).verdict
    if not verdict.trace or verdict.outcome != "violates":
        raise UserError(f"TLC says {verdict.said} of {source.name} and gives no trace: "
                        f"{verdict.detail}", ExitCode.SHORT)  # fmt: skip
    return verdict, task.config


def _finished(lesson: Lesson, made: Builder, sources: Sources) -> Document:
    made.meta["name"] = lesson.name
    made.meta["command"] = f"lychgate explain {lesson.name}"
    guards = [_guard(kind, name) for kind, name in lesson.guards]
    made.lesson = {
        "name": lesson.name,
        "question": lesson.question,
        "rule": lesson.rule,
        "guards": guards,
        "run": f"lychgate explain {lesson.name} --run DIR",
    }
    return made.document(sources.as_json())


_COMMANDS = {
    "model": "lychgate check {}",
    "mutant": "lychgate mutants engine {}",
    "case": "lychgate conform BACKEND --case {}",
    "litmus": "lychgate litmus {}",
}


def _guard(kind: str, name: str) -> dict[str, Any]:
    found = {"kind": kind, "name": name}
    if kind in _COMMANDS:
        found["command"] = _COMMANDS[kind].format(name)
    return found


