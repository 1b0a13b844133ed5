"""Other people's stores held to the conformance suite: which cases, and what came of them.

Levels 0 and 1 are run but for their large cases, of the costly levels a few cases each, so that a
store takes about a minute; everything else is one `lychgate conform` away. A store that does not
claim to survive a host crash is looked at under level 3 all the same, apart from its verdict: what
may be lost there is what its users want to know.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from dataclasses import dataclass

from lychgate_conformance import Options, Report, Verdict, load_target, run
from lychgate_conformance._case import LEVELS, all_cases
from lychgate_conformance._claims import STORE, as_mapping
from lychgate_conformance._report import Result
from lychgate_conformance.adapters.third_party import Shelved, all_stores, spec
from lychgate_conformance.adapters.third_party._shelves import DURABLE

SEED = 0
LARGE = (
    *("L0-ROT", "L0-TEXT-008", "L0-TEXT-009", "L0-TEXT-010", "L0-DEAD-018", "L0-DEAD-025"),
    *("L0-ADD-003", "L0-REM-006", "L0-FILE-005", "L0-FILE-006", "L0-SEQ-002"),
    *("L1-KILL-004", "L1-KILL-009", "L1-KILL-010", "L1-KILL-011", "L1-OPEN-008", "L1-MEM"),
    *("L1-RACE-002", "L1-RACE-003", "L1-RACE-004", "L1-RACE-009", "L1-THR-002", "L1-THR-003"),
)
"""Beginnings of the ids that are left out at levels 0 and 1."""
COSTLY = (
    *("L2-CUT-001", "L2-CUT-003", "L2-KILL-001"),
    *("L3-DLQ-001", "L3-HANDOFF-001", "L3-INIT-001", "L3-WAL-001"),
    *("L4-DEAD-001", "L4-SHORT-001", "L4-TASK-001"),
    *("L5-ADD-001", "L5-REM-001"),
)
"""What is run of the levels from 2 on."""
BEYOND = tuple(it for it in COSTLY if it.startswith("L3-"))
"""What is looked at where it is not claimed."""
FEW = ("L0-ADD-001", "L0-DEAD-001", "L1-OPEN-003")
"""What is run where a store differs from another one in durability only, besides `BEYOND`."""
STORE_BUDGET_S = 600.0
"""Each of the two runs of a store begins no case after so long."""

COUNTED = {
    "passed": (Verdict.PASS,),
    "failed": (Verdict.FAIL,),
    "not claimed": (Verdict.NOT_CLAIMED,),
    "NOT MEASURED": (Verdict.NOT_MEASURED,),
    "no verdict": (Verdict.INCONCLUSIVE, Verdict.HARNESS_ERROR),
    "left out": (Verdict.SKIPPED,),
}


@dataclass(frozen=True, slots=True)
class Observation:
    """A case that did not pass, in words, and the command that shows it again."""

    case_id: str
    title: str
    verdict: str
    what: str
    after: str
    """The calls before it, where the suite has cut them down."""
    where: str
    """The models of file systems on which it may happen; empty below level 3."""
    replay: str

    @property
    def untried(self) -> bool:
        """The time was over before it began."""
        return self.what.startswith("not tried: ")


@dataclass(frozen=True, slots=True)
class Held:
    """One store under one setting."""

    spec: str
    version: str | None
    claims: str
    counts: dict[int, dict[str, int]]
    """Level: how many cases ended how; empty when the store is not installed."""
    observations: tuple[Observation, ...]
    beyond: tuple[Observation, ...]
    beyond_passed: int
    """Of the cases of `BEYOND`; -1 where they are part of what is claimed."""
    seconds: float


def store_named(name: str) -> type[Shelved]:
    return next(it for it in all_stores() if spec(it) == name)


def hold(name: str) -> Held:
    """Run the cases on the store of this name."""
    store = store_named(name)
    if store.peer.version is None:
        return Held(name, None, "", {}, (), (), -1, 0.0)
    chosen = tuple(it.id for it in all_cases() if _is_chosen(it.id, store))
    target = load_target(name)
    report = run(
        target,
        Options(
            case_ids=chosen, skip=_skipped(store, chosen), seed=SEED, budget_s=STORE_BUDGET_S
        ),
    )
    beyond = _beyond(name, store) if not target.claims.survives_host_crash else None
    return Held(
        name,
        store.peer.version,
        _claims(report),
        _counts(report, store),
        _observations(report),
        () if beyond is None else _observations(beyond),
        -1 if beyond is None else beyond.counts()[Verdict.PASS],
        report.seconds + (0.0 if beyond is None else beyond.seconds),
    )


def _beyond(name: str, store: type[Shelved]) -> Report:
    """Level 3 on a store that does not claim it."""
    claims = [f"{key}={_word(value)}" for key, value in DURABLE.items()]
    words = [word for claim in claims for word in ("--claim", claim)]
    options = Options(
        case_ids=BEYOND,
        skip=_skipped(store, BEYOND),
        seed=SEED,
        replay_options=tuple(words),
        budget_s=STORE_BUDGET_S,
    )
    return run(load_target(name, DURABLE), options)


def _is_chosen(case_id: str, store: type[Shelved]) -> bool:
    if store.peer.like:
        return case_id in (*FEW, *(BEYOND if store.claims["survives_host_crash"] else ()))
    return case_id in COSTLY if case_id[1] not in "01" else not case_id.startswith(LARGE)


def _skipped(store: type[Shelved], chosen: tuple[str, ...]) -> dict[str, str]:
    return {key: why for key, why in store.peer.leaves_out.items() if key in chosen}


def _counts(report: Report, store: type[Shelved]) -> dict[int, dict[str, int]]:
    """What was not chosen counts as left out."""
    found = {}
    for level in LEVELS:
        counted = Counter(report.counts(level))
        row = {word: sum(counted[it] for it in verdicts) for word, verdicts in COUNTED.items()}
        others = [it for it in all_cases() if it.level == level and not _is_chosen(it.id, store)]
        row["left out"] += len(others)
        found[level] = row
    return found


def _claims(report: Report) -> str:
    """The claims that differ from those of the plain contract."""
    plain, mine = as_mapping(STORE), as_mapping(report.claims)
    differ = [f"{name}={_word(value)}" for name, value in mine.items() if value != plain[name]]
    return ", ".join(differ) or "those of the plain contract"


def _word(value: object) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _observations(report: Report) -> tuple[Observation, ...]:
    quiet = (Verdict.PASS, Verdict.NOT_CLAIMED, Verdict.SKIPPED)
    return tuple(_observation(it) for it in report.results if it.verdict not in quiet)


def _observation(result: Result) -> Observation:
    lines = result.message.splitlines() or [""]
    words = [it.strip() for it in lines[1:] if re.match(r"  \S", it)]
    history = words[: _end_of_history(lines)] if len(lines) > 1 else []
    hit = [it.removeprefix("hit under: ") for it in lines if it.startswith("hit under: ")]
    what = lines[0].removeprefix("host crash: ")
    return Observation(
        result.case.id,
        result.case.title,
        result.verdict.value,
        what if len(what) <= _WHAT_MAX else f"{what[:_WHAT_MAX]}…",
        "; ".join(history),
        hit[0] if hit else "",
        shlex.join(result.replay),
    )


_WHAT_MAX = 240


def _end_of_history(lines: list[str]) -> int:
    """How many indented lines there are before the image begins."""
    count = 0
    for line in lines[2:]:
        if not line.startswith(" "):
            break
        count += bool(re.match(r"  \S", line))
    return count
