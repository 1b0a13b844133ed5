"""The process that stops a worker at a call, by ptrace. Run by its path; imports nothing of ours.

    suite ── socket ── this process ── ptrace ── the worker: all its threads and children

Why ptrace and not strace's injection: an injected SIGSTOP acts after its call, is a signal that the
worker's runtime may notice, is dropped under seccomp, and needs an strace to start for every stop.
Here a stop is one that the kernel's wait has reported, before the call, and one worker serves any
number of schedules. A process of its own, because whoever traces has to wait for its tracees and
would otherwise reap children that are somebody else's.

Messages are JSON. From the suite: `attach` (`pid`, `base`, `output`, `calls`) once per worker, with
a directory as `base`, or "" where the calls that count are those on connections;
`arm` (`stops`) before a request, `go` and `kill` while the worker is held. To the suite:
`attached` or `failed`, `stopped` (which stop, its call, all calls since `arm`), `gone`.
Messages that come while the worker runs are looked at when it makes its next call of these kinds;
the suite sends `arm` before the request whose calls it is about. When the suite goes away, so does
the worker.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import re
import select
import signal
import socket
import struct
import sys
from typing import Any

_CALL, _SEIZE, _INTERRUPT, _LISTEN, _INFO = 24, 0x4206, 0x4207, 0x4208, 0x420E
_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x100000  # calls told apart; fork, vfork, clone; end with us
_EVENT_STOP = 128
_WAIT_ALL = 0x40000000
_ENTRY, _EXIT = 1, 2
_STOP_SIGNALS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_LOCK_COMMANDS = (5, 6, 7, 36, 37, 38)  # F_GETLK … F_SETLKW, and the same for open descriptions
_FLOCKS = {1: "SH", 2: "EX", 5: "SH|NB", 6: "EX|NB", 8: "UN"}
_MESSAGE_BYTES = 1 << 20
_CWD = 0xFFFFFF9C
_PIDFD_GETFD = 438  # on every machine
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
_SHOWN_BYTES = 200
_PRINTABLE = re.compile(rb"[ -~]{3,60}")
NAME_SERVICE = b"/nscd/socket"
"""Where the C library looks first for names of users and hosts: no store."""
_HOLD_S = 0.1
"""How often a held worker is looked at."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


