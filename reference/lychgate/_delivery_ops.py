"""The steps of the delivery queue that the stores have not got (spec/Delivery.tla).

Rules as in `_ops.py`: one class, one action of the spec, one call on the port. The lock and its
mark are the same steps as those of the dead-task store. *Meta* stands for the two small files, the
manifest and the format marker, which are only ever replaced by a rename.
"""

from __future__ import annotations

from lychgate._fs import Fs, OpenMode
from lychgate._op import Op, step
from lychgate._ops import (
    _Append,
    _Close,
    _Fsync,
    _FsyncDir,
    _Open,
    _Read,
    _Truncate,
    _Unlink,
)


@step
class ListQueue(Op[list[str]]):
    path: str

    def perform(self, fs: Fs) -> list[str]:
        return fs.list_dir(self.path)


class FsyncQueueDir(_FsyncDir):
    """Makes names durable: those of segments before they count, a selection, an end (L10, L12)."""

    __slots__ = ()


# --- manifest and format marker ---------------------------------------------------------------


class OpenMeta(_Open):
    __slots__ = ()


class ReadMeta(_Read):
    __slots__ = ()


class CreateMeta(_Open):
    """A new inode every time, beside the file that it will replace."""

    __slots__ = ()
    _mode = OpenMode.CREATE_NEW


class UnlinkMeta(_Unlink):
    """Removes what a publication that ended early has left."""

    __slots__ = ()


class WriteMeta(_Append):
    __slots__ = ()


class FsyncMeta(_Fsync):
    __slots__ = ()


class CloseMeta(_Close):
    __slots__ = ()


@step
class RenameMeta(Op[None]):
    """Selects a generation, or says that the directory holds a queue (L10)."""

    old: str
    new: str

    def perform(self, fs: Fs) -> None:
        fs.rename(self.old, self.new)


# --- segments ---------------------------------------------------------------------------------


class OpenSegment(_Open):
    __slots__ = ()
    _mode = OpenMode.APPEND


class CreateSegment(_Open):
    __slots__ = ()
    _mode = OpenMode.CREATE_NEW


class ReadSegment(_Read):
    __slots__ = ()


class TruncateSegment(_Truncate):
    """Cuts a torn last record under the mark of a clean end (L4)."""

    __slots__ = ()


class AppendEvent(_Append):
    """Writes one record: an item, a claim, a retry, an ack, a quarantine (L2, L5)."""

    __slots__ = ()


class CopyItems(_Append):
    """Writes items into a segment of the next generation (L7)."""

    __slots__ = ()


class FsyncSegment(_Fsync):
    __slots__ = ()


class CloseSegment(_Close):
    __slots__ = ()


class UnlinkSegment(_Unlink):
    """Removes a segment of a generation that is not selected."""

    __slots__ = ()
