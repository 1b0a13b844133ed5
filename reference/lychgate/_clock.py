"""The queue's clock: time, chance, the process id, and waiting. A driver module.

Rules of this file
  * With `_osfs.py` the only module of the engine that imports `os`, `time` or `random`. Everything
    else takes a `Clock`, so a test decides what time it is and no test waits for it to pass.
  * `now` is wall-clock time, because due times outlive the process. `elapsed` never goes back;
    time-outs and grace use it, so that a clock set back cannot make one last for ever.
  * A wait may end early for no reason. Who waits looks again at what it waited for.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from typing import Protocol

from lychgate._policy import DRAW_MAX

WAIT_S_MAX = 5.0
"""The longest single wait: how late a jump of the wall clock is noticed, at most."""


class Clock(Protocol):
    """What the queue asks of the world besides its backend. Times are seconds."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""

    def elapsed(self) -> float:
        """Seconds since some moment of this process; never goes back."""

    def draw(self) -> int:
        """The random part of a backoff: 0..14 (U2)."""

    def pid(self) -> int:
        """The process id; a change tells a queue that it was carried through a fork."""

    def wait(self, condition: threading.Condition, seconds: float) -> None:
        """Wait on a condition that the caller holds, `seconds` at most."""

    async def pause(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for an event, `seconds` at most."""


class SystemClock:
    """The real one."""

    def now(self) -> float:
        return time.time()

    def elapsed(self) -> float:
        return time.monotonic()

    def draw(self) -> int:
        return random.randint(0, DRAW_MAX)

    def pid(self) -> int:
        return os.getpid()

    def wait(self, condition: threading.Condition, seconds: float) -> None:
        condition.wait(min(seconds, WAIT_S_MAX))

    async def pause(self, event: asyncio.Event, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, WAIT_S_MAX)):
                await event.wait()
        except TimeoutError:
            pass
