"""What the queue makes of files that no crash leaves: checks, each a function that asserts.

They run on the simulated disk, so that thousands of damaged directories are opened in seconds, and
the mutants of the engine's checks are killed by them.
"""

from __future__ import annotations

from collections.abc import Iterator

from lychgate._delivery import DeliveryPrograms
from lychgate._delivery_codec import (
    Kind,
    Manifest,
    Place,
    Record,
    claim_body,
    encode,
    encode_manifest,
    records,
)
from lychgate._delivery_errors import DeliveryCorrupt, DeliveryError
from lychgate._delivery_files import segment_name
from lychgate._delivery_layout import Limits
from lychgate._drive import run
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import cached_image, image_of
from lychgate_conformance.lab._simfs import SimFs

from delivery.delivery_lab import LIMITS, PATH, Outcome, look

Files = dict[str, bytes]
SEGMENT = f"q/{segment_name(0, 1)}"
WIDE = Limits(items_max=9, payload_bytes_max=8, segment_bytes=2000, segments_max=2)


def made(script: list[str], limits: Limits = LIMITS, closed: bool = True) -> Files:
    """The files after some calls."""
    machine = Machine(image_of({}))
    fs = SimFs(machine)
    queue = DeliveryPrograms(PATH, limits, fs)
    run(queue.open(), fs)
    claim = None
    for word in script:
        if word == "claim":
            claim = run(queue.claim(1000), fs).claim
        elif word in ("ack", "retry", "quarantine"):
            assert claim is not None
            if word == "ack":
                run(queue.ack(claim.sequence, None), fs)
            elif word == "retry":
                run(queue.retry(claim.sequence, 0, None), fs)
            else:
                run(queue.quarantine(claim.sequence, "why", None), fs)
        else:
            run(queue.enqueue(word.encode()), fs)
    if closed:
        run(queue.close(), fs)
    return cached_image(machine.disk).files()


def opened(
    files: Files, limits: Limits = LIMITS, boot: str = "boot-1"
) -> tuple[Outcome | DeliveryError, DeliveryPrograms, Files]:
    """What an open of such a directory gives, the queue, and the files afterwards."""
    machine = Machine(image_of(files), boot=boot)
    fs = SimFs(machine)
    queue = DeliveryPrograms(PATH, limits, fs)
    try:
        run(queue.open(), fs)
        found: Outcome | DeliveryError = look(queue, fs)
    except DeliveryError as error:
        found = error
        assert fs.open_descriptors() == 0, "a refused open lets everything go"
    return found, queue, cached_image(machine.disk).files()


def told(files: Files, name: str, offset: int | None = None, limits: Limits = LIMITS) -> None:
    """It is corruption, with file and offset, in either boot, and no data file is changed (L4)."""
    for boot in ("boot-1", "boot-2"):
        found, _, after = opened(files, limits, boot)
        assert isinstance(found, DeliveryCorrupt), (name, offset, found)
        assert found.path == f"/{name}", (found.path, name)
        assert offset is None or found.offset == offset, (found.offset, offset)
        del after["q/queue.lock"]
        assert after == {k: v for k, v in files.items() if k != "q/queue.lock"}, "nothing changed"


SCRIPT = ["a", "claim", "retry", "claim", "quarantine"]


def prefixes() -> Iterator[tuple[int, Outcome]]:
    """Each end of a record of the small log, and what is there up to it."""
    files = made(SCRIPT, WIDE)
    data = files[SEGMENT]
    ends = [0]
    for record in records(data, 0, 1):
        assert isinstance(record, Record)
        ends.append(ends[-1] + record.size)
    assert ends[-1] == len(data) and len(ends) == 6
    for end in ends:
        found, queue, _ = opened({**files, SEGMENT: data[:end]}, WIDE)
        assert isinstance(found, Outcome) and queue.truncation is None
        yield end, found


def truncated_anywhere() -> None:
    """L4: a log that ends inside a record loses that record alone, counted and told where."""
    files, known = made(SCRIPT, WIDE), dict(prefixes())
    data = files[SEGMENT]
    for size in range(len(data)):
        for boot in ("boot-1", "boot-2"):
            found, queue, after = opened({**files, SEGMENT: data[:size]}, WIDE, boot)
            end = max(e for e in known if e <= size)
            assert found == known[end], (size, found)
            torn = queue.truncation
            if size == end:
                assert torn is None
                continue
            assert torn is not None and (torn.path, torn.offset, torn.size) == (
                f"/{SEGMENT}",
                end,
                size - end,
            )
            assert queue.stats()["records_truncated"] == 1
            assert queue.stats()["bytes_truncated"] == size - end
            if boot == "boot-1":
                assert after[SEGMENT] == data[:end], "cut in place under a clean mark"


def flipped_anywhere() -> None:
    """L4: no flipped bit passes. In the last record it is torn; anywhere else it is told."""
    files, known = made(SCRIPT, WIDE), dict(prefixes())
    data, ends = files[SEGMENT], sorted(known)
    for bit in range(len(data) * 8):
        at = bit // 8
        bad = data[:at] + bytes([data[at] ^ 1 << bit % 8]) + data[at + 1 :]
        start = max(e for e in ends if e <= at)
        found, queue, _ = opened({**files, SEGMENT: bad}, WIDE)
        if start == ends[-2] and not isinstance(found, DeliveryCorrupt):
            assert found == known[start] and queue.truncation is not None, (bit, found)
            assert queue.truncation.offset == start
        else:
            assert isinstance(found, DeliveryCorrupt) and found.offset == start, (bit, found)


