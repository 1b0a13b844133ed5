"""The specs that a trace may be of, by the module that its header names."""

from __future__ import annotations

from lychgate_tools.trace.dead_kind import DEAD
from lychgate_tools.trace.delivery_kind import DELIVERY
from lychgate_tools.trace.format import Trace
from lychgate_tools.trace.kind import Kind
from lychgate_tools.trace.wal_kind import WAL
from lychgate_tools.ui import ExitCode, UserError, unknown

KINDS: dict[str, Kind] = {kind.module: kind for kind in (DEAD, DELIVERY, WAL)}


def kind_of(trace: Trace) -> Kind:
    found = KINDS.get(trace.module)
    if found is None:
        error = unknown("module to check traces of", trace.module, KINDS)
        raise UserError(f"{trace.name}: {error.message}", ExitCode.USAGE)
    return found
