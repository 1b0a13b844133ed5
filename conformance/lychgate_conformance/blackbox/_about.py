"""Which calls are about the store, as strace shows them: those on files below a directory, or those
on connections, where the backend does not claim that its store lies below its path.

Rules of this file
  * A connection is a stream socket whose peer has a name: one that was `connect`ed in the trace, or
    was when the trace began. Pairs of sockets, an event loop's own, are none.
  * A backend without either is not held to the levels that look at calls.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable, Sequence

from lychgate_conformance._claims import Claims
from lychgate_conformance._verdict import CaseEnd, NoConnection, NotClaimed, NotMeasured
from lychgate_conformance.blackbox._strace import Call, Event, TraceError, descriptor_of, path_of
from lychgate_conformance.blackbox._syscalls import ON_CONNECTIONS
from lychgate_conformance.blackbox._tracer import NAME_SERVICE, is_connection, taken

About = Callable[[Call], str | None]
"""The role of what a call is about, equal from run to run; None: it is not about the store."""

CONNECTION = "the connection"
_FAMILIES = ("AF_UNIX", "AF_INET", "AF_INET6")


def below(world: str) -> About:
    """Calls on files of this directory; their role is the name of the file, without numbers."""

    def about(call: Call) -> str | None:
        path = path_in(call, world)
        return None if path is None else _role(path)

    return about


def path_in(call: Call, world: str) -> str | None:
    """The first path of a call that lies in the world, relative to it; None when none does."""
    for arg in (*call.args, call.answer):
        try:
            path = path_of(arg) if arg.startswith('"') else descriptor_of(arg).path
        except TraceError:
            continue
        if path == world or path.startswith(f"{world}/"):
            return path[len(world) + 1 :]
    return None


def _role(path: str) -> str:
    """A name without what changes from run to run."""
    return re.sub(r"[0-9a-f]*\d[0-9a-f]*", "*", path.rpartition("/")[2])


def on_connections(events: Sequence[Event], known: Iterable[str]) -> About:
    """Calls on the connections of a trace, and on those that are `known` from before it."""
    calls = [it for it in events if isinstance(it, Call)]
    found = {*known, *(_socket(it) for it in calls if it.name == "connect" and _connects(it))}

    def about(call: Call) -> str | None:
        makes = call.name == "socket" and call.args[0] in _FAMILIES and "STREAM" in call.args[1]
        if makes or (call.name in ON_CONNECTIONS and _socket(call) in found):
            return CONNECTION
        return None

    return about


def _connects(call: Call) -> bool:
    """Whether a call makes a connection, or was to."""
    name_service = "".join(f"\\x{it:02x}" for it in NAME_SERVICE)
    known = any(f"sa_family={it}," in call.args[1] for it in _FAMILIES)
    return known and name_service not in call.args[1]


def _socket(call: Call) -> str:
    """What strace and Linux call the socket of a call's first argument."""
    try:
        return descriptor_of(call.args[0]).path
    except (TraceError, IndexError):
        return ""


def connections(pids: Iterable[int]) -> set[str]:
    """The names of the sockets of these processes that are connections now."""
    found = set()
    for pid in pids:
        for fd in _listed(f"/proc/{pid}/fd"):
            try:
                link = os.readlink(f"/proc/{pid}/fd/{fd}")
            except OSError:  # it was closed meanwhile
                continue
            if link.startswith("socket:") and is_connection(pid, int(fd)):
                found.add(link)
    return found


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # the process has ended
        return []


def blind() -> str:
    """Why connections of other processes cannot be told here; empty where they can."""
    one, other = socket.socketpair()
    with one, other:
        try:
            taken(os.getpid(), one.fileno()).close()
        except OSError as error:
            return f"sockets of a process cannot be told apart (pidfd_getfd: {error}): run as root"
    return ""


def unseen(claims: Claims, what: str, lazy: bool = False) -> CaseEnd:
    """How a case ends that has seen no call about the store. `lazy`: what it looked at need not
    make one, since a client may connect when it is first asked for something."""
    if claims.uses_path:
        return NotMeasured(f"no call of {what} is about a file of the store")
    if why := blind():
        return NotMeasured(why)
    if lazy:
        return NotClaimed(f"{what} makes no call on a connection")
    return NoConnection("uses_path; and no call on a connection to a server was seen")
