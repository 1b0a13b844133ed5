"""The text of docs/results.md, and whether a page is whole."""

from __future__ import annotations

import datetime
import platform
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping, Sequence

from lychgate_conformance._case import LEVELS, suite_digest
from lychgate_conformance.adapters.third_party import all_stores, spec
from lychgate_conformance.mutants._trial import every_mutant
from lychgate_tools.mounts import mount_of
from lychgate_tools.mutants_suite import HEADERS, Score, control_rows
from lychgate_tools.results_run import BEYOND, COUNTED, SEED, Held, Observation, store_named

_HEAD = """# Results

Written by `lychgate results --write docs/results.md`; do not edit. `lychgate results --part stores`
and `--part mutants` make one part alone. A test reads this page and sees that it is whole.
"""
_MAPPINGS = "../conformance/lychgate_conformance/adapters/third_party/__init__.py"
_STORES = f"""## Other people's stores

Each store is as its package ships it, behind a [mapping]({_MAPPINGS})
of the seven methods onto its own calls. It is held to what its documentation promises and to
nothing else; where it has a setting for durable writes, it is run with that setting and as it
comes. What stands here are observations with these versions: *may* means that a legal image of the
model `portable` was found in which it is so, not that it is likely. A failure may also lie in the
mapping, whose limits are told with each store. Passing the cases of a level is not a proof either.

Of levels 0 and 1 the large cases are left out, from level 2 on all but a few cases (*left out*
counts them). All of them: `lychgate conform NAME`, where NAME stands with each store.
"""
_BEYOND = (
    "Not promised, and looked at all the same: the cases {cases} as if a host crash were survived"
    " and each answer durable."
)


def environment() -> str:
    """When and where, in a sentence."""
    mount = mount_of(tempfile.gettempdir())
    kind = mount.kind if mount is not None else "a file system that is not known"
    return (
        f"Measured on {datetime.date.today().isoformat()}: Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {platform.system()} {platform.release()}, files on "
        f"{kind}; seed {SEED}, suite {suite_digest()[:12]}."
    )


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [headers, ["---"] * len(headers), *rows]
    return [f"| {' | '.join(str(cell) for cell in line)} |" for line in lines]


# --- the part of the stores -------------------------------------------------------------------


def stores(held: Sequence[Held]) -> str:
    """The part about other people's stores."""
    headers = ("store", "setting", "version", *(f"level {level}" for level in LEVELS))
    rows = [
        (_link(it), _setting(it), it.version or "not installed", *map(_cell, _levels(it)))
        for it in held
    ]
    lines = [_STORES, environment(), "", "Passed / failed:", "", *_table(headers, rows)]
    for it in held:
        lines += ["", *_section(it)]
    return "\n".join(lines)


def _levels(held: Held) -> list[Mapping[str, int]]:
    return [held.counts.get(level, {}) for level in LEVELS]


def _cell(counts: Mapping[str, int]) -> str:
    """`12 / 1`, or why there is no such figure."""
    if not counts:
        return "-"
    if counts["passed"] or counts["failed"]:
        return f"{counts['passed']} / {counts['failed']}"
    words = [word for word in ("NOT MEASURED", "no verdict", "not claimed") if counts[word]]
    return words[0] if words else "left out"


def _title(held: Held) -> str:
    return f"{store_named(held.spec).peer.name} ({held.spec.rpartition('.')[2]})"


def _link(held: Held) -> str:
    anchor = re.sub(r"[^\w\- ]", "", _title(held).lower()).replace(" ", "-")
    return f"[{store_named(held.spec).peer.name}](#{anchor})"


def _setting(held: Held) -> str:
    return store_named(held.spec).peer.setting.partition(":")[0].partition(";")[0]


def _section(held: Held) -> list[str]:
    peer = store_named(held.spec).peer
    lines = [
        f"### {_title(held)}",
        "",
        f"- Name: `{held.spec}`",
        f"- Package: {peer.distribution} {held.version or 'could not be installed here'}",
        f"- Setting: {peer.setting}.",
        f"- Promised: {peer.promises}.",
        f"- Mapping: {peer.mapping}.",
        f"- Limits of the mapping: {peer.limits}.",
        *(
            f"- Levels 0 to 5 were run with the other setting ({it}), which differs in durability"
            " only; here a few cases."
            for it in [peer.like]
            if it
        ),
        *(f"- Left out: {_left_out(peer.leaves_out)}." for _ in range(bool(peer.leaves_out))),
    ]
    if held.version is None:
        return lines
    rows = [
        (f"{level} {name}", *(held.counts[level][word] or "-" for word in COUNTED))
        for level, name in LEVELS.items()
    ]
    lines += [f"- Claims: {held.claims}.", "", *_table(("level", *COUNTED), rows)]
    if untried := [it.case_id for it in held.observations if it.untried]:
        lines += ["", f"Not tried, the time was over: {', '.join(untried)}."]
    for it in held.observations:
        if not it.untried:
            lines += ["", *_observed(it, held, promised=True)]
    if held.beyond_passed >= 0:
        lines += ["", _beyond(held)]
        for it in (it for it in held.beyond if not it.untried):
            lines += ["", *_observed(it, held, promised=False)]
    return lines


