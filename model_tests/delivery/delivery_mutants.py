"""Mutants of the delivery queue: one sync, order or check left out each, and what must notice it.

A mutant names the function and the text that it replaces (as the lab's own mutants do), so this
list stays in step with the engine or is red. `like` is the model of the spec that it embodies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from delivery import delivery_behaviour as behaviour
from delivery import delivery_damage as damage
from delivery.delivery_lab import Broken, Lab, faults

from lychgate_conformance.lab._mutant import Edit

Hunt = Callable[[], None]
"""Raises AssertionError when it notices something."""

ONE = "open enqueue:a claim"
CLOSED = "open enqueue:a close open enqueue:b"
HISTORY = "open enqueue:a enqueue:b claim retry claim retry claim retry"
COMPACTION = "open enqueue:a enqueue:b claim retry claim retry claim retry claim retry"


def crashed(script: str, depth: int = 1) -> Hunt:
    """Every image at every step."""
    return lambda: _explore(Lab(), script, depth)


def _explore(lab: Lab, script: str, depth: int) -> None:
    lab.explore(script, depth)


def failing(script: str, *names: str) -> Hunt:
    """The same with each call of these names failing in each way."""

    def hunt() -> None:
        lab = Lab(after_fault=30)
        calls = lab.calls(script)
        for fault in faults(calls):
            if calls[fault.at - 1] in names:
                lab.explore(script, 1, fault)

    return hunt


@dataclass(frozen=True)
class Planted:
    """A mutant and how it is noticed."""

    name: str
    edits: tuple[Edit, ...]
    hunt: Hunt
    like: str = ""


_APPEND = "_delivery.DeliveryPrograms._append"
_ROOM = "_delivery.DeliveryPrograms._make_room"
_ADMITTED = "_delivery.DeliveryPrograms._admitted"
_STAGE = "_delivery_publish._stage"
_COPY = "_delivery_publish._copy"
_META = "_delivery_files.replace_meta"
_REPAIR = "_delivery_recover.repair"
_READ = "_delivery_recover.read_queue"
_REPLAY = "_delivery_recover.replay"
_JUDGE = "_delivery_recover._judge_bad"
_LEDGER = "_delivery_ledger.Ledger"


def _one(name: str, function: str, old: str, new: str, hunt: Hunt, like: str = "") -> Planted:
    return Planted(name, (Edit(function, old, new),), hunt, like)


SYNCS = (
    _one(
        "ack-unsynced", _APPEND, "await FsyncSegment(fd)", "pass", crashed(ONE), "DeliveryUnsynced"
    ),
    _one(
        "new-segment-unnamed",
        _APPEND,
        "await FsyncQueueDir(self._directory)",
        "pass",
        crashed(ONE),
        "DeliveryNewSegment",
    ),
    _one(
        "copy-unsynced",
        _COPY,
        "await FsyncSegment(fd)",
        "pass",
        crashed(COMPACTION),
        "DeliveryEarlyRename",
    ),
    _one(
        "names-after-rename-only",
        _STAGE,
        "if staged.segments:\n        await FsyncQueueDir(log.directory)",
        "pass",
        crashed(COMPACTION),
        "DeliveryNamesLate",
    ),
    _one(
        "selection-unsynced",
        "_delivery_publish.select",
        "await FsyncQueueDir(log.directory)",
        "pass",
        crashed(COMPACTION),
        "DeliveryNoDirSync",
    ),
    _one(
        "stages-beside-orphans",
        "_delivery_publish.publish",
        "await clean(log)\n    await FsyncQueueDir(log.directory)",
        "pass",
        behaviour.orphans_are_gone_first,
        "DeliveryNotCleaned",
    ),
    _one("manifest-unsynced", _META, "await FsyncMeta(fd)", "pass", crashed("open enqueue:a")),
    _one(
        "marker-unnamed",
        _REPAIR,
        "await replace_meta(log.path(FORMAT), FORMAT_MARKER)\n    await FsyncQueueDir",
        "await replace_meta(log.path(FORMAT), FORMAT_MARKER)\n    assert FsyncQueueDir or",
        crashed("open enqueue:a"),
    ),
    _one(
        "cut-unsynced",
        _REPAIR,
        "await FsyncSegment(log.segments[-1].fd)",
        "pass",
        behaviour.cut_is_durable,
    ),
    _one(
        "unconfirmed",
        _REPAIR,
        "if log.inactive:",
        "if False:",
        crashed(f"{HISTORY} die:RenameMeta claim open"),
        "DeliveryUnconfirmed",
    ),
    _one(
        "recovers-in-place",
        "_delivery.DeliveryPrograms.recover",
        "await self._load(trusted=False)",
        "await self._load(trusted=True)",
        failing(ONE, "fsync"),
        "DeliveryInPlace",
    ),
    _one(
        "goes-on",
        _APPEND,
        "self._poisoned = True",
        "pass",
        failing("open enqueue:a enqueue:b enqueue:c", "fsync"),
        "DeliveryGoesOn",
    ),
    _one(
        "mark-not-set",
        "_delivery.DeliveryPrograms._begin",
        "await self._lock.mark_unfinished()",
        "pass",
        behaviour.unclean_end_is_copied,
    ),
    _one(
        "mark-of-any-boot",
        "_delivery_lock.InstanceLock.take",
        "return mark == clean_mark(self._facts.boot())",
        "return mark.startswith(b'clean')",
        behaviour.other_boot_is_copied,
    ),
    _one(
        "marks-clean-when-poisoned",
        "_delivery.DeliveryPrograms._say_clean",
        "not self._poisoned and ",
        "",
        behaviour.poisoned_end_is_copied,
    ),
)

ORDERS = (
    _one(
        "manifest-in-place",
        _META,
        'staged = path + STAGED',
        "staged = path",
        crashed("open enqueue:a"),
    ),
    _one(
        "old-generation-first",
        _STAGE,
        "boundary = (",
        "log.inactive = [(log.generation, s.number) for s in log.segments]\n"
        "    await clean(log)\n    boundary = (",
        crashed(COMPACTION),
        "DeliveryDeletedFirst",
    ),
    _one(
        "marker-first",
        _REPAIR,
        "if found.manifest is None:\n        await select(log, Manifest(0, 0, 0, 0))",
        "if found.manifest is None:\n"
        "        await replace_meta(log.path(FORMAT), FORMAT_MARKER)\n"
        "        await FsyncQueueDir(log.directory)\n"
        "        await select(log, Manifest(0, 0, 0, 0))",
        crashed("open"),
    ),
    _one(
        "cleans-before-it-judges",
        _READ,
        "found = Found(log, Ledger(manifest.high), manifest)",
        "found = Found(log, Ledger(manifest.high), manifest)\n"
        "    from lychgate._delivery_publish import clean\n    await clean(log)",
        behaviour.nothing_goes_before_it_is_judged,
    ),
    _one(
        "newest-first",
        f"{_LEDGER}.choose",
        "item = self.items.get(self._ready[0])",
        "item = self.items.get(max(self._ready))",
        crashed("open enqueue:a enqueue:b claim"),
        "DeliveryAnyOrder",
    ),
)

CHECKS = (
    _one(
        "number-from-log",
        _READ,
        "Ledger(manifest.high)",
        "Ledger()",
        crashed("open enqueue:a claim ack kill open kill open"),
        "DeliveryNumberFromLog",
    ),
    _one(
        "no-marker",
        _READ,
        "if marker is None:\n        if places:",
        "if marker is None:\n        if False:",
        damage.manifests,
        "DeliveryNoMarker",
    ),
    _one(
        "missing-manifest-is-empty",
        "_delivery_recover._read_manifest",
        "if data is None:\n        raise DeliveryCorrupt(path, 0, \"it is missing, and queue.format"
        " says that there was one\")",
        "if data is None:\n        return Manifest(0, 0, 0, 0)",
        damage.manifests,
        "DeliveryNoMarker",
    ),
    _one("any-marker", _READ, "if marker != FORMAT_MARKER:", "if False:", damage.manifests),
    _one(
        "manifest-unsealed",
        "_delivery_codec.parse_manifest",
        "if crc != crc32(data[:40]) or any(data[5:8]):",
        "if False:",
        damage.manifests,
    ),
    _one("cuts-anywhere", _JUDGE, "if not last:", "if False:", damage.segments,
         "DeliveryCutsAnywhere"),
    _one("cuts-snapshot", _JUDGE, "if (segment.number, bad.offset) < log.boundary:", "if False:",
         damage.generations),
    _one("short-snapshot", _REPLAY,
         "if (segment.number, segment.size) < log.boundary and segment.number == log.boundary[0]:",
         "if False:", damage.generations),
    _one("cuts-before-a-record", _JUDGE, "if behind is not None:", "if False:",
         damage.flipped_anywhere),
    _one("cuts-the-unknown", _JUDGE, "if bad.foreign:", "if False:", damage.unknown_kinds),
    _one("empty-middle", _REPLAY, "if not data and not last:", "if False:", damage.segments),
    _one("gap-in-events", f"{_LEDGER}._apply", "if record.event != self.events + 1:", "if False:",
         damage.histories),
    _one("any-attempt", f"{_LEDGER}._claim", "claim[0] != item.attempts + 1", "False",
         damage.histories),
    _one("unclaimed-ends", f"{_LEDGER}._apply", "if item.state is not State.CLAIMED:", "if False:",
         damage.histories),
    _one("number-twice", f"{_LEDGER}._add",
         "if record.sequence <= last or not record.sequence:", "if False:", damage.histories),
    _one("no-place-in-the-seal", "_delivery_codec._crc",
         "crc32(body, crc32(header, crc32(_PLACE.pack(*place))))", "crc32(body, crc32(header))",
         damage.tails),
    _one("no-seal", "_delivery_codec.decode",
         "if zero or version != VERSION or crc != _crc(place, data[at : at + _CRC_AT], body):",
         "if version != VERSION:", damage.flipped_anywhere),
    _one("no-footer", "_delivery_codec.decode",
         "if _FOOTER.unpack_from(data, end) != (FOOTER_MAGIC, crc):", "if False:",
         damage.flipped_anywhere),
    _one("no-headroom", _ADMITTED,
         "return worst if admits(self._limits, worst) else None", "return worst",
         behaviour.every_item_ends, "DeliverySpaceFits"),
    _one("no-room-for-control", "_delivery_layout.admits",
         "fits(limits, worst) and fits(limits, put(limits, worst, limits.control_bytes_max))",
         "fits(limits, worst)", behaviour.every_item_ends, "DeliverySpaceNoControl"),
    _one("no-room-for-reasons", "_delivery_layout.worst_size",
         "item_size(payload, limits.reason_bytes_max) + CLAIM_BYTES", "item_size(payload, 0)",
         behaviour.every_item_ends, "DeliverySpaceNoReason"),
    _one("acked-only", _ROOM, "smaller = sum(sizes) < log.size",
         "smaller = len(sizes) < self._ledger.high", behaviour.every_item_ends,
         "DeliverySpaceAckedOnly"),
    _one("receipt-ignored", "_delivery_answers.verdict",
         "if receipt is not None and receipt != item.attempts:", "if False:",
         behaviour.late_consumer_is_told, "DeliveryUnfenced"),
    _one("quarantined-again", "_delivery_answers.verdict",
         "if item.state is State.QUARANTINED:", "if False:",
         behaviour.first_reason_stays, "DeliveryReasonLost"),
    _one("starved", "_delivery_layout.holds", "until_ms - 2 * length_ms <= now_ms < until_ms",
         "now_ms < until_ms", behaviour.clock_jumps, "DeliveryStarved"),
    _one("asleep", f"{_LEDGER}._wake", "max(self._latest_ms, item.until_ms - item.length_ms)",
         "self._latest_ms", behaviour.clock_was_set_back_before_an_open, "DeliveryStarved"),
    _one("remembers-all", f"{_LEDGER}._wake", "self._sort_anew()", "pass",
         behaviour.memory_is_that_of_the_items),
    _one("expired-at-recovery", f"{_LEDGER}._claim", "item.attempts, item.until_ms, item.length_ms",
         "item.attempts, _, item.length_ms", behaviour.claims_outlive_a_restart,
         "DeliveryExpired"),
    _one("second-instance", "_delivery_lock.InstanceLock._attempt", "if not await LockTry(fd):",
         "if not await LockTry(fd) and False:", behaviour.second_is_locked_out),
    _one("replaced-lock", "_delivery_lock.InstanceLock._attempt",
         "return await CheckLock(fd, self._path)", "return True or await CheckLock(fd, self._path)",
         behaviour.replaced_lock_is_noticed),
    _one("copies-what-is-damaged", "_delivery_files.Log.payload",
         "if isinstance(found, Bad) or body is None or found.sequence != item.sequence:",
         "if body is None:\n            return b''\n        if False:",
         behaviour.damage_is_not_copied),
)

ALL = (*SYNCS, *ORDERS, *CHECKS)

__all__ = ["ALL", "Broken", "Planted"]
