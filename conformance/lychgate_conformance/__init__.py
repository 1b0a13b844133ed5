"""The conformance suite: which promises does a backend keep?

A backend is judged through the seven calls of its facade and by what it claims (`Claims`). A case
is one promise, tried: it has an id that never changes, a level, the requirements that it cites and
a mutant backend that it is shown to fail on. The parts, in the order in which they use each other:

    _verdict, _claims, _wire    words: verdicts, claims, values on a wire
    _server, _child, _host      where backend objects live: in this process or in one of our own
    _schema, _session, _stdio   … or behind an adapter in any language: docs/protocol.md
    _store, _stage              what a case holds in its hands
    _oracle                     what acknowledged and unfinished calls allow to be seen
    _after_crash                what a crash leaves possible of that
    _queue, _queue_oracle       both for the other profile, the leased delivery queue
    _case, cases/               the promises
    _target, _runner, _report   one run, and what is said about it
    _html, _junit, _verify      the report for other readers, and whether it agrees with itself
    _smoke, adapters/           an adapter's own faults; examples of adapters
    plugin, _pytest_items       the same run under pytest
    _control, mutants/          the suite's own proof: a backend that is right, others that are not

Imports are lazy, because the pytest plugin lives here: importing this package must not import
anybody's backend before coverage has started.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lychgate_conformance._case import Case, all_cases
    from lychgate_conformance._claims import Claims
    from lychgate_conformance._report import Report
    from lychgate_conformance._runner import Options, run
    from lychgate_conformance._target import Target, load_target
    from lychgate_conformance._verdict import AdapterFault, UsageError, Verdict

__all__ = [
    "AdapterFault",
    "Case",
    "Claims",
    "Options",
    "Report",
    "Target",
    "UsageError",
    "Verdict",
    "all_cases",
    "load_target",
    "run",
]

_HOME = {
    "AdapterFault": "_verdict",
    "Case": "_case",
    "Claims": "_claims",
    "Options": "_runner",
    "Report": "_report",
    "Target": "_target",
    "UsageError": "_verdict",
    "Verdict": "_verdict",
    "all_cases": "_case",
    "load_target": "_target",
    "run": "_runner",
}


def __getattr__(name: str) -> object:
    """The public name, from its module, on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value
