"""Mutants of the disk backend: whose tasks file is whose."""

from __future__ import annotations

import fcntl
import os
from typing import Any

from lychgate import Disk
from lychgate_conformance._layout import body_of_line, is_wal
from lychgate_conformance.mutants._base import mutant
from lychgate_conformance.mutants.damage import Rewrites


class _Owners(Disk):
    """Does something before and after the files of the dead are taken over."""

    def __init__(
        self, path: str = "storage", prefix: str = "deferred-", fsync_frequency: float = 0.5
    ) -> None:
        self.directory, self.prefix = os.path.abspath(path), prefix
        self.opener = os.getpid()
        self.before_open()
        super().__init__(path, prefix, fsync_frequency)
        self.after_open()

    def before_open(self) -> None:
        """Before taking over."""

    def after_open(self) -> None:
        """After taking over."""

    def files(self) -> list[str]:
        """The tasks files, whoever owns them."""
        names = os.listdir(self.directory) if os.path.isdir(self.directory) else []
        return [os.path.join(self.directory, it) for it in sorted(names) if is_wal(it, self.prefix)]

    def free(self) -> list[str]:
        """Those that nobody owns."""
        found = []
        for path in self.files():
            with open(path, "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    continue
            found.append(path)
        return found


@mutant("shows-all", "L1-OWN-001 L1-OWN-002")
class ShowsAll(_Owners):
    """Lists the tasks of the living others as well."""

    def pending_tasks(self) -> Any:
        found = []
        for path in self.files():
            with open(path, "rb") as file:
                bodies = [body_of_line(line.rstrip(b"\n")) for line in file]
            adds = [it.split(b":")[1].decode() for it in bodies if it and it.startswith(b"add")]
            found += [(key, "a", None) for key in adds]
        return found


@mutant("never-takes-over", "L1-OWN-002 L1-OWN-003 L1-KILL-001 L1-KILL-012 L1-OPEN-001")
class NeverTakesOver(_Owners):
    """Leaves the files of the dead alone."""

    def before_open(self) -> None:
        self._hidden = {
            path: os.path.join(self.directory, f"hidden-{i}") for i, path in enumerate(self.free())
        }
        for path, hidden in self._hidden.items():
            os.rename(path, hidden)

    def after_open(self) -> None:
        for path, hidden in self._hidden.items():
            os.rename(hidden, path)


@mutant("takes-one-file", "L1-KILL-012 L1-OWN-004")
class TakesOneFile(_Owners):
    """Takes one file over and deletes the others of the dead."""

    def before_open(self) -> None:
        for path in self.free()[1:]:
            os.unlink(path)


@mutant("takes-over-in-memory", "L1-OWN-003")
class TakesOverInMemory(_Owners):
    """Keeps what it took over in memory only."""

    def after_open(self) -> None:
        self._taken = super().pending_tasks()
        for path in self.files():
            os.truncate(path, 0)

    def pending_tasks(self) -> Any:
        known = {it[0] for it in super().pending_tasks()}
        return [*super().pending_tasks(), *(it for it in self._taken if it[0] not in known)]


@mutant("forgets-removals", "L1-OWN-004 L1-OPEN-003 L1-KILL-003")
class ForgetsRemovals(Rewrites):
    """Copies no removal when it merges files."""

    def rewrite(self, content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        return b"".join(it for it in lines if it[9:12] != b"rem")


@mutant("removal-reaches-everyone", "L1-OWN-005")
class RemovalReachesEveryone(_Owners):
    """Applies a removal in one file to the tasks of every file."""

    def before_open(self) -> None:
        contents = {path: _read(path) for path in self.free()}
        lines = [line for content in contents.values() for line in content.splitlines()]
        removed = {it[13:] for it in lines if it[9:12] == b"rem"}
        for path, content in contents.items():
            kept = [it for it in content.splitlines() if it[13:].split(b":")[0] not in removed]
            with open(path, "wb") as file:
                file.write(b"".join(it + b"\n" for it in kept))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


@mutant("sweeps-the-living", "L1-OWN-006")
class SweepsTheLiving(_Owners):
    """Deletes every tasks file that it finds when it opens."""

    def after_open(self) -> None:
        for path in self.files():
            os.unlink(path)


@mutant("leaves-copies", "L1-OWN-007 L1-OWN-008")
class LeavesCopies(_Owners):
    """Leaves the files that it took over where they were."""

    def before_open(self) -> None:
        self._contents = {path: _read(path) for path in self.free()}

    def after_open(self) -> None:
        for path, content in self._contents.items():
            if not os.path.exists(path):
                with open(path, "wb") as file:
                    file.write(content)


@mutant("child-closes-for-both", "L1-FORK-004")
class ChildClosesForBoth(_Owners):
    """Clears its parent's file away when it is closed in a forked child."""

    def close(self) -> None:
        if os.getpid() == self.opener:
            super().close()
            return
        for path in self.files():
            os.unlink(path)


@mutant("leaks-descriptors", "L1-FORK-005 L1-FORK-006")
class LeaksDescriptors(_Owners):
    """Holds its tasks file by a descriptor that every child inherits."""

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        key = super().add_task(task, publish_at, task_id)
        for name in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{name}")
            except OSError:  # the descriptor of the listing itself
                continue
            if is_wal(os.path.basename(target), self.prefix):
                os.set_inheritable(os.dup(int(name)), True)
        return key
