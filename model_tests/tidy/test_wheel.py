"""The wheel: what it puts into site-packages, and that it works away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", "-w", str(place), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = place.glob("*.whl")
    return built


def test_three_packages_and_nothing_else(wheel: Path) -> None:
    """Generic names must not reach anybody's site-packages; the spec goes along."""
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    packages = {"lychgate", "lychgate_conformance", "lychgate_tools"}
    assert {top for top in tops if not top.endswith(".dist-info")} == packages
    assert {f"{package}/py.typed" for package in packages} <= set(names)
    shipped = {name for name in names if name.startswith("lychgate_tools/_spec/")}
    suite = {name for name in names if name.startswith("lychgate_conformance/")}
    assert {it.rpartition(".")[2] for it in suite} >= {"py", "json", "c", "mjs", "rb"}
    spec = {
        str(path.relative_to(ROOT / "spec"))
        for pattern in ("*.tla", "*.toml", "models/*.cfg")
        for path in (ROOT / "spec").glob(pattern)
    }
    assert {name.removeprefix("lychgate_tools/_spec/") for name in shipped} >= spec


def test_the_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    """The packaged spec is found, and the engine keeps a task."""
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    script = (
        "import lychgate, lychgate_tools.cli, sys\n"
        "assert lychgate.__file__.startswith(sys.argv[1]), lychgate.__file__\n"
        "disk = lychgate.Disk(path='storage')\n"
        "disk.add_task({'a': 1})\n"
        "assert [task for _, task, _ in disk.pending_tasks()] == [{'a': 1}]\n"
        "disk.close()\n"
        "sys.exit(lychgate_tools.cli.main(['check', '--list']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", script, str(site)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(site), "PATH": os.environ["PATH"]},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Lock" in done.stdout
