"""Counters: everything that a store skipped, repaired, truncated or dropped (D33)."""

from __future__ import annotations

from collections import Counter


class Stats:
    """Named counters of one backend object; nothing is only printed."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, name: str, amount: int = 1) -> None:
        self._counts[name] += amount

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def snapshot(self) -> dict[str, int]:
        """The counters that are not zero, by name."""
        return {name: self._counts[name] for name in sorted(self._counts) if self._counts[name]}
