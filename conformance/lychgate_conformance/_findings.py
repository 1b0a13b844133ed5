"""Findings: what an adapter may do wrong, by name, and where docs/protocol.md speaks of it.

A finding is a fault of the adapter and never a verdict on its backend: the case in which it shows
is a harness error, and the run ends with exit code 3. An adapter that dies inside a call is no
finding: its backend has failed the case.
"""

from __future__ import annotations

from lychgate_conformance._verdict import AdapterFault

PAGE = "docs/protocol.md"

FINDINGS: dict[str, tuple[str, str]] = {
    "does-not-start": ("the command cannot be started, or ends before its greeting", "greeting"),
    "no-greeting": ("nothing that can be read as a greeting came in time", "greeting"),
    "wrong-protocol": ("the adapter speaks another version", "greeting"),
    "noise-on-stdout": ("a line of standard output is no message", "lines"),
    "not-utf-8": ("a line of standard output is not UTF-8", "lines"),
    "endless-line": ("a line of standard output has no end", "lines"),
    "not-by-schema": ("a message lacks a field, or has one of another kind", "messages"),
    "out-of-order": ("a reply has the id of another request", "lines"),
    "unrequested": ("a reply came that nobody had asked for", "lines"),
    "error-class": ("an error says of its code what the table does not", "errors"),
    "lies-about-error": ("an error says that nothing happened, and something did", "errors"),
    "hangs": ("no reply in time", "lines"),
    "dies": ("the process ended inside a call", "the-end-of-a-process"),
    "does-not-end": ("the process goes on after the end of its input", "the-end-of-a-process"),
    "leaves-children": ("processes are left when the adapter has ended", "the-end-of-a-process"),
    "fills-disk": ("the store takes more room than the limit", "files"),
    "path-outside": ("a path that was returned leads out of the store's directory", "files"),
}
"""Name: what it means, and the heading of the page."""


class Finding(AdapterFault):
    """One finding, with the line of the adapter's output where there is one."""

    def __init__(self, name: str, what: str, line: int = 0, trace: str = "") -> None:
        where = f"line {line} of its output: " if line else ""
        super().__init__(f"[{name}] {where}{what} ({PAGE}#{FINDINGS[name][1]})", trace)
        self.name = name
        self.line = line