def ptrace(request: int, tid: int, address: int = 0, data: Any = 0) -> None:
    """OSError when it fails."""
    if _libc.ptrace(request, tid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


class Tracer:
    """One worker after the other."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._info = ctypes.create_string_buffer(96)

    def serve(self) -> None:
        """Until the suite goes away."""
        while data := self._channel.recv(_MESSAGE_BYTES):
            message = json.loads(data)
            if message["do"] == "attach":
                try:
                    self._attach(message)
                except OSError as error:
                    self._say(at="failed", why=str(error))
                    continue
                self._say(at="attached")
                self._follow()
                self._say(at="gone")

    def _say(self, **message: object) -> None:
        self._channel.send(json.dumps(message).encode())

    def _attach(self, message: dict[str, Any]) -> None:
        self._pid: int = message["pid"]
        self._base: str = message["base"]
        self._output: str = message["output"]
        self._calls = {int(number): tuple(it) for number, it in message["calls"].items()}
        self._stops: list[int] = []
        self._count = 0
        self._made: list[str] = []
        self._open: dict[int, int] = {}  # thread: the place in `_made` of the call that it is in
        self._seen: dict[str, str] = {}  # socket: what it is called here, empty for no connection
        for tid in tree(self._pid):
            ptrace(_SEIZE, tid, 0, _OPTIONS)
            ptrace(_INTERRUPT, tid)

    def _follow(self) -> None:
        """Let the worker run, until it has ended."""
        while True:
            try:
                tid, status = os.waitpid(-1, _WAIT_ALL)
            except ChildProcessError:
                return
            if not os.WIFSTOPPED(status):
                continue
            number, event = os.WSTOPSIG(status), status >> 16
            try:
                if event == _EVENT_STOP and number in _STOP_SIGNALS:
                    ptrace(_LISTEN, tid)
                    continue
                if number == signal.SIGTRAP | 0x80:
                    self._called(tid)
                    number = 0
                elif event:
                    number = 0
                ptrace(_CALL, tid, 0, number)
            except ProcessLookupError:  # killed meanwhile: its end is what the next wait tells
                continue

    def _called(self, tid: int) -> None:
        ptrace(_INFO, tid, len(self._info), self._info)
        op = self._info.raw[0]
        if op == _EXIT and tid in self._open:
            value, failed = struct.unpack_from("qB", self._info, 24)
            place = self._open.pop(tid)
            if place < len(self._made) and (failed or value > 2):
                shown = errno.errorcode.get(-value, str(value)) if failed else str(value)
                self._made[place] += f" = {shown}"
            return
        if op != _ENTRY:
            return
        number, *args = struct.unpack_from("7Q", self._info, 24)
        known = self._calls.get(number)
        if known is None:
            return
        while self._heard():
            continue
        about = self._files if self._base else self._connection
        files = about(tid, known, args)
        if files is None or not self._stops:
            return
        self._count += 1
        self._made.append(f"{known[0]}({', '.join(files)})" if files else "the answer")
        self._open[tid] = len(self._made) - 1
        if self._stops[0] == self._count or (self._stops[0] < 0 and not files):
            self._hold(tid)

    def _hold(self, tid: int) -> None:
        """The worker stands before its call; the suite says how it goes on."""
        self._stops.pop(0)
        self._say(at="stopped", number=self._count, calls=self._made)
        while True:
            if not select.select([self._channel], [], [], _HOLD_S)[0]:
                if _has_ended(tid):  # somebody killed it: whoever waits for that waits for us
                    return
                continue
            data = self._channel.recv(_MESSAGE_BYTES)
            if not data:
                sys.exit(0)
            match json.loads(data):
                case {"do": "go"}:
                    return
                case {"do": "kill"}:
                    os.killpg(self._pid, signal.SIGKILL)  # a worker leads a group of its own
                    return
                case message:
                    self._arm(message)

    def _heard(self) -> bool:
        try:
            data = self._channel.recv(_MESSAGE_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        if not data:
            sys.exit(0)
        self._arm(json.loads(data))
        return True

    def _arm(self, message: dict[str, Any]) -> None:
        assert message["do"] == "arm", message
        self._stops = message["stops"]
        self._count = 0
        self._made = []
        self._open.clear()
        self._seen.clear()

    # --- files --------------------------------------------------------------------------------

    def _files(self, tid: int, known: tuple[Any, ...], args: list[int]) -> list[str] | None:
        """The files of a call, relative to the base; empty for an answer, None when none is ours.
        """
        name, files = known
        if name == "fcntl" and args[1] not in _LOCK_COMMANDS:
            return None
        found = []
        for fd, path in files:
            where = self._where(
                tid, None if fd is None else args[fd], None if path is None else args[path]
            )
            if where == self._output and name in ("write", "writev"):
                return []
            found.append(where)
        if not any(it.startswith(self._base) for it in found):
            return None
        shown = [it.removeprefix(self._base) for it in found]
        return [*shown, _FLOCKS.get(args[1], str(args[1]))] if name == "flock" else shown

    def _where(self, tid: int, fd: int | None, address: int | None) -> str:
        """What a descriptor, a path, or a path below a directory leads to."""
        text = "" if address is None else self._text(tid, address)
        if text.startswith("/"):
            return os.path.normpath(text)
        at_cwd = fd is None or fd & 0xFFFFFFFF == _CWD
        link = f"/proc/{tid}/cwd" if at_cwd else f"/proc/{tid}/fd/{(fd or 0) & 0xFFFFFFFF}"
        try:
            base = os.readlink(link)  # of an unlinked file it ends in " (deleted)": shown as it is
        except OSError:
            return text
        return os.path.normpath(os.path.join(base, text)) if text else base

    # --- connections --------------------------------------------------------------------------

    def _connection(self, tid: int, known: tuple[Any, ...], args: list[int]) -> list[str] | None:
        """The connection of a call, and what it sends; empty for an answer, None when it has none.
        """
        name, fd = known[0], args[0] & 0xFFFFFFFF
        link = self._where(tid, fd, None)
        if link == self._output and name in ("write", "writev"):
            return []
        connects = name == "connect"
        if connects and NAME_SERVICE in self._bytes(tid, args[1], min(args[2], _SHOWN_BYTES)):
            return None
        if not link.startswith("socket:") or not self._named(tid, fd, link, connects):
            return None
        shown = [self._seen[link]]
        if name in ("sendto", "write"):
            shown += _words(self._bytes(tid, args[1], min(args[2], _SHOWN_BYTES)))
        return shown

    def _named(self, tid: int, fd: int, link: str, connects: bool) -> str:
        """What a socket is called here, if it is a connection or becomes one; else nothing."""
        if not self._seen.get(link):
            found = is_connection(tid, fd, connects)
            count = len([it for it in self._seen.values() if it])
            self._seen[link] = f"connection {count + 1}" if found else ""
        return self._seen[link]

    def _bytes(self, tid: int, address: int, size: int) -> bytes:
        with open(f"/proc/{tid}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), size, address)

    def _text(self, tid: int, address: int) -> str:
        """A path in the worker's memory."""
        data = b""
        with open(f"/proc/{tid}/mem", "rb", buffering=0) as memory:
            while b"\0" not in data and len(data) < 8192:
                at = address + len(data)
                chunk = os.pread(memory.fileno(), 4096 - at % 4096, at) if at else b""
                if not chunk:
                    break
                data += chunk
        return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _words(data: bytes) -> list[str]:
    """What can be read of a message: its longest run of printable characters, quoted."""
    found = max(_PRINTABLE.findall(data), key=len, default=b"")
    return [f'"{found.decode("ascii").strip()}"'] if found else []


# --- sockets of other processes -----------------------------------------------------------------


def taken(tid: int, fd: int) -> socket.socket:
    """A descriptor of our own for the socket of another process. OSError when there is none."""
    with open(f"/proc/{tid}/status", encoding="ascii", errors="replace") as status:
        process = next(int(it.split()[1]) for it in status if it.startswith("Tgid:"))
    handle = os.pidfd_open(process)
    try:
        ours = _libc.syscall(_PIDFD_GETFD, handle, fd, 0)
        if ours < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return socket.socket(fileno=ours)
    finally:
        os.close(handle)


def is_connection(tid: int, fd: int, connects: bool = False) -> bool:
    """Whether a descriptor is a stream to somebody with a name: a pair of sockets has none.

    `connects`: whether it can become one."""
    try:
        with taken(tid, fd) as ours:
            stream = ours.type == socket.SOCK_STREAM and ours.family in _FAMILIES
            return stream and (connects or bool(ours.getpeername()))
    except OSError:  # no socket, or not connected
        return False


def _has_ended(tid: int) -> bool:
    try:
        with open(f"/proc/{tid}/stat", encoding="ascii", errors="replace") as status:
            return status.read().rpartition(")")[2].split()[0] in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return True


def tree(pid: int) -> list[int]:
    """Every thread of a process and of its descendants."""
    found = []
    for tid in map(int, os.listdir(f"/proc/{pid}/task")):
        found.append(tid)
        try:
            with open(f"/proc/{pid}/task/{tid}/children", encoding="ascii") as children:
                for child in map(int, children.read().split()):
                    found += tree(child)
        except FileNotFoundError:
            continue
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the suite has gone away
        Tracer(socket.socket(fileno=int(sys.argv[1]))).serve()
