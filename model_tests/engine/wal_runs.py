"""Runs of WAL steps that several tests expect in a trace (docs/steps.md)."""

from __future__ import annotations

APPEND = ["AppendWal", "FsyncWal"]
CREATE = ["CreateWal", "OwnTry", "OwnCheck", "FsyncWalDir"]
ROTATE = [*CREATE, "ReadWal", "CopyWal", "FsyncWal"]
SETTLE = ["UnlinkWal", "CloseWal", "FsyncWalDir"]
