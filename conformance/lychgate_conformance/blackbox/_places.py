"""Where to kill, and whether a kill happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from lychgate_conformance.blackbox._strace import Call, Event, Gone


@dataclass(frozen=True, slots=True)
class Place:
    """A call to be killed at: its name and which one of that name, of those that strace sees."""

    name: str
    when: int

    def __str__(self) -> str:
        return f"{self.name} {self.when}"

    @property
    def injection(self) -> str:
        """strace's words for it."""
        return f"{self.name}:signal=KILL:when={self.when}"


def happened(events: Sequence[Event], at: Place) -> bool:
    """Whether a trace ends with a kill within the call that was asked for."""
    calls = [it for it in events if isinstance(it, Call) and it.name == at.name]
    killed = any(isinstance(it, Gone) and "SIGKILL" in it.how for it in events)
    cut = [it for it in calls if it.result is None]
    return killed and bool(cut) and Counter(it.pid for it in calls)[cut[0].pid] == at.when
