"""What an observer sees of the delivery queue: its files as cells, under the spec's names.

A record is two cells, as in spec/Delivery.tla; of the lock file it is seen whether it says that the
last end was clean, in this boot.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from lychgate._delivery_codec import FORMAT_MARKER, Manifest, parse_manifest
from lychgate._delivery_files import LOCK
from lychgate._delivery_ops import (
    AppendEvent,
    CopyItems,
    CreateMeta,
    CreateSegment,
    ListQueue,
    RenameMeta,
    TruncateSegment,
    UnlinkMeta,
    UnlinkSegment,
    WriteMeta,
)
from lychgate._lock import clean_mark
from lychgate._op import Op
from lychgate._ops import ReadMark

from lychgate_tools.trace.format import Seen
from lychgate_tools.trace.recorder import Described
from lychgate_tools.trace.wal_eyes import Directory
from lychgate_tools.walk.delivery_cells import (
    FOOTER_BYTES,
    Cells,
    manifest_name,
    model_name,
    place_of,
    records_before,
    segment_cells,
    whole,
)

_NAMED = (UnlinkSegment, CreateSegment, UnlinkMeta, CreateMeta)


class DeliveryEyes:
    """Looks at the files of a queue's directory.

    A record is known by its place, which a step does not show: it is told from the files before the
    step, to which it adds.
    """

    def __init__(self, look: Directory, boot: Callable[[], str]) -> None:
        self._look = look
        self._boot = boot
        self._before = dict(look())
        self._short: Cells = ()

    def seen(self) -> Seen:
        self._before = dict(self._look())
        found: dict[str, tuple[str, ...] | None] = {"lock": ("dirty",)}
        for file, data in self._before.items():
            name = model_name(file)
            if name is not None:
                found[name] = self._cells(name, data)
            elif file == LOCK and data == clean_mark(self._boot()):
                found["lock"] = ("clean",)
        return found

    def _cells(self, name: str, data: bytes) -> Cells:
        if name[:1] == "g":
            return segment_cells(data, *place_of(name))
        if not data:
            return ()
        manifest = parse_manifest(data)
        if isinstance(manifest, Manifest):
            return whole([manifest_name(manifest, records_before(self._before, manifest))])
        return whole(["F"]) if data == FORMAT_MARKER else ("!",)

    def describe(
        self, worker: str, op: Op[Any], result: object, error: BaseException | None
    ) -> Described | None:
        if op.action not in DELIVERY_ACTIONS:
            return None
        if isinstance(error, OSError):
            if isinstance(op, CreateMeta) and error.errno == errno.EEXIST:
                return None  # the spec unlinks it at once
            said = errno.errorcode.get(error.errno or 0, "error")
            return Described(self._args(op), None, said)
        if error is not None:
            return Described(self._args(op), None, type(error).__name__)
        if isinstance(op, AppendEvent) and result != len(op.data):
            found = Described(self._args(op), None, "short")
            self._short = found.args["data"]
            return found
        return Described(self._args(op), self._result(op, result))

    def _args(self, op: Op[Any]) -> dict[str, Any]:
        if isinstance(op, _NAMED):
            return {"file": _name_of(op.path)}
        if isinstance(op, RenameMeta):
            return {"files": [_name_of(op.old), _name_of(op.new)]}
        if isinstance(op, WriteMeta):
            return {"data": self._cells("", op.data)}
        if isinstance(op, (AppendEvent, CopyItems)):
            return {"data": self._added(op.data)}
        if isinstance(op, TruncateSegment):
            return {"size": self._kept(op.size)}
        return {}

    def _added(self, data: bytes) -> Cells:
        """The cells of records that go behind the end of a segment; which one, the checksum says.
        What is left of a record after a short write is that record."""
        if len(data) <= FOOTER_BYTES:
            return self._short
        for file, before in self._before.items():
            name = model_name(file)
            if name is not None and name[:1] == "g":
                end = len(before) if not before.endswith(data) else len(before) - len(data)
                place = place_of(name)
                cells = segment_cells(before[:end] + data, *place)
                known = len(segment_cells(before[:end], *place))
                if cells[known:] and cells[-1] != "!":
                    return cells[known:]
        return ("!",)

    def _kept(self, size: int) -> int:
        last = max(name for file in self._before if (name := model_name(file) or "")[:1] == "g")
        data = next(data for file, data in self._before.items() if model_name(file) == last)
        return len(segment_cells(data[:size], *place_of(last)))

    def _result(self, op: Op[Any], result: object) -> Any:
        if isinstance(op, ReadMark):
            return result == clean_mark(self._boot())
        if isinstance(op, ListQueue):
            assert isinstance(result, list)
            return [name for file in result if (name := model_name(file)) is not None]
        return None


def _name_of(path: str) -> str:
    name = path.rpartition("/")[2]
    return model_name(name) or name


DELIVERY_ACTIONS = frozenset(
    (
        "ReadMark", "SetMark", "ListQueue", "ReadMeta", "ReadSegment", "TruncateSegment",
        "UnlinkSegment", "CreateSegment", "CopyItems", "UnlinkMeta", "CreateMeta", "WriteMeta",
        "FsyncMeta", "RenameMeta", "FsyncQueueDir", "AppendEvent", "FsyncSegment", "ClearMark",
    )
)  # fmt: skip
"""The engine's steps that Delivery.tla models."""
