"""A run of the crash lab as a document: a plan, replayed and looked at after every step.

The strip has what the lab judges: the answers of calls, the state after the end of all processes,
and every image of a host crash at this moment, each by the lab's own oracle.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lychgate._op import Op
from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._explore import verdict
from lychgate_conformance.lab._family import ImageSet, Limits
from lychgate_conformance.lab._hunt import target_named
from lychgate_conformance.lab._image import Image, cached_image
from lychgate_conformance.lab._models import find_model
from lychgate_conformance.lab._oracle import Oracle
from lychgate_conformance.lab._plan import Plan
from lychgate_conformance.lab._recover import Outcome as Recovered
from lychgate_conformance.lab._recover import Recovery, part_of
from lychgate_conformance.lab._replay import command, replay
from lychgate_conformance.lab._run import Run
from lychgate_conformance.lab._target import Target
from lychgate_tools.page.calls import call_of, kind_of
from lychgate_tools.page.disk import Eyes, Held
from lychgate_tools.page.document import BROKEN, HOLDS, UNKNOWN, Builder, Document, Piece
from lychgate_tools.page.document import Crash, Outcome, Step, piece
from lychgate_tools.page.pieces import of_file
from lychgate_tools.page.sources import Sources, place_of
from lychgate_tools.spec_dir import locate

STRIP = (
    ("answers", "what calls return, and what they leave locked", "MutualExclusion"),
    ("process kill", "what a new process finds if all end here", "AcknowledgedSurvives"),
    ("host crash", "what every image of a host crash here shows", "AcknowledgedSurvives"),
)

_WORDS = {
    "acknowledged-add-lost": "an acknowledged record is lost",
    "removed-came-back": "a removed record came back",
    "custody-lost": "a task is in neither store",
}


class Film:
    """Watches a run that is replayed, and tells a builder."""

    def __init__(self, plan: Plan, target: Target, made: Builder, sources: Sources) -> None:
        self.made = made
        self.sources = sources
        self.target = target
        self.model = find_model(plan.model)
        setting = plan.setting
        limits = Limits(
            setting.images_max, setting.torn_max, sample=setting.sample, seed=setting.seed
        )
        self._enumerator = Enumerator(self.model, limits, part_of)
        self._eyes = Eyes(made, self._enumerator, of_file)
        self._told = 0
        self._depth = 1
        self._place: tuple[str, int] | None = None
        self._broken = ""
        self._before: Oracle | None = None
        self._moment: tuple[object, str, Crash, bool | None] = (None, "", Crash((), 0), None)
        self._recoveries: dict[str, Recovery] = {}
        self.runs: list[Run] = []
        self.left: Image | None = None
        """What the last host crash left."""
        for name, about, invariant in STRIP:
            made.invariant(name, about, sources.definition(invariant))

    # --- what the replay calls ----------------------------------------------------------------

    def began(self, run: Run, depth: int) -> None:
        self._told, self._depth = 0, depth
        self.runs.append(run)
        if depth > 1:
            self._eyes = Eyes(self.made, self._enumerator, of_file, f"boot {depth}, ")
        for worker in run.workers:
            self._worker(worker.number)
        if depth == 1:
            self._show(run, Step("Begin", "begin", says="what stands on the disk at first"))

    def about_to(self, run: Run, choice: int) -> None:
        able = run.enabled()
        fiber = able[choice] if choice < len(able) else None
        self._place = None if fiber is None else place_of(fiber.program)
        self._before = run.oracle.clone()

    def took(self, run: Run, broken: str) -> None:
        self._broken = self._broken or broken
        new = run.trace[self._told :]
        for number, (worker, action, what) in enumerate(new):
            step = self._step(worker, action, what)
            if broken and number == len(new) - 1:
                step.says = _plain(broken)
            is_last = number == len(new) - 1
            self._show(run, step, run.oracle if is_last else self._before)
        self._told = len(run.trace)

    def ended(self, run: Run, image: Image | None, text: str) -> None:
        lanes, images = self._eyes.lanes(run.machine.disk, Held({}, {}))
        self.left = image
        now = image or cached_image(run.machine.disk)
        boot = f"boot-{self._depth + 1}" if image else run.machine.boot
        shown = _found(self._recovery(boot).outcome(now))
        if image is None:
            files = self._eyes.files(now)
            verdict_text = _plain(text) or "keeps every promise"
            outcome = Outcome("what the kernel has", files, not text, verdict_text, 1, True)
            step = Step("Kill", "kill", "", "SIGKILL to every process",
                        f"all processes end; {shown}")  # fmt: skip
            step.crash = Crash((outcome,), 1, True)
            step.verdicts = [HOLDS, BROKEN if text else HOLDS, UNKNOWN]
        else:
            oracle = run.oracle.clone()
            step = Step("HostCrash", "crash", "", "", f"the power fails; {shown}")
            step.crash, holds = self._eyes.crash(
                run.machine.disk, images, self._judge(oracle, self._depth), image
            )
            step.verdicts = [HOLDS, HOLDS, HOLDS if holds else BROKEN]
            lanes = self._eyes.after(images, image)
        step.says += f"; {_plain(text)}" if text else ""
        step.links = self.sources.links(step.action)
        self.made.add(step, lanes)

    # --- steps --------------------------------------------------------------------------------

    def _worker(self, number: int) -> str:
        return self.made.worker(f"w{number + 1}", f"worker {number + 1}")

    def _step(self, worker: int, action: str, what: object) -> Step:
        who = self._worker(worker)
        if isinstance(what, Op):
            says = _arguments(what)
            links = self.sources.links(action, place=self._place)
            return Step(action, kind_of(action), who, call_of(action), says, links=links)
        if action.endswith((" returns", " fails")):
            call = action.rpartition(" ")[0].rstrip(":")
            shown = f"{call.replace(':', '(', 1)})" if ":" in call else call
            ending = action.rpartition(" ")[2]
            says = f"{shown} {ending}" + ("" if what is None else f": {_short(what)}")
            return Step("Return", "return", who, says=says)
        if action.startswith("SIGKILL"):
            return Step("Kill", "kill", who, "SIGKILL", action)
        if action.startswith("fork"):
            return Step("Fork", "start", who, "fork(2)", action)
        return Step("World", "other", "", says=action)

    def _show(self, run: Run, step: Step, oracle: Oracle | None = None) -> None:
        """Add a step. `oracle` is what was known then: a call returns after its last step."""
        lanes, images = self._eyes.lanes(run.machine.disk, self._held(run))
        step.next = list(self._enabled(run))
        self._judge_all(run, step, images, (oracle or run.oracle).clone())
        self.made.add(step, lanes)

    def _judge_all(self, run: Run, step: Step, images: ImageSet, oracle: Oracle) -> None:
        """Judge a moment; one that only looked at things is judged like the one before."""
        moment = (run, len(run.machine.disk.log), oracle.signature())
        if self._moment[0] != moment:
            self._moment = moment, *self._judged_now(run, images, oracle)
        _, kill, crash, holds = self._moment
        if len(crash.outcomes) > 1 or holds is False:
            step.crash = crash
        step.verdicts = [
            BROKEN if self._broken else HOLDS,
            BROKEN if kill else HOLDS,
            HOLDS if holds else BROKEN,
        ]

    def _judged_now(
        self, run: Run, images: ImageSet, oracle: Oracle
    ) -> tuple[str, Crash, bool | None]:
        """What is wrong when all processes end, what a host crash leaves, whether all of it holds.
        """
        oracle.crash()
        now = cached_image(run.machine.disk)
        kill = verdict(
            oracle, self._recovery(run.machine.boot).outcome(now), run.cache_was_lost
        )
        crash, holds = self._eyes.crash(
            run.machine.disk, images, self._judge(oracle, self._depth)
        )
        return kill, crash, holds

    def _judge(self, oracle: Oracle, depth: int) -> Any:
        recovery = self._recovery(f"boot-{depth + 1}")

        def judged(image: Image) -> tuple[bool, str]:
            text = verdict(oracle, recovery.outcome(image), True)
            return not text, _plain(text) or "keeps every promise"

        return judged

    def _recovery(self, boot: str) -> Recovery:
        return self._recoveries.setdefault(boot, Recovery(self.target, boot))

    def _enabled(self, run: Run) -> Iterator[tuple[str, str]]:
        for fiber in run.enabled():
            ahead = "a call" if fiber.op is None else fiber.op.action
            yield f"w{fiber.worker.number + 1}", ahead
        if run.kills_left:
            yield "", "a kill"

    # --- lanes --------------------------------------------------------------------------------

    def _held(self, run: Run) -> Held:
        memory: dict[int, list[Piece]] = {}
        owners: dict[int, str] = {}
        for worker in run.workers:
            if not worker.alive:
                continue
            for fd, description in worker.fs.descriptors().items():
                number = description.node.number
                who = f"w{worker.number + 1}"
                memory.setdefault(number, []).append(piece("handle", who, f"descriptor {fd}"))
                if run.machine.locks.get(number) is description:
                    owners[number] = f"{owners[number]} and {who}" if number in owners else who
        for fiber in run.fibers:
            data, at = getattr(fiber.op, "data", None), getattr(fiber.op, "fd", None)
            found = fiber.worker.fs.descriptors().get(at) if isinstance(at, int) else None
            if isinstance(data, bytes) and found is not None and fiber.worker.alive:
                number = found.node.number
                name = found.node.label.rpartition("#")[0]
                memory.setdefault(number, []).extend(
                    piece("buffer", it["text"], it.get("raw", "")) for it in of_file(name, data)
                )
        return Held(memory, owners)


def _found(outcome: Recovered) -> str:
    """What recovery showed, in words."""
    if outcome.error:
        return f"a new process cannot open the store ({outcome.error})"
    dead, tasks = ([key for key, _ in it] for it in (outcome.dead, outcome.tasks))
    listed = f"dead tasks {', '.join(dead) or 'none'}; tasks {', '.join(tasks) or 'none'}"
    return f"a new process finds {listed}"


def _arguments(op: Op[Any]) -> str:
    """The arguments of a step that a person wants to see."""
    found = []
    for name in ("path", "staging", "live", "size", "data"):
        value = getattr(op, name, None)
        if isinstance(value, bytes):
            found.append(f"{len(value)} bytes")
        elif isinstance(value, str):
            found.append(value.rpartition("/")[2] or value)
        elif isinstance(value, int) and name == "size" and op.action.startswith("Trunc"):
            found.append(f"to {value} bytes")
    return " -> ".join(found) if op.action.startswith("Rename") else ", ".join(found)


def _short(value: object) -> str:
    if isinstance(value, list):
        names = [getattr(it, "task_id", None) or str(it[0]) for it in value]
        return ", ".join(names) or "nothing"
    text = str(getattr(value, "task_id", value))
    return text if len(text) < 60 else f"{text[:60]}…"


def _plain(text: str) -> str:
    """A finding in words: what is wrong, and with which record."""
    kind, _, rest = text.partition(": ")
    named = rest.split("'")[1] if rest.count("'") >= 2 else rest
    said = _WORDS.get(kind, kind.replace("-", " "))
    return f"{said}: {named}" if named else said


def film(
    plan: Plan, title: str = "", says: str = "", target: Target | None = None
) -> tuple[Builder, Sources, Film]:
    """A plan as a builder, for callers that add a lesson; and the film, for its runs.

    Raises LookupError or IndexError when the run goes another way than its plan says.
    """
    made = Builder(
        title=title or plan.target,
        verdict=says,
        holds=None,
        source="lab",
        name=plan.target,
        model=plan.model,
        command=command(plan),
    )
    sources = Sources(locate().modules())
    aim = target or target_named(plan.target, plan.setting)
    shown = Film(plan, aim, made, sources)
    text = replay(plan, aim, lambda _: None, shown)
    made.meta["holds"] = not text
    made.meta["verdict"] = says or (
        f"{_plain(text).capitalize()}." if text else "Nothing is broken."
    )
    made.meta["begin"] = opening_ends(made)
    return made, sources, shown


def opening_ends(made: Builder) -> int:
    """The step with which the last of the workers that open a store first has opened it."""
    opened = [
        number for number, step in enumerate(made.steps)
        if step["action"] == "Return" and step.get("says", "").startswith("open")
    ]  # fmt: skip
    firsts = {made.steps[number].get("worker"): number for number in reversed(opened)}
    return min(firsts.values(), default=0)


def document(plan: Plan, target: Target) -> Document:
    """The whole document of a plan on a target."""
    made, sources, _ = film(plan, target=target)
    return made.document(sources.as_json())
