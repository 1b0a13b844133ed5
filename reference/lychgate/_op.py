"""`Op`: one step of the engine, as a value.

A step is the same step everywhere: one call on the `Fs` port = one TLA+ action = one `Op` class =
one trace event = one label in the docs, all under one name. The name is the class's own name, so
there is no second place where it could differ.

A program is an `async def` that awaits ops. Awaiting an op suspends the program, hands the op to
whoever drives it (`_drive.py`, or the crash lab) and resumes with the op's result or error. The
program itself never touches the file system, which is why a crash can be put between any two steps.

Clean-up (`with_undo`, `with_release`) is made of steps as well. A crash runs none of them: closing
a suspended coroutine raises GeneratorExit, and no program awaits anything on that path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform, final

from lychgate._fs import Fs

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
T = TypeVar("T")


class StepError(Exception):
    """A step's call failed with `cause`; programs make a `StorageError` of it for their caller."""

    def __init__(self, action: str, cause: OSError) -> None:
        super().__init__(action, cause)
        self.action = action
        self.cause = cause


@dataclass_transform(frozen_default=True)
def step(cls: type[T]) -> type[T]:
    """The dataclass of a step: slotted, and frozen for the type checker.

    Freezing at run time as well would make every step a tenth dearer.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


class Op(ABC, Generic[R_co]):
    """One step. Subclasses are declared with `step` and hold the step's arguments."""

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
        try:
            result: R_co = yield self
        except OSError as cause:
            raise StepError(self.action, cause) from cause
        return result


Program = Coroutine[Op[Any], Any, R]
"""What an `async def` over ops gives: yields ops, is sent their results, returns an `R`."""


async def _quietly(clean_up: Callable[[], Program[None]]) -> None:
    """Clean up after an error that the caller must see, whatever becomes of the cleaning."""
    try:
        await clean_up()
    except StepError:
        pass


async def with_undo(body: Program[R], undo: Callable[[], Program[None]]) -> R:
    """Run `body`; if it fails or is cancelled, run `undo`. A crash runs nothing."""
    try:
        return await body
    except GeneratorExit:
        raise
    except BaseException:
        await _quietly(undo)
        raise


async def with_release(body: Program[R], release: Callable[[], Program[None]]) -> R:
    """Run `body`, then `release`: on success, on error, on cancellation, but not in a crash."""
    try:
        result = await body
    except GeneratorExit:
        raise
    except BaseException:
        await _quietly(release)
        raise
    await release()
    return result
