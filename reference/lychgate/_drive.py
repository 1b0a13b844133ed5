"""Drivers: who performs the steps of a program. The third one, the simulator, is the crash lab's.

Rules of this file
  * A driver performs one op, sends its result (or throws its error) into the program, and repeats.
  * Trace events come from here and from nowhere else.
  * Cancellation enters a program only while it sleeps or waits for the disk. A call that a thread
    has begun is always waited for: its descriptor must not be closed under it.
  * An interrupt (Ctrl-C, a signal handler that raises) enters the program at the step in hand, so
    that its clean-up runs. So does the end of an asyncio task that is thrown away unfinished.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from lychgate._errors import LychgateError
from lychgate._fs import Fs
from lychgate._op import Op, Program
from lychgate._ops import Sleep

R = TypeVar("R")

Observer = Callable[[Op[Any], object, BaseException | None], None]
"""Called after every step with the op, its result and its error: a trace."""


def run(
    program: Program[R],
    fs: Fs,
    observe: Observer | None = None,
    error: BaseException | None = None,
) -> R:
    """Drive a program to its end in this thread; `error` is thrown into it first."""
    value: object = None
    while True:
        try:
            while True:
                op = program.send(value) if error is None else program.throw(error)
                value, error = None, None
                try:
                    value = op.perform(fs)
                except BaseException as raised:
                    error = raised
                if observe is not None:
                    observe(op, value, error)
        except StopIteration as stop:
            result: R = stop.value
            return result
        except BaseException as raised:
            if inspect.getcoroutinestate(program) != inspect.CORO_SUSPENDED:
                raise  # it comes out of the program
            error = raised  # an interrupt between two steps


async def drive(program: Program[R], fs: Fs, observe: Observer | None = None) -> R:
    """Drive a program to its end under asyncio.

    Only `Sleep` and the ops that wait for the disk (fsyncs, in a thread) let other tasks run; every
    other call is made in the loop, which it blocks for as long as the page cache takes.
    """
    value: object = None
    error: BaseException | None = None
    while True:
        try:
            op = program.send(value) if error is None else program.throw(error)
        except StopIteration as stop:
            result: R = stop.value
            return result
        value, error = None, None
        try:
            if isinstance(op, Sleep):
                await asyncio.sleep(op.seconds)
            elif op.waits_for_disk:
                value = await _in_thread(op, fs)
            else:
                value = op.perform(fs)
        except GeneratorExit:
            # This task is thrown away, not cancelled. Nothing can be awaited any more, but the lock
            # must not stay taken for as long as the process lives.
            try:
                run(program, fs, observe, asyncio.CancelledError())
            except (asyncio.CancelledError, LychgateError):
                pass
            raise
        except BaseException as raised:
            error = raised
        if observe is not None:
            observe(op, value, error)


async def _in_thread(op: Op[R], fs: Fs) -> R:
    call = asyncio.get_running_loop().run_in_executor(None, op.perform, fs)
    cancelled: asyncio.CancelledError | None = None
    while not call.done():
        try:
            await asyncio.wait([call])
        except asyncio.CancelledError as raised:
            cancelled = raised
    if cancelled is not None:
        call.exception()  # seen, so that asyncio does not report it; the cancellation goes first
        raise cancelled
    return call.result()
