"""One block file, served from memory over /dev/fuse; every write and every flush is logged.

The kernel's side of FUSE is a queue of requests behind a descriptor: a header, a body, an answer.
A file system that is a single file needs a dozen of them, so they are spoken here, without a
library: nothing to install, and no thread or buffer between the log and the kernel. The root of
this file system *is* the file; it is mounted on a file.

Rules of this file
  * Requests are answered one at a time, in order: the order of the log is the order in which the
    device was written. A flush that was answered covers every write before it.
  * The kernel caches nothing (FOPEN_DIRECT_IO), so that what is loaded is what is read.
  * A block that nobody wrote reads as `OLD`: a used disk. If it turns up in a file, that is old
    content of somebody else's.
  * The server is a process of its own, outside the driver's mount namespace: whoever waits for
    this file must not be the one that serves it, and it ends when the file is unmounted.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import struct
import time
from enum import IntEnum
from multiprocessing.connection import Connection, Pipe
from typing import Any

from lychgate_tools.litmus import kernel
from lychgate_tools.litmus.blocklog import (
    BLOCK_BYTES,
    Blocks,
    Entry,
    Flush,
    Mark,
    Write,
    pieces,
    put,
)

OLD = b"z" * BLOCK_BYTES
_WRITE_MAX_BYTES = 1 << 20
_FOREVER_S = 3600
_END_S = 10


class _Ask(IntEnum):
    """Requests, by their number in the kernel's <linux/fuse.h>."""

    FORGET = 2
    GETATTR = 3
    OPEN = 14
    READ = 15
    WRITE = 16
    STATFS = 17
    RELEASE = 18
    FSYNC = 20
    FLUSH = 25
    INIT = 26
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42


_NO_ANSWER = {_Ask.FORGET, _Ask.BATCH_FORGET, _Ask.INTERRUPT}
_HEADER = struct.Struct("<IIQQIIIHH")  # length, request, unique, node, uid, gid, pid, extra, pad
_ANSWER = struct.Struct("<IiQ")  # length, -errno, unique
_RANGE = struct.Struct("<QQIIQII")  # handle, offset, size, flags, lock owner, flags, pad
_ATTRIBUTES = struct.Struct("<QIIQQQQQQ10I")
_INIT = struct.Struct("<IIIIHHIIHHIIH22x")
_MINOR_MAX = 31
_ASYNC_READ, _BIG_WRITES, _MAX_PAGES = 1, 1 << 5, 1 << 22
_OPEN_DIRECT_IO = 1


class Server:
    """The file and its log. `control` is what the driver may ask; `answer` what the kernel asks."""

    def __init__(self, size: int) -> None:
        assert size % BLOCK_BYTES == 0, "whole blocks"
        self.size = size
        self.recording = False
        self.log: list[Entry] = []
        self._base: Blocks = {}
        self._over: Blocks = {}
        self._kept: dict[str, Blocks] = {}
        self._watched: frozenset[int] = frozenset()
        self._written: set[int] = set()
        self._read: set[int] = set()

    def control(self, verb: str, argument: Any) -> object:
        """mark, record, log, keep, use, under, load, reads, block: see `Device`."""
        if verb == "mark":
            self.log.append(Mark(argument))
        elif verb == "record":
            self.recording, self.log = True, []
        elif verb == "log":
            self.recording = False
            return self.log
        elif verb == "keep":
            self._kept[argument] = {**self._base, **self._over}
        elif verb == "use":
            self._base, self._over = self._kept[argument], {}
        elif verb == "under":
            blocks, self._watched = argument
            self._base = {**self._base, **blocks}
        elif verb == "load":
            self._over = dict(argument)
            self._written, self._read = set(), set()
        elif verb == "reads":
            return frozenset(self._read)
        else:
            assert verb == "block", verb
            return self._base.get(argument, OLD)
        return None

    def answer(self, request: bytes) -> bytes | None:
        """The answer to one request of the kernel's, None where it wants none."""
        _, number, unique, *_ = _HEADER.unpack_from(request)
        if number in _NO_ANSWER:
            return None
        try:
            body = self._answer(number, request[_HEADER.size :])
        except UnknownRequest:
            return _ANSWER.pack(_ANSWER.size, -errno.ENOSYS, unique)
        return _ANSWER.pack(_ANSWER.size + len(body), 0, unique) + body

    def _answer(self, number: int, body: bytes) -> bytes:
        if number == _Ask.READ:
            _, offset, size, *_ = _RANGE.unpack_from(body)
            return self.read(offset, size)
        if number == _Ask.WRITE:
            _, offset, size, *_ = _RANGE.unpack_from(body)
            self.write(offset, body[_RANGE.size : _RANGE.size + size])
            return struct.pack("<II", size, 0)
        if number == _Ask.FSYNC:
            if self.recording:
                self.log.append(Flush())
            return b""
        if number == _Ask.INIT:
            _, minor = struct.unpack_from("<II", body)
            flags = _ASYNC_READ | _BIG_WRITES | _MAX_PAGES
            most, pages = _WRITE_MAX_BYTES, _WRITE_MAX_BYTES // 4096
            version = (7, min(minor, _MINOR_MAX))
            return _INIT.pack(*version, most, flags, 16, 12, most, 1, pages, 0, 0, 0, 0)
        if number == _Ask.GETATTR:
            times, mode = (0,) * 6, 0o100600
            numbers = (1, self.size, self.size // 512, *times, mode, 1, 0, 0, 0, BLOCK_BYTES, 0)
            return _ATTRIBUTES.pack(_FOREVER_S, 0, 0, *numbers)
        if number == _Ask.OPEN:
            return struct.pack("<QII", 1, _OPEN_DIRECT_IO, 0)
        if number == _Ask.STATFS:
            return struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, BLOCK_BYTES, 255, BLOCK_BYTES, 0)
        if number in (_Ask.FLUSH, _Ask.RELEASE, _Ask.DESTROY):
            return b""
        raise UnknownRequest

    def read(self, offset: int, size: int) -> bytes:
        end = min(offset + size, self.size)
        found = []
        while offset < end:
            number, start = divmod(offset, BLOCK_BYTES)
            stop = min(BLOCK_BYTES, start + end - offset)
            block = self._over.get(number) or self._base.get(number, OLD)
            if number in self._watched and number not in self._written:
                self._read.add(number)
            found.append(block[start:stop])
            offset += stop - start
        return b"".join(found)

    def write(self, offset: int, data: bytes) -> None:
        written = Write(offset, data)
        if self.recording:
            self.log.append(written)

        def beneath(number: int) -> bytes:
            return self._base.get(number, OLD)

        parts = list(pieces(written))
        put(parts, self._over, beneath)
        self._written.update(part.block for part in parts if len(part.data) == BLOCK_BYTES)


