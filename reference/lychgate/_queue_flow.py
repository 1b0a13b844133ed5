"""What happens to a task at the facade: the programs that both queues drive.

Rules of this file
  * A program awaits effects, a `Call` on the backend or the `Run` of a task (`_queue_drive.py`),
    and does nothing else that takes time.
  * The order of calls is the guarantee, at least once:
      enqueue      add_task, then memory                                   (U1)
      run          add_task (counted), the run, remove_task                (U7)
      retry        add_task under the same id                              (U2)
      give up      add_dead_task, then remove_task                         (U3)
      dead retry   add_task (fresh id), sync, then remove_dead_tasks       (U4, U8)
  * A backend that fails stops nothing. What the store still has is tried again now or at the next
    start; what was raised is logged and counted.
  * Nothing is awaited on the way out of a BaseException: GeneratorExit is how a crash looks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from lychgate._backend import (
    ClaimLost,
    add_dead_task,
    add_task,
    find_dead_task,
    list_dead_tasks,
    pending_tasks,
    remove_dead_tasks,
    remove_task,
    sync,
    tick,
)
from lychgate._policy import publish_time
from lychgate._queue_core import STORE_RETRY_S, Core, Item
from lychgate._queue_drive import Run
from lychgate._queue_errors import NotRetriable, Unloadable, WorkerDied
from lychgate._queue_job import (
    Job,
    again,
    arguments,
    attempts_of,
    ended,
    found,
    from_json,
    given_back,
    name_of,
    to_json,
)
from lychgate._records import DeadTask
from lychgate._task import TaskSpec

_log = logging.getLogger("lychgate.queue")

_RETRY_BATCH = 100
"""Dead tasks brought back between two syncs: one compaction of the dead-task store for so many."""


# --- enqueue ----------------------------------------------------------------------------------


def entry(
    core: Core,
    target: object,
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    delay: float | timedelta | None,
    delay_until: float | datetime | None,
) -> tuple[TaskSpec, Job, float | None]:
    """The task, its job and when it is due; refused here, before anything waits or is stored."""
    spec = core.registry.declared(target)
    spec.check(args, kwargs)
    now = core.clock.now()
    positional, named = arguments(Job(spec.name, args, kwargs, now))
    job = Job(spec.name, tuple(positional), named, now)
    return spec, job, publish_time(now, delay, delay_until)


async def enqueue(core: Core, spec: TaskSpec, job: Job, publish_at: float | None) -> str:
    """Store, then schedule (U1). The caller was admitted."""
    try:
        task_id = await add_task(to_json(job), publish_at)
    except BaseException:
        core.admitted()
        raise
    with core.lock:
        core.admitted()
        _keep(core, task_id, spec, job, publish_at)
    core.count("enqueued")
    return task_id


def _keep(core: Core, task_id: str, spec: TaskSpec, job: Job, publish_at: float | None) -> None:
    """Hold in memory what this worker owns; a claiming store keeps what is due later (Q4)."""
    if publish_at is None or not core.abilities.claims:
        core.schedule(task_id, spec, job, publish_at)


# --- one run ----------------------------------------------------------------------------------


async def attempt(core: Core, item: Item) -> None:
    """Count a run, run it, and store what came of it."""
    if not await _count(core, item):
        return
    error = await Run(item)
    if isinstance(error, KeyboardInterrupt):
        await give_back(core, item)
        core.forget(item)
        core.interrupt()
        return
    is_counted = core.conclude(item)
    if error is None:
        core.count("completed")
        await _remove(core, item.task_id)
        core.forget(item)
    elif is_counted:
        await _failed(core, item, error)
    else:
        core.forget(item)


async def _count(core: Core, item: Item) -> bool:
    """Store that a run begins, so that one which kills its worker is counted (U7)."""
    if core.abilities.claims:
        return True
    try:
        await add_task(to_json(item.job), item.publish_at, item.task_id)
        return True
    except ClaimLost:
        _lost(core, item.task_id)
        core.forget(item)
    except Exception:
        _log.exception("task %s was not run: its run could not be counted", item.task_id)
        core.count("store_errors")
        due = core.clock.now() + STORE_RETRY_S
        core.reschedule(item, given_back(item.job), item.publish_at, due)
    return False


async def _failed(core: Core, item: Item, error: BaseException) -> None:
    """Retry, or give up (U2)."""
    job = ended(item.job)
    delay = item.spec.policy.delay(job.attempts, error, core.clock.draw())
    core.count("failed")
    if delay is None:
        _log.error("task %s (%s) gave up", item.task_id, job.task, exc_info=error)
        await bury(core, item.task_id, to_json(job), error)
        core.forget(item)
        return
    text = "task %s (%s) failed, again in %.1f s"
    _log.warning(text, item.task_id, job.task, delay, exc_info=error)
    due = core.clock.now() + delay
    try:
        await add_task(to_json(job), due, item.task_id)
    except ClaimLost:
        _lost(core, item.task_id)
        core.forget(item)
        return
    except Exception:
        _log.exception("the retry of task %s could not be stored; memory has it", item.task_id)
        core.count("store_errors")
    else:
        core.count("retried")
        if core.abilities.claims:
            core.forget(item)  # the store gave it back, and some worker will claim it when due
            return
    core.reschedule(item, job, due, due)


async def bury(core: Core, task_id: str, context: object, error: BaseException) -> None:
    """Give up: dead first, then removed (U3). If the first fails, the next start has the task."""
    try:
        await add_dead_task(task_id, context, error, name_of(context), attempts_of(context))
    except ClaimLost:
        _lost(core, task_id)
        return
    except Exception:
        _log.exception("task %s could not be given up; the next start runs it again", task_id)
        core.count("left")
        return
    core.count("buried")
    await _remove(core, task_id)


async def _remove(core: Core, task_id: str) -> None:
    """Remove a task that is done or dead; what fails is tried again."""
    try:
        await remove_task(task_id)
    except ClaimLost:
        _lost(core, task_id)
    except Exception:
        _log.exception("task %s is done and could not be removed yet", task_id)
        core.count("store_errors")
        core.owe(task_id)


async def give_back(core: Core, item: Item) -> None:
    """Take back the count of a run that the queue cuts short: a deployment is no crash (U7)."""
    if not core.release(item):
        return
    core.count("released")
    try:
        await add_task(to_json(given_back(item.job)), item.publish_at, item.task_id)
    except ClaimLost:
        _lost(core, item.task_id)
    except Exception:
        _log.exception("the run of task %s could not be taken back", item.task_id)
        core.count("store_errors")


def _lost(core: Core, task_id: str) -> None:
    _log.warning("task %s belongs to another worker by now", task_id)
    core.count("claims_lost")


# --- start, turns of the run loop, stop -------------------------------------------------------


async def load(core: Core) -> None:
    """Take in what the store has. A store that cannot be read at start stops the start."""
    await _take_in(core)
    core.loaded = True


async def _take_in(core: Core) -> None:
    pending = await pending_tasks()
    for task_id, value, publish_at in pending:
        if not core.knows(task_id):
            await _revive(core, task_id, value, publish_at)
    if core.abilities.claims:
        core.claim_at = core.clock.now() + (0.0 if pending else core.abilities.claim_interval)


async def _revive(core: Core, task_id: str, value: object, publish_at: float | None) -> None:
    """Schedule a stored task, or bury one that cannot be loaded or kills its workers (U6, U7)."""
    try:
        spec, job = _loaded(core, value)
    except Unloadable as error:
        _log.error("task %s cannot be loaded: %s", task_id, error)
        core.count("unloadable")
        await bury(core, task_id, value, error)
        return
    if job.crashes >= core.limits.crashes_max:
        died = WorkerDied(f"{job.crashes} workers in a row died while they ran this task")
        _log.error("task %s (%s): %s", task_id, job.task, died)
        await bury(core, task_id, to_json(job), died)
        return
    core.schedule(task_id, spec, job, publish_at)


def _loaded(core: Core, value: object) -> tuple[TaskSpec, Job]:
    job = found(from_json(value))
    spec = core.registry.named(job.task)
    if spec is None:
        raise Unloadable(f"no task is named {job.task!r}: import the module that declares it")
    return spec, job


async def turn(core: Core) -> None:
    """What the run loop does between two waits: removals owed, tick, claim (D1)."""
    now = core.clock.now()
    if core.owed and now >= core.owed_at:
        await _pay(core)
    if core.tick_at is not None and now >= core.tick_at:
        await _tick(core)
    if core.hungry():
        try:
            await _take_in(core)
        except Exception:
            _log.exception("no tasks could be claimed; trying again")
            core.count("store_errors")
            core.claim_at = core.clock.now() + core.abilities.claim_interval


async def _pay(core: Core) -> None:
    for task_id in list(core.owed):
        core.paid(task_id)
        await _remove(core, task_id)
        if task_id in core.owed:
            return  # the store still fails: later


async def _tick(core: Core) -> None:
    changes = core.changes
    try:
        due = await tick(core.clock.now())
    except Exception:
        _log.exception("the backend's tick failed; trying again")
        core.count("store_errors")
        due = core.clock.now() + STORE_RETRY_S
    core.ticked(changes, due)


async def leave(core: Core) -> None:
    """The end of a stopped run: give back what still runs, and make all of it durable (U9)."""
    for item in core.running():
        await give_back(core, item)
    await _pay(core)
    if core.abilities.sync:
        try:
            await sync()
        except Exception:
            _log.exception("the store could not be synced at the end")
            core.count("store_errors")


# --- dead tasks -------------------------------------------------------------------------------


async def retry_dead(core: Core, dead_id: str) -> str:
    """Bring one dead task back under a fresh id (U4, U8). Raises NotRetriable."""
    dead = await find_dead_task(dead_id)
    if dead is None:
        raise NotRetriable(f"no dead task has the id {dead_id!r}; see list_dead_tasks")
    task_id = await _add_again(core, dead)
    await _remove_dead(core, [dead_id])
    return task_id


async def retry_all_dead(core: Core) -> dict[str, str]:
    """Bring back every dead task there is now: old ids to fresh ones.

    The snapshot is taken once, so a task that fails and dies again meanwhile is not met a second
    time. Those that cannot be loaded stay dead.
    """
    snapshot = {dead.task_id: dead for dead in await list_dead_tasks()}  # the newest record wins
    fresh: dict[str, str] = {}
    ids = list(snapshot)
    for start in range(0, len(ids), _RETRY_BATCH):
        batch = []
        for dead_id in ids[start : start + _RETRY_BATCH]:
            try:
                fresh[dead_id] = await _add_again(core, snapshot[dead_id])
                batch.append(dead_id)
            except NotRetriable as error:
                _log.warning("%s", error)
                core.count("not_retriable")
        await _remove_dead(core, batch)
    return fresh


async def _add_again(core: Core, dead: DeadTask) -> str:
    try:
        spec, job = _loaded(core, dead.context)
    except Unloadable as error:
        raise NotRetriable(f"dead task {dead.task_id!r} cannot be run: {error}") from error
    job = again(job, dead.task_id, core.clock.now())
    task_id = await add_task(to_json(job), None)
    core.schedule(task_id, spec, job, None)
    core.count("revived")
    return task_id


async def _remove_dead(core: Core, dead_ids: list[str]) -> None:
    """Only what is durable as a live task may go from the dead ones (U4)."""
    if dead_ids and core.abilities.sync:
        await sync()
    await remove_dead_tasks(dead_ids)
