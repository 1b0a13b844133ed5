"""The crash images of one block log: tried one by one, until there are no more or time is up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import Any

from lychgate_conformance.lab._image import Image
from lychgate_tools.litmus.blocklog import (
    Blocks,
    Bounds,
    Entry,
    Piece,
    Window,
    durable_blocks,
    overlay,
    pieces,
    rounds,
    windows,
)
from lychgate_tools.litmus.machine import Machine
from lychgate_tools.litmus.wire import image_to_json

Choice = tuple[Window, tuple[Piece, ...]]


@dataclass(slots=True)
class Found:
    """What the images of one run showed."""

    images: int = 0
    mounts: int = 0
    untried: int = 0
    states: dict[Image | str, dict[int, str]] = field(default_factory=dict)
    """State (or why there is none): after how many steps, and which writes were kept for it."""

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {
                "image": image_to_json(state) if isinstance(state, Image) else None,
                "trouble": "" if isinstance(state, Image) else state,
                "moments": moments,
            }
            for state, moments in self.states.items()
        ]


class Images:
    """The images of one log, each mounted only if what it shows is not known.

    What is shown depends on the blocks that were read and on nothing else. So an image that has
    the same content as an earlier one in every block that was read then shows the same.
    """

    def __init__(self, machine: Machine, log: list[Entry], windows_of: list[Window]) -> None:
        self._machine = machine
        self._known: dict[int, bytes] = {}
        self._shown: dict[frozenset[int], dict[tuple[bytes | None, ...], Image | str]] = {}
        self._durable = {0: {}, **dict(durable_blocks(log, self._beneath))}
        first = self._durable[windows_of[0].durable]
        for blocks in self._durable.values():
            for number in [n for n, data in blocks.items() if first.get(n) is data]:
                del blocks[number]
        last = self._durable[max(self._durable)]
        pending = {piece.block for one in windows_of for w in one.writes for piece in pieces(w)}
        self._first, self._watched = first, frozenset(pending | last.keys())
        self._known.update(first)

    def lay(self) -> None:
        """Put on the device what every image of the log has."""
        self._machine.device.under(self._first, self._watched)

    def _beneath(self, number: int) -> bytes:
        if number not in self._known:
            self._known[number] = self._machine.device.block(number)
        return self._known[number]

    def blocks(self, window: Window, kept: tuple[Piece, ...]) -> Blocks:
        """The image that keeps these pieces of a window, over what every image of the log has."""
        return overlay(kept, self._durable[window.durable], self._beneath)

    def known(self, blocks: Blocks) -> Image | str | None:
        """What an image shows, if an earlier one tells."""
        for reads, shown in self._shown.items():
            found = shown.get(tuple(blocks.get(number) for number in sorted(reads)))
            if found is not None:
                return found
        return None

    def mount(self, blocks: Blocks) -> Image | str:
        """What an image shows."""
        shown = self._machine.state(blocks)
        reads = self._machine.device.reads()
        content = tuple(blocks.get(number) for number in sorted(reads))
        self._shown.setdefault(reads, {})[content] = shown
        return shown


class Exploration:
    """All choices of writes to keep, of one log; may be interrupted and gone on with."""

    def __init__(self, machine: Machine, log: list[Entry], bounds: Bounds) -> None:
        self.found = Found()
        every = windows(log)
        self._images = Images(machine, log, every)
        self._seen: dict[frozenset[tuple[int, bytes]], Image | str] = {}
        self._left: Iterator[Choice] = _choices(every, bounds)

    def go(self, deadline: float) -> bool:
        """Go on until nothing is left (True) or time is up. The device has the program's start."""
        self._images.lay()
        for choice in self._left:
            if not self._try(*choice, time.monotonic() <= deadline):
                self._left = chain([choice], self._left)
                return False
        return True

    def stop(self) -> Found:
        """What was found; of the choices that are left, those that need no mount count."""
        for choice in self._left:
            if not self._try(*choice, False):
                self.found.untried += 1
        return self.found

    def _try(self, window: Window, kept: tuple[Piece, ...], may_mount: bool) -> bool:
        """Take one choice; False when only a mount could tell what it shows."""
        blocks = self._images.blocks(window, kept)
        key = frozenset(blocks.items())
        shown = self._seen.get(key)
        if shown is None:
            shown = self._images.known(blocks)
            if shown is None:
                if not may_mount:
                    return False
                shown = self._images.mount(blocks)
                self.found.mounts += 1
            self._seen[key] = shown
            self.found.images += 1
        moments = self.found.states.setdefault(shown, {})
        for moment in window.moments(kept):
            if moment not in moments:
                moments[moment] = _evidence(window, kept)
        return True


def _choices(every: list[Window], bounds: Bounds) -> Iterator[Choice]:
    """The first round of every window, the last window first; then the second, and so on."""
    order = every[::-1]
    for of_all in zip_longest(*(rounds(window, bounds) for window in order)):
        for window, of_one in zip(order, of_all, strict=True):
            for kept in of_one or ():
                yield window, kept


def _evidence(window: Window, kept: tuple[Piece, ...]) -> str:
    places = sorted({piece.write for piece in kept})
    text = f"{window.durable} durable writes, then of {len(window.writes)} in the cache: "
    text += ", ".join(f"#{place} at {window.writes[place].offset}" for place in places) or "none"
    whole = sum(len(window.writes[place].data) for place in places)
    return text if whole == sum(len(piece.data) for piece in kept) else f"{text} (cut)"
