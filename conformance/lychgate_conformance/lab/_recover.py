"""What a new process sees on an image: recovery, remembered by the image's content.

Rules of this file
  * Recovery is: mount, open the backend, read both stores. Then the process is killed and another
    one does the same: it must see the same (recovery is idempotent).
  * Parts of an image that are never read together are recovered apart (crash-semantics §4.3).
  * The outcome is a function of the image and of the boot id, and is remembered by them. A boot id
    that stands in the image's own lock file means a restart without a host crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

from lychgate._drive import run
from lychgate._errors import LychgateError
from lychgate._names import is_wal_name
from lychgate._op import Op

from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._family import Family
from lychgate_conformance.lab._image import Content, Image
from lychgate_conformance.lab._oracle import Record
from lychgate_conformance.lab._simfs import SimFs
from lychgate_conformance.lab._target import PREFIX, Target, dead_record, task_record


_CHECKED = 20
_CHECK_EVERY = 100

_KNOWN_MAX = 500_000
"""Outcomes that are remembered; beyond it memory is given back and work may be done again."""

_PIDS = 700
"""Processes that recover have other ids, and so draw other bytes, than those of a run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What recovery showed. `error` is empty when it ended well."""

    dead: tuple[Record, ...]
    tasks: tuple[Record, ...]
    error: str = ""


Key = tuple[tuple[str, ...], tuple[Content, ...]]
"""Paths and contents."""

DEAD, WAL = 0, 1
"""The parts of an image that recovery never reads together."""


def part_of(path: str) -> int:
    """Which part a path belongs to."""
    return WAL if is_wal_name(PREFIX, path.rpartition("/")[2]) else DEAD


class Recovery:
    """Recovers images for one target, one boot id.

    The two stores have no file in common, so an image is recovered in two parts, each remembered by
    its content: the dead-task files alone, and the WAL files alone. That the whole gives what the
    parts give is checked for the first images and for every hundredth one after them.
    """

    def __init__(self, target: Target, boot: str, *, twice: bool = True) -> None:
        self.target = target
        self.boot = boot
        self.twice = twice
        self.done = 0
        """Recoveries that were really run."""
        self._known: dict[Key, Outcome] = {}
        self._wholes = 0

    def outcome(self, image: Image) -> Outcome:
        """What recovery shows on this image."""
        places = range(len(image.paths))
        keys = [
            self._key(
                image,
                [
                    p
                    for p in places
                    if not isinstance(image.contents[p], bytes) or part_of(image.paths[p]) == n
                ],
            )
            for n in (DEAD, WAL)
        ]
        dead, wal = (self.of(key, image) for key in keys)
        return joined(dead, wal)

    def outcomes(self, family: Family) -> Iterator[tuple[Outcome, Callable[[], Image]]]:
        """The distinct outcomes of a product of images, each with an image that gives it.

        The product of the parts' outcomes: nothing is multiplied that is not read together.
        """
        if not family.plain:
            for contents in family.combinations():
                yield self.outcome(family.image(contents)), partial(family.image, contents)
            return
        places = range(len(family.paths))
        found: list[dict[Outcome, dict[int, Content]]] = []
        for part in (DEAD, WAL):
            mine = [p for p in places if _is_shared(family, p) or part_of(family.paths[p]) == part]
            paths = tuple(family.paths[p] for p in mine)
            part_found: dict[Outcome, dict[int, Content]] = {}
            for contents in product(*(family.slots[p].contents for p in mine)):
                outcome = self._known.get((paths, contents))
                if outcome is None:
                    some = {p: slot.contents[0] for p, slot in enumerate(family.slots)}
                    some.update(zip(mine, contents, strict=True))
                    outcome = self.of((paths, contents), family.image(tuple(some.values())))
                if outcome not in part_found:
                    part_found[outcome] = dict(zip(mine, contents, strict=True))
            found.append(part_found)
        for (dead, of_dead), (wal, of_wal) in product(found[0].items(), found[1].items()):
            both = of_dead | of_wal
            whole = tuple(both[p] for p in places)
            yield joined(dead, wal), partial(self._checked, family, whole, joined(dead, wal))

    def _checked(self, family: Family, contents: tuple[Content, ...], outcome: Outcome) -> Image:
        """The image of an outcome that is new to a state, recovered as a whole now and then."""
        image = family.image(contents)
        self._wholes += 1
        if self._wholes <= _CHECKED or self._wholes % _CHECK_EVERY == 0:
            check = self.run(image)
            assert check.error or outcome.error or check == outcome, (
                f"the parts of an image are not independent: {check} is not {outcome}"
            )
        return image

    def _key(self, image: Image, places: list[int]) -> Key:
        return tuple(image.paths[p] for p in places), tuple(image.contents[p] for p in places)

    def of(self, key: Key, image: Image) -> Outcome:
        """The outcome of one part; `image` holds it, and what its files hide."""
        known = self._known.get(key)
        if known is None:
            hidden = {path: tail for path, tail in image.hidden.items() if path in key[0]}
            if len(self._known) > _KNOWN_MAX:
                self._known.clear()
            known = self._known[key] = self.run(Image(*key, (), hidden))
        return known

    def run(self, image: Image) -> Outcome:
        """Recover, without looking into memory."""
        self.done += 1
        machine = Machine(image, boot=self.boot)
        machine.pids = _PIDS
        first = self._open_and_read(machine)
        if self.twice and not first.error:
            second = self._open_and_read(machine)
            if second.error:
                return Outcome(first.dead, first.tasks, f"recovery-failed-twice: {second.error}")
            if second.dead != first.dead or sorted(second.tasks) != sorted(first.tasks):
                return Outcome(
                    first.dead, first.tasks, f"not-idempotent: {first} and then {second}"
                )
        return first

    def _open_and_read(self, machine: Machine) -> Outcome:
        fs = SimFs(machine)
        backend = self.target.make(fs, 0.0)
        try:
            run(backend.open(), fs)
            tasks = run(backend.pending_tasks(), fs)
            dead = run(backend.list_dead_tasks(), fs)
        except LychgateError as error:
            return Outcome((), (), f"recovery-failed: {error!r}")
        except Exception as error:  # a bug of the target, to be reported like any other violation
            return Outcome((), (), f"recovery-failed: unexpected {error!r}")
        finally:
            fs.kill()
        return Outcome(
            tuple(dead_record(found, machine.clock) for found in dead),
            tuple(task_record(found) for found in tasks),
        )


def joined(dead: Outcome, wal: Outcome) -> Outcome:
    """The outcome of the whole from those of its parts."""
    return Outcome(dead.dead, wal.tasks, dead.error or wal.error)


def _is_shared(family: Family, place: int) -> bool:
    """Whether a place belongs to both parts: directories do."""
    return not isinstance(family.slots[place].contents[0], bytes)


def recovery_steps(target: Target, image: Image, boot: str) -> list[Op[object]]:
    """The steps that recovery takes on an image: for traces and for telling images apart."""
    steps: list[Op[object]] = []
    fs = SimFs(Machine(image, boot=boot))
    backend = target.make(fs, 0.0)
    try:
        run(backend.open(), fs, lambda op, _value, _error: steps.append(op))
    except LychgateError:
        pass  # the steps up to the failure
    return steps
