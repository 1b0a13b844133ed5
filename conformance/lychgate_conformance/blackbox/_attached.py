"""strace on an adapter that is up already: starting it up costs nothing, and injections count from
there. `when=` counts per call name and per thread.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lychgate_conformance._verdict import NotMeasured
from lychgate_conformance.blackbox import _strace
from lychgate_conformance.blackbox._about import connections


class Attached:
    """strace on a process that runs already."""

    def __init__(self, pid: int, output: Path, calls: Sequence[str], inject: Sequence[str]) -> None:
        self.output = output
        words = _strace.options(output, calls, quick=False, inject=inject)
        words.remove("-q")  # it says when it is attached
        found = family(pid)
        self.connections = connections(found)
        """The connections that these processes have from before."""
        words += [f"--attach={it}" for it in found]
        self._process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        for _ in found:
            said = self._process.stderr.readline()
            if "attached" not in said:
                self.end()
                raise NotMeasured(f"strace cannot attach to a running process: {said.strip()}")

    @property
    def ended(self) -> bool:
        """Whether what is traced has ended, and strace with it."""
        return self._process.poll() is not None

    def let_go(self) -> None:
        """Detach: what is traced goes on alone. Its trace is whole when this returns."""
        if self._process.poll() is None:
            self._process.terminate()
        self.end()

    def end(self) -> None:
        """Wait for its end, which is that of what it traces; let go of what still lives."""
        assert self._process.stderr is not None
        if self._process.stderr.closed:
            return
        try:
            self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
        self._process.stderr.close()


def family(pid: int) -> list[int]:
    """A process and whatever it has started that still runs."""
    found = [pid]
    for one in found:
        try:
            tasks = os.listdir(f"/proc/{one}/task")
            texts = [Path(f"/proc/{one}/task/{it}/children").read_text("ascii") for it in tasks]
        except OSError:  # it has ended, or this kernel does not tell
            continue
        found += [int(word) for text in texts for word in text.split()]
    return found
