"""A page of a long list that is read from its beginning (D16)."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Page(Generic[T]):
    """The `items` from the `offset`-th on, `limit` of them at most, all when `limit` is None."""

    def __init__(self, limit: int | None, offset: int) -> None:
        assert offset >= 0 and (limit is None or limit >= 0)
        self.items: list[T] = []
        self._limit = limit
        self._to_skip = offset

    @property
    def full(self) -> bool:
        """Whether nothing more is wanted."""
        return len(self.items) == self._limit

    def skips(self) -> bool:
        """Whether the next item lies before the page; asked once for each."""
        if self._to_skip == 0:
            return False
        self._to_skip -= 1
        return True
