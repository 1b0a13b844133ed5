"""What a new process sees on an image: recovery, remembered by what it looked at.

Rules of this file
  * Recovery is: mount, open the backend, read both stores. Then the process is killed and another
    one does the same: it must see the same (recovery is idempotent).
  * The outcome is a function of the image and of the boot id. It is remembered by the names of the
    image and the contents of those files that recovery looked at: a file that was never read can
    hold anything.
  * Parts of an image that are never read together are recovered apart (crash-semantics §4.3). That
    the whole gives what its parts give is checked for the first images and every hundredth after.
  * A boot id that stands in the image's own lock file means a restart without a host crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product

from lychgate._drive import run
from lychgate._errors import LychgateError
from lychgate._op import Op

from lychgate_conformance.lab._calls import Violation
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._family import Family
from lychgate_conformance.lab._image import Content, Image, cached_image
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


@lru_cache(4096)
def part_of(path: str) -> int:
    """Which part a path belongs to; asked of the name, not of an engine that may be a mutant."""
    return DEAD if path.rpartition("/")[2].startswith(f"{PREFIX}dead_tasks") else WAL


class Memory:
    """Outcomes by paths and by the contents of the files that were looked at."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, ...], list[tuple[int, ...]]] = {}
        self._known: dict[tuple[object, ...], Outcome] = {}

    def get(self, paths: tuple[str, ...], contents: tuple[Content, ...]) -> Outcome | None:
        """The outcome of an image that agrees with a known one in all that was looked at."""
        known = self._known
        for look in self._looks.get(paths, ()):
            found = known.get((paths, look, tuple([contents[place] for place in look])))
            if found is not None:
                return found
        return None

    def put(self, key: Key, look: tuple[int, ...], outcome: Outcome) -> None:
        """Remember an outcome and the places that it depends on."""
        if len(self._known) > _KNOWN_MAX:
            self._known.clear()
            self._looks.clear()
        paths, contents = key
        looks = self._looks.setdefault(paths, [])
        if look not in looks:
            looks.append(look)
        self._known[paths, look, tuple([contents[place] for place in look])] = outcome


class Recovery:
    """Recovers images for one target, one boot id."""

    def __init__(
        self, target: Target, boot: str, *, remembers: bool = True, prefers_hidden: bool = False
    ) -> None:
        self.target = target
        self.boot = boot
        self.remembers = remembers
        self.prefers_hidden = prefers_hidden
        self.done = 0
        """Recoveries that were really run."""
        self._memory = Memory()
        self._again: dict[Key, tuple[Outcome, frozenset[str]]] = {}
        self._wholes = 0

    def outcome(self, image: Image) -> Outcome:
        """What recovery shows on this image."""
        places = range(len(image.paths))
        found = []
        for part in (DEAD, WAL):
            mine = [
                place
                for place in places
                if not isinstance(image.contents[place], bytes)
                or part_of(image.paths[place]) == part
            ]
            paths = tuple(image.paths[place] for place in mine)
            contents = tuple(image.contents[place] for place in mine)
            found.append(self._memory.get(paths, contents) or self._run_part((paths, contents)))
        return joined(*found)

    def _run_part(self, key: Key) -> Outcome:
        outcome, look = self._run(Image(*key))
        if self.remembers:
            self._memory.put(key, look, outcome)
        return outcome

    def run(self, image: Image) -> Outcome:
        """Recover a whole image, without looking into memory."""
        return self._run(image)[0]

    def _run(self, image: Image) -> tuple[Outcome, tuple[int, ...]]:
        """The outcome, and the places of the image that it depends on."""
        self.done += 1
        machine = Machine(image, boot=self.boot)
        machine.pids = _PIDS
        nodes = list(machine.disk.nodes)[1:]  # mounting makes them in the order of the paths
        first, seen = self._open_and_read(machine)
        look = {place for place, number in enumerate(nodes) if number in seen}
        if first.error or not self.remembers:
            return first, tuple(sorted(look))
        after = cached_image(machine.disk)
        known = self._again.get((after.paths, after.contents))
        if known is None:
            machine.pids = 2 * _PIDS
            inodes = {path: _inode(machine, path) for path in after.paths}
            second, seen = self._open_and_read(machine)
            read = frozenset(path for path, number in inodes.items() if number in seen)
            if len(self._again) > _KNOWN_MAX:
                self._again.clear()
            known = self._again[after.paths, after.contents] = second, read
        second, read = known
        look |= {place for place, path in enumerate(image.paths) if path in read}
        return _compared(first, second), tuple(sorted(look))

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
            hides: dict[Outcome, bool] = {}
            for contents in product(*(family.slots[p].contents for p in mine)):
                outcome = self._memory.get(paths, contents)
                if outcome is None:
                    outcome = self._run_part((paths, contents))
                if outcome not in part_found or (
                    not hides.get(outcome) and self._hides(family, mine, contents)
                ):
                    hides[outcome] = self._hides(family, mine, contents)
                    part_found[outcome] = dict(zip(mine, contents, strict=True))
            found.append(part_found)
        for (dead, of_dead), (wal, of_wal) in product(found[0].items(), found[1].items()):
            both = of_dead | of_wal
            whole = tuple(both[p] for p in places)
            yield joined(dead, wal), partial(self._checked, family, whole, joined(dead, wal))

    def _hides(self, family: Family, mine: list[int], contents: tuple[Content, ...]) -> bool:
        """Whether some file hides bytes: the better start for a second crash (D29)."""
        if not self.prefers_hidden:
            return False
        slots = family.slots
        return any(
            slots[p].hidden.get(content) for p, content in zip(mine, contents, strict=True)
        )

    def _checked(self, family: Family, contents: tuple[Content, ...], outcome: Outcome) -> Image:
        """The image of an outcome that is new to a state, recovered as a whole now and then."""
        image = family.image(contents)
        self._wholes += 1
        if self._wholes <= _CHECKED or self._wholes % _CHECK_EVERY == 0:
            check = self.run(image)
            if not (check.error or outcome.error or check == outcome):
                raise Violation(f"parts-depend: recovered as a whole {check}, in parts {outcome}")
        return image

    def _open_and_read(self, machine: Machine) -> tuple[Outcome, set[int]]:
        fs = SimFs(machine)
        backend = self.target.make(fs, 0.0)
        try:
            run(backend.open(), fs)
            tasks = run(backend.pending_tasks(), fs)
            dead = run(backend.list_dead_tasks(), fs)
        except LychgateError as error:
            return Outcome((), (), f"recovery-failed: {error!r}"), fs.seen
        except Exception as error:  # a bug of the target, to be reported like any other violation
            return Outcome((), (), f"recovery-failed: unexpected {error!r}"), fs.seen
        finally:
            fs.kill()
        outcome = Outcome(
            tuple([dead_record(found) for found in dead]),
            tuple([task_record(found) for found in tasks]),
        )
        return outcome, fs.seen


def _compared(first: Outcome, second: Outcome) -> Outcome:
    """The first outcome, or what is wrong with the second one."""
    text = ""
    if second.error:
        text = f"recovery-failed-twice: {second.error}"
    elif second.dead != first.dead or sorted(second.tasks) != sorted(first.tasks):
        text = f"not-idempotent: {first} and then {second}"
    return Outcome(first.dead, first.tasks, text) if text else first


def _inode(machine: Machine, path: str) -> int:
    node = machine.look_up(f"/{path}")
    assert node is not None, "an image's own path"
    return node.number


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
