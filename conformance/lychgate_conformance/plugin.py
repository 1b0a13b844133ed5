"""The pytest plugin: `pytest --lychgate-backend=disk` runs the suite as tests of that run.

Rules
  * Loading it imports the standard library only, and without its option it does nothing: no
    backend is imported before coverage has started.
  * Every case is a test `lychgate::L0-ADD-001`, whatever files there are; choose with `-k`.
  * Level 0 runs in the test process, so that coverage and debuggers see the backend; level 1 runs
    processes, for which the backend must be importable.
  * The fixture `lychgate_backend` gives the backend: the option's value, or, overridden in the
    conftest.py of the root directory, a name or a factory.
"""

from __future__ import annotations

from typing import Any

OPTION = "--lychgate-backend"


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("lychgate", "conformance of a deferred-task backend")
    group.addoption(
        OPTION,
        metavar="BACKEND",
        default=None,
        help="run the lychgate conformance cases on disk, nil or package.module:factory",
    )
    group.addoption(
        "--lychgate-level", type=int, action="append", default=[], help="only cases of this level"
    )
    group.addoption(
        "--lychgate-profile",
        choices=["tasks", "delivery"],
        default="tasks",
        help="the backend is a task store or a delivery queue (default: tasks)",
    )
    group.addoption(
        "--lychgate-seed", type=int, default=0, help="for everything random in the cases"
    )


def pytest_configure(config: Any) -> None:
    """With the option, the rest of the plugin comes in."""
    if config.getoption(OPTION) is not None:
        from lychgate_conformance import _pytest_items

        config.pluginmanager.register(_pytest_items, "lychgate-fixture")
        config.pluginmanager.register(_pytest_items.Items(), "lychgate-items")
