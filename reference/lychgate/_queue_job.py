"""A job: what the queue stores of one task, as a JSON value, and how it changes.

    {"task": "shop.send", "args": ["a@b"], "kwargs": {}, "enqueued_at": 1764500000.0,
     "attempts": 1, "crashes": 0, "running": true, "retry_of": null}

Rules of this file
  * Plain functions of plain values. Every change gives a new job.
  * `attempts` counts runs that began: it is stored before the run (U7). `running` says that nobody
    has seen the end of the last one. A job found with it at start has lost a worker: `crashes`
    counts how often in a row, and a run that ends, however it ends, sets it back.
  * A task is given what a restart would read back: containers are copied, tuples become lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeGuard

from lychgate._errors import Refused
from lychgate._queue_errors import Unloadable
from lychgate._records import Undecodable


@dataclass(frozen=True, slots=True)
class Job:
    """One task as it is stored."""

    task: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    enqueued_at: float
    attempts: int = 0
    crashes: int = 0
    running: bool = False
    retry_of: str | None = None


def begun(job: Job) -> Job:
    """Before a run.

    post: __return__.attempts == job.attempts + 1 and __return__.running
    """
    return replace(job, attempts=job.attempts + 1, running=True)


def ended(job: Job) -> Job:
    """After a run whose end was seen.

    post: __return__.crashes == 0 and not __return__.running
    """
    return replace(job, crashes=0, running=False)


def given_back(job: Job) -> Job:
    """After a run that the queue itself cut short: it does not count.

    pre: job.running and job.attempts > 0
    post: begun(__return__) == job
    """
    assert job.running and job.attempts > 0, "only a run that began can be given back"
    return replace(job, attempts=job.attempts - 1, running=False)


def found(job: Job) -> Job:
    """As it was read at start: a run that was under way took its worker with it.

    post: __return__.crashes == job.crashes + job.running and not __return__.running
    """
    return replace(job, crashes=job.crashes + 1, running=False) if job.running else job


def again(job: Job, dead_id: str, now: float) -> Job:
    """A new job that does a dead one's work (U8)."""
    return Job(job.task, job.args, job.kwargs, now, retry_of=dead_id)


def to_json(job: Job) -> dict[str, object]:
    """The stored form."""
    return {
        "task": job.task,
        "args": list(job.args),
        "kwargs": dict(job.kwargs),
        "enqueued_at": job.enqueued_at,
        "attempts": job.attempts,
        "crashes": job.crashes,
        "running": job.running,
        "retry_of": job.retry_of,
    }


def from_json(value: object) -> Job:
    """The job behind a stored value, of any shape. Raises Unloadable (U6)."""
    if isinstance(value, Undecodable):
        raise Unloadable(f"the payload cannot be decoded: it is no valid {value.codec}")
    if not isinstance(value, dict):
        raise Unloadable(f"the payload is no job: {type(value).__name__} in place of an object")
    name, args, kwargs = value.get("task"), value.get("args"), value.get("kwargs")
    time, link = value.get("enqueued_at"), value.get("retry_of")
    attempts, crashes = value.get("attempts"), value.get("crashes")
    if not isinstance(name, str):
        raise Unloadable("the payload is no job: its task has no name")
    if not (isinstance(args, list) and isinstance(kwargs, dict)):
        raise Unloadable("the payload is no job: its arguments are no list and object")
    if not (_is_time(time) and _is_count(attempts) and _is_count(crashes)):
        raise Unloadable("the payload is no job: its time or counts are no numbers")
    if not (link is None or isinstance(link, str)):
        raise Unloadable("the payload is no job: retry_of is no id")
    running = value.get("running") is True
    if running and attempts == 0:
        raise Unloadable("the payload is no job: it runs and never began")
    return Job(name, tuple(args), kwargs, float(time), attempts, crashes, running, link)


def _is_time(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e300  # an integer of any length is valid JSON; a float of it is not


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def name_of(value: object) -> str:
    """The class name to show for a stored value of any shape."""
    name = value.get("task") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""


def attempts_of(value: object) -> int:
    """The count to show for a stored value of any shape."""
    attempts = value.get("attempts") if isinstance(value, dict) else None
    return attempts if _is_count(attempts) else 0


def as_read_back(value: object) -> object:
    """A copy that equals what a restart reads: lists for tuples. Raises Refused.

    Only containers are looked at. Whether the leaves can be stored is the codec's business.
    """
    try:
        return _copy(value)
    except RecursionError:
        raise Refused("the arguments are nested too deeply, or contain themselves") from None


def _copy(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_copy(item) for item in value]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise Refused(f"keys of stored objects are strings, not {type(key).__name__}")
        return {key: _copy(item) for key, item in value.items()}
    return value


def arguments(job: Job) -> tuple[list[object], dict[str, object]]:
    """A copy of a job's arguments: what a task does to them is not stored by its retry."""
    return (
        [as_read_back(value) for value in job.args],
        {key: as_read_back(value) for key, value in job.kwargs.items()},
    )
