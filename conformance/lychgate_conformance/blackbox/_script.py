"""Scripts: what adapters are asked to do while they are recorded, and what that obliges them to.

A script is words, done one after the other, each by one worker (`2/` in front for the second):

    open   close   exit (without closing)
    task:ID   done:ID   dead:ID   undead:ID+ID   sync   list   pending
    task:ID*9000   dead:ID*9000 (a payload of so many bytes)

Rules of this file
  * One word is one request and so one line of answer: the n-th line that an adapter says in a
    recording is the acknowledgement of its n-th word. (A greeting comes before all of them.)
  * What a crash may leave after the first `acked` words is the oracle's affair. Dead tasks are
    durable at their acknowledgement (D17); waiting tasks with frequency 0, or at a later `sync` or
    `close` of the same worker (W3).
"""

from __future__ import annotations

from collections import Counter
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lychgate_conformance import _oracle as oracle
from lychgate_conformance._after_crash import View, after_host_crash, fits, views
from lychgate_conformance._claims import Claims
from lychgate_conformance._history import operation_of, result_of
from lychgate_conformance._oracle import Did, Fate, Operation, Rules, State
from lychgate_conformance._stage import PREFIX
from lychgate_conformance._store import Call, CallError, value_of
from lychgate_conformance._verdict import Failed
from lychgate_conformance._wire import ErrorText, Json

YEAR_9999 = 253_370_764_800.0
LIVES = 100
"""A worker that opens the store again is another one to the oracle, so much further on."""


@dataclass(frozen=True, slots=True)
class Word:
    """One step of one worker."""

    worker: int
    kind: str
    keys: tuple[str, ...] = ()
    size: int = 0

    def __str__(self) -> str:
        who = f"{self.worker}/" if self.worker > 1 else ""
        what = f":{'+'.join(self.keys)}" if self.keys else ""
        return f"{who}{self.kind}{what}{f'*{self.size}' if self.size else ''}"


_KINDS = (
    "open", "close", "exit", "task", "done", "dead", "undead", "sync", "list", "pending",
)  # fmt: skip


def parse_words(text: str) -> tuple[Word, ...]:
    """The words of a script's text for a task store; ValueError for what is none."""
    return words_of(text, _KINDS)


