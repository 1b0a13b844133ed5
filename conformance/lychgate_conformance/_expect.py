"""Expected failures: a file of case ids, each with the reason why it is known to fail.

    {"schema": …, "backend": …, "failures": [{"id": "L0-ADD-005", "reason": "issue 12"}]}

A run that is given the file counts these failures as known. An expectation whose case passes, or is
not claimed any more, is stale, and a stale one is an error: lists that nobody prunes rot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lychgate_conformance._schema import load
from lychgate_conformance._verdict import UsageError
from lychgate_conformance._verify import known_ids

SCHEMA = "lychgate-expectations/1"


def read_expected(path: Path) -> dict[str, str]:
    """Case id: reason. UsageError when the file is none of these, or names what does not exist."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    problem = load("expectations-1").problem(found)
    if problem is not None:
        raise UsageError(f"{path}: {problem}")
    reasons: dict[str, str] = {}
    for it in found["failures"]:
        if it["id"] in reasons:
            raise UsageError(f"{path}: {it['id']} stands twice")
        if it["id"] not in known_ids():
            raise UsageError(f"{path}: no case named {it['id']!r}; take it out")
        reasons[it["id"]] = it["reason"]
    return reasons


def expected_of(
    report: Any, old: Mapping[str, str], reason: str | None
) -> tuple[dict[str, str], list[str], list[str]]:
    """The expectations that a report calls for; which of them are new, and which old ones went.

    Cases that the report did not try keep their old expectation. UsageError when a new failure has
    no reason.
    """
    failed = [it["id"] for it in report["results"] if it["verdict"] == "fail"]
    settled = {it["id"] for it in report["results"] if it["verdict"] in ("pass", "not claimed")}
    new = [it for it in failed if it not in old]
    if new and not (reason or "").strip():
        raise UsageError(f"{len(new)} failures are new, {new[0]} …: give --reason for them")
    kept = {case_id: why for case_id, why in old.items() if case_id not in settled}
    kept |= {case_id: str(reason).strip() for case_id in new}
    gone = sorted(set(old) - set(kept))
    return dict(sorted(kept.items())), new, gone


def write_expected(path: Path, backend: str, reasons: Mapping[str, str]) -> None:
    """The file, replaced as a whole."""
    failures = [{"id": case_id, "reason": why} for case_id, why in reasons.items()]
    text = json.dumps({"schema": SCHEMA, "backend": backend, "failures": failures}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")
