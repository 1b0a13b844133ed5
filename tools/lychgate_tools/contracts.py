"""`lychgate contracts`: have CrossHair explore every contract of the plain functions.

A contract is a `post:` line in a docstring, in one of our packages or, in a checkout, in a file
`model_tests/<area>/contracts_*.py`. CrossHair passes over what it cannot reach without a word, so
each function is asked for alone and with a report of everything:

    confirmed    every path was explored
    explored     no counter-example within the time given
    refuted      a counter-example was found: exit code 1
    unreached    no input met the preconditions, or CrossHair itself failed on it: exit code 1

CrossHair checks nothing inside `async def`; a contract there counts as unreached.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lychgate_tools.spec_dir import checkout
from lychgate_tools.ui import (
    ExitCode,
    Progress,
    Subparsers,
    UserError,
    add_command,
    colour,
    print_json,
    table,
    unknown,
)

PACKAGES = ("lychgate", "lychgate_conformance", "lychgate_tools")
_CONTRACT = re.compile(r"^\s*post(?:\[[^\]]*\])?:", re.M)
_JOBS = 2
_GRACE_S = 60


@dataclass(frozen=True)
class Target:
    name: str  # module.function or module.Class.method
    asynchronous: bool


@dataclass(frozen=True)
class Finding:
    target: Target
    verdict: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.verdict in ("refuted", "unreached")


def add_parser(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "contracts",
        "explore the contracts of the plain functions with CrossHair",
        "lychgate contracts --per-condition 10",
    )
    parser.add_argument("functions", nargs="*", metavar="FUNCTION", help="only these")
    parser.add_argument(
        "--per-condition",
        type=float,
        default=4.0,
        metavar="SECONDS",
        help="longest time for one condition (default: 4)",
    )


def run(args: argparse.Namespace) -> int:
    if importlib.util.find_spec("crosshair") is None:
        raise UserError(
            "CrossHair is not installed: pip install 'lychgate[dev]'", ExitCode.INCONCLUSIVE
        )
    targets = list(find())
    if args.functions:
        known = {target.name: target for target in targets}
        for name in args.functions:
            if name not in known:
                raise unknown("contract", name, known)
        targets = [known[name] for name in args.functions]
    with Progress("CrossHair", len(targets), "functions") as progress:
        with ThreadPoolExecutor(_JOBS) as pool:
            findings: list[Finding] = []
            for finding in pool.map(lambda target: explore(target, args.per_condition), targets):
                findings.append(finding)
                progress.update(len(findings), finding.target.name)
    code = ExitCode.SHORT if any(finding.bad for finding in findings) else ExitCode.OK
    if args.json:
        print_json(
            [
                {"function": one.target.name, "verdict": one.verdict, "detail": one.detail}
                for one in findings
            ]
        )
        return code
    print(table(("function", "verdict"), [(f.target.name, f.verdict) for f in findings]))
    for finding in findings:
        if finding.bad:
            print(colour(f"{finding.target.name}: {finding.detail}", "bad"))
    print(f"{len(findings)} functions with contracts, {args.per_condition:g} s per condition")
    return code


def find() -> Iterator[Target]:
    """Every function with a contract in its docstring: in our packages, then beside the tests."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            for path in sorted(Path(place).rglob("*.py")):
                module = ".".join((package, *path.relative_to(place).with_suffix("").parts))
                tree = ast.parse(path.read_text(encoding="utf-8"))
                yield from _in(tree, module.removesuffix(".__init__"))
    tests = _tests()
    for path in sorted(tests.glob("*/contracts_*.py")) if tests is not None else ():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from _in(tree, f"{path.parent.name}.{path.stem}")


def _tests() -> Path | None:
    root = checkout()
    return root / "model_tests" if root is not None else None


def _in(tree: ast.AST, prefix: str) -> Iterator[Target]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _in(node, f"{prefix}.{node.name}")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if _CONTRACT.search(ast.get_docstring(node) or ""):
                yield Target(f"{prefix}.{node.name}", isinstance(node, ast.AsyncFunctionDef))


def explore(target: Target, per_condition_s: float) -> Finding:
    """Run CrossHair on one function in a process of its own; it patches the interpreter."""
    if target.asynchronous:
        return Finding(target, "unreached", "CrossHair checks nothing inside async def")
    command = [sys.executable, "-m", "crosshair", "check", "--analysis_kind=PEP316", "--report_all"]
    try:
        done = subprocess.run(
            [*command, f"--per_condition_timeout={per_condition_s}", target.name],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GRACE_S + 20 * per_condition_s,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(_tests() or "")},
        )
    except subprocess.TimeoutExpired:
        return Finding(target, "unreached", "CrossHair did not end in time")
    return Finding(target, *judge(done.stdout, done.stderr, done.returncode))


def judge(stdout: str, stderr: str, code: int) -> tuple[str, str]:
    """Verdict and detail from what CrossHair printed with --report_all."""
    said = re.findall(r":\d+: (\w+): (.*)", stdout)
    wrong = [text for kind, text in said if kind == "error"]
    if wrong:
        return "refuted", wrong[0]
    infos = [text for kind, text in said if kind == "info"]
    if code != 0 or not infos:
        last = stderr.strip().splitlines()[-1:] or ["it reported nothing"]
        return "unreached", f"CrossHair did not explore it: {last[0]}"
    if any("precondition" in text for text in infos):
        return "unreached", "no input met the preconditions"
    confirmed = all(text.startswith("Confirmed") for text in infos)
    return ("confirmed" if confirmed else "explored"), ""
