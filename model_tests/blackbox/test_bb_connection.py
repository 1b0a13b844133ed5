"""Stores behind a connection: which calls count, how a connection is lost, and what is judged.

A server of a few lines stands for all (`mutants/_shelf`); `model_tests/sql` tries the real ones.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from lychgate_conformance import Options, Verdict, load_target, run
from lychgate_conformance._claims import Claims
from lychgate_conformance._verdict import NotClaimed, NotMeasured
from lychgate_conformance.blackbox import _about, _syscalls
from lychgate_conformance.blackbox._about import (
    CONNECTION,
    below,
    blind,
    connections,
    on_connections,
    unseen,
)
from lychgate_conformance.blackbox._errnos import errnos_of
from lychgate_conformance.blackbox._faults import Site, failing
from lychgate_conformance.blackbox._lost import end_connection
from lychgate_conformance.blackbox._strace import Call, parse, strace_path
from lychgate_conformance.blackbox._tracer import is_connection, taken
from lychgate_conformance.mutants._shelf import Shelf

SHELF = "lychgate_conformance.mutants._shelf:Shelf"
EXAMPLE = "lychgate_conformance.adapters.sqlite_store:Wal"
needs_sockets = pytest.mark.skipif(blind() != "", reason=blind())
needs_strace = pytest.mark.skipif(
    strace_path() is None, reason="needs strace: install the package of that name"
)


def line(text: str, answer: str = "0") -> str:
    return f"7 1.000000000 {text} = {answer} <0.000000001>"


def calls(*lines: str) -> list[Call]:
    return [it for it in parse(lines) if isinstance(it, Call)]


NAMES = "".join(f"\\x{it:02x}" for it in b"/run/nscd/socket")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client that is connected to a server with a name, and the server's end of it."""
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(str(tmp_path / "s"))
        server.listen()
        client.connect(str(tmp_path / "s"))
        with server.accept()[0] as other:
            yield client, other


# --- which calls count --------------------------------------------------------------------------


def test_a_connection_is_what_was_connected() -> None:
    """Q1: pairs of sockets, pipes, datagrams and the name service are no store."""
    events = calls(
        line("connect(5<socket:[11]>, {sa_family=AF_INET, sin_port=htons(5432)}, 16)"),
        line(f'connect(6<socket:[12]>, {{sa_family=AF_UNIX, sun_path="{NAMES}"}}, 9)'),
        line("connect(8<socket:[13]>, {sa_family=AF_NETLINK, nl_pid=0}, 12)"),
        line('sendto(5<socket:[11]>, "\\x51", 1, 0, NULL, 0)', "1"),
        line('sendto(6<socket:[12]>, "\\x51", 1, 0, NULL, 0)', "1"),
        line('write(9<socket:[14]>, "\\x51", 1)', "1"),
        line('read(10<socket:[15]>, "\\x51", 1)', "1"),
        line('write(1<pipe:[9]>, "\\x51", 1)', "1"),
        line("fcntl(5<socket:[11]>, F_GETFL)"),
        line("socket(AF_UNIX, SOCK_STREAM|SOCK_CLOEXEC, 0)", "5<socket:[16]>"),
        line("socket(AF_INET, SOCK_DGRAM, 0)", "5<socket:[17]>"),
        line("close(5<socket:[11]>)"),
    )
    about = on_connections(events, known={"socket:[15]"})
    found = [(it.name, it.args[0]) for it in events if about(it) == CONNECTION]
    assert found == [
        ("connect", "5<socket:[11]>"),
        ("sendto", "5<socket:[11]>"),
        ("read", "10<socket:[15]>"),
        ("socket", "AF_UNIX"),
        ("close", "5<socket:[11]>"),
    ]
    assert not any(below("/store")(it) for it in events)


