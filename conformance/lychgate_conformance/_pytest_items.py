"""The cases as pytest items; loaded only when the plugin's option is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lychgate_conformance import _case, _report, _runner
from lychgate_conformance._resolve import Factory
from lychgate_conformance._target import load_target
from lychgate_conformance._verdict import AdapterFault, UsageError, Verdict

_NODE = "lychgate"


@pytest.fixture(scope="session")
def lychgate_backend(pytestconfig: pytest.Config) -> str | Factory:
    """The backend under test. Override it to give a factory of your own."""
    backend: str = pytestconfig.getoption("--lychgate-backend")
    return backend


class Items:
    """Adds one item per case; holds the runner that they share."""

    def __init__(self) -> None:
        self._runners: dict[object, _runner.Runner] = {}

    @pytest.hookimpl(tryfirst=True)  # before anybody selects by keyword
    def pytest_collection_modifyitems(
        self, session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        parent = CaseCollector.from_parent(session, name=_NODE, nodeid=_NODE)
        options = _runner.Options(
            levels=tuple(config.getoption("--lychgate-level")),
            profile=config.getoption("--lychgate-profile"),
            seed=config.getoption("--lychgate-seed"),
        )
        try:
            cases = _runner.select(options)
        except UsageError as error:
            raise pytest.UsageError(str(error)) from error
        for case in cases:
            call = self._test_of(case, options)
            item = pytest.Function.from_parent(parent, name=case.id, callobj=call)
            items.append(item)

    def _test_of(self, case: _case.Case, options: _runner.Options) -> Callable[[object], None]:
        def conformance_case(lychgate_backend: object) -> None:
            verdict(self._runner_for(lychgate_backend, options).run_case(case))

        conformance_case.__doc__ = case.title
        return conformance_case

    def _runner_for(self, backend: object, options: _runner.Options) -> _runner.Runner:
        if not isinstance(backend, str) and not callable(backend):
            pytest.fail(f"lychgate_backend gave {backend!r}: neither a name nor a factory", False)
        if backend not in self._runners:
            try:
                target = load_target(backend, in_process=True)
            except (AdapterFault, UsageError) as error:
                pytest.exit(f"lychgate: {error}", returncode=3)
            self._runners[backend] = _runner.Runner(target, options)
        return self._runners[backend]

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        for runner in self._runners.values():
            runner.end()


class CaseCollector(pytest.Collector):
    """The parent of the items; it has no file."""

    obj = None

    def collect(self) -> Iterator[pytest.Item]:
        return iter(())


def verdict(result: _report.Result) -> None:
    """A verdict in pytest's words: what was not tried is skipped, never passed."""
    if result.verdict is Verdict.PASS:
        return
    text = f"{result.verdict.value}: {result.message}"
    if result.verdict in (Verdict.NOT_CLAIMED, Verdict.NOT_MEASURED):
        pytest.skip(text)
    pytest.fail(f"{text}\n{result.case.id}  {result.case.title}\n{_report.replay(result)}", False)
