"""`python -m lychgate_conformance._child SPEC`: a process that holds backend objects for the suite.

Requests come as JSON lines on standard input, replies go as JSON lines to what was standard output
at the start. After that descriptor 1 is standard error, so that whatever a backend prints cannot
be taken for a reply. The process ends, without closing anything, when its input ends; `exit` makes
it end by the ordinary way of an interpreter.
"""

from __future__ import annotations

import os
import sys

from lychgate_conformance._resolve import resolve
from lychgate_conformance._server import Server, describe
from lychgate_conformance._verdict import AdapterFault
from lychgate_conformance._wire import dump_line, load_line


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def main(spec: str) -> int:
    """Serve until the input ends."""
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        factory = resolve(spec)
    except AdapterFault as error:
        _write_all(out, dump_line({"n": 0, "error": {**describe(error), "trace": error.trace}}))
        return 3
    server = Server(factory, private_fds=(out,))
    _write_all(out, dump_line({"n": 0, "ok": {"pid": os.getpid()}}))
    with os.fdopen(os.dup(0), "rb") as requests:
        for line in requests:
            request = load_line(line)
            if request["do"] == "exit":
                return 0
            _write_all(out, dump_line(server.answer(request)))
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
