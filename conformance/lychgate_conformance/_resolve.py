"""From the name of a backend to its factory."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from importlib import import_module

from lychgate_conformance._verdict import AdapterFault, UsageError

Factory = Callable[..., object]
"""Called with `path`, `prefix` and `fsync_frequency`; gives a backend, or something to await."""

_SQL = "lychgate_conformance.adapters.sql_store"
_BUILT_IN = {
    "disk": "lychgate:Disk",
    "nil": "lychgate:Nil",
    "sqlite": f"{_SQL}:sqlite",
    "postgres": f"{_SQL}:postgres",
    "mariadb": f"{_SQL}:mariadb",
    "delivery": "lychgate_conformance.adapters.delivery_queue:Engine",
}


def resolve(spec: str) -> Factory:
    """The factory that a name means. AdapterFault in one line when there is none."""
    module_name, colon, path = _BUILT_IN.get(spec, spec).partition(":")
    if not (module_name and colon and path):
        names = ", ".join(_BUILT_IN)
        raise UsageError(f"no backend named {spec!r}: give {names} or package.module:factory")
    try:
        found: object = import_module(module_name)
        for name in path.split("."):
            found = getattr(found, name)
    except Exception as error:  # foreign code
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise AdapterFault(f"cannot load {spec}: {what}", traceback.format_exc()) from error
    if not callable(found):
        raise AdapterFault(f"{spec} is a {type(found).__name__}; a factory can be called")
    factory: Callable[..., object] = found
    return factory
