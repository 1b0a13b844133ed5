"""Real states against the models' states: what lies outside, what was never seen."""

from __future__ import annotations

from dataclasses import dataclass, field

from lychgate_conformance.lab._enumerate import Enumerator
from lychgate_conformance.lab._family import Limits
from lychgate_conformance.lab._image import Image
from lychgate_conformance.lab._litmus import Litmus, Run, matches, outside, shown, simulate
from lychgate_conformance.lab._models import find_model
from lychgate_tools.litmus.filesystems import FileSystem
from lychgate_tools.litmus.jobs import Result

_LIMITS = Limits(images_max=200_000, torn_files_max=2)


@dataclass(frozen=True, slots=True)
class Outside:
    """A real state that a model does not have."""

    model: str
    variant: str
    done: int
    """How many steps of the program had returned."""
    state: str
    kept: str
    allowed: tuple[str, ...]
    """The model's states; the first of them where there are many."""
    partial: str
    """What was left out of the model's states, if anything."""


@dataclass(slots=True)
class Verdict:
    """One program on one file system, all variants."""

    litmus: Litmus
    system: FileSystem
    images: int = 0
    mounts: int = 0
    untried: int = 0
    seen: set[str] = field(default_factory=set)
    """States seen after the last step."""
    modelled: set[str] = field(default_factory=set)
    """States of the file system's model after the last step."""
    unseen: set[str] = field(default_factory=set)
    """Those of them that were never seen."""
    outside: list[Outside] = field(default_factory=list)


class Judge:
    """Takes the results of one program on one file system."""

    _SHOWN_MAX = 12

    def __init__(self, litmus: Litmus, system: FileSystem) -> None:
        self.verdict = Verdict(litmus, system)
        self._run: Run = simulate(litmus)
        self._models = [
            Enumerator(find_model(name), _LIMITS)
            for name in (system.model, *(("portable",) if system.in_portable else ()))
        ]
        self._allowed: dict[tuple[str, int], tuple[set[Image], str]] = {}
        self._seen: set[Image] = set()
        self._reported: set[tuple[str, str]] = set()

    def take(self, result: Result) -> None:
        """Hold one variant's states against the models."""
        verdict = self.verdict
        verdict.images += result.images
        verdict.mounts += result.mounts
        verdict.untried += result.untried
        for state in result.states:
            for done, kept in state.moments.items():
                if state.image is None:
                    self._report("any", result, done, state.trouble, kept, set(), "")
                    continue
                if done == len(self._run.ends) - 1:
                    self._seen.add(state.image)
                for enumerator in self._models:
                    allowed, partial = self._states(enumerator, done)
                    model = enumerator.model
                    if outside(state.image, allowed, model):
                        text = shown(state.image)
                        self._report(model.name, result, done, text, kept, allowed, partial)

    def end(self) -> Verdict:
        """The verdict, after the last result."""
        model = find_model(self.verdict.system.model)
        allowed, _ = self._states(self._models[0], len(self._run.ends) - 1)
        odd = self._seen - allowed  # they can stand only for garbage of the model
        unseen = [
            image
            for image in allowed - self._seen
            if not any(matches(real, image, model) for real in odd)
        ]
        self.verdict.seen = {shown(image) for image in self._seen}
        self.verdict.modelled = {shown(image) for image in allowed}
        self.verdict.unseen = {shown(image) for image in unseen}
        return self.verdict

    def _states(self, enumerator: Enumerator, done: int) -> tuple[set[Image], str]:
        key = (enumerator.model.name, done)
        if key not in self._allowed:
            found = self._run.allowed_after(done, enumerator)
            self._allowed[key] = (set(found.images()), found.partial)
        return self._allowed[key]

    def _report(
        self,
        model: str,
        result: Result,
        done: int,
        state: str,
        kept: str,
        allowed: set[Image],
        partial: str,
    ) -> None:
        """Each state once per model, with the first writes that led to it."""
        if (model, state) in self._reported:
            return
        self._reported.add((model, state))
        names = tuple(sorted({shown(image) for image in allowed})[: self._SHOWN_MAX])
        self.verdict.outside.append(
            Outside(model, result.variant, done, state, kept, names, partial)
        )

