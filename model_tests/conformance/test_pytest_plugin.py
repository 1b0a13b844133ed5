"""The pytest plugin: inert without its option, the same ids everywhere, one fixture to override."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OVERRIDE = """
import pytest
from lychgate_conformance._control import Control

@pytest.fixture(scope="session")
def lychgate_backend():
    return lambda **options: Control(**options)
"""


def run_pytest(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """pytest with this plugin and xdist and no other, in a directory of its own."""
    plugins = ["-p", "lychgate_conformance.plugin", "-p", "xdist.plugin", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", *plugins, *words],
        cwd=where,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "test_of_theirs.py").write_text("def test_theirs(): pass\n")
    return tmp_path


def test_loading_it_imports_the_standard_library_only() -> None:
    script = (
        "import sys; import lychgate_conformance.plugin;"
        "names = {name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names);"
        "print(sorted(name for name in names if not name.startswith('_')),"
        "sorted(name for name in sys.modules if name.startswith('lychgate')))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", script], env=env, capture_output=True, text=True
    )
    wanted = "['lychgate_conformance'] ['lychgate_conformance', 'lychgate_conformance.plugin']"
    assert done.stdout.strip() == wanted, done.stderr


def test_it_is_inert_without_its_option(project: Path) -> None:
    done = run_pytest(project, "-v")
    assert done.returncode == 0 and "1 passed" in done.stdout and "lychgate::" not in done.stdout


def test_cases_are_tests_with_ids_of_their_own(project: Path) -> None:
    done = run_pytest(project, "--lychgate-backend=disk", "--collect-only", "-q")
    listed = done.stdout.splitlines()
    assert "lychgate::L0-ADD-001" in listed and "lychgate::L1-KILL-001" in listed
    below = project / "below"
    below.mkdir()
    again = run_pytest(below, "--lychgate-backend=disk", "--collect-only", "-q").stdout.splitlines()
    assert [it for it in again if it.startswith("lychgate::")] == [
        it for it in listed if it.startswith("lychgate::")
    ]


def test_it_runs_in_parallel_beside_other_tests(project: Path) -> None:
    which = "L0-ADD or L1-KILL-001 or theirs"
    done = run_pytest(project, "--lychgate-backend=disk", "-k", which, "-n", "2")
    assert done.returncode == 0 and "11 passed" in done.stdout, done.stdout + done.stderr


def test_a_failure_shows_the_case_and_its_replay(project: Path) -> None:
    backend = "lychgate_conformance.mutants.tasks:FirstWins"
    done = run_pytest(
        project, f"--lychgate-backend={backend}", "--lychgate-level=0", "-k", "ADD-005"
    )
    assert done.returncode == 1
    assert "the same id again replaces payload and time" in done.stdout
    assert f"replay: lychgate conform {backend} --case L0-ADD-005 --seed 0" in done.stdout


def test_the_fixture_can_be_overridden(project: Path) -> None:
    """What was not tried is skipped with its reason, never passed."""
    (project / "conftest.py").write_text(OVERRIDE)
    which = "L0-ADD-001 or DMG-001 or L1-KILL-001"
    done = run_pytest(project, "--lychgate-backend=disk", "-k", which, "-rs")
    assert "1 passed, 2 skipped" in done.stdout
    assert "not claimed: disk_layout" in done.stdout and "NOT MEASURED" in done.stdout


@pytest.mark.parametrize(
    ("backend", "said"),
    [("dsik", "no backend named 'dsik'"), ("nowhere:x", "cannot load nowhere:x")],
)
def test_a_backend_that_does_not_load_ends_the_run(project: Path, backend: str, said: str) -> None:
    done = run_pytest(project, f"--lychgate-backend={backend}", "-k", "ADD-001")
    assert done.returncode == 3 and said in done.stdout and "Traceback" not in done.stdout
