"""What a host crash may leave of a state of `FileSystem.tla`, and whether that keeps every promise.

The outcomes are those of `FsHostCrashes`: a directory of `fs.dirs`, and one image per inode that it
names. Where a module keeps what callers may rely on (`known`), an outcome is judged by
AcknowledgedSurvives and AbsentStaysAbsent; elsewhere it is not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from typing import Any

from lychgate_tools.page import pieces as shown
from lychgate_tools.page.disk import KEPT, label_of
from lychgate_tools.page.document import Crash, Outcome, Pieces
from lychgate_tools.tlc.values import Fn, render

_OUTCOMES_MAX = 300


def numbered(function: Any) -> dict[int, Any]:
    """A function over 1..n, which TLC prints as a sequence."""
    return dict(enumerate(function, start=1)) if isinstance(function, tuple) else dict(function)


def entries(directory: Any) -> list[tuple[str, int]]:
    """Names that lead to an inode, with its number; where the spec numbers files, `file 1`."""
    named = numbered(directory).items()
    return sorted((f"file {n}" if isinstance(n, int) else str(n), i) for n, i in named if i)


def ordered(values: Any) -> list[Any]:
    """The members of a set, in one order."""
    return sorted(values, key=render)


def crash(
    fs: Any, values: Mapping[str, Any], taken: Any, recovers: bool
) -> Crash | None:
    """What a host crash may leave of `fs`; `taken` is what it left in this trace. `recovers`: a
    reader believes a complete journal (Journal.tla)."""
    found: dict[Any, Outcome] = {}
    count = 0
    inodes = numbered(fs["ino"])
    now = _files(fs["dir"], {number: inode["mem"] for number, inode in inodes.items()})
    for directory, contents in islice(_left(fs), _OUTCOMES_MAX + 1):
        count += 1
        files = _files(directory, contents)
        holds, text = _judged(values, directory, contents, recovers)
        chosen = taken is not None and _is_taken(taken, directory, contents)
        key = (tuple((name, shown.shape(it)) for name, it in files), text)
        old = found.get(key)
        images, chosen = (1, chosen) if old is None else (old.images + 1, chosen or old.taken)
        found[key] = Outcome(label_of(now, files), files, holds, text, images, chosen)
    if taken is None and (len(found) < 2 or all(it.holds is None for it in found.values())):
        return None
    partial = f"the first {_OUTCOMES_MAX}" if count > _OUTCOMES_MAX else ""
    listed = sorted(
        found.values(), key=lambda it: (not it.taken, it.holds is not False, it.label != KEPT)
    )
    return Crash(tuple(listed), count, taken is not None, partial)


def _left(fs: Any) -> Iterator[tuple[Any, dict[int, tuple[str, ...]]]]:
    """Directories, each with one content per inode that it names."""
    inodes = numbered(fs["ino"])
    for directory in ordered(fs["dirs"]):
        numbers = sorted({number for _, number in entries(directory)})
        images = [ordered({image[0] for image in inodes[it]["disk"]}) for it in numbers]
        for chosen in product(*images):
            yield directory, dict(zip(numbers, chosen, strict=True))


def _files(directory: Any, contents: Mapping[int, Any]) -> tuple[tuple[str, Pieces], ...]:
    """Names with what they lead to."""
    return tuple((name, shown.of_cells(contents[number])) for name, number in entries(directory))


def _is_taken(taken: Any, directory: Any, contents: dict[int, tuple[str, ...]]) -> bool:
    inodes = numbered(taken["ino"])
    return taken["dir"] == directory and all(
        inodes[number]["mem"] == cells for number, cells in contents.items()
    )


def _judged(
    values: Mapping[str, Any], directory: Any, contents: dict[int, Any], recovers: bool
) -> tuple[bool | None, str]:
    """AcknowledgedSurvives and AbsentStaysAbsent, of one outcome."""
    known, names = values.get("known"), dict(entries(directory))
    if not isinstance(known, Fn) or "live" not in values["fs"]["dir"]:
        return None, ""
    live = contents.get(names.get("live", 0), ())
    if recovers:
        journal = contents.get(names.get("tmp", 0), ())
        if journal and journal[-1].startswith("="):
            whole = "".join(sorted(shown.valid_records(journal[:-1])))
            if "".join(sorted(journal[-1][1:])) == whole:
                live = journal[:-1]
    there = shown.valid_records(live)
    lost = sorted(r for r in known if known[r] == "present" and r not in there)
    back = sorted(r for r in known if known[r] == "absent" and r in there)
    text = "; ".join(
        [f"{r} was acknowledged and is lost" for r in lost]
        + [f"{r} was promised to be absent and is there" for r in back]
    )
    return not text, text or "keeps every promise"
