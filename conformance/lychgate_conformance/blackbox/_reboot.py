"""Another boot, as far as an adapter can tell: in mounts of its own it finds another boot id."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_REBOOT = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


def reboot_words(file: Path) -> tuple[str, ...]:
    """Words that run a command with the boot id of a file, in mounts of its own."""
    shell: Sequence[str] = ("sh", "-c", _REBOOT, "sh", str(file), _BOOT_ID)
    return ("unshare", "--mount", *shell)


@functools.cache
def can_reboot() -> bool:
    """Whether processes with another boot id can be had here."""
    if shutil.which("unshare") is None or not os.path.exists(_BOOT_ID):
        return False
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("00000000-0000-4000-8000-000000000000\n")
        file.flush()
        tried = subprocess.run(
            [*reboot_words(Path(file.name)), "cat", _BOOT_ID], capture_output=True, text=True
        )
        return tried.stdout.startswith("00000000-")
