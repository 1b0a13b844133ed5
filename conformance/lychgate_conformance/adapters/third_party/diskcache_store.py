"""diskcache: `Index`."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from lychgate_conformance.adapters.third_party._shelves import (
    CLAIMS,
    DURABLE,
    MODE,
    Peer,
    Shelf,
    Shelved,
    load,
    make_directory,
)

_MAPPING = (
    "two indexes in two directories, a random key for each item; `index[key] = text`, `pop`,"
    " iteration, and `transact` where two are removed at once"
)
_LIMITS = (
    "values over 32 KiB, which diskcache writes to files of their own, occur at level 0 only; its"
    " directory is made beforehand and its name durable, as diskcache itself does not"
)
_PROMISES = "thread-safe and process-safe; an index keeps what it is given (no eviction)"


class IndexShelf:
    """An index; its order is that of insertion."""

    def __init__(self, directory: str, **settings: object) -> None:
        make_directory(Path(directory))  # diskcache makes it, and not its name durable
        cache = load("diskcache").Cache(directory, timeout=30, eviction_policy="none", **settings)
        self.index = load("diskcache").Index.fromcache(cache)

    def put(self, text: str) -> None:
        self.index[secrets.token_hex(12)] = text

    def items(self) -> list[tuple[Any, str]]:
        found = [(key, self.index.cache.get(key, retry=True)) for key in self.index]
        return [it for it in found if it[1] is not None]  # gone since its key was read

    def drop(self, handle: Any) -> None:
        self.index.pop(handle, None)

    def close(self) -> None:
        self.index.cache.close()


class Default(Shelved):
    """`Index` as it comes."""

    peer = Peer(
        name="diskcache Index",
        distribution="diskcache",
        setting="as it comes: WAL journal, `synchronous = NORMAL`",
        promises=_PROMISES,
        mapping=_MAPPING,
        limits=_LIMITS,
        leaves_out=MODE,
        like="Full",
    )
    claims = {**CLAIMS, "multi_process": True, "multi_thread": True}
    settings: ClassVar[dict[str, object]] = {}

    def shelf(self, name: str) -> Shelf:
        return IndexShelf(f"{self.base}{name}", **self.settings)

    def remove_dead_tasks(self, task_ids: Iterable[str]) -> int:
        assert isinstance(self.dead, IndexShelf)
        with self.dead.index.transact():
            return super().remove_dead_tasks(task_ids)


class Full(Default):
    """`Index` of a cache with `sqlite_synchronous=2`."""

    peer = Peer(
        name="diskcache Index",
        distribution="diskcache",
        setting="`sqlite_synchronous=2`: WAL journal, `synchronous = FULL`",
        promises=f"{_PROMISES}. Host crashes are claimed on the word of SQLite, whose FULL means"
        " durable",
        mapping=_MAPPING,
        limits=_LIMITS,
        leaves_out=MODE,
    )
    claims = {**Default.claims, **DURABLE}
    settings: ClassVar[dict[str, object]] = {"sqlite_synchronous": 2}
