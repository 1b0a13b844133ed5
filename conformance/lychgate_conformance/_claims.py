"""Claims: what a backend says of itself, and so what it is held to.

A backend declares them as an attribute `claims` of the factory or of its objects: a mapping of the
names below, or a `Claims`. What is not named keeps the value of `STORE`, the plain contract: a
store that keeps what it acknowledged, for several processes, without a promise about its files.
A case names the claims that it needs; where they do not match, its verdict is "not claimed".

The first claim is the profile: `tasks`, the facade of seven calls, or `delivery`, the leased
delivery queue. Each profile has its own cases and its own part of the other claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

from lychgate_conformance._verdict import UsageError


@dataclass(frozen=True, slots=True)
class Claims:
    """One field, one promise. Values other than yes and no are listed in `_WORDS`."""

    profile: str = "tasks"
    """Which calls it has: those of a task store, or those of a delivery queue."""

    stores: bool = True
    """Keeps tasks at all; no for a backend that accepts everything and stores nothing (D4)."""

    survives_restart: bool = True
    """A later process finds what an earlier one acknowledged and left by an ordinary exit."""

    survives_process_kill: bool = True
    """The same when the earlier process was killed at any moment (W3, W8, D17)."""

    survives_host_crash: bool = False
    """The same when the power failed; tried by the crash levels."""

    fsync_policy: str = "batched"
    """When an acknowledged task is durable: before the answer, within `fsync_frequency`, never."""

    multi_process: bool = True
    """Several processes may use one store at once (D13, W2, D31)."""

    multi_thread: bool = True
    """Several threads, asyncio tasks and backend objects of one process may (D15, D31)."""

    fork_safe: bool = True
    """A backend that was opened before a fork works in parent and child (D23, W13)."""

    caller_ids: bool = True
    """`add_task` takes an id from its caller; the same id again replaces the task (U2)."""

    pending_scope: str = "owned_all"
    """What `pending_tasks` shows: see `_WORDS` (W7, Q11)."""

    list_order: str = "file"
    """Whether dead tasks are listed in the order of their adding (D16)."""

    duplicates: str = "kept"
    """Several dead records of one id: all listed, or only the newest (D26)."""

    any_text: bool = True
    """Text of any kind is stored, not refused: NUL, newline, lone surrogates, 16 MB (D25)."""

    exact_numbers: bool = True
    """Every JSON number comes back as it was: integers beyond 2**53, and 1.0 is not 1 (D30)."""

    uses_path: bool = False
    """Keeps its state in files below `path` whose names begin with `prefix`, and nowhere else."""

    reclaims_space: bool = True
    """Its files shrink again: what is done does not stay in them for ever (W5)."""

    disk_layout: bool = False
    """Uses the disk backend's file names, line formats and lock file (D6, D8, W1)."""

    exclusive: bool = True
    """A second opening of the same directory is refused, by whatever process (L3)."""

    claim_order: str = "number"
    """Whether the item that is claimed is the one with the lowest number that can be (L1)."""

    receipts: bool = True
    """Each claim has a receipt; whoever shows an older one is told that the claim is lost."""

    dense_numbers: bool = True
    """Items are numbered one by one: what is refused uses no number (L6)."""

    limits: bool = False
    """Takes the options for limits, and holds to them (L6, L8, L9)."""

    disk_bound: bool = False
    """Its log files keep within twice `segments_max * segment_bytes` (L12)."""


_WORDS = {
    "fsync_policy": ("always", "batched", "never"),
    # owned_all: the live tasks of this process and of the dead ones it took over (W2).
    # all: every live task of the store. due_unclaimed: a batch of due tasks nobody holds (Q11).
    "pending_scope": ("owned_all", "all", "due_unclaimed"),
    "list_order": ("file", "any"),
    "profile": ("tasks", "delivery"),
    "claim_order": ("number", "any"),
    "duplicates": ("kept", "newest"),
}

STORE = Claims()
DISK = Claims(survives_host_crash=True, uses_path=True, disk_layout=True)
STDIO = Claims(multi_thread=False, fork_safe=False)
"""An adapter's: what its protocol cannot try is not taken for granted."""
NIL = Claims(
    stores=False,
    survives_restart=False,
    survives_process_kill=False,
    fsync_policy="never",
    multi_process=False,
    multi_thread=False,
    fork_safe=False,
    caller_ids=False,
    any_text=False,
    exact_numbers=False,
    reclaims_space=False,
)

QUEUE = Claims(profile="delivery")
"""A delivery queue that says no more than that it is one."""
PROFILES = {"tasks": STORE, "delivery": QUEUE}

_NAMES = tuple(field.name for field in fields(Claims))
_OF_QUEUES = frozenset(
    ("exclusive", "claim_order", "receipts", "dense_numbers", "limits", "disk_bound")
)
_OF_BOTH = frozenset(
    ("profile", "survives_restart", "survives_process_kill", "survives_host_crash", "uses_path",
     "reclaims_space")
)  # fmt: skip


def claim_names(profile: str | None = None) -> tuple[str, ...]:
    """Every claim of a profile, or of all, in the order of the class."""
    if profile is None:
        return _NAMES
    queue = profile == "delivery"
    return tuple(it for it in _NAMES if it in _OF_BOTH or (it in _OF_QUEUES) == queue)


def as_mapping(claims: Claims) -> dict[str, bool | str]:
    """The claims of its profile as plain values, for reports."""
    values = asdict(claims)
    return {name: values[name] for name in claim_names(claims.profile)}


def merge(base: Claims, declared: Mapping[str, object]) -> Claims:
    """`base` with the declared values over it. UsageError names what is not a claim."""
    profile = str(_value("profile", declared.get("profile", base.profile)))
    if profile != base.profile:
        base = PROFILES[profile]
    names = claim_names(profile)
    values: dict[str, bool | str] = {}
    for name, value in declared.items():
        if name not in names:
            raise UsageError(f"no claim named {name!r}; there are: {', '.join(names)}")
        values[name] = _value(name, value)
    return replace(base, **values)  # type: ignore[arg-type]  # checked value by value above


def _value(name: str, value: object) -> bool | str:
    if name in _WORDS:
        if value not in _WORDS[name]:
            raise UsageError(f"claim {name} is one of {', '.join(_WORDS[name])}, not {value!r}")
        return str(value)
    if isinstance(value, bool):
        return value
    raise UsageError(f"claim {name} is yes or no, not {value!r}")


def parse(text: str) -> dict[str, object]:
    """`name=value` of a command line; a bare name means yes."""
    name, equals, word = text.partition("=")
    if name in _WORDS:
        return {name: word}
    known = {
        "": True,
        "yes": True,
        "true": True,
        "1": True,
        "no": False,
        "false": False,
        "0": False,
    }
    if word.lower() not in known or (equals and not word):
        raise UsageError(f"claim {name} is yes or no, not {word!r}")
    return {name: known[word.lower()]}