class UnknownRequest(Exception):
    """A request that this file system has no answer to; the kernel does without."""


def serve(server: Server, queue: int, driver: Connection) -> None:
    """Answer the kernel and the driver until the file is unmounted or, unmounted, nobody asks."""
    waiting = select.poll()
    waiting.register(driver.fileno(), select.POLLIN)
    mounted = False
    while True:
        for ready, _ in waiting.poll():
            if ready == queue:
                if not _serve_kernel(server, queue):
                    return
                continue
            try:
                verb, argument = driver.recv()
            except EOFError:  # the driver is gone: what it mounted goes next
                if not mounted:
                    return
                waiting.unregister(ready)
                continue
            if verb == "mounted":
                mounted = True
                waiting.register(queue, select.POLLIN)
                driver.send(None)
            else:
                driver.send(server.control(verb, argument))


def _serve_kernel(server: Server, queue: int) -> bool:
    """One request; False when the file has been unmounted."""
    try:
        answer = server.answer(os.read(queue, _WRITE_MAX_BYTES + BLOCK_BYTES))
        if answer is not None:
            os.write(queue, answer)
    except OSError as error:
        if error.errno == errno.ENODEV:
            return False
        if error.errno not in (errno.ENOENT, errno.EINTR, errno.EAGAIN):  # a request withdrawn
            raise
    return True


class Device:
    """The driver's end: the mounted block file, and what can be asked of its server."""

    def __init__(self, size: int) -> None:
        """Start the server: before the driver has a mount namespace of its own."""
        self._queue = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        self._server, theirs = Pipe()
        self._process = os.fork()
        if self._process == 0:
            self._server.close()
            _server_process(size, self._queue, theirs)
        theirs.close()

    def mount(self, path: str) -> None:
        """Mount the file on the file `path`."""
        options = f"fd={self._queue},rootmode=100600,user_id=0,group_id=0"
        kernel.mount("lychgate-litmus", path, "fuse", 0, options)
        os.close(self._queue)
        self._queue = -1
        self._ask("mounted")

    def mark(self, done: int) -> None:
        """Note in the log that so many steps have returned."""
        self._ask("mark", done)

    def record(self) -> None:
        """Begin an empty log."""
        self._ask("record")

    def log(self) -> list[Entry]:
        """End the log and have it."""
        found: list[Entry] = self._ask("log")
        return found

    def keep(self, name: str) -> None:
        """Give what stands on the device a name."""
        self._ask("keep", name)

    def use(self, name: str) -> None:
        """Put on the device what was kept under a name."""
        self._ask("use", name)

    def under(self, blocks: Blocks, watched: frozenset[int]) -> None:
        """Put blocks under all that is loaded from now on; notice who reads the `watched` ones."""
        self._ask("under", (blocks, watched))

    def load(self, blocks: Blocks) -> None:
        """Replace all that was written by these blocks."""
        self._ask("load", blocks)

    def reads(self) -> frozenset[int]:
        """The watched blocks that were read since `load`, as they were loaded."""
        found: frozenset[int] = self._ask("reads")
        return found

    def block(self, number: int) -> bytes:
        """A block as it is under what was written or loaded."""
        found: bytes = self._ask("block", number)
        return found

    def _ask(self, verb: str, argument: object = None) -> Any:
        self._server.send((verb, argument))
        return self._server.recv()

    def end(self) -> None:
        """Wait for the server, once the file is unmounted; end it if it does not notice."""
        if self._queue >= 0:
            os.close(self._queue)
        self._server.close()
        patience = time.monotonic() + _END_S
        while os.waitpid(self._process, os.WNOHANG) == (0, 0):
            if time.monotonic() > patience:
                os.kill(self._process, signal.SIGKILL)  # whoever waits for the file gets errors
                os.waitpid(self._process, 0)
                return
            time.sleep(0.005)


def _server_process(size: int, queue: int, driver: Connection) -> None:
    """The life of the server's process; it never returns."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # it ends when the file is unmounted
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)  # the driver's pipe ends with the driver
        serve(Server(size), queue, driver)
        code = 0
    finally:
        os._exit(code)
