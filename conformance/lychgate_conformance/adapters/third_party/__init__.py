"""Adapters of stores that other people wrote: what their users may rely on, seen from outside.

    lychgate conform lychgate_conformance.adapters.third_party.litequeue_store:Full

Each module is one package, each class one store under one setting. Nothing of a store is changed.
A class claims what the store's documentation promises and no more, and its `peer` says in words how
the seven methods reach the store and what that cannot show. `lychgate results` makes the page
docs/results.md of them. They are optional: `pip install lychgate[peers]`.
"""

from __future__ import annotations

from importlib import import_module

from lychgate_conformance.adapters.third_party._shelves import Peer, Shelved

_STORES = (
    *("persist_queue_store:SqliteAck", "persist_queue_store:File"),
    *("huey_store:Sqlite", "huey_store:SqliteDefault", "huey_store:File"),
    *("litequeue_store:Full", "litequeue_store:Default"),
    *("localqueue_store:Durable", "localqueue_store:Relaxed"),
    *("diskcache_store:Full", "diskcache_store:Default"),
    *("queuelib_store:Sqlite", "queuelib_store:Disk"),
)


def all_stores() -> tuple[type[Shelved], ...]:
    """Every store and setting; importing them needs none of the packages."""
    found = []
    for name in _STORES:
        module, _, attribute = name.partition(":")
        found.append(getattr(import_module(f"{__name__}.{module}"), attribute))
    return tuple(found)


def spec(store: type[Shelved]) -> str:
    """The name that `lychgate conform` takes."""
    return f"{store.__module__}:{store.__qualname__}"


__all__ = ["Peer", "Shelved", "all_stores", "spec"]
