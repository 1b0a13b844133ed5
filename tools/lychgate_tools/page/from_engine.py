"""A trace of the engine (`lychgate trace record`) as a document.

Such a trace says what could be seen: the contents under their names. What a crash would leave was
not recorded, so the disk lane is empty, and nothing is judged: `lychgate trace check` asks TLC.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from lychgate_tools.page.calls import call_of, kind_of
from lychgate_tools.page.document import Builder, Document, Lanes, Step
from lychgate_tools.page.pieces import names_of, of_cells
from lychgate_tools.page.sources import Sources
from lychgate_tools.spec_dir import locate
from lychgate_tools.trace.format import Event, Seen, Trace, read

_DIRECTORY = "directory"


def document(path: Path) -> Document:
    """The document of a trace file; `UserError` in one line when it is none."""
    trace = read(path)
    made = Builder(
        title=f"A trace of {trace.module}",
        verdict=f"{len(trace.events)} steps of the engine, recorded and not judged here.",
        holds=None,
        source="engine",
        name=path.name,
        about=trace.source,
        command=f"lychgate page {shlex.quote(path.name)}",
    )
    sources = Sources(locate().modules())
    made.object(_DIRECTORY, "directory", "directory")
    made.add(Step("Begin", "begin", says="what can be seen at first"), _lanes(made, trace.seen))
    for event in trace.events:
        made.add(_step(made, sources, trace, event), _lanes(made, event.seen))
    return made.document(sources.as_json())


def _step(made: Builder, sources: Sources, trace: Trace, event: Event) -> Step:
    who = ".".join(part for part in (event.worker, event.fiber) if part)
    if who:
        made.worker(who)
    kind = "return" if event.action == "Return" else kind_of(event.action)
    words = [str(it) for it in event.args.values() if it not in ("", None)]
    says = " ".join(words)
    if event.result is not None:
        says += f" = {event.result}"
    says += f" ({event.error})" if event.error else ""
    links = sources.links(event.action)
    return Step(event.action, kind, who, call_of(event.action), says.strip(), links=links)


def _lanes(made: Builder, seen: Seen) -> dict[str, Lanes]:
    """Contents under their names: which inode is behind one was not recorded."""
    there = {name: cells for name, cells in sorted(seen.items()) if cells is not None}
    for name in there:
        made.object(name, "file", name)
    found = {_DIRECTORY: Lanes((), names_of([(name, name) for name in there]), ())}
    return found | {name: Lanes((), of_cells(cells), ()) for name, cells in there.items()}
