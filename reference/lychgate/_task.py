"""Declaring tasks: functions and classes with their retry policy, and the registry of their names.

    @task(max_retries=5, retry_in={ConnectionError: 30.0, ValueError: None})
    def send(address: str) -> None: ...

    class Resize(Task):
        max_retries = 3
        def run(self, path: str, width: int) -> None: ...

Rules of this file
  * What is stored of a task is its name and its arguments. The name decides after a restart which
    code runs, so a renamed function needs `name="old.name"`, and one in a script, whose module is
    `__main__` there and nowhere else, needs a name too. Nothing is imported by a stored name.
  * A function stays the function that it was and can be called as ever.
  * A task may run more than once (at least once is the guarantee). `current()` gives the id under
    which it runs, which stays the same over all its retries.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, overload

from lychgate._errors import ConfigError
from lychgate._policy import RETRIES_MAX, Interval, RetryPolicy

F = TypeVar("F", bound=Callable[..., Any])

_NO_INTERVALS: Mapping[type[BaseException], Interval] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One declared task: its stored name, how to run it, and its policy."""

    name: str
    call: Callable[..., object]
    policy: RetryPolicy
    is_async: bool
    origin: tuple[str, str]
    signature: inspect.Signature

    def check(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> None:
        """Raise TypeError now when the task could never be called with these arguments."""
        self.signature.bind(*args, **kwargs)


@dataclass(frozen=True, slots=True)
class Current:
    """The run that is under way: `attempt` is 1 in the first one."""

    task_id: str
    attempt: int
    retry_of: str | None


_current: ContextVar[Current | None] = ContextVar("lychgate_current", default=None)


def current() -> Current | None:
    """The task run that this code is part of, None outside of one."""
    return _current.get()


@contextmanager
def running_as(run: Current) -> Iterator[None]:
    """Say what `current` gives while a task runs; for the queue."""
    token = _current.set(run)
    try:
        yield
    finally:
        _current.reset(token)


class Registry:
    """Tasks by stored name, and by the function or class that declares them."""

    def __init__(self) -> None:
        self._by_name: dict[str, TaskSpec] = {}
        self._by_target: dict[object, TaskSpec] = {}

    @overload
    def task(self, target: F, /) -> F: ...

    @overload
    def task(
        self,
        /,
        *,
        name: str | None = None,
        max_retries: int = RETRIES_MAX,
        retry_in: Mapping[type[BaseException], Interval] = _NO_INTERVALS,
    ) -> Callable[[F], F]: ...

    def task(
        self,
        target: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        max_retries: int = RETRIES_MAX,
        retry_in: Mapping[type[BaseException], Interval] = _NO_INTERVALS,
    ) -> Any:
        """Declare a function as a task, with or without options. The function is unchanged."""
        policy = RetryPolicy(max_retries, retry_in)

        def declare(function: F) -> F:
            if not inspect.isroutine(function):
                raise ConfigError(f"@task takes a function; {function!r} may derive from Task")
            self._add(function, function, name, policy, inspect.signature(function))
            return function

        return declare if target is None else declare(target)

    def add_class(self, cls: type[Task], name: str | None) -> None:
        """Declare a class; `Task` does it for every subclass."""
        if not inspect.isfunction(inspect.getattr_static(cls, "run", None)):
            raise ConfigError(f"{cls.__qualname__} has no method `run`; a base is abstract=True")
        _, *parameters = inspect.signature(cls.run).parameters.values()  # without self
        policy = RetryPolicy(cls.max_retries, cls.retry_in)
        self._add(cls, cls.run, name, policy, inspect.Signature(parameters))

    def _add(
        self,
        target: Callable[..., Any],
        code: Callable[..., Any],
        name: str | None,
        policy: RetryPolicy,
        signature: inspect.Signature,
    ) -> None:
        if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
            raise ConfigError(f"{target.__qualname__} is a generator: calling it would run nothing")
        origin = (target.__module__, target.__qualname__)
        stored = ".".join(origin) if name is None else name
        known = self._by_name.get(stored)
        if known is not None and known.origin != origin:
            raise ConfigError(
                f"two tasks are named {stored!r}: {'.'.join(known.origin)} and "
                f"{'.'.join(origin)}; give one of them another name"
            )
        call = _instantiate(target) if isinstance(target, type) else target
        is_async = inspect.iscoroutinefunction(code)
        spec = TaskSpec(stored, call, policy, is_async, origin, signature)
        self._by_name[stored] = self._by_target[target] = spec

    def named(self, name: str) -> TaskSpec | None:
        """The task of a stored name."""
        return self._by_name.get(name)

    def declared(self, target: object) -> TaskSpec:
        """The task that a function or class declares. Raises ConfigError."""
        try:
            return self._by_target[target]
        except (KeyError, TypeError):
            raise ConfigError(f"{target!r} is no task; decorate it with @task") from None


def _instantiate(cls: type[Task]) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        return cls().run(*args, **kwargs)

    return call


registry = Registry()
"""Where `@task` and `Task` declare, and where a `Queue` looks unless it is given another one."""

task = registry.task


class Task:
    """Base of tasks that are classes: one instance a run, made without arguments.

    `class Mine(Task, name="...", registry=...)` chooses the stored name and the registry;
    `abstract=True` makes a base class that is no task itself.
    """

    max_retries: ClassVar[int] = RETRIES_MAX
    retry_in: ClassVar[Mapping[type[BaseException], Interval]] = _NO_INTERVALS
    run: Callable[..., Any]

    def __init_subclass__(
        cls, *, name: str | None = None, registry: Registry = registry, abstract: bool = False
    ) -> None:
        super().__init_subclass__()
        if not abstract:
            registry.add_class(cls, name)
