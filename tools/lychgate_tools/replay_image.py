"""`lychgate replay REPORT --image DIGEST`: the failed image, put before the same adapter again.

The report holds every byte of it (`blackbox._evidence`). What the adapter lists is compared with
what it listed then; whether that is allowed, the case has said.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lychgate_conformance import Target, UsageError
from lychgate_conformance.blackbox._checker import Checker
from lychgate_conformance.blackbox._evidence import image_from, seen
from lychgate_conformance.blackbox._explain import image_lines
from lychgate_conformance.blackbox._reboot import can_reboot
from lychgate_tools.ui import ExitCode, UserError, print_json


def run(
    said: Any, digest: str, directory: str | None, load: Callable[[Any], Target], as_json: bool
) -> int:
    """0 when the adapter makes the same of it, 1 when it does not."""
    result = _result(said, digest)
    kept = result["image"]
    image = image_from(kept)
    if directory is not None:
        _write(image.write_to, Path(directory))
    checker = Checker(load(said), kept["frequency"], kept["boot"])
    try:
        now = seen(image, checker)
    finally:
        checker.end()
    same = now == kept["seen"]
    if as_json:
        print_json({"digest": kept["digest"], "case": result["id"], "seen": now, "same": same})
        return ExitCode.OK if same else ExitCode.SHORT
    print(f"{result['id']}  image {kept['digest']}")
    print("\n".join(f"  {line}" for line in image_lines(image)))
    print(f"then: {kept['seen']}\nnow:  {now}")
    if kept["boot"] and not can_reboot():
        print("the boot id stays: mounts are not allowed here")
    print("as in the report" if same else "not as in the report")
    return ExitCode.OK if same else ExitCode.SHORT


def _result(said: Any, digest: str) -> Any:
    """The one result whose image has this digest, or begins with it."""
    kept = [it for it in said["results"] if "image" in it]
    found = [it for it in kept if it["image"]["digest"].startswith(digest.lower())]
    if len(found) != 1:
        there = ", ".join(f"{it['image']['digest']} ({it['id']})" for it in kept) or "none"
        raise UsageError(f"{len(found)} images begin with {digest!r}; there are: {there}")
    return found[0]


def _write(put: Callable[[Path], None], directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise UsageError(f"{directory} is not empty")
        put(directory)
    except OSError as error:
        raise UserError(f"the image cannot be written: {error}", ExitCode.FAULT) from error
