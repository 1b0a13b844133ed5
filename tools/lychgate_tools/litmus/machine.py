"""A block file, a loop device on it and a file system on that: mounted, crashed, put back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lychgate_conformance.lab._image import Image
from lychgate_conformance.lab._litmus import Litmus
from lychgate_tools.litmus import kernel, real
from lychgate_tools.litmus.blocklog import Blocks, Entry
from lychgate_tools.litmus.filesystems import FileSystem, mkfs_of
from lychgate_tools.litmus.fuse import Device


class Machine:
    """A device with a file system on it that can be mounted, crashed and put back."""

    def __init__(self, system: FileSystem, place: Path) -> None:
        self.system = system
        self.place = place
        self.mounted_at = place / "mnt"
        self.device = Device(system.size)
        self._ends = ExitStack()
        self._ends.callback(self.device.end)
        self._ends.callback(_remove, place)
        try:
            kernel.own_mounts()
            kernel.mount("lychgate-litmus", str(place), "tmpfs", 0, "size=1m")
            self._ends.callback(_unmount, place)
            (place / "disk").touch()
            self.mounted_at.mkdir()
            self.device.mount(str(place / "disk"))
            self._ends.callback(_unmount, place / "disk")
            self.loop = kernel.Loop(str(place / "disk"), str(place / "loop"))
            self._ends.callback(self.loop.close)
        except BaseException:
            self._ends.close()
            raise

    def close(self) -> None:
        self._ends.close()

    def make(self) -> None:
        """mkfs. RuntimeError with what it said when it fails."""
        program = mkfs_of(self.system)
        assert program is not None, "looked for before a driver was started"
        done = subprocess.run(
            [program, *self.system.mkfs[1:], self.loop.node],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{self.system.mkfs[0]} failed: {done.stderr.strip()[-300:]}")
        self.loop.forget_cache()
        self.device.keep("made")

    @contextmanager
    def mounted(self, flags: int = 0) -> Iterator[Path]:
        """The file system, mounted; nothing of it stays cached afterwards."""
        options = self.system.options
        kernel.mount(self.loop.node, str(self.mounted_at), self.system.kind, flags, options)
        try:
            yield self.mounted_at
        finally:
            _unmount(self.mounted_at)
            self.loop.forget_cache()

    def record(self, litmus: Litmus, variant: str, seed: int) -> list[Entry]:
        """The block log of one run of a program on what was kept under its name."""
        self.device.use(litmus.name)
        self.device.record()
        with self.mounted() as root:
            directory = real.Directory(root)
            try:
                between = real.between(variant, self.system, f"{seed} {litmus.name}")
                directory.other_fsync()  # what the mount itself wrote is flushed
                directory.sync_all()
                self.device.mark(0)
                for done, step in enumerate(litmus.program(), 1):
                    directory.take(step)
                    self.device.mark(done)
                    between(directory)
                directory.sync_all()
                return self.device.log()
            finally:
                directory.close()

    def state(self, blocks: Blocks) -> Image | str:
        """What the file system makes of an image; or why it makes nothing of it."""
        self.device.load(blocks)
        try:
            with self.mounted(kernel.RDONLY) as root:
                return real.read(root)
        except OSError as error:
            return f"{error.filename or 'mount'}: {error.strerror}".replace(f"{self.place}/", "")


def _remove(place: Path) -> None:
    """Remove the directory that everything was mounted in, if it is empty."""
    with suppress(OSError):
        place.rmdir()


def _unmount(place: Path) -> None:
    try:
        kernel.unmount(str(place))
    except OSError:  # in use, or a file system that gave up: out of sight, it goes with its users
        with suppress(OSError):
            kernel.unmount(str(place), lazily=True)
