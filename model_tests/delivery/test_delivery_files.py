"""`DeliveryQueue` on real files: lock, fork, threads, asyncio, the format page (L1-L15)."""

from __future__ import annotations

import asyncio
import os
import re
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lychgate import (
    ClosedError,
    ConfigError,
    DeliveryBusy,
    DeliveryLocked,
    DeliveryQueue,
    Refused,
    Result,
    aio,
)
from lychgate._delivery_codec import (
    CLAIM_BYTES,
    ITEM_BYTES,
    OVERHEAD_BYTES,
    Manifest,
    encode_manifest,
)
from lychgate._op import Op

FORMATS = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


def test_life_on_real_files(tmp_path: Path) -> None:
    """L1, L5, L10: what is accepted is there after a restart, and the names are L10's."""
    with DeliveryQueue(tmp_path / "q") as queue:
        assert [queue.enqueue(b"%d" % n).sequence for n in range(5)] == [1, 2, 3, 4, 5]
        sent = []
        for claim, payload in queue.deliveries():
            sent.append(payload)
            ended = queue.ack if claim.sequence % 2 else queue.retry
            assert ended(claim.sequence, receipt=claim.receipt) is Result.OK
        assert sent == [b"0", b"1", b"2", b"3", b"4"]
    names = sorted(path.name for path in (tmp_path / "q").iterdir())
    assert names == [
        "queue.format", "queue.lock", "queue.manifest", "segment-00000000000000000001.log",
    ]  # fmt: skip
    with DeliveryQueue(tmp_path / "q") as queue:
        assert [item.sequence for item in queue.items()] == [2, 4]
        assert queue.enqueue(b"5").sequence == 6
        assert all(os.stat(tmp_path / "q" / name).st_mode & 0o777 == 0o600 for name in names)


def test_second_instance_is_locked_out(tmp_path: Path) -> None:
    """L3: in this process, and in another one; free again when the first has ended."""
    with DeliveryQueue(tmp_path) as queue:
        with pytest.raises(DeliveryLocked, match="another instance"):
            DeliveryQueue(tmp_path)
        script = f"import lychgate; lychgate.DeliveryQueue({str(tmp_path)!r})"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert "DeliveryLocked" in done.stderr
        queue.enqueue(b"a")
    with DeliveryQueue(tmp_path) as queue:
        assert len(queue.items()) == 1


def test_fork_leaves_the_queue_to_the_parent(tmp_path: Path) -> None:
    """L3, L13: a child has neither the lock nor the queue."""
    with DeliveryQueue(tmp_path) as queue:
        child = os.fork()
        if child == 0:
            try:
                queue.enqueue(b"child")
            except ClosedError:
                os._exit(7)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert queue.enqueue(b"parent").sequence == 1


def test_concurrent_use_is_told(tmp_path: Path) -> None:
    """L13: a call beside another one raises and changes nothing."""
    inside, go_on = threading.Event(), threading.Event()

    def observe(op: Op[Any], result: object, error: BaseException | None) -> None:
        if op.action == "AppendEvent":
            inside.set()
            assert go_on.wait(30)

    with DeliveryQueue(tmp_path, observe=observe) as queue:
        thread = threading.Thread(target=queue.enqueue, args=(b"a",))
        thread.start()
        assert inside.wait(30)
        with pytest.raises(DeliveryBusy):
            queue.claim()
        go_on.set()
        thread.join()
        assert [item.sequence for item in queue.items()] == [1]
        queue.enqueue(b"b")


def test_asyncio(tmp_path: Path) -> None:
    """L1, L13: the same as coroutines; a cancelled change poisons, a recovery mends it."""

    async def main() -> None:
        async with await aio.DeliveryQueue.open(tmp_path) as queue:
            await queue.enqueue(b"a")
            async for claim, payload in queue.deliveries():
                assert payload == b"a"
                assert await queue.quarantine(claim.sequence, "no", claim.receipt) is Result.OK
            task = asyncio.create_task(queue.enqueue(b"b"))
            await asyncio.sleep(0)
            with pytest.raises(DeliveryBusy):
                await queue.enqueue(b"c")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await queue.stats())["poisoned"] == 1
            await queue.recover()
            assert [item.sequence for item in await queue.items()] in ([1], [1, 2])
            assert queue.truncation is None

    asyncio.run(main())


@pytest.mark.parametrize(
    "options",
    [
        {"items_max": 0},
        {"segment_bytes": -1},
        {"segments_max": True},
        {"payload_bytes_max": 1.5},
        {"segment_bytes": 2**40},
    ],
)
def test_options_that_cannot_be_meant(tmp_path: Path, options: dict[str, Any]) -> None:
    """L6: refused before anything is made."""
    with pytest.raises(ConfigError):
        DeliveryQueue(tmp_path / "q", **options)
    assert not (tmp_path / "q").exists()


def test_tiny_limits_answer_full(tmp_path: Path) -> None:
    """L9: a queue too small for any item is no error; it accepts nothing."""
    with DeliveryQueue(tmp_path, segment_bytes=50, segments_max=1) as queue:
        assert queue.enqueue(b"").result is Result.FULL
        assert queue.claim().result is Result.EMPTY
        assert queue.stats()["sequence_high"] == 0


def test_arguments_that_cannot_be_meant(tmp_path: Path) -> None:
    """L15: nothing is written for a lease, a delay, a number or a reason that makes no sense."""
    with DeliveryQueue(tmp_path) as queue:
        queue.enqueue(b"a")
        nothing: Any = None
        for call in (
            lambda: queue.claim(0),
            lambda: queue.claim(10**20),
            lambda: queue.retry(1, -1),
            lambda: queue.read(nothing),
            lambda: queue.quarantine(1, nothing),
        ):
            with pytest.raises(Refused):
                call()
        assert queue.stats()["log_bytes"] == 65
    with pytest.raises(ClosedError):
        queue.claim()


def test_format_page() -> None:
    """L2, L10: sizes and magic bytes of the page are the engine's."""
    assert f"A record takes {OVERHEAD_BYTES} bytes beside its body: an item {ITEM_BYTES}" in FORMATS
    assert f"a claim {CLAIM_BYTES}." in FORMATS
    page = FORMATS[FORMATS.index("## The manifest: 48 bytes") : FORMATS.index("## Records")]
    rows = [(int(a), int(b)) for a, b in re.findall(r"(?m)^\| (\d+) \| (\d+) \|", page)]
    assert rows[0] == (0, 4) and all(a + n == b for (a, n), (b, _) in zip(rows, rows[1:]))
    data = encode_manifest(Manifest(2, 3, 4, 5))
    assert sum(rows[-1]) == len(data)
    assert data[:5] + data[44:] == b"LGDM\x01MDGL"
    assert struct.unpack("<4Q", data[8:40]) == (2, 3, 4, 5)


def test_memory_does_not_hold_payloads(tmp_path: Path) -> None:
    """L6, L14: what an item takes in memory does not depend on its payload."""
    reads: list[int] = []

    def observe(op: Op[Any], result: object, error: BaseException | None) -> None:
        if op.action == "ReadSegment" and isinstance(result, bytes):
            reads.append(len(result))

    with DeliveryQueue(tmp_path, payload_bytes_max=2**20, observe=observe) as queue:
        for _ in range(3):
            queue.enqueue(bytes(2**20))
        assert not reads, "an enqueue reads nothing"
        assert queue.read(2).payload == bytes(2**20)
        assert sum(reads) == 2**20 + ITEM_BYTES
