"""Mutants in other languages: the example adapters with one planted fault, over stdio.

The adapters stay as they are, to be read and copied. A mutant is a patch of the source, made when
it is run; a patch that does not fit any more is an error. By hand, with nothing left behind:

    lychgate conform -- python -m lychgate_conformance.mutants.foreign c-no-fsync
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lychgate_conformance._session import Command
from lychgate_conformance.adapters import HOME

LANGUAGES = ("c", "node", "ruby")
_SOURCES = {"c": "c_adapter.c", "node": "node_adapter.mjs", "ruby": "ruby_adapter.rb"}
_PROGRAMS = {"c": "cc", "node": "node", "ruby": "ruby"}


@dataclass(frozen=True, slots=True)
class ForeignMutant:
    """An adapter with one fault."""

    name: str
    fault: str
    kills: tuple[str, ...]
    """The cases that must fail on it."""
    patch: tuple[tuple[str, str], ...]
    """What stands in the source exactly once, and what stands there instead."""

    @property
    def language(self) -> str:
        return self.name.partition("-")[0]

    def source(self) -> str:
        """The patched text."""
        return patched(self.language, self.patch)

    def command(self, place: Path) -> Command:
        """The mutant, written or compiled into a directory."""
        return build(self.language, self.source(), place)


def installed(language: str) -> bool:
    """Whether this machine can run it."""
    return shutil.which(_PROGRAMS[language]) is not None


def patched(language: str, patch: tuple[tuple[str, str], ...]) -> str:
    """An adapter's source with changes."""
    text = (HOME / _SOURCES[language]).read_text(encoding="utf-8")
    for old, new in patch:
        assert text.count(old) == 1, f"{_SOURCES[language]} does not hold {old!r} once"
        text = text.replace(old, new)
    return text


def build(language: str, source: str, place: Path) -> Command:
    """The command of an adapter whose source is given."""
    program = shutil.which(_PROGRAMS[language])
    assert program is not None, f"{language} is not installed"
    file = place / _SOURCES[language]
    file.write_text(source, encoding="utf-8")
    if language != "c":
        return Command((program, str(file)))
    binary = place / "adapter"
    subprocess.run([program, "-O1", "-w", "-o", str(binary), str(file)], check=True)
    return Command((str(binary),))


FOREIGN = (
    ForeignMutant(
        "c-no-fsync",
        "In C: answers before the line is durable.",
        ("L3-DLQ-001", "L3-WAL-001"),
        (("int well = at == line.size && !fsync(s->fd);", "int well = at == line.size;"),),
    ),
    ForeignMutant(
        "c-no-directory-fsync",
        "In C: the name of a new log is not made durable.",
        ("L3-INIT-001",),
        (("if (fd < 0 || !sync_directory(path)) return 0;", "if (fd < 0) return 0;"),),
    ),
    ForeignMutant(
        "c-no-lock",
        "In C: writes without the lock.",
        ("L1-RACE-001", "L5-ADD-001"),
        (("int well = !flock(s->fd, LOCK_EX) && catch_up(s)", "int well = catch_up(s)"),),
    ),
    ForeignMutant(
        "c-unlocks-early",
        "In C: lets go of the lock between what it has read and what it writes.",
        ("L5-ADD-001", "L5-REM-002", "L5-TWICE-001"),
        (
            (
                "catch_up(s) && call(s, verb, request, out);",
                "catch_up(s) && !flock(s->fd, LOCK_UN) && call(s, verb, request, out);",
            ),
        ),
    ),
    ForeignMutant(
        "node-claims-many",
        "In JavaScript: claims several processes and has no lock.",
        ("L5-ADD-001", "L5-ADD-002"),
        (("  multi_process: false,\n", "  multi_process: true,\n"),),
    ),
    ForeignMutant(
        "node-no-fsync",
        "In JavaScript: answers before the line is durable.",
        ("L3-DLQ-001", "L3-HANDOFF-001"),
        (("    fs.fsyncSync(this.fd);\n", ""),),
    ),
    ForeignMutant(
        "node-no-tail-repair",
        "In JavaScript: writes behind what a crash left of a line.",
        ("L2-CUT-001",),
        (("    if (whole < bytes.length) fs.ftruncateSync(this.fd, this.seen + whole);\n", ""),),
    ),
    ForeignMutant(
        "node-oldest-found",
        "In JavaScript: finds the oldest of several dead tasks of one id.",
        ("L0-DEAD-013",),
        (("this.dead.findLast(", "this.dead.find("),),
    ),
    ForeignMutant(
        "ruby-no-checksum",
        "In Ruby: believes every line that ends in a newline.",
        ("L3-DLQ-003",),
        (('next unless line.start_with?(format("%08x ", Zlib.crc32(change)))', ""),),
    ),
    ForeignMutant(
        "ruby-no-lock",
        "In Ruby: writes without the lock.",
        ("L1-RACE-001", "L5-REM-002"),
        (("    @file.flock(File::LOCK_EX)\n", ""),),
    ),
    ForeignMutant(
        "ruby-keeps-removed",
        "In Ruby: a removal is written down and nobody reads it.",
        ("L0-REM-001", "L1-OPEN-003"),
        (('when "remove" then @tasks.delete(subject)', 'when "remove" then nil'),),
    ),
)


def main(name: str) -> int:
    """Become the mutant. Scripts are given on the command line, the program in C by descriptor."""
    mutant = next(it for it in FOREIGN if it.name == name)
    program = shutil.which(_PROGRAMS[mutant.language])
    if program is None:
        print(f"{mutant.language} is not installed", file=sys.stderr)
        return 3
    if mutant.language == "node":
        os.execv(program, [program, "--input-type=module", "-e", mutant.source()])
    if mutant.language == "ruby":
        os.execv(program, [program, "-e", mutant.source()])
    with tempfile.TemporaryDirectory() as place:
        binary = mutant.command(Path(place)).words[0]
        fd = os.open(binary, os.O_RDONLY)
    os.set_inheritable(fd, True)
    os.execv(f"/proc/self/fd/{fd}", [name])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