@needs_sockets
def test_sockets_of_a_process_are_told_apart(
    served: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    """Q1: whose peer has a name is a connection; the event loop's own pair is none."""
    client, _ = served
    name = os.readlink(f"/proc/self/fd/{client.fileno()}")
    left, right = socket.socketpair()
    with left, right, open(tmp_path / "file", "wb") as file, socket.socket() as unused:
        assert is_connection(os.getpid(), client.fileno())
        for other in (left.fileno(), file.fileno(), unused.fileno(), 9999):
            assert not is_connection(os.getpid(), other)
        assert is_connection(os.getpid(), unused.fileno(), connects=True)
        found = connections([os.getpid()])
        assert name in found and os.readlink(f"/proc/self/fd/{left.fileno()}") not in found
        with taken(os.getpid(), client.fileno()) as ours:
            assert os.readlink(f"/proc/self/fd/{ours.fileno()}") == name


def test_every_call_on_connections_has_numbers() -> None:
    for machine in ("x86_64", "aarch64"):
        names = {name for name, _ in _syscalls.numbers(machine).values()}
        assert names >= _syscalls.ON_CONNECTIONS
    assert _syscalls.numbers("x86_64")[44][0] == _syscalls.numbers("riscv64")[206][0] == "sendto"


# --- faults -------------------------------------------------------------------------------------


def faults(text: str, answer: str, stays: bool = False) -> list[tuple[str, ...]]:
    (call,) = calls(line(text, answer))
    found = list(failing([Site(call, 3, 1, CONNECTION, "dead", connects=2)], stays))
    assert all(it.ends == it.inject[0].endswith(":signal=STOP") for it in found)
    return [it.inject for it in found]


def test_a_call_on_a_connection_fails_as_its_kernel_would_have_it() -> None:
    """F2: an error of a send or receive ends the connection; EINTR alone does not."""
    sent = faults('sendto(5<socket:[11]>, "\\x51", 29, 0, NULL, 0)', "29")
    assert sent == [
        ("sendto:retval=29:when=3:signal=STOP",),
        ("sendto:error=EPIPE:when=3:signal=STOP",),
        ("sendto:error=ECONNRESET:when=3:signal=STOP",),
        ("sendto:error=ETIMEDOUT:when=3:signal=STOP",),
        ("sendto:error=EINTR:when=3",),
    ]
    read = faults('read(5<socket:[11]>, "\\x51", 29)', "29", stays=True)
    refused = "connect:error=ECONNREFUSED:when=3+"
    assert ("read:retval=0:when=3:signal=STOP", refused) in read and len(read) == 3
    refusing = faults("connect(5<socket:[11]>, {sa_family=AF_UNIX}, 9)", "0", stays=True)
    assert refusing[0] == ("connect:error=ECONNREFUSED:when=3+",)
    (inet,) = calls(line("connect(5<socket:[11]>, {sa_family=AF_INET}, 9)"))
    assert "ENOENT" not in [it.name for it in errnos_of(inet, connected=True)]
    (closed,) = calls(line("close(5<socket:[11]>)"))
    assert errnos_of(closed, connected=True) == ()


@needs_sockets
def test_a_lost_connection_is_lost_on_both_sides(
    served: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    """Q9: the answer that was not read does not come later, and the server learns of the end."""
    client, other = served
    other.sendall(b"an answer")
    name = os.readlink(f"/proc/self/fd/{client.fileno()}")
    text = f"recvfrom({client.fileno()}<{name}>, 0x7f, 8, 0, NULL, NULL)"
    failed = "-1 ECONNRESET (Connection reset by peer) (INJECTED)"
    trace = tmp_path / "trace"
    trace.write_text(f"{os.getpid()} {line(text, failed)[2:]}\n{os.getpid()} 1.0000")
    end_connection(trace)
    assert client.recv(100) == b"" and other.recv(100) == b""
    with pytest.raises(BrokenPipeError):
        client.send(b"more")


@needs_sockets
@needs_strace
def test_a_store_behind_a_connection_is_held_to_all_but_images() -> None:
    """Q1, D17: nothing is planted in this one; what needs files of its own is not claimed."""
    ids = ("L2-CUT-001", "L2-KILL-001", "L4-OPEN-002", "L5-KILL-001")
    with Shelf.serving():
        report = run(load_target(SHELF, in_process=True), Options(case_ids=ids))
    found = {it.case.id: it.verdict for it in report.results}
    assert found == {**dict.fromkeys(ids, Verdict.PASS), "L2-CUT-001": Verdict.NOT_CLAIMED}


def test_where_no_socket_can_be_looked_at_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Q1: NOT MEASURED, for nobody knows whether there is a connection."""
    monkeypatch.setattr(_about, "taken", Mock(side_effect=PermissionError))
    assert "pidfd_getfd" in str(unseen(Claims(), "dead:a"))
    assert isinstance(unseen(Claims(), "dead:a"), NotMeasured)
    monkeypatch.undo()
    assert isinstance(unseen(Claims(), "open", lazy=True), NotClaimed)


def test_who_has_neither_files_nor_a_connection_is_asked_for_no_more() -> None:
    """Q1: the first case that sees no call on the store tells for all."""
    ids = ("L2-KILL-001", "L5-ADD-001", "L5-READ-001")
    report = run(load_target(EXAMPLE, {"uses_path": False}), Options(case_ids=ids))
    assert {it.verdict for it in report.results} <= {Verdict.NOT_CLAIMED, Verdict.NOT_MEASURED}
    assert len({it.message for it in report.results}) == 1
