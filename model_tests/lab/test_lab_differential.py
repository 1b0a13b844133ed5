"""The simulator against the real system: random call sequences give the same answers (F1)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from lychgate._fs import Fs, OpenMode
from lychgate._osfs import OsFs
from lychgate_conformance.lab._disk import Machine
from lychgate_conformance.lab._image import DIRECTORY, Content, Symlink, cached_image, image_of
from lychgate_conformance.lab._simfs import SimFs

NAMES = ("a", "b", "sub/a", "sub", "missing/a", "link", "loop")
PATHS = st.sampled_from(NAMES)
DATA = st.binary(max_size=20)
FDS = st.integers(0, 4)
WHO = st.integers(0, 1)

CALLS = st.one_of(
    st.tuples(st.just("open"), WHO, PATHS, st.sampled_from(OpenMode)),
    st.tuples(st.just("close"), WHO, FDS),
    st.tuples(st.just("read"), WHO, FDS, st.integers(0, 12), st.integers(0, 12)),
    st.tuples(st.just("append"), WHO, FDS, DATA),
    st.tuples(st.just("overwrite"), WHO, FDS, st.integers(0, 12), DATA),
    st.tuples(st.just("truncate"), WHO, FDS, st.integers(0, 24)),
    st.tuples(st.just("fsync"), WHO, FDS),
    st.tuples(st.just("status"), WHO, FDS),
    st.tuples(st.just("is_named"), WHO, FDS, PATHS),
    st.tuples(st.just("try_lock"), WHO, FDS),
    st.tuples(st.just("unlock"), WHO, FDS),
    st.tuples(st.just("fsync_dir"), WHO, PATHS),
    st.tuples(st.just("rename"), WHO, PATHS, PATHS),
    st.tuples(st.just("unlink"), WHO, PATHS),
    st.tuples(st.just("make_dir"), WHO, PATHS),
    st.tuples(st.just("list_dir"), WHO, PATHS),
)  # fmt: skip

WITH_FD = frozenset(
    ("close", "read", "append", "overwrite", "truncate", "fsync", "status", "is_named")
    + ("try_lock", "unlock")
)


class Side:
    """One of the two systems: two processes, and the descriptors that they have opened."""

    def __init__(self, root: str, processes: list[Fs]) -> None:
        self.root = root
        self.processes = processes
        self.fds: list[list[int]] = [[], []]

    def do(self, name: str, who: int, *args: Any) -> object:
        """The answer, or the errno. Descriptors are told by their order of opening."""
        fs, fds = self.processes[who], self.fds[who]
        words = list(args)
        if name in WITH_FD:
            if words[0] >= len(fds):
                return "no such descriptor"
            words[0] = fds[words[0]]
        words = [f"{self.root}/{w}" if isinstance(w, str) else w for w in words]
        method: Callable[..., object] = getattr(fs, name)
        try:
            result = method(*words)
        except OSError as error:
            return f"errno {error.errno}"
        if name == "open":
            assert isinstance(result, int)
            fds.append(result)
            return "opened"
        if name == "close":
            fds.remove(words[0])
        if name == "status":
            return getattr(result, "size"), oct(getattr(result, "mode"))
        return result


def real_files(root: Path) -> dict[str, Content]:
    found: dict[str, Content] = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = Symlink(os.readlink(path))
        else:
            found[name] = DIRECTORY if path.is_dir() else path.read_bytes()
    return found


@settings(max_examples=250, deadline=None)
@given(st.lists(CALLS, max_size=30))
def test_the_simulator_answers_as_linux_does(calls: list[tuple[Any, ...]]) -> None:
    """F1: same results, same errors, same files."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "sub").mkdir(mode=0o700)
        (root / "a").write_bytes(b"first")
        (root / "a").chmod(0o600)
        (root / "link").symlink_to("sub")
        (root / "loop").symlink_to("loop")
        world = Machine(
            image_of(
                {
                    "d/sub": DIRECTORY,
                    "d/a": b"first",
                    "d/link": Symlink("sub"),
                    "d/loop": Symlink("loop"),
                }
            )
        )
        real_processes = [OsFs(), OsFs()]
        real = Side(directory, list(real_processes))
        simulated = Side("/d", [SimFs(world), SimFs(world)])
        try:
            for call in calls:
                assert simulated.do(*call) == real.do(*call), call
            image = cached_image(world.disk)
            seen = dict(zip(image.paths, image.contents, strict=True))
            assert {path[2:]: c for path, c in seen.items() if path != "d"} == real_files(root)
        finally:
            for fs in real_processes:
                fs.close_all()
