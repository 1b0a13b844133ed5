"""The process of an adapter, with everything that it starts.

    suite ── adapter (leader of a session of its own) ── whatever it forks

Rules
  * The leader is not reaped before the end, so that its id and its group's stay its own while
    signals are sent.
  * The group is killed as a whole. A process that left the group is found by a word in its
    environment, which every process inherits from the adapter (on Linux; elsewhere the group
    must do).
  * Whatever is still there when this program ends, for a Ctrl-C may come at any moment, is killed.
  * No file may grow over the limit: an adapter that fills the disk is stopped by the system.
"""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

_MARK = "LYCHGATE_ADAPTER"
DISK_BYTES_MAX = 2 * 1024**3
"""How large one file, and one store, of an adapter may become."""


class Group:
    """A started command. The part of `subprocess.Popen` that `Pipes` needs, for a whole group."""

    def __init__(
        self,
        command: Sequence[str],
        stdin: int,
        stdout: int,
        stderr: int,
        umask: int = -1,
        disk_bytes_max: int = DISK_BYTES_MAX,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """OSError when there is no such command."""
        self.mark = f"{_MARK}={os.getpid()}-{secrets.token_hex(8)}"
        name, _, value = self.mark.partition("=")
        _marks.add(self.mark)
        self._popen = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env={**(os.environ if environment is None else environment), name: value},
            start_new_session=True,  # a Ctrl-C at the terminal is ours to pass on
            umask=umask,
        )
        self.pid = self._popen.pid
        _limit_files(self.pid, disk_bytes_max)
        self._code: int | None = None
        self._swept = False

    def poll(self) -> int | None:
        """The leader's exit code, negative for a signal; None while it runs."""
        return self._look(os.WNOHANG)

    def _look(self, how: int) -> int | None:
        """Its exit code, without reaping it."""
        if self._code is None:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | how)
            if found is not None:
                exited = found.si_code == os.CLD_EXITED
                self._code = found.si_status if exited else -found.si_status
        return self._code

    def kill(self) -> None:
        """SIGKILL to the group and to every process that left it."""
        if self._swept:
            return
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):  # nobody is left (macOS says EPERM)
            pass
        self.wait()
        _kill_marked(self.mark)
        self._swept = True

    def kill_leader(self) -> None:
        """SIGKILL to the adapter alone, and wait until it is gone."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the id is still its own
            self.wait()

    def wait(self, timeout: float | None = None) -> int:
        deadline = 0.0 if timeout is None else time.monotonic() + timeout
        while (code := self._look(0 if timeout is None else os.WNOHANG)) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
            time.sleep(0.001)
        return code

    def leftovers(self) -> list[int]:
        """Processes that the adapter started and that still run, but for the adapter itself."""
        return [pid for pid in _marked(self.mark) if pid != self.pid]

    def reap(self) -> None:
        """The end: whatever is left is killed, and the ids are given back."""
        self.kill()
        self._popen.wait()
        _marks.discard(self.mark)


_marks: set[str] = set()
"""The marks of groups that may have processes."""


@atexit.register
def end_all() -> None:
    """Kills what no one has ended: a Ctrl-C may have come between a start and the note of it."""
    while _marks:
        _kill_marked(_marks.pop())


def _kill_marked(mark: str) -> None:
    """They may fork meanwhile: until none is found."""
    for _ in range(50):
        left = _marked(mark)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        if not left:
            return
        time.sleep(0.002)


def _marked(mark: str) -> list[int]:
    word = mark.encode() + b"\0"
    return [pid for pid in _processes() if _has(pid, word)]


def _limit_files(pid: int, size: int) -> None:
    try:
        import resource

        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, size))
    except (ImportError, AttributeError, OSError):  # Linux only, and not for one that has ended
        return


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _has(pid: int, word: bytes) -> bool:
    """Whether a living process has the word in its environment."""
    try:
        fd = os.open(f"/proc/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it is gone, or somebody else's
        return False
    found = b""
    try:
        while chunk := os.read(fd, 1 << 20):
            found += chunk
    except OSError:  # it ended meanwhile; a zombie's environment is empty
        return False
    finally:
        os.close(fd)
    return word in found + b"\0"


def size_of(directory: str) -> int:
    """The bytes that a directory takes on the disk; holes take none."""
    total = 0
    stack = [directory]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except OSError:  # it went away meanwhile
            continue
    return total
