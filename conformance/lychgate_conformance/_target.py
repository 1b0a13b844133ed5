"""The backend under test: from what the user named to something that can be opened.

`disk`, `nil`, `package.module:factory` (`factory` may be dotted: a class method), or a command that
speaks the adapter protocol. Level 0 runs on one host, level 1 on many processes that load the same
name or run the same command; a factory that no other process can import is still good for level 0.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lychgate_conformance import _claims
from lychgate_conformance._claims import Claims
from lychgate_conformance._host import Host, Hosts, LocalHost, Pool, ProcessHost
from lychgate_conformance._queue import open_request
from lychgate_conformance._resolve import Factory, resolve
from lychgate_conformance._session import Command
from lychgate_conformance._stdio import StdioHost, StdioPool
from lychgate_conformance._verdict import AdapterFault, BackendDied, Inconclusive, UsageError
from lychgate_conformance._wire import Json

_OPEN_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Target:
    """A backend that was opened once and has the contract's shape."""

    name: str
    """What reports and replay commands call it."""
    spec: str | None
    """What a process of its own loads it by; None when only this process can."""
    factory: Factory | None
    """Set when level 0 is to run in this process."""
    claims: Claims
    declared: bool
    """Whether it declares its claims; if not, it is judged by the plain contract."""
    type_name: str
    command: Command | None = None
    """The adapter's, where it is one; `spec` and `factory` are None then."""
    clock: bool = False
    """Whether a queue takes the time from the suite."""

    @property
    def words(self) -> tuple[str, ...]:
        """The end of a command line that names it."""
        return (self.name,) if self.command is None else ("--", *self.command.words)

    def new_host(self) -> Host:
        """Where level 0 runs."""
        if self.command is not None:
            return StdioHost(self.command)
        if self.factory is not None:
            return LocalHost(self.factory)
        assert self.spec is not None, "a target has a name to load it by, or a factory"
        return ProcessHost(self.spec)

    def new_pool(self) -> Hosts | None:
        """Where level 1 runs; None when no other process can load it."""
        if self.command is not None:
            return StdioPool(self.command)
        return None if self.spec is None else Pool(self.spec)


def load_command(
    command: Command, overrides: Mapping[str, object] | None = None, base: str | None = None
) -> Target:
    """The target for an adapter's command. AdapterFault when it cannot be tested at all."""
    name = shlex.join(command.words)
    host = StdioHost(command)
    try:
        about = _open_once(name, host, base)
    finally:
        host.end()
    try:
        declared = _claims.merge(_claims.STDIO, about["claims"])
    except UsageError as error:
        raise AdapterFault(f"{name} declares a claim that there is not: {error}") from error
    return Target(
        name=name,
        spec=None,
        factory=None,
        claims=_claims.merge(declared, overrides or {}),
        declared=bool(about["claims"]),
        type_name=about["type"],
        command=command,
        clock=about["clock"],
    )


def load_target(
    backend: str | Factory,
    overrides: Mapping[str, object] | None = None,
    in_process: bool = False,
    base: str | None = None,
) -> Target:
    """The target for a name or a factory. AdapterFault when it cannot be tested at all.

    `in_process`: level 0 runs in this process, even where another could load the backend.
    `base`: where to make the directory in which it is opened once.
    """
    factory = resolve(backend) if isinstance(backend, str) else backend
    spec = backend if isinstance(backend, str) else _importable(backend)
    name = spec or str(getattr(backend, "__qualname__", type(backend).__qualname__))
    local = in_process or spec is None
    host: Host = LocalHost(factory) if local or spec is None else ProcessHost(spec)
    try:
        about = _open_once(name, host, base)
    finally:
        host.end()
    if about["faults"]:
        raise AdapterFault(
            f"{name} gave a {about['type']} that is no backend: {about['faults'][0]}"
        )
    if about["strange_claims"]:
        raise AdapterFault(f"{name} declares claims that are no mapping: {about['strange_claims']}")
    family = {"disk": _claims.DISK, "nil": _claims.NIL}.get(about["family"], _claims.STORE)
    try:
        declared = _claims.merge(family, about["claims"] or {})
    except UsageError as error:
        raise AdapterFault(f"{name} declares a claim that there is not: {error}") from error
    return Target(
        name=name,
        spec=spec,
        factory=factory if local else None,
        claims=_claims.merge(declared, overrides or {}),
        declared=bool(about["claims"]) or about["family"] is not None,
        type_name=about["type"],
        clock=about["clock"],
    )


def _open_once(name: str, host: Host, base: str | None) -> Json:
    """Opens the backend in an empty directory and asks what it is.

    What the backend puts beside that directory goes with it.
    """
    with tempfile.TemporaryDirectory(prefix="lychgate-", dir=base) as world:
        store = Path(world, "store")
        store.mkdir()
        try:
            kind = _answer(name, host, {"do": "about"})
            _answer(name, host, _open_request(str(store), kind["profile"]))
            about = _answer(name, host, {"do": "describe", "handle": 1})
            _answer(name, host, {"do": "reset"})
        except (BackendDied, Inconclusive) as error:
            raise AdapterFault(f"{name} cannot be opened: {error}") from error
    return {**about, **kind}


def _open_request(path: str, profile: str) -> Json:
    if profile == "delivery":
        return open_request(path, 1, None, {})
    usual = {"prefix": "deferred-", "fsync_frequency": 0.5}
    return {"do": "open", "handle": 1, "path": path, **usual}


def _answer(name: str, host: Host, request: Json) -> Json:
    """What a host answers to one of the first requests. AdapterFault when it is an error."""
    reply = host.ask(request, _OPEN_LIMIT_S)
    if "error" in reply:
        error = reply["error"]
        text = error["text"].splitlines()[0] if error["text"] else "no message"
        raise AdapterFault(f"{name} cannot be opened: {error['type']}: {text}", error["trace"])
    return reply["ok"]


def _importable(factory: Factory) -> str | None:
    """`module:qualname` when that leads back to this very object."""
    module, name = getattr(factory, "__module__", None), getattr(factory, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str)) or module == "__main__":
        return None
    spec = f"{module}:{name}"
    try:
        return spec if resolve(spec) is factory else None
    except AdapterFault:
        return None
