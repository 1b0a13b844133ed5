"""What is wrong with a run in which a fault happened, and how it is told.

What is asked for, first to last:
  * the adapter lives;
  * an error of the system is not told as a task that cannot be stored, or an option that cannot be
    meant: who believes that gives the task up;
  * when the fault is over the store can be opened, and no lock is left taken; whose store is on a
    server connects again, if need be for the price of one more error for each lost connection;
  * all answers together can be explained, where an error that says so means that nothing happened;
  * so can what the next one finds; it works for them, where this adapter has refused to go on;
  * so can what the host leaves when it crashes at any moment since the fault. A sync that failed
    has lost what it was to make durable, until that is written anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from lychgate_conformance._oracle import TooMany
from lychgate_conformance._verdict import Inconclusive
from lychgate_conformance._wire import Json
from lychgate_conformance.blackbox._explain import explain, image_lines, problem
from lychgate_conformance.blackbox._explore import Explorer, Failure
from lychgate_conformance.blackbox._faulted import Faulted, Ground
from lychgate_conformance.blackbox._images import Met
from lychgate_conformance.blackbox._record import Recording
from lychgate_conformance.blackbox._script import Tale, Told
from lychgate_conformance.lab._image import image_of
from lychgate_conformance.lab._micro import Recorder

_NOT_THE_TASK = frozenset(("refused", "bad_option", "unsupported", "Refused", "ConfigError"))
_LOCKED = frozenset(("lock_timeout", "locked", "DeadTasksLockTimeout"))


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that a fault has broken."""

    faulted: Faulted
    problem: str
    failure: Failure | None = None
    """The image on which it shows, where it is one."""

    def __str__(self) -> str:
        told = self.faulted.told
        lines = [f"{self.faulted.fault}: {self.problem}"]
        if self.failure is not None and self.failure.host_crash:
            return "\n".join([*lines, explain(self.failure)])
        lines.append("history:")
        for place, it in enumerate(told):
            here = "   <- the fault" if place == self.faulted.struck else ""
            lines.append(f"  {it.word}   {answer(it)}{here}")
        left = self.faulted.left
        if not isinstance(left, Path):
            lines += [f"image {left.digest()[:16]}:", *(f"  {it}" for it in image_lines(left))]
        return "\n".join(lines)


def answer(told: Told) -> str:
    """What a word was answered."""
    if told.reply is None:
        return "died"
    return "ok" if told.error is None else _said(told.error)


def _said(error: Json) -> str:
    definite = {True: "nothing happened", False: "it may have happened", None: "nobody knows"}
    return f"raised {error['type']}: {error['text'][:120]} ({definite[error['definite']]})"


def judge(explorer: Explorer, ground: Ground, found: Faulted) -> Broken | None:
    """The first thing that is wrong; None when all is well."""
    story = found.script.story(found.told, explorer.target.claims, ground.states)
    try:
        if text := _live_problem(found, story):
            return Broken(found, text)
        if (failure := _left(explorer, found, story)) is not None:
            return Broken(found, failure.outcome.error or problem(failure), failure)
    except TooMany as error:
        raise Inconclusive(f"{found.fault}: {error}") from error
    if found.recorded is not None:
        since = min(found.struck, len(found.recorded.story.told))
        crashed = explorer.judge(
            found.script, found.recorded, host_crash=True, boot=1, since=since
        )
        if crashed is not None:
            return Broken(found, "and then the host crashes", crashed)
    return None


def _live_problem(found: Faulted, story: Tale) -> str:
    """What is wrong with the answers themselves."""
    if found.end:
        return f"the adapter ended with it: {found.end}"
    for place, it in enumerate(found.told):
        if it.word.worker != 1 and (it.reply is None or it.error is not None):
            return f"then another process could not go on: {it.word} {answer(it)}"
        if it.error is None:
            continue
        names = {*it.error["bases"], it.error["code"]}
        if not _NOT_THE_TASK.isdisjoint(names):
            return f"a failure of the system is told as a fault of the task: {it.word} {answer(it)}"
        if place >= found.over and not _LOCKED.isdisjoint(names):
            return f"a lock was left taken: {it.word} {answer(it)}"
        if place >= found.over and it.word.kind == "open":
            return f"when it was over the store could not be opened: {answer(it)}"
    last = [it for it in found.told[found.over :] if it.word.worker == 1][-1:]
    if isinstance(found.left, Path) and any(it.error is not None for it in last):
        return f"with its connection lost it does not work again: {last[0].word} {answer(last[0])}"
    violation = story.contradiction()
    if violation is None:
        return ""
    if (liar := _liar(story)) is not None:
        return f"an error says that nothing happened, and something did: {liar.word} {answer(liar)}"
    return f"its answers cannot be explained: {violation}"


def _liar(story: Tale) -> Told | None:
    """The word whose error, taken as one that says nothing, makes all answers fit."""
    for place, it in enumerate(story.told):
        if it.error is not None and it.error["definite"]:
            doubted = replace(it, reply={"error": {**it.error, "definite": None}})
            told = [*story.told[:place], doubted, *story.told[place + 1 :]]
            if replace(story, told=told).contradiction() is None:
                return it
    return None


def _left(explorer: Explorer, found: Faulted, story: Tale) -> Failure | None:
    """What is wrong with what is left, without a crash of the host."""
    checker = explorer.checker(found.script.frequency, 0)
    outcome = checker.outcome(found.left)
    acked = len(found.told)
    text = outcome.error
    if not text and story.allows(outcome.view, acked, host_crash=False):
        if any(it.error is not None for it in found.told[found.over :]):
            text = checker.further(found.left, outcome.view)
        if not text:
            return None
    met = Met(image_of({}) if isinstance(found.left, Path) else found.left, 0)
    told = replace(outcome, error=text)
    return Failure(found.script, Recording(Recorder()), story, met, acked, told, False)


