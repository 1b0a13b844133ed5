"""A report as JUnit XML, for continuous integration that shows such files.

A known failure is `skipped`, as is what was not claimed, not measured or left out by the user; a
harness error and a case without an answer are `error`.
"""

from __future__ import annotations

from xml.etree import ElementTree as Tree

from lychgate_conformance._case import LEVELS
from lychgate_conformance._report import Report, Result, replay
from lychgate_conformance._verdict import Verdict

_SKIPPED = (Verdict.NOT_CLAIMED, Verdict.NOT_MEASURED, Verdict.SKIPPED)


def as_junit(report: Report) -> str:
    """One test suite per level, one test case per case."""
    root = Tree.Element("testsuites", name=_clean(f"lychgate {report.backend}"))
    for level, name in LEVELS.items():
        results = [it for it in report.results if it.case.level == level]
        if results:
            root.append(_suite(f"level {level}: {name}", results, report))
    if report.stale:
        suite = Tree.SubElement(root, "testsuite", name="stale expectations")
        for case_id, how in report.stale.items():
            case = Tree.SubElement(suite, "testcase", classname="lychgate.stale", name=case_id)
            said = f"expected to fail ({report.expected[case_id]}): {how}"
            Tree.SubElement(case, "failure", message=_clean(said))
        suite.set("tests", str(len(report.stale)))
        suite.set("failures", str(len(report.stale)))
    Tree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Tree.tostring(root, "unicode") + "\n"


def _suite(name: str, results: list[Result], report: Report) -> Tree.Element:
    kinds = [_kind(it) for it in results]
    suite = Tree.Element(
        "testsuite",
        name=name,
        tests=str(len(results)),
        failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")),
        skipped=str(kinds.count("skipped")),
        time=f"{sum(it.seconds for it in results):.3f}",
    )
    properties = Tree.SubElement(suite, "properties")
    Tree.SubElement(properties, "property", name="seed", value=str(report.seed))
    for result, kind in zip(results, kinds, strict=True):
        case = Tree.SubElement(
            suite,
            "testcase",
            classname=f"lychgate.{result.case.id.rpartition('-')[0]}",
            name=f"{result.case.id} {result.case.title}",
            time=f"{result.seconds:.3f}",
        )
        if kind:
            said = Tree.SubElement(case, kind, message=_clean(_message(result)))
            if kind != "skipped":
                said.text = _clean(f"{replay(result)}\n{result.stderr}".strip())
    return suite


def _kind(result: Result) -> str:
    if result.verdict is Verdict.PASS:
        return ""
    if result.verdict in _SKIPPED or result.known:
        return "skipped"
    return "failure" if result.verdict is Verdict.FAIL else "error"


def _message(result: Result) -> str:
    known = f" (expected: {result.expected})" if result.known else ""
    return f"{result.verdict.value}: {result.message}{known}"


def _clean(text: str) -> str:
    """Text without what XML cannot hold."""
    return "".join(
        char if char in "\t\n" or (char.isprintable() and not "\ud800" <= char <= "\udfff") else "?"
        for char in text
    )
