"""The block file behind /dev/fuse, spoken to as the kernel does, without a kernel (F1)."""

from __future__ import annotations

import errno
import struct

from lychgate_tools.litmus.blocklog import BLOCK_BYTES, Flush, Mark, Write
from lychgate_tools.litmus.fuse import OLD, Server

READ, WRITE, FSYNC, INIT, OPEN, GETATTR, FORGET, LOOKUP = 15, 16, 20, 26, 14, 3, 2, 1
SIZE = 16 * BLOCK_BYTES


def ask(server: Server, number: int, body: bytes = b"") -> tuple[int, bytes]:
    """Error and body of the answer to a request."""
    header = struct.pack("<IIQQIIIHH", 40 + len(body), number, 77, 1, 0, 0, 0, 0, 0)
    answer = server.answer(header + body)
    assert answer is not None
    length, error, unique = struct.unpack_from("<IiQ", answer)
    assert length == len(answer) and unique == 77
    return error, answer[16:]


def at(offset: int, size: int, data: bytes = b"") -> bytes:
    return struct.pack("<QQIIQII", 1, offset, size, 0, 0, 0, 0) + data


def test_the_kernel_gets_what_it_needs_to_mount_a_file() -> None:
    """F1: version, attributes of a regular file, a handle without a cache."""
    server = Server(SIZE)
    error, init = ask(server, INIT, struct.pack("<IIII", 7, 45, 0, 0))
    assert error == 0 and len(init) == 64 and struct.unpack_from("<II", init) == (7, 31)
    _, older = ask(server, INIT, struct.pack("<IIII", 7, 28, 0, 0))
    assert struct.unpack_from("<II", older) == (7, 28)
    error, attributes = ask(server, GETATTR, bytes(16))
    assert error == 0 and len(attributes) == 104
    assert struct.unpack_from("<QQ", attributes, 16) == (1, SIZE)
    assert struct.unpack_from("<I", attributes, 76) == (0o100600,)
    assert ask(server, OPEN, bytes(8)) == (0, struct.pack("<QII", 1, 1, 0))


def test_what_it_does_not_know_it_says_and_what_wants_no_answer_gets_none() -> None:
    """F1: a request of a newer kernel is refused, not taken for something else."""
    server = Server(SIZE)
    assert ask(server, LOOKUP)[0] == ask(server, 9999)[0] == -errno.ENOSYS
    header = struct.pack("<IIQQIIIHH", 48, FORGET, 1, 1, 0, 0, 0, 0, 0)
    assert server.answer(header + bytes(8)) is None


def test_a_disk_that_nobody_wrote_is_old_and_sectors_are_kept_apart() -> None:
    """F1: unwritten blocks read as somebody else's; a short write leaves its neighbours."""
    server = Server(SIZE)
    assert ask(server, READ, at(100, 8)) == (0, OLD[:8])
    assert ask(server, WRITE, at(BLOCK_BYTES - 2, 4, b"abcd")) == (0, struct.pack("<II", 4, 0))
    assert ask(server, READ, at(BLOCK_BYTES - 3, 6)) == (0, b"zabcdz")
    assert ask(server, READ, at(SIZE - 4, 100)) == (0, b"zzzz")


def test_the_log_has_writes_flushes_and_marks_in_order() -> None:
    """F1: and only what came while it was kept."""
    server = Server(SIZE)
    ask(server, WRITE, at(0, 1, b"x"))
    server.control("record", None)
    ask(server, WRITE, at(5, 1, b"y"))
    server.control("mark", 0)
    ask(server, FSYNC, bytes(16))
    assert server.control("log", None) == [Write(5, b"y"), Mark(0), Flush()]
    ask(server, FSYNC, bytes(16))
    server.control("record", None)
    assert server.control("log", None) == []


def test_states_are_kept_and_put_back() -> None:
    """F1: `use` forgets what was written since; `load` lies over it; `under` lies beneath both."""
    server = Server(SIZE)
    one, two = b"1" * BLOCK_BYTES, b"2" * BLOCK_BYTES
    ask(server, WRITE, at(0, BLOCK_BYTES, one))
    server.control("keep", "start")
    ask(server, WRITE, at(0, BLOCK_BYTES, two))
    server.control("use", "start")
    assert server.read(0, 1) == b"1" and server.control("block", 0) == one
    server.control("under", ({3: two}, frozenset()))
    server.control("load", {0: two})
    assert (server.read(0, 1), server.read(3 * BLOCK_BYTES, 1)) == (b"2", b"2")
    server.control("load", {})
    assert server.read(0, 1) == b"1"
    server.control("use", "start")
    assert server.read(3 * BLOCK_BYTES, 1) == b"z"


def test_reads_of_watched_blocks_are_noticed_unless_they_were_written_over_first() -> None:
    """F1: what an image shows depends on what was read of it, and on nothing else."""
    server = Server(SIZE)
    server.control("under", ({}, frozenset({1, 2, 3, 4})))
    server.control("load", {1: OLD})
    server.read(0, 2 * BLOCK_BYTES)
    server.write(2 * BLOCK_BYTES, OLD)
    server.read(2 * BLOCK_BYTES, 1)
    server.write(3 * BLOCK_BYTES, b"short")  # the rest of the block is still the image's
    server.read(3 * BLOCK_BYTES, BLOCK_BYTES)
    assert server.control("reads", None) == {1, 3}
    server.control("load", {})
    assert server.control("reads", None) == frozenset()
