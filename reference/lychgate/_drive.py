"""Drivers: who performs the steps of a program. The third one, the simulator, is the crash lab's.

Rules of this file
  * A driver performs one op, sends its result (or throws its error) into the program, and repeats.
  * Trace events come from here and from nowhere else.
  * Cancellation enters a program only while it sleeps or waits for the disk. A call that a thread
    has begun is always waited for: its descriptor must not be closed under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from lychgate._fs import Fs
from lychgate._op import Op, Program
from lychgate._ops import Sleep

R = TypeVar("R")

Observer = Callable[[Op[Any], object, BaseException | None], None]
"""Called after every step with the op, its result and its error: a trace."""


def run(program: Program[R], fs: Fs, observe: Observer | None = None) -> R:
    """Drive a program to its end in this thread."""
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
            value = op.perform(fs)
        except BaseException as raised:  # KeyboardInterrupt too: the program frees its lock
            error = raised
        if observe is not None:
            observe(op, value, error)


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
            raise  # this task is being thrown away, not cancelled: no clean-up can be awaited
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
