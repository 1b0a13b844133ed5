"""Declaring tasks, and the stored form of a job (U6, U7, U9)."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lychgate._errors import ConfigError, Refused
from lychgate._queue_core import Limits
from lychgate._queue_errors import Unloadable
from lychgate._queue_job import (
    Job,
    as_read_back,
    begun,
    ended,
    found,
    from_json,
    given_back,
    to_json,
)
from lychgate._task import Registry, Task, current, registry, task

TEXT = st.text(max_size=8)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3)
    | st.tuples(inner, inner)
    | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
JOBS = st.builds(
    Job,
    task=TEXT,
    args=st.lists(VALUES, max_size=3).map(lambda args: tuple(as_read_back(arg) for arg in args)),
    kwargs=st.dictionaries(TEXT, VALUES.map(as_read_back), max_size=3),
    enqueued_at=st.floats(0, 1e10),
    attempts=st.integers(1, 99),
    crashes=st.integers(0, 9),
    running=st.booleans(),
    retry_of=st.none() | TEXT,
)
ANYTHING = VALUES | st.dictionaries(
    st.sampled_from([field.name for field in dataclasses.fields(Job)]), VALUES
)


# --- jobs -----------------------------------------------------------------------------------------


@given(JOBS)
def test_jobs_survive_json(job: Job) -> None:
    """U6, D30: what is stored is a JSON value that gives the same job."""
    assert from_json(json.loads(json.dumps(to_json(job)))) == job


@given(ANYTHING)
def test_any_value_is_a_job_or_unloadable(value: object) -> None:
    """U6: nothing else can come of a payload."""
    try:
        job = from_json(value)
    except Unloadable:
        return
    assert from_json(to_json(job)) == job


@given(VALUES)
def test_arguments_are_copied_as_json_reads_them(value: object) -> None:
    """U1."""
    assert as_read_back(value) == json.loads(json.dumps(value))


def test_arguments_that_json_would_change() -> None:
    """U1: keys that are no text would come back as text."""
    with pytest.raises(Refused, match="keys"):
        as_read_back([{1: 2}])


@given(JOBS)
def test_counts(job: Job) -> None:
    """U7: a run counts before it starts, a death counts at the next start, an end clears it."""
    idle = ended(job)
    run = begun(idle)
    assert (run.attempts, run.running) == (job.attempts + 1, True)
    assert (found(run).crashes, found(run).running) == (1, False)
    assert found(begun(found(run))).crashes == 2
    assert found(idle) == idle
    assert given_back(run) == idle
    assert ended(begun(found(run))).crashes == 0


# --- declarations ---------------------------------------------------------------------------------


def test_a_function_stays_a_function() -> None:
    """U9: with and without options."""
    tasks = Registry()

    @tasks.task
    def plain(number: int) -> int:
        return number + 1

    @tasks.task(name="other", max_retries=3)
    def named() -> str:
        return "x"

    assert plain(1) == 2 and named() == "x"
    assert tasks.declared(plain).name == f"{__name__}.{plain.__qualname__}"
    assert tasks.named("other") is tasks.declared(named)
    assert tasks.declared(named).policy.max_retries == 3


def test_a_class_with_its_policy() -> None:
    """U9, U2: attributes of the class are its policy; a base may be abstract and set it for all."""
    tasks = Registry()

    class Base(Task, abstract=True, registry=tasks):
        max_retries = 7

    class Work(Base, registry=tasks, name="work"):
        retry_in = {ValueError: None}

        def run(self, left: int, *, right: int = 2) -> int:
            return left * right

    spec = tasks.declared(Work)
    assert (spec.name, spec.policy.max_retries, dict(spec.policy.retry_in)) == (
        "work",
        7,
        {ValueError: None},
    )
    assert spec.call(4, right=3) == 12
    spec.check((4,), {"right": 3})
    with pytest.raises(TypeError):
        spec.check((), {})
    with pytest.raises(ConfigError):
        tasks.declared(Base)


def test_wrong_declarations() -> None:
    """U9: what could never run is refused where it is written."""
    tasks = Registry()
    with pytest.raises(ConfigError, match="generator"):

        @tasks.task
        def stream() -> object:
            yield 1

    with pytest.raises(ConfigError, match="may derive from Task"):
        tasks.task(Registry)
    for run in (None, staticmethod(len), 3):
        with pytest.raises(ConfigError, match="no method `run`"):
            type("Work", (Task,), {"run": run}, registry=tasks)


def test_two_tasks_of_one_name() -> None:
    """U6: a stored name must lead to one task; a module that is loaded again replaces its own."""
    tasks = Registry()

    def first() -> None: ...

    def second() -> None: ...

    tasks.task(name="work")(first)
    with pytest.raises(ConfigError, match="two tasks are named 'work'"):
        tasks.task(name="work")(second)
    again = dataclasses.replace(tasks.declared(first))
    tasks.task(name="work")(first)
    assert tasks.named("work") == again


def test_the_common_registry() -> None:
    """U9: `task` and `Task` declare in one registry."""

    @task(name="test_queue_task.common")
    def work() -> None: ...

    assert registry.named("test_queue_task.common") is registry.declared(work)
    assert current() is None


@pytest.mark.parametrize(
    "bounds",
    [
        {"concurrency": 0},
        {"high_water": 0},
        {"high_water": 5, "low_water": 5},
        {"low_water": -1},
        {"enqueue_timeout": -1.0},
        {"grace": float("nan")},
        {"crashes_max": 0},
    ],
    ids=repr,
)
def test_limits_that_make_no_sense(bounds: dict[str, float]) -> None:
    """U5, U7, U9."""
    with pytest.raises(ConfigError):
        Limits(**bounds)  # type: ignore[arg-type]  # wrong values on purpose
