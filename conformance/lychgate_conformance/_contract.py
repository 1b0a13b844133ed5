"""The shape of a backend: seven methods, some more, and a declaration of claims (D2)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

REQUIRED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "add_task": (("task",), ("publish_at", "task_id")),
    "remove_task": (("task_id",), ()),
    "pending_tasks": ((), ()),
    "add_dead_task": (("task_id", "context", "exception", "task_class", "attempts"), ()),
    "list_dead_tasks": ((), ("limit", "offset")),
    "find_dead_task": (("task_id",), ()),
    "remove_dead_tasks": (("task_ids",), ()),
}
"""Method: what it is given by position, what it may be given by name."""

QUEUE: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "enqueue": (("payload",), ()),
    "claim": (("lease_ms",), ()),
    "ack": (("seq", "receipt"), ()),
    "retry": (("seq", "receipt", "delay_ms"), ()),
    "quarantine": (("seq", "receipt", "reason"), ()),
    "items": ((), ()),
    "close": ((), ()),
}
"""The same of a delivery queue, whose answers are the mappings of docs/protocol.md."""


def shape_faults(backend: object, profile: str) -> list[str]:
    """What keeps an object from being a backend at all; nothing when it is one."""
    faults = []
    required = QUEUE if profile == "delivery" else REQUIRED
    for name, (by_position, by_name) in required.items():
        method = getattr(backend, name, None)
        if not callable(method):
            faults.append(f"it has no method {name}")
            continue
        try:
            signature = inspect.signature(method)
        except (TypeError, ValueError):  # a method in C tells nothing about itself
            continue
        try:
            signature.bind(*by_position, **dict.fromkeys(by_name))
        except TypeError as error:
            wanted = ", ".join([*by_position, *(f"{it}=None" for it in by_name)])
            faults.append(f"{name} cannot be called as {name}({wanted}): {error}")
    return faults


def profile_of(factory: object) -> str:
    """Which calls the objects of a factory have, by its claims; asked before one is opened."""
    claims = getattr(factory, "claims", None)
    return str(claims.get("profile", "tasks")) if isinstance(claims, Mapping) else "tasks"


def describe_backend(factory: object, backend: object) -> dict[str, Any]:
    """Its type, its faults of shape, the claims that it declares, and which family it is of."""
    declared = getattr(backend, "claims", None)
    if declared is None:
        declared = getattr(factory, "claims", None)
    if is_dataclass(declared) and not isinstance(declared, type):
        declared = asdict(declared)
    strange = None if declared is None or isinstance(declared, Mapping) else repr(declared)[:80]
    return {
        "type": type(backend).__qualname__,
        "faults": shape_faults(backend, profile_of(factory)),
        "claims": dict(declared) if isinstance(declared, Mapping) else None,
        "strange_claims": strange,
        "family": _family(backend),
    }


def _family(backend: object) -> str | None:
    """`disk` or `nil` for the engine's own backends and their subclasses."""
    names = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(backend).__mro__}
    for name in ("Disk", "Nil"):
        if ("lychgate", name) in names:
            return name.lower()
    return None
