"""Lines to and from a process, over pipes that neither side can block.

Rules
  * Lines are written as they fit and read as they come, in one loop: two sides that both write a
    lot cannot wait for each other.
  * A wait has a deadline; who let it pass is stuck, is killed and is never used again.
  * Only processes that were started here are ended, and every one of them is.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Protocol

from lychgate_conformance._verdict import Inconclusive

LINE_BYTES_MAX = 256 * 1024 * 1024
"""A longer line is not waited for."""

_CHUNK_BYTES = 1 << 20


class Process(Protocol):
    """What pipes need of a process: `subprocess.Popen` has it, and so have our own."""

    pid: int

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...

    def wait(self, timeout: float | None = None) -> int: ...


Start = Callable[[int, int, int], Process]
"""Starts a process on the descriptors of its standard input, output and error."""


class LineTooLong(Exception):
    """A line has more than LINE_BYTES_MAX bytes and still no end."""


class Pipes:
    """One process and the lines between it and us."""

    def __init__(self, start: Start) -> None:
        self._errors = tempfile.TemporaryFile()
        requests, self._in = os.pipe()
        self._out, replies = os.pipe()
        try:
            self.process = start(requests, replies, self._errors.fileno())
        except BaseException:
            for fd in (self._in, self._out):
                os.close(fd)
            self._errors.close()
            raise
        finally:
            os.close(requests)
            os.close(replies)
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._to_write = bytearray()
        self._buffer = bytearray()
        self._searched = 0
        self._in_open = True
        self._closed = False
        self.on_wait: Callable[[], None] | None = None
        """Called now and then during a wait."""

    @property
    def output(self) -> str:
        """The pipe of its standard output, as Linux names it: the same name at both ends."""
        return f"pipe:[{os.fstat(self._out).st_ino}]"

    def write(self, line: bytes) -> None:
        """Queue a line; it is written at once where it fits, else as lines are waited for."""
        if self._in_open:
            self._to_write += line
            self._write_some()

    def forget_unwritten(self) -> None:
        self._to_write.clear()

    def end_input(self) -> None:
        """The process reads the end of its input."""
        if self._in_open:
            self._in_open = False
            self._to_write.clear()
            os.close(self._in)

    def has_line(self) -> bool:
        """Whether a line has arrived already."""
        if self._in_open:
            self._write_some()
        self._read_some()
        return b"\n" in self._buffer

    def next_line(self, deadline: float) -> bytes | None:
        """A line without its end; None when the output has ended.

        At the deadline the process is killed: Inconclusive.
        """
        try:
            return self._next_line(deadline)
        except TimeoutError:
            self.process.kill()
            raise Inconclusive("no answer from the backend within the time") from None

    def _next_line(self, deadline: float) -> bytes | None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._out, selectors.EVENT_READ)
            writing = False
            while (line := self._cut_line()) is None:
                if bool(self._to_write) != writing:
                    writing = not writing
                    if writing:
                        selector.register(self._in, selectors.EVENT_WRITE)
                    else:
                        selector.unregister(self._in)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                slice_s = left if self.on_wait is None else min(left, 0.25)
                for key, _ in selector.select(slice_s):
                    if key.fd != self._out:
                        self._write_some()
                    elif not self._read_some():
                        return None
                if self.on_wait is not None:
                    self.on_wait()
        return line

    def unfinished_line(self) -> bytes:
        """What came after the last whole line."""
        return bytes(self._buffer)

    def _cut_line(self) -> bytes | None:
        end = self._buffer.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._buffer)
            if self._searched > LINE_BYTES_MAX:
                raise LineTooLong
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._searched = 0
        return line

    def _read_some(self) -> bool:
        try:
            chunk = os.read(self._out, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        self._buffer += chunk
        return bool(chunk)

    def _write_some(self) -> None:
        try:
            written = os.write(self._in, memoryview(self._to_write)[:_CHUNK_BYTES])
        except BlockingIOError:
            return
        except OSError:  # it died; reading will say so
            self._to_write.clear()
            return
        del self._to_write[:written]

    # --- the end ------------------------------------------------------------------------------

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone. What it had written can still be read."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """Nothing of the process is left when this returns."""
        if self._closed:
            return
        self._closed = True
        if self.process.poll() is None:
            self.kill()
        if self._in_open:
            os.close(self._in)
        os.close(self._out)
        self._errors.close()

    def how_it_ended(self) -> str:
        """Its exit code or signal, in words."""
        try:
            code = self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "its output closed"
        if code >= 0:
            return f"exit code {code}"
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:  # a real-time signal has no name
            return f"signal {-code}"

    def errors(self, bytes_max: int = 8000) -> str:
        """The end of what the process wrote to its standard error."""
        if self._closed:
            return ""
        size = os.fstat(self._errors.fileno()).st_size
        data = os.pread(self._errors.fileno(), bytes_max, max(0, size - bytes_max))
        return data.decode("utf-8", "replace").strip()

    def last_words(self) -> str:
        """How the process ended and the last line that it wrote to standard error."""
        how = self.how_it_ended()
        lines = self.errors().splitlines()
        return f"{how}; {ascii(lines[-1])[:300]}" if lines else how
