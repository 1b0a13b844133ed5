"""The end of a connection, in earnest: what an injected error only says.

A call that strace fails is not made, and nothing happens to its connection: the answer that it was
to read is still there, and the next call on it works. No kernel behaves like that but for EINTR. So
while the process stands behind the failed call, its socket is taken over (`pidfd_getfd`) and shut
down: the server sees the end of the connection, and whoever goes on using it gets an error or the
end of the stream.

Before a receive is lost, the server gets a moment to answer, and what it says is thrown away: so
what was asked for has been done, and the answer is what was lost. What a send was to carry never
arrives.
"""

from __future__ import annotations

import contextlib
import select
import socket
from pathlib import Path

from lychgate_conformance._verdict import NotMeasured
from lychgate_conformance.blackbox._strace import Call, TraceError, descriptor_of, parse
from lychgate_conformance.blackbox._syscalls import RECEIVES
from lychgate_conformance.blackbox._tracer import taken

_ANSWER_S = 0.5
_CHUNK_BYTES = 1 << 16


def end_connection(trace: Path) -> None:
    """End the connection of the last call that was injected, as its trace shows it."""
    call = _injected(trace)
    if call is None:
        return
    try:
        ours = taken(call.pid, descriptor_of(call.args[0]).number)
    except (OSError, TraceError) as error:
        raise NotMeasured(f"a connection cannot be ended here: {error}") from error
    with ours:
        if call.name in RECEIVES:
            select.select([ours], [], [], _ANSWER_S)
            with contextlib.suppress(OSError):  # nothing more is there, or the server has gone
                while ours.recv(_CHUNK_BYTES, socket.MSG_DONTWAIT):
                    continue
        with contextlib.suppress(OSError):  # it is not connected any more, or not yet
            ours.shutdown(socket.SHUT_RDWR)


def _injected(trace: Path) -> Call | None:
    text, _, _ = trace.read_text(encoding="ascii", errors="replace").rpartition("\n")
    found = [it for it in parse(text.splitlines()) if isinstance(it, Call) and it.injected]
    return found[-1] if found else None
