"""Every image that a crash may leave of a recording, word by word.

Rules of this file
  * A crash point is the moment before or after any call or acknowledgement. What matters of it for
    the oracle is how many words were acknowledged: points are grouped by that number, and products
    that were seen in a group are not built again.
  * What is left out is said: `Partial` holds every bound that cut something.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lychgate_conformance.blackbox._effects import SHARED_MEMORY
from lychgate_conformance.blackbox._record import Recording
from lychgate_conformance.blackbox._script import Tale
from lychgate_conformance.lab._bounded import bounded_set, kill_set
from lychgate_conformance.lab._enumerate import Enumerator, read_free
from lychgate_conformance.lab._family import Family, ImageSet, Limits, family_of
from lychgate_conformance.lab._image import Content, Image, image_of
from lychgate_conformance.lab._micro import Ack, Recorder
from lychgate_conformance.lab._models import MODELS, Model
from lychgate_conformance.lab._ordered import read_log


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where exploration stops being complete."""

    images_max: int = 3000
    """Distinct images of one recording, shared out among its words."""
    again_max: int = 500
    """The same for a recording of a recovery."""
    family_max: int = 1000
    """Images of one product: beyond it a sample."""
    torn_max: int = 256
    """Torn lengths of one write."""
    complete_max: int = 20_000
    """Images of one crash point: beyond it the crash lab's bounded set."""
    sample: int = 60
    """Samples of a bounded set."""
    further_max: int = 1000
    """Images after so many acknowledged words that are used after their recovery."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Met:
    """An image and the crash point at which it was met first in its group."""

    image: Image
    point: int


@dataclass(slots=True)
class Partial:
    """What was left out, as sentences with a number in them put together."""

    texts: dict[str, None] = field(default_factory=dict)
    bounded: int = 0

    def add(self, text: str) -> None:
        self.texts[text] = None

    def __str__(self) -> str:
        found = list(self.texts)
        if self.bounded:
            found.append(
                f"{self.bounded} crash points with too many choices: prefixes, 1- and 2-omissions "
                "and -inclusions, and samples"
            )
        return "; ".join(found)


def groups(recording: Recording, story: Tale) -> dict[int, list[int]]:
    """Acknowledged words: the log lengths between calls and acknowledgements with that many."""
    points = {0, len(recording.disk.log)}
    for step in recording.steps:
        points |= {step.begin, step.end}
    for spoken in recording.spoken:
        points |= {spoken.at, spoken.at + 1}
    found: dict[int, list[int]] = {}
    for point in sorted(points):
        found.setdefault(story.acked(point), []).append(point)
    return found


class Enumeration(Enumerator):
    """The crash lab's, with a smaller set where the full one is out of reach."""

    def __init__(self, model: Model, bounds: Bounds) -> None:
        super().__init__(model, Limits(images_max=bounds.complete_max, torn_max=bounds.torn_max))
        self._bounds = bounds

    def try_all(self, disk: Recorder, upto: int) -> ImageSet | None:
        """All images of a crash after `upto` micro-ops; None when they are too many."""
        return self._free(disk, read_free(disk, upto, self.model))

    def some(self, disk: Recorder, upto: int) -> ImageSet:
        """A bounded set of them."""
        bounds = self._bounds
        limits = Limits(images_max=4 * bounds.sample, sample=bounds.sample, seed=bounds.seed + 1)
        return bounded_set(disk, read_log(disk, upto, self.model), self.model, limits)


def host_crashes(
    recording: Recording, points: list[int], model: Model, bounds: Bounds, partial: Partial
) -> Iterator[Met]:
    """The images of one group, the later crash points first: they have the most to lose."""
    enumeration = Enumeration(model, bounds)
    chance = random.Random(bounds.seed)
    seen: set[tuple[object, ...]] = set()
    tried_some = False
    mapped = any(_is_memory(it.label) for it in recording.disk.nodes.values())
    for point in reversed(points):
        images = enumeration.try_all(recording.disk, point)
        if images is None:
            if tried_some and point != points[0]:
                continue  # the sets of one group differ little when almost nothing is forced
            tried_some = True
            images = enumeration.some(recording.disk, point)
            partial.bounded += 1
        elif images.partial:
            partial.add(images.partial)
        for family in images.families:
            family = _without_memory(family)
            mark = (family.paths, family.places, tuple(it.contents for it in family.slots))
            if mark not in seen:
                seen.add(mark)
                for number, contents in enumerate(_chosen(family, bounds, chance, partial)):
                    image = family.image(contents)
                    yield Met(image, point)
                    if mapped and number == 0 and (zeroed := _with_zeroed_memory(image)):
                        yield Met(zeroed, point)


def kills(
    recording: Recording, points: list[int], bounds: Bounds, partial: Partial
) -> Iterator[Met]:
    """The images that a kill leaves in one group: nothing is lost, the write in flight is cut."""
    model = MODELS["process-kill"]
    chance = random.Random(bounds.seed)
    torn = replace(bounds, family_max=bounds.torn_max)
    for point in points:
        images = kill_set(recording.disk, point, read_log(recording.disk, point, model), model)
        spoken = point > 0 and isinstance(recording.disk.log[point - 1], Ack)
        for family in images.families[:1] if spoken else images.families:  # no write is in flight
            family = _without_memory(family)
            for contents in _chosen(family, torn, chance, partial):
                yield Met(family.image(contents), point)


def _is_memory(label: str) -> bool:
    return label.rpartition("#")[0].endswith(SHARED_MEMORY)


def _with_zeroed_memory(image: Image) -> Image | None:
    """The image with SQLite's shared memory beside each WAL, all zeros: its other legal state."""
    logs = [path for path in image.paths if path.endswith("-wal")]
    if not logs:
        return None
    contents = dict(zip(image.paths, image.contents, strict=True))
    for path in logs:
        contents[path.removesuffix("-wal") + SHARED_MEMORY] = bytes(_MEMORY_BYTES)
    return image_of(contents)


_MEMORY_BYTES = 32768
"""One region of SQLite's shared memory."""


def _without_memory(family: Family) -> Family:
    """The family without SQLite's shared memory: absent is one of its legal states."""
    if not any(path.endswith(SHARED_MEMORY) for path in family.paths):
        return family
    tree = tuple(
        (path, family.inodes[place])
        for path, place in zip(family.paths, family.places, strict=True)
        if not path.endswith(SHARED_MEMORY)
    )
    return family_of(tree, dict(zip(family.inodes, family.slots, strict=True)))


def _chosen(
    family: Family, bounds: Bounds, chance: random.Random, partial: Partial
) -> Iterator[tuple[Content, ...]]:
    """All combinations of a family, or its corners and a sample."""
    if family.size <= bounds.family_max:
        yield from family.combinations()
        return
    partial.add(f"products of more than {bounds.family_max:,} images sampled")
    first = tuple(slot.contents[0] for slot in family.slots)
    last = tuple(slot.contents[-1] for slot in family.slots)
    for corner in (first, last):
        for place, slot in enumerate(family.slots):
            for content in slot.contents[:40]:
                yield (*corner[:place], content, *corner[place + 1 :])
    for _ in range(bounds.family_max):
        yield tuple(chance.choice(slot.contents) for slot in family.slots)
