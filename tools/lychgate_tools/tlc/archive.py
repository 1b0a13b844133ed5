"""A class-data archive of TLC: Java maps it in place of loading some 900 classes, which is a sixth
of the time of a small model.

It is made once, in the user's cache, for one jar and one Java, and is never needed: where it cannot
be made or used (a Java before 13 or without the feature, a cache that cannot be written, a jar that
changed), TLC starts as it does without. Why it can do no harm:

  * its name holds what the jar and the Java are, by their paths, sizes and times;
  * its name holds its own SHA-256, so a damaged file is not used, and is made again;
  * it gets its name only after TLC has answered rightly with it, and by a rename, so several
    commands may make one at once;
  * Java itself refuses one of another Java or jar, and goes on (-Xshare:auto).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lychgate_tools.tlc.java import run

SPEC = r"""---- MODULE Archive ----
EXTENDS Naturals, Sequences, FiniteSets, TLC
CONSTANT Workers
VARIABLES log, one
vars == <<log, one>>
Init == log = << >> /\ one = [w \in Workers |-> [at |-> 0, had |-> {}]]
Take(w) ==
  /\ one[w].at < 2
  /\ one' = [one EXCEPT ![w].at = @ + 1, ![w].had = @ \cup {one[w].at}]
  /\ log' = Append(log, w)
Done == (\A w \in Workers : one[w].at = 2) /\ UNCHANGED vars
Next == (\E w \in Workers : Take(w)) \/ Done
Spec == Init /\ [][Next]_vars /\ \A w \in Workers : WF_vars(Take(w)) /\ SF_vars(Take(w))
Fits == \A w \in Workers : Cardinality(one[w].had) <= Len(log) /\ one[w].at \in 0..2
Grows == [][Len(log') >= Len(log)]_vars
Ends == \A w \in Workers : one[w].at = 0 ~> one[w].at = 2
====
"""
CONFIG = "SPECIFICATION Spec\nCONSTANT Workers = {u, v}\nINVARIANT Fits\nPROPERTIES Grows Ends\n"
_ANSWER = b"Model checking completed. No error has been found."
_TIMEOUT_S = 60


def flags(archive: Path | None) -> list[str]:
    """What to tell Java, which would complain of an archive on TLC's standard output."""
    if archive is None:
        return []
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:disable"]


def find(jar: Path, java: Path, cache: Path, env: Mapping[str, str]) -> Path | None:
    """The archive for this jar and this Java, made if need be; None where there can be none.
    `env` is what Java runs with."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        key = _key(jar, java)
        for known in sorted(cache.glob(f"tlc-{key}-*.jsa")):
            if known.stem.endswith(_digest(known)):
                return known
            known.unlink(missing_ok=True)
        none = cache / f"tlc-{key}-none"  # says that it was tried here
        if none.exists() or os.pathsep in str(cache):  # Java would take that for two archives
            return None
        staging = Path(tempfile.mkdtemp(prefix="fetch-", dir=cache))
    except OSError:
        return None
    try:
        made = staging / "tlc.jsa"
        making = [f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable"]
        for options in (making, flags(made)):
            if not _answers([str(java), *options], jar, staging, env) or not made.is_file():
                none.touch()
                return None
        named = cache / f"tlc-{key}-{_digest(made)}.jsa"
        os.replace(made, named)
        return named
    except (OSError, subprocess.TimeoutExpired):
        return None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _key(jar: Path, java: Path) -> str:
    parts: list[object] = []
    for path in (jar.resolve(), java.resolve()):
        facts = path.stat()
        parts += [path, facts.st_size, facts.st_mtime_ns]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _answers(java: list[str], jar: Path, staging: Path, env: Mapping[str, str]) -> bool:
    """Whether TLC, run by this Java with its options, finds what there is to find in SPEC."""
    private = Path(tempfile.mkdtemp(dir=staging))
    (private / "Archive.tla").write_text(SPEC, encoding="utf-8")
    (private / "Archive.cfg").write_text(CONFIG, encoding="utf-8")
    options = [*java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    tlc = ["tlc2.TLC", "-tool", "-coverage", "1", "-fp", "0", "-workers", "1", "Archive.tla"]
    done = run(options, jar, private, tlc, env, _TIMEOUT_S)
    return done.returncode == 0 and _ANSWER in done.stdout