def tails() -> None:
    """L4: NULs, garbage and a record of another place behind the last one are torn, not corrupt."""
    files, known = made(SCRIPT, WIDE), dict(prefixes())
    data = files[SEGMENT]
    elsewhere = encode(Kind.ACK, 1, 6, b"", Place(0, 1, len(data) + 1))
    for tail in (b"\0", bytes(40), bytes(90), b"LGDQ" + bytes(50), b"x" * 500, elsewhere):
        for boot in ("boot-1", "boot-2"):
            found, queue, _ = opened({**files, SEGMENT: data + tail}, WIDE, boot)
            assert found == known[len(data)], (tail, found)
            assert queue.truncation is not None and queue.truncation.size == len(tail)


def unknown_kinds() -> None:
    """L4, L15: a record of a version or type that is not known is never taken for a torn one."""
    files = made(SCRIPT, WIDE)
    data = files[SEGMENT]
    place = Place(0, 1, len(data))
    good = encode(Kind.ACK, 1, 6, b"", place)
    strange = encode(9, 1, 6, b"", place)  # type: ignore[arg-type]  # a later engine's record
    told({**files, SEGMENT: data + strange}, SEGMENT, len(data), WIDE)
    newer = good[:4] + b"\x02" + good[5:]
    told({**files, SEGMENT: data + newer}, SEGMENT, len(data), WIDE)


def histories() -> None:
    """L4: valid records that cannot follow the ones before are told."""
    files = made(["a", "claim"], WIDE)
    data = files[SEGMENT]
    place = Place(0, 1, len(data))
    for kind, sequence, event, body in (
        (Kind.ACK, 1, 4, b""),  # an event is missing
        (Kind.ACK, 2, 3, b""),  # no such item
        (Kind.ACK, 1, 3, b"x"),
        (Kind.CLAIM, 1, 3, claim_body(3, 1, 1)),  # the second claim is missing
        (Kind.CLAIM, 1, 3, b"short"),
        (Kind.RETRY, 1, 3, b"short"),
        (Kind.ITEM, 1, 3, bytes(24)),
        (Kind.ITEM, 1, 3, b""),
        (Kind.ITEM, 1, 3, b"\x01" + bytes(23)),  # the same number again
    ):
        bad = data + encode(kind, sequence, event, body, place)
        told({**files, SEGMENT: bad}, SEGMENT, len(data), WIDE)
    early = made(["a"], WIDE)
    place = Place(0, 1, len(early[SEGMENT]))
    bad = early[SEGMENT] + encode(Kind.ACK, 1, 2, b"", place)  # not claimed
    told({**early, SEGMENT: bad}, SEGMENT, len(early[SEGMENT]), WIDE)


MANY = ["a", "b", "claim", "retry", "claim", "retry", "claim"]


def segments() -> None:
    """L4: a segment that is missing, empty, cut or torn before the last one is told."""
    limits = Limits(items_max=9, payload_bytes_max=8, segment_bytes=200, segments_max=9)
    files = made(MANY, limits)
    first, second, third = (f"q/{segment_name(0, n)}" for n in (1, 2, 3))
    assert third in files
    for name in (first, second):
        told({k: v for k, v in files.items() if k != name}, name, 0, limits)
        told({**files, name: b""}, name, 0, limits)
        told({**files, name: files[name][:-1]}, name, None, limits)
    ends = [r.place.offset for r in records(files[second], 0, 2) if isinstance(r, Record)]
    told({**files, second: files[second][: ends[-1]]}, third, 0, limits)  # an event is missing
    told({**files, second: files[first], first: files[second]}, first, 0, limits)


COMPACTED = ["a", "b", *["claim", "retry"] * 5]


def generations() -> None:
    """L4, L10: the selected snapshot is whole; another generation's bytes never pass for it."""
    files = made(COMPACTED)
    (name,) = [n for n in files if "generation" in n and n.endswith("1.log")]
    snapshot = [r for r in records(files[name], 1, 1) if isinstance(r, Record)][:2]
    cut = snapshot[1].place.offset
    others = {k: v for k, v in files.items() if not ("segment" in k and k != name)}
    told({**others, name: files[name][:cut]}, name, cut)
    told({**others, name: files[name][: cut + 3]}, name, cut)
    told({k: v for k, v in others.items() if k != name}, name, 0)
    old = f"q/{segment_name(0, 1)}"
    told({**files, name: made(["a", "b"])[old]}, name, 0)
    whole, _, _ = opened(files)
    litter = {
        f"q/{segment_name(7, 1)}": b"never selected",
        old: b"of an earlier one",
        "q/queue.manifest.tmp": encode_manifest(Manifest(9, 1, 40, 1)),
        "q/segment-1.log": b"somebody's",
    }
    for boot in ("boot-1", "boot-2"):
        found, _, after = opened({**files, **litter}, boot=boot)
        assert found == whole, "a second manifest that nobody renamed is not read"
        assert old not in after and after["q/segment-1.log"] == b"somebody's"


def manifests() -> None:
    """L10: a manifest cut or flipped anywhere is told, and a missing one is no empty queue."""
    files = made(COMPACTED)
    name, marker = "q/queue.manifest", "q/queue.format"
    data = files[name]
    assert len(data) == 48
    for size in range(48):
        told({**files, name: data[:size]}, name, 0)
    told({**files, name: data + b"x"}, name, 0)
    for bit in range(48 * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        told({**files, name: bytes(flipped)}, name, 0)
    without = {k: v for k, v in files.items() if k != name}
    told(without, name, 0)
    told({k: v for k, v in without.items() if "segment" not in k}, name, 0)
    told({**files, marker: b""}, marker, 0)
    told({**files, marker: b"lychgate-queue 2"}, marker, 0)
    told({k: v for k, v in files.items() if k != marker}, marker, 0)


CHECKS = (
    truncated_anywhere,
    flipped_anywhere,
    tails,
    unknown_kinds,
    histories,
    segments,
    generations,
    manifests,
)