def _left_out(reasons: Mapping[str, str]) -> str:
    by_reason: dict[str, list[str]] = {}
    for case_id, why in reasons.items():
        by_reason.setdefault(why, []).append(case_id)
    return "; ".join(f"{', '.join(ids)} ({why})" for why, ids in by_reason.items())


def _beyond(held: Held) -> str:
    count = f"Nothing was found in {held.beyond_passed} of {len(BEYOND)}."
    return f"{_BEYOND.format(cases=', '.join(BEYOND))} {count}"


def _observed(it: Observation, held: Held, promised: bool) -> list[str]:
    subject = f"With {store_named(held.spec).peer.distribution} {held.version}"
    after = f" after `{_code(it.after.partition('<- the fault')[0].strip())}`" if it.after else ""
    if it.verdict != "fail":
        said = f"{it.verdict}: {_code(it.what)}"
    elif it.case_id.startswith("L3-"):
        said = f"{subject}, a host crash{after} may leave: {_code(it.what)}"
    else:
        said = f"{subject}{f',{after}' if after else ''} was seen: {_code(it.what)}"
    where = f" Found in the images of: {it.where}." if it.where else ""
    mark = "" if promised else " (not promised)"
    return [f"- **{it.case_id}**{mark} {it.title}. {said}.{where}", f"  Again: `{it.replay}`"]


def _code(text: str) -> str:
    """Text of a report within a line of the page: no directory or name of this run."""
    text = re.sub(r"/[^\s'\"]*/store\b", "/store", text)
    text = re.sub(r"\btmp[\w*]+", "tmp…", text)
    return re.sub(r"\s+", " ", text).replace("`", "'").replace("|", "\\|")


# --- the part of the mutants ------------------------------------------------------------------


def mutants(score: Score) -> str:
    """The part about the suite's own mutants."""
    dead = sum(it.dead for it in score.trials)
    foreign = sum(not hasattr(it, "factory") for it in every_mutant())
    lines = [
        "## The suite's mutants",
        "",
        f"Backends with one planted fault each, {len(score.wanted)} of them, {foreign} over stdio"
        " in C, JavaScript and Ruby. A mutant is killed when every case that it names has failed on"
        " it; a control is a backend in which nothing is planted, and nothing may fail on it.",
        f"`lychgate mutants suite` does it again. {environment()}",
        "",
        f"{dead} of {len(score.trials)} mutants killed; {len(score.false_alarms)} false alarms;"
        f" {score.left} mutants and controls not tried.",
        "",
        *_table(HEADERS, score.rows()),
        "",
        *_table(("control", "passed", "failed"), [row[:3] for row in control_rows(score)]),
    ]
    for it in score.survivors:
        lines += ["", f"- Survives: {it.name}: {', '.join(it.survived) or '; '.join(it.odd)}"]
    for text in score.false_alarms:
        lines += ["", f"- False alarm: {_code(text)}"]
    for case_id, why in score.idle.items():
        lines += ["", f"- No mutant fails {case_id}: {why or 'and no reason is given'}"]
    rows = [(it.name, ", ".join(it.killed)) for it in score.trials]
    return "\n".join([*lines, "", *_table(("mutant", "killed by"), rows)])


# --- the page ---------------------------------------------------------------------------------


def put(page: str, made: Mapping[str, str]) -> str:
    """The page with these parts in place of what it had of them."""
    parts = {name: made.get(name) or part_of(page, name) for name in ("stores", "mutants")}
    marked = [
        f"<!-- begin {name} -->\n{text.strip()}\n<!-- end {name} -->"
        for name, text in parts.items()
        if text
    ]
    return "\n\n".join([_HEAD.strip(), *marked]) + "\n"


def part_of(page: str, name: str) -> str:
    """The text between the marks of a part; empty when there is none."""
    found = re.search(f"<!-- begin {name} -->\n(.*?)\n<!-- end {name} -->", page, re.DOTALL)
    return found.group(1) if found else ""


def problems(page: str) -> list[str]:
    """What is missing: a part, a store, a level, a date; nothing is run."""
    found = [f"no part {name}" for name in ("stores", "mutants") if not part_of(page, name)]
    text = part_of(page, "stores")
    for store in all_stores():
        section = re.search(
            rf"^### [^\n]*\({re.escape(spec(store).rpartition('.')[2])}\)\n(.*?)(?=^### |\Z)",
            text,
            re.MULTILINE | re.DOTALL,
        )
        if section is None:
            found.append(f"no store {spec(store)}")
        elif "could not be installed here" not in section.group(1):
            missing = [it for it in LEVELS if f"\n| {it} {LEVELS[it]} |" not in section.group(1)]
            found += [f"{spec(store)}: no level {level}" for level in missing]
    text = part_of(page, "mutants")
    found += [f"mutants: no level {it}" for it in LEVELS if f"\n| {it} {LEVELS[it]} |" not in text]
    if page.count("Measured on ") < 2:
        found.append("no date of a part")
    return found
