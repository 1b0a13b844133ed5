"""Effects of the queue's programs, and who makes them.

Rules of this file
  * An effect is a `Call` on the backend or the `Run` of a task. A program awaits it; a driver makes
    it and sends its result, or throws its error, into the program.
  * The thread queue and the asyncio queue drive the same programs, and so do tests, which put a
    crash between any two effects by dropping the program there.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from lychgate._backend import Call
from lychgate._queue_core import Item
from lychgate._queue_job import arguments
from lychgate._task import Current, running_as

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Run:
    """Run a task. Its result is what the task raised, None if it ended well; never an error."""

    item: Item

    def __await__(self) -> Generator[Run, Any, BaseException | None]:
        outcome: BaseException | None = yield self
        return outcome


Effect = Call[Any] | Run
Program = Coroutine[Effect, Any, R]


def drive(program: Program[R], perform: Callable[[Effect], object]) -> R:
    """Drive a program to its end in this thread."""
    value: object = None
    error: BaseException | None = None
    while True:
        try:
            effect = program.send(value) if error is None else program.throw(error)
        except StopIteration as stop:
            return cast(R, stop.value)
        value, error = None, None
        try:
            value = perform(effect)
        except BaseException as raised:
            error = raised


async def drive_async(program: Program[R], perform: Callable[[Effect], Awaitable[object]]) -> R:
    """Drive a program to its end under asyncio."""
    value: object = None
    error: BaseException | None = None
    while True:
        try:
            effect = program.send(value) if error is None else program.throw(error)
        except StopIteration as stop:
            return cast(R, stop.value)
        value, error = None, None
        try:
            value = await perform(effect)
        except GeneratorExit:
            raise  # thrown away, not cancelled
        except BaseException as raised:
            error = raised


def run_here(item: Item) -> BaseException | None:
    """Run a task in this thread: what it raised, whatever that is (U9)."""
    with running_as(Current(item.task_id, item.job.attempts, item.job.retry_of)):
        try:
            args, kwargs = arguments(item.job)
            result = item.spec.call(*args, **kwargs)
            if inspect.iscoroutine(result):
                asyncio.run(result)
        except BaseException as error:
            return error
    return None
