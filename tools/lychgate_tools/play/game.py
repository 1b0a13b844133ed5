"""The game of `lychgate play`: one run of the crash lab, with a person in the place of chance.

Rules of this file
  * A game is its moves: a choice of the run (an integer), END (every process ends and another one
    opens the store), or the digest of the image that a crash of the host leaves. Taking one back
    plays the others again, so nothing here needs to be undone.
  * The lab does all of it: who can go, what a crash may leave, what a new process sees, and the
    verdict. A game can be given away as a plan (`lychgate replay`).
  * What a crash may leave is grouped by what a new process then sees; of each group the image that
    hides least is offered.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lychgate_conformance.lab._calls import Violation
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._explore import verdict
from lychgate_conformance.lab._image import Image, cached_image
from lychgate_conformance.lab._models import Model, Order
from lychgate_conformance.lab._oracle import Oracle
from lychgate_conformance.lab._plan import Phase, Plan, Setting
from lychgate_conformance.lab._recover import Outcome, Recovery, part_of
from lychgate_conformance.lab._run import Run
from lychgate_conformance.lab._starts import find_start
from lychgate_conformance.lab._target import Target
from lychgate_conformance.lab._workload import Workload, parse_workload

END = "end"
"""The move that ends every process, without a crash of the host."""

Move = int | str
PHASES_MAX = 3


@dataclass(frozen=True, slots=True)
class Choice:
    """A step that somebody can take now."""

    worker: int
    call: str
    """The facade call that it belongs to."""
    step: str
    """The step with its arguments; empty where the call has not begun."""
    killed: bool = False
    keeps: int = 0
    """How many bytes of its write a killed worker leaves."""


@dataclass(frozen=True, slots=True)
class Left:
    """Something that a crash of the host may leave."""

    image: Image
    images: int
    """How many images a new process sees alike."""
    outcome: Outcome
    broken: str
    """What is wrong with it; empty when nothing is."""


class Game:
    """One game. Every method but `play` and `take_back` only looks."""

    def __init__(self, target: Target, workload: Workload, model: Model, kills: int = 1) -> None:
        self.target = target
        self.workload = workload
        self.model = model
        self.setting = Setting(kills=kills, attempts=target.lock_attempts)
        self.moves: list[Move] = []
        self.broken = ""
        """The promise that is broken, in words; empty while none is."""
        self.seen: Outcome | None = None
        """What the process saw that opened the store after the last crash or end."""
        self._start()

    # --- moves ------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        return bool(self.broken) or self._ended

    def choices(self) -> list[Choice]:
        """Who can take a step, and who can be killed before or within it."""
        if self.is_over:
            return []
        able = self._run.enabled()
        found = []
        for fiber in able:
            call = fiber.call if fiber.calls is not None else None
            following = "open" if fiber.steps and fiber.steps[0][0] is None else ""
            following = following or str(fiber.steps[0][0] if fiber.steps else "")
            name = following if call is None else f"{call.kind}:{call.key}".rstrip(":")
            found.append(Choice(fiber.worker.number, name, str(fiber.op or "")))
        if able:
            for keeps in self._run.kinds_of_kill(able[0]):
                found.append(replace(found[0], killed=True, keeps=keeps))
        return found

    def play(self, move: Move) -> None:
        """Make a move. ValueError when it cannot be made."""
        if self.is_over:
            raise ValueError("the game is over")
        if isinstance(move, int):
            if not 0 <= move < len(self.choices()):
                raise ValueError(f"there is no choice {move}")
            self._take(move)
        elif move == END:
            self._end()
        else:
            self._crash(move)
        self.moves.append(move)

    def take_back(self) -> None:
        """The last move has not been made. ValueError when there is none."""
        if not self.moves:
            raise ValueError("there is no move to take back")
        moves = self.moves[:-1]
        self._start()
        for move in moves:
            self.play(move)

    # --- looking ----------------------------------------------------------------------------------

    def cache(self) -> Image:
        """What every process sees now."""
        return cached_image(self._run.machine.disk)

    def images(self) -> tuple[list[Image], str]:
        """What a crash of the host may leave now, and what was left out, if anything."""
        found = self._enumerator.at(self._run.machine.disk)
        return list(found.images()), found.partial

    def durability(self) -> tuple[Image, frozenset[Image]]:
        """What stands in the files now, and what a crash of the host may leave of it."""
        return self.cache(), frozenset(self.images()[0])

    def left(self) -> list[Left]:
        """The same, one for each thing that a new process sees; sound ones first."""
        oracle = self._crashed_oracle()
        recovery = self._recovery(self._depth + 1)
        groups: dict[Outcome, list[Image]] = {}
        with self.target.constants():
            for image in self.images()[0]:
                groups.setdefault(recovery.outcome(image), []).append(image)
        found = []
        for outcome, images in groups.items():
            example = min(images, key=lambda it: (bool(it.hidden), _size(it)))
            found.append(Left(example, len(images), outcome, verdict(oracle, outcome, True)))
        return sorted(found, key=lambda it: (bool(it.broken), -it.images, it.image.paths))

    def told(self) -> list[tuple[int, str, object]]:
        """Worker, step and result of everything since the last crash."""
        return self._run.trace

    def plan(self) -> Plan:
        """The game so far, for `lychgate replay`."""
        phases = list(self._phases)
        if self._choices or not phases:
            phases.append(Phase(tuple(self._choices), None, ""))
        return Plan(
            self.target.name, self.model.name, self.workload, None, tuple(phases), self.setting
        )

    # --- how it is done ---------------------------------------------------------------------------

    def _start(self) -> None:
        start = find_start(self.workload.start)
        self._enumerator = Enumerator(self.model, part_of=part_of)
        self._phases: list[Phase] = []
        self._ended = False
        self._depth = 0
        self.moves = []
        self.broken = ""
        self.seen = None
        oracle = Oracle(start.dead, start.tasks, self.workload.frequency)
        self._begin(start.image, oracle)

    def _begin(self, image: Image, oracle: Oracle) -> None:
        self._depth += 1
        first = self._depth == 1
        self._choices: list[int] = []
        workload = self.workload if first else parse_workload(f"new;0;{self.setting.second}")
        with self.target.constants():
            self._run = Run(
                self.target,
                workload,
                Machine(image, boot=f"boot-{self._depth}", unit=self.model.unit),
                oracle,
                kills=self.setting.kills if first else 0,
                ordered=self.model.order is not Order.FREE,
                phase=self._depth,
            )

    def _take(self, choice: int) -> None:
        self._choices.append(choice)
        with self._watched():
            self._run.take(choice)
            self._run.check_end()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        try:
            with self.target.constants():
                yield
        except Violation as found:
            self.broken = str(found)

    def _crashed_oracle(self) -> Oracle:
        oracle = self._run.oracle.clone()
        oracle.crash()
        return oracle

    def _recovery(self, boot: int) -> Recovery:
        return Recovery(self.target, f"boot-{boot}")

    def _end(self) -> None:
        oracle = self._crashed_oracle()
        with self.target.constants():
            self.seen = self._recovery(self._depth).outcome(self.cache())
        self.broken = verdict(oracle, self.seen, False)
        self._phases.append(Phase(tuple(self._choices), None, "kill"))
        self._choices = []
        self._ended = True

    def _crash(self, digest: str) -> None:
        chosen = next((it for it in self.images()[0] if it.digest().startswith(digest)), None)
        if chosen is None:
            raise ValueError(f"this crash cannot leave an image {digest}")
        oracle = self._crashed_oracle()
        with self.target.constants():
            self.seen = self._recovery(self._depth + 1).outcome(chosen)
        self.broken = verdict(oracle, self.seen, True)
        self._phases.append(Phase(tuple(self._choices), chosen.digest()[:16], ""))
        self._choices = []
        self._run.abandon()
        if self.broken or self._depth == PHASES_MAX:
            self._ended = True
        else:
            self._begin(chosen, oracle)


def _size(image: Image) -> int:
    return sum(map(len, image.files().values()))
