"""`Op`: one step of the engine, as a value.

A step is the same step everywhere: one call on the `Fs` port = one TLA+ action = one `Op` class =
one trace event = one label in the docs, all under one name. The name is the class's own name, so
there is no second place where it could differ.

A program is an `async def` that awaits ops. Awaiting an op suspends the program, hands the op to
whoever drives it (`_drive.py`, or the crash lab) and resumes with the op's result or error. The
program itself never touches the file system, which is why a crash can be put between any two steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Generator
from typing import Any, ClassVar, Generic, TypeVar, final

from lychgate._fs import Fs

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


class Op(ABC, Generic[R_co]):
    """One step. Subclasses are frozen, slotted dataclasses that hold the step's arguments."""

    __slots__ = ()

    action: ClassVar[str]
    """The name of the TLA+ action that this step is."""

    waits_for_disk: ClassVar[bool] = False
    """Whether the call may take as long as the device takes; the asyncio driver uses a thread."""

    def __init_subclass__(cls) -> None:
        cls.action = cls.__name__

    @abstractmethod
    def perform(self, fs: Fs) -> R_co:
        """Make the one call."""

    @final
    def __await__(self) -> Generator[Op[Any], Any, R_co]:
        result: R_co = yield self
        return result


Program = Coroutine[Op[Any], Any, R]
"""What an `async def` over ops gives: yields ops, is sent their results, returns an `R`."""