def words_of(text: str, kinds: Sequence[str]) -> tuple[Word, ...]:
    """The words of a script's text; ValueError for what is of none of these kinds."""
    found = []
    for part in text.split():
        who, slash, rest = part.rpartition("/")
        kind, _, keys = rest.partition(":")
        keys, _, size = keys.partition("*")
        if kind not in kinds:
            raise ValueError(f"unknown word {part!r} of a script")
        names = tuple(keys.split("+")) if keys else ()
        found.append(Word(int(who) if slash else 1, kind, names, int(size or 0)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Script:
    """Words, and the options of the store that they work on."""

    words: tuple[Word, ...]
    frequency: float = 0.0

    @classmethod
    def of(cls, text: str, frequency: float = 0.0) -> Script:
        return cls(parse_words(text), frequency)

    def __str__(self) -> str:
        return " ".join(map(str, self.words))

    @property
    def workers(self) -> int:
        return max(word.worker for word in self.words)

    def recovery(self) -> tuple[Script, int]:
        """What is done on an image whose recovery is recorded, and after how many of its words
        all that there is has been looked at."""
        return Script.of("open list pending dead:recovered task:recovered close", self.frequency), 3

    def request(
        self, word: Word, place: int, path: Path, told: Sequence[Told] = ()
    ) -> tuple[Call | None, Json]:
        """The call and the request of a word, after those that were told."""
        handle = 1
        if word.kind == "open":
            return None, {
                "do": "open",
                "handle": handle,
                "path": str(path),
                "prefix": PREFIX,
                "fsync_frequency": self.frequency,
            }
        call = call_of(word, place, handle)
        return call, call.request()

    def story(
        self, told: Sequence[Told], claims: Claims, initial: frozenset[Any] | None = None
    ) -> Tale:
        """What the words oblige to, once they are told; `initial` is what another tale `left`."""
        story = Story(told, claims, self.frequency)
        return story if initial is None else replace(story, initial=initial)

    def after_faults(self) -> tuple[Word, ...]:
        """What is done when a fault is over, to see that the store can be used."""
        return parse_words("list pending dead:later task:later list pending")


def call_of(word: Word, place: int, handle: int) -> Call:
    """The facade's call for a word. `place` makes every payload different."""
    value = {"n": place, **({"pad": "x" * word.size} if word.size else {})}
    match word.kind:
        case "task":
            kwargs: dict[str, object] = {"publish_at": YEAR_9999, "task_id": word.keys[0]}
            return Call(handle, "add_task", (value,), tuple(kwargs.items()))
        case "done":
            return Call(handle, "remove_task", (word.keys[0],))
        case "dead":
            error = ErrorText(f"failed in step {place}")
            return Call(handle, "add_dead_task", (word.keys[0], value, error, "shop.Ship", place))
        case "undead":
            return Call(handle, "remove_dead_tasks", (list(word.keys),))
        case "list":
            return Call(handle, "list_dead_tasks", (), (("limit", None), ("offset", 0)))
        case "pending":
            return Call(handle, "pending_tasks")
        case _:
            assert word.kind in ("sync", "close"), word.kind
            return Call(handle, word.kind)


@dataclass(frozen=True, slots=True)
class Told:
    """A word, its request and the answer; `at` is where its acknowledgement stands in the log.

    Without an answer the worker was killed within the word; `at` is where it did its last step.
    """

    word: Word
    call: Call | None
    reply: Json
    at: int = -1
    alone: bool = True
    """Whether an open takes over all that others left: not where a file could not be read (W14)."""

    @property
    def error(self) -> Json | None:
        """What it raised, None when it did not."""
        return None if self.reply is None else self.reply.get("error")

    def operation(self) -> Operation | None:
        """What it means to the oracle; None for a sync."""
        match self.word.kind:
            case "open":
                return oracle.Begin(self.alone)
            case "close" | "exit":
                return oracle.End()
            case "sync":
                return None
        assert self.call is not None
        return operation_of(self.call)


def checked(word: Word, call: Call | None, reply: Json) -> Told:
    """The told word. Failed when the call raised: no script gives a reason to."""
    try:
        if call is None:
            if "error" in reply:
                raise CallError("open", reply["error"])
        else:
            value_of(call, reply)
    except CallError as error:
        raise Failed(f"{word}: {error}") from error
    return Told(word, call, reply)


@dataclass(slots=True)
class Tale(ABC):
    """All words of a recording in order, and what may be seen after any number of them."""

    told: Sequence[Told]
    claims: Claims
    frequency: float

    def acked(self, upto: int) -> int:
        """How many words are acknowledged within the first `upto` micro-ops."""
        count = 0
        for told in self.told:
            if told.word.kind != "exit" and told.at >= upto:
                break
            count += 1
        return count

    @abstractmethod
    def allows(self, view: View, acked: int, host_crash: bool) -> bool:
        """Whether this may be seen after a crash behind `acked` words. May raise TooMany."""

    @abstractmethod
    def left(self) -> frozenset[Any]:
        """The states in which all words, and no crash, can have left the store."""

    @abstractmethod
    def contradiction(self) -> object:
        """The first answer that no order of the words explains, where nobody crashed; or None."""

    @abstractmethod
    def difference(self, view: View, acked: int, host_crash: bool) -> str:
        """What is wrong with a view that is not allowed, in words."""

    @abstractmethod
    def second(self, told: Sequence[Told], acked: int, seen_at: int) -> Tale:
        """What a recovery obliges to that began on an image of this tale: its states, less what
        the first `seen_at` words have shown as absent."""


@dataclass(slots=True)
class Story(Tale):
    """Words of a task store."""

    initial: frozenset[State] = frozenset((State(),))
    late: frozenset[State] = frozenset()
    late_from: int = 1 << 30
    """Acknowledged words from which on `late` holds in place of `initial`: what somebody has seen
    as absent stays absent (D29)."""
    _known: dict[tuple[int, bool], frozenset[State]] = field(default_factory=dict)
    _views: dict[tuple[int, bool], frozenset[View]] = field(default_factory=dict)

    def states(self, acked: int, host_crash: bool) -> frozenset[State]:
        """The states that a crash may leave after `acked` words, with the next one in flight."""
        key = acked, host_crash
        if key not in self._known:
            dids = list(self._dids(acked))
            known = {did.begun // 2 for did in dids if self._durable(did, acked)}
            self._known[key] = after_host_crash(
                dids, self.rules, lambda did: not host_crash or did.begun // 2 in known,
                self.late if acked >= self.late_from else self.initial,
            )  # fmt: skip
        return self._known[key]

    def left(self) -> frozenset[State]:
        return self.states(len(self.told), host_crash=False)

    def contradiction(self) -> oracle.Violation | None:
        found = oracle.outcomes(self._dids(len(self.told)), self.rules, self.initial)
        return found if isinstance(found, oracle.Violation) else None

    def views(self, acked: int, host_crash: bool) -> frozenset[View]:
        """What whoever opens the store after that crash may see."""
        return views(self.states(acked, host_crash), self.rules)

    @property
    def rules(self) -> Rules:
        return Rules.of(self.claims)

    def allows(self, view: View, acked: int, host_crash: bool) -> bool:
        key = acked, host_crash
        if key not in self._views:
            found = (canonical(it, self.rules) for it in self.views(acked, host_crash))
            self._views[key] = frozenset(found)
        return fits(view, self._views[key], self.rules)

    def difference(self, view: View, acked: int, host_crash: bool) -> str:
        allowed = self.views(acked, host_crash)
        best = min(allowed, key=lambda it: (_distance(view, it), repr(it)))
        parts = []
        if missing := [it.task_id for it in best.dead if it not in view.dead]:
            parts.append(f"dead {_names(missing)} lost")
        if more := [it.task_id for it in view.dead if it not in best.dead]:
            parts.append(f"dead {_names(more)} came back or was never added")
        if gone := sorted(it[0] for it in best.pending - view.pending):
            parts.append(f"task {_names(gone)} lost")
        if extra := sorted(it[0] for it in view.pending - best.pending):
            parts.append(f"task {_names(extra)} came back or was never added")
        return "; ".join(parts) or "dead tasks in another order, or a record twice"

    def second(self, told: Sequence[Told], acked: int, seen_at: int) -> Story:
        initial = self.states(acked, True)
        dead, tasks = (value_of(it.call, it.reply) for it in told[1:3] if it.call is not None)
        records, pending = result_of(dead), result_of(tasks)
        assert isinstance(records, tuple) and isinstance(pending, tuple)
        late = agreeing(initial, View(records, frozenset(pending)))
        return Story(told, self.claims, self.frequency, initial, late or initial, seen_at)

    def _dids(self, acked: int) -> Iterable[Did]:
        opens: Counter[int] = Counter()
        for place, told in enumerate(self.told[: acked + 1]):
            operation = told.operation()
            if operation is None:
                continue
            worker, begun, ended = told.word.worker, 2 * place, 2 * place + 1
            opens[worker] += told.word.kind == "open"
            worker += LIVES * max(0, opens[worker] - 1)
            if place < acked and told.reply is None:
                yield Did(worker, operation, begun, ended, Fate.MAYBE)
            elif place < acked and told.error is not None:
                yield from _failed(Did(worker, operation, begun, ended), told.error)
            elif place < acked:
                result = None
                if told.call is not None and told.word.kind != "close":
                    result = result_of(value_of(told.call, told.reply))
                yield Did(worker, operation, begun, ended, Fate.RETURNED, result)
            elif not isinstance(operation, (oracle.Begin, oracle.End)):
                yield Did(worker, operation, begun, ended, Fate.MAYBE)

    def _durable(self, did: Did, acked: int) -> bool:
        if not isinstance(did.operation, (oracle.AddTask, oracle.RemoveTask)):
            return True
        if self.claims.fsync_policy == "always":
            return True
        if self.claims.fsync_policy == "never":
            return False
        if self.frequency == 0:
            return True
        place = did.begun // 2
        later = self.told[place + 1 : acked]
        return any(
            it.word.kind in ("sync", "close")
            and it.word.worker == self.told[place].word.worker
            and it.error is None
            for it in later
        )


def _failed(did: Did, error: Json) -> Iterable[Did]:
    """A word that raised: it did not happen, or nobody knows. Who cannot be closed has let go."""
    if isinstance(did.operation, oracle.End):
        yield did
    elif not isinstance(did.operation, oracle.Begin) and error["definite"] is not True:
        yield replace(did, fate=Fate.MAYBE)


def canonical(view: View, rules: Rules) -> View:
    """Dead tasks in their order, or sorted where no order is claimed."""
    if rules.list_order == "file":
        return view
    return View(tuple(sorted(view.dead, key=repr)), view.pending)


def _names(found: list[str]) -> str:
    return ", ".join(map(ascii, found))


def _distance(a: View, b: View) -> int:
    return len(set(a.dead) ^ set(b.dead)) + len(a.pending ^ b.pending)


def agreeing(states: frozenset[State], seen: View) -> frozenset[State]:
    """The states that hold nothing but what was seen."""
    pending = {it[:2] for it in seen.pending}
    return frozenset(
        state
        for state in states
        if set(state.dead) <= set(seen.dead)
        and {(it.task_id, it.body) for it in state.tasks} <= pending
    )


def place_acks(
    said: Sequence[tuple[int, int]], told: Sequence[Told], order: Sequence[int]
) -> list[Told]:
    """The words with the places of their acknowledgements.

    `said` are the lines of a recording (adapter and log length), `order` the workers of its
    adapters. The last lines of an adapter answer its words, one each.
    """
    found = list(told)
    for adapter, worker in enumerate(order):
        lines = [at for who, at in said if who == adapter]
        mine = [
            place
            for place, it in enumerate(told)
            if it.word.worker == worker and it.word.kind != "exit" and it.reply is not None
        ]
        assert len(lines) >= len(mine), "every answer is a line"
        for place, at in zip(mine, lines[len(lines) - len(mine) :], strict=True):
            found[place] = replace(found[place], at=at)
    return found
