"""`lychgate check`: run TLC on the models of the manifest and compare everything.

Compared: the verdict by the full rule of `tlc.output`, the violated property by name, the length of
the counter-example, distinct states, depth; and over all quick models, that every action is taken
in one of them. Any drift is exit code 1, so that a spec that quietly shrinks is caught.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from lychgate_tools import manifest as manifests
from lychgate_tools import trace_text
from lychgate_tools.manifest import Manifest, Model
from lychgate_tools.models import (
    Limits,
    Result,
    dead_actions,
    default_jobs,
    measurements,
    merged_coverage,
    run_models,
)
from lychgate_tools.spec_dir import Spec, locate, reports_dir
from lychgate_tools.tlc import toolchain
from lychgate_tools.tlc.runner import Runner
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    colour,
    print_json,
    table,
)

_TIMEOUT_S = {"quick": 300.0, "full": 7200.0, "nightly": 36000.0}


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "check",
        "model-check the TLA+ spec and compare with its manifest",
        "lychgate check --class quick\n  lychgate check --trace Lock\n  lychgate check --mutants",
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="only these models")
    parser.add_argument(
        "--class",
        dest="time_class",
        choices=manifests.CLASSES,
        default="quick",
        help="all models of a time class (default: quick)",
    )
    parser.add_argument("--list", action="store_true", help="list the models and run nothing")
    parser.add_argument(
        "--trace", metavar="MODEL", help="print the counter-example of one model, step by step"
    )
    parser.add_argument(
        "--page", metavar="FILE", help="with --trace: write it as one HTML file (or as *.json)"
    )
    parser.add_argument(
        "--record", action="store_true", help="write the measured numbers into the manifest"
    )
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="break the spec on purpose: does every property notice some mutant?",
    )
    parser.add_argument(
        "--budget",
        type=_duration,
        default=900.0,
        metavar="TIME",
        help="time for --mutants, e.g. 90s, 15m, 2h (default: 15m)",
    )
    parser.add_argument(
        "--all", action="store_true", help="with --mutants: the whole matrix, not one killer each"
    )
    parser.add_argument("--spec", metavar="DIR", help="the directory with manifest.toml")
    parser.add_argument("--reports", metavar="DIR", help="where to write the report")
    parser.add_argument(
        "--jobs",
        type=_positive,
        metavar="N",
        help="models at once (default: one more than processors, at most 4; large ones: 1)",
    )
    parser.add_argument(
        "--memory", type=_memory, metavar="SIZE", help="Java heap of each model, e.g. 2g"
    )
    parser.add_argument(
        "--timeout", type=_duration, metavar="TIME", help="longest time for one model"
    )


def run(args: argparse.Namespace) -> int:
    spec = locate(args.spec)
    manifest = manifests.load(spec.manifest)
    if args.page and not args.trace:
        raise UserError("--page writes the trace of one model: name it with --trace",
                        ExitCode.USAGE)  # fmt: skip
    names = [args.trace] if args.trace else args.models
    chosen = manifest.chosen(names, args.time_class)
    if args.list:
        return _list(manifest, args.json)
    if not chosen:
        raise UserError(f"{spec.manifest} has no {args.time_class} model", ExitCode.USAGE)
    if args.mutants:
        from lychgate_tools import kills

        return kills.run(args, spec, [model for model in chosen if model.positive])
    tools = toolchain.find()
    with Runner(tools) as runner, Progress("TLC", unit="states") as progress:
        results = run_models(spec, chosen, runner, _limits(args, chosen), progress)
    if args.trace:
        if args.page and results[0].verdict.trace:
            _write_page(spec, results[0], args.page)
        return _print_trace(results[0], args.json)
    if args.record:
        return _record(spec, results)
    whole = not args.models and args.time_class == "quick"
    dead = dead_actions(results) if whole else []
    code = _exit_code(results, dead)
    report = _report(results, dead, code)
    if args.reports:
        _write(reports_dir(args.reports) / "check.json", report)
    if args.json:
        print_json(report)
    else:
        _print(results, dead, args.reports)
    return code


def limits_for(
    time_class: str, jobs: int | None, memory: str | None, timeout_s: float | None
) -> Limits:
    """The limits that were asked for, else those of the class."""
    return Limits(
        jobs or default_jobs(time_class),
        memory or ("1g" if time_class == "quick" else "2g"),
        timeout_s or _TIMEOUT_S[time_class],
    )


def _limits(args: argparse.Namespace, chosen: list[Model]) -> Limits:
    largest = max((model.time_class for model in chosen), key=manifests.CLASSES.index)
    return limits_for(largest, args.jobs, args.memory, args.timeout)


# --- results ----------------------------------------------------------------------------------


def _exit_code(results: list[Result], dead: list[tuple[str, str]]) -> int:
    """A check that fell short outweighs a fault, and that outweighs what could not be measured."""
    codes = {result.code for result in results}
    if ExitCode.SHORT in codes or dead:
        return ExitCode.SHORT
    for code in (ExitCode.FAULT, ExitCode.INCONCLUSIVE):
        if code in codes:
            return code
    return ExitCode.OK


def _report(results: list[Result], dead: list[tuple[str, str]], code: int) -> dict[str, Any]:
    return {
        "schema": "lychgate-check-1",
        "exit_code": int(code),
        "models": [_result_json(result) for result in results],
        "actions": [
            {"module": line.module, "action": line.action, "generated": line.generated}
            for line in merged_coverage(results)
        ],
        "dead_actions": [{"module": module, "action": action} for module, action in dead],
    }


def _result_json(result: Result) -> dict[str, Any]:
    return {
        "name": result.model.name,
        "class": result.model.time_class,
        "expect": result.model.expect,
        "verdict": result.verdict.said,
        "detail": result.verdict.detail,
        "distinct": result.verdict.distinct,
        "generated": result.verdict.generated,
        "depth": result.verdict.depth,
        "trace_length": len(result.verdict.trace) or None,
        "seconds": round(result.seconds, 2),
        "problems": list(result.problems),
    }


def _print(results: list[Result], dead: list[tuple[str, str]], reports: str | None) -> None:
    rows = [
        (
            result.model.name,
            "as expected" if not result.problems else "DRIFT",
            result.verdict.said,
            result.verdict.distinct,
            result.verdict.depth,
            len(result.verdict.trace) or None,
            f"{result.seconds:.1f}",
        )
        for result in results
    ]
    print(table(("model", "", "TLC says", "distinct", "depth", "trace", "seconds"), rows))
    print()
    for result in results:
        for problem in result.problems:
            print(colour(f"{result.model.name}: {problem}", "bad"))
    for module, action in dead:
        print(colour(f"{module}.{action}: no quick model ever takes this action", "bad"))
    wrong = sum(bool(result.problems) for result in results) + len(dead)
    states = sum(result.verdict.distinct or 0 for result in results)
    summary = f"{len(results)} models, {states:,} distinct states: "
    print(summary + (colour("all as expected", "good") if not wrong else f"{wrong} fell short"))
    if reports:
        print(f"report: {Path(reports) / 'check.json'}")


def _list(manifest: Manifest, as_json: bool) -> int:
    rows = [(m.name, m.time_class, m.expect, m.about) for m in manifest.models]
    if as_json:
        keys = ("name", "class", "expect", "about")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
    else:
        print(table(("model", "class", "expected", "about"), rows))
    return ExitCode.OK


def _print_trace(result: Result, as_json: bool) -> int:
    if as_json:
        print_json(trace_text.as_json(result.verdict))
        return result.code
    if not result.verdict.trace:
        detail = f" ({result.verdict.detail})" if result.verdict.detail else ""
        print(f"{result.model.name}: {result.verdict.said}{detail}; no counter-example")
        return result.code
    print(f"{result.model.name}: {result.verdict.said}, {len(result.verdict.trace)} states")
    for line in trace_text.lines(result.verdict):
        print(line)
    return result.code


def _write_page(spec: Spec, result: Result, path: str) -> None:
    from lychgate_tools.page import from_tlc, output  # nobody else needs the lab

    output.write(from_tlc.document(spec, result.model, result.verdict), Path(path))


def _record(spec: Spec, results: list[Result]) -> int:
    """Write the numbers of every model whose verdict is the expected one; complain of the rest."""
    good = [result for result in results if result.verdict.said == result.model.expect]
    numbers = {result.model.name: measurements(result.model, result.verdict) for result in good}
    manifests.record(spec.manifest, numbers)
    print(f"recorded {len(good)} of {len(results)} models in {spec.manifest}")
    for result in results:
        if result not in good:
            print(colour(f"{result.model.name}: not recorded: {result.problems[0]}", "bad"))
    return ExitCode.OK if len(good) == len(results) else ExitCode.SHORT


def _write(path: Path, report: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error


# --- values of options ------------------------------------------------------------------------


def _duration(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|h)?", text)
    if found is None or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time such as 90s, 15m or 2h")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600, None: 1}[found[2]]


def _memory(text: str) -> str:
    if re.fullmatch(r"\d+[mgMG]", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 900m or 2g")
    return text


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 up")
    return int(text)


