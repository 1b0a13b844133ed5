"""One store of one adapter while its calls fail: what was asked of it, and what it said.

Any word may raise, and the adapter may die of it. When the fault is over the store is opened again
if it is not open, and some more words are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from lychgate_conformance._findings import Finding
from lychgate_conformance._host import KillableHost
from lychgate_conformance._verdict import BackendDied, Inconclusive
from lychgate_conformance.blackbox._checker import STORE
from lychgate_conformance.blackbox._explore import Explorer
from lychgate_conformance.blackbox._faults import Fault
from lychgate_conformance.blackbox._script import Script, Told, Word


class Life:
    """One store of one adapter: what was asked of it, and what it said."""

    def __init__(self, explorer: Explorer, host: KillableHost, world: Path, script: Script) -> None:
        self.host = host
        self.world = world
        self.script = script
        self.told: list[Told] = []
        self.opened = False
        self.over = 0
        self.end: BackendDied | Finding | None = None
        """How the adapter ended, when it is dead."""
        self._explorer = explorer

    @property
    def dead(self) -> bool:
        return bool(self.told) and self.told[-1].reply is None

    def do(self, word: Word, meanwhile: Callable[[], None] | None = None) -> None:
        """Ask for a word; what needs an open store is left out when none is open."""
        if not self.dead and (self.opened or word.kind == "open"):
            self.ask(self.host, word, meanwhile)
            if word.kind in ("open", "close"):
                self.opened = word.kind == "open" and self.told[-1].error is None

    def ask(
        self, host: KillableHost, word: Word, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """Ask any adapter for a word on this store; `meanwhile` is done before the answer."""
        place, store = len(self.told), self.world / STORE
        call, request = self.script.request(word, place, store, self.told)
        limit_s = self._explorer.left()
        try:
            host.send(request)
            if meanwhile is not None:
                meanwhile()
            reply = host.take(limit_s)
        except (BackendDied, Finding) as error:  # it answered well where nothing had failed
            reply, self.end = None, error
        except Inconclusive as error:
            raise Inconclusive(f"{word}: {error}") from error
        self.told.append(Told(word, call, reply))

    def struck_at(self, place: int | None, fault: Fault) -> None:
        """Note which opens a fault has struck: what they could not read they leave to the next."""
        for number, told in enumerate(self.told):
            if told.word.kind == "open" and place is not None:
                if number == place or (fault.stays and place < number < self.over):
                    self.told[number] = replace(told, alone=False)

    def go_on(self) -> None:
        """The fault is over."""
        self.over = len(self.told)
        if not self.opened:
            self.do(Word(1, "open"))
        for word in self.script.after_faults():
            self.do(word)
