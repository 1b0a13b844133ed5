"""A pytest plugin for continuous integration: a test that was skipped is a failure.

Loaded with `-p lychgate_tools.no_skips`; a skip hides what nobody looked at, so where everything
can be installed nothing may be left out.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for report in terminalreporter.stats.get("skipped", []):
        terminalreporter.write_line(f"SKIPPED, and nothing may be here: {report.nodeid}", red=True)
