"""One short run of Java, whose whole output is wanted; long ones are the runner's."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run(
    java: Sequence[str], jar: Path, private: Path, command: Sequence[str],
    env: Mapping[str, str], timeout_s: float,
) -> subprocess.CompletedProcess[bytes]:  # fmt: skip
    """Run a class of the jar in a directory of its own, which is also its home and takes its
    temporary files. `java`: the program and its options. TimeoutExpired after `timeout_s` seconds.
    """
    own = [f"-Djava.io.tmpdir={private}", f"-Duser.home={private}", "-cp", str(jar)]
    return subprocess.run(
        [*java, *own, *command],
        cwd=private,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=timeout_s,
        check=False,
        env=env,
    )
