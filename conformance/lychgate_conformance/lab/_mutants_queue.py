"""Mutants of the queue: the order of its calls is its guarantee.

Named like the negative models of `spec/QueueBroken.tla`; see `_mutants_dead.py`.
"""

from __future__ import annotations

from lychgate_conformance.lab._mutant import Edit, Mutant

_BURY, _RETRY = "_queue_flow.bury", "_queue_flow.retry_dead"
_ADD_DEAD = "await add_dead_task(task_id, context, error, name_of(context), attempts_of(context))"
_AGAIN = "task_id = await _add_again(core, dead)"
_REMOVE_DEAD = "await _remove_dead(core, [dead_id])"

QUEUE_MUTANTS = (
    Mutant(
        "remove-first",
        "a task is removed before the dead-task store has it (U3)",
        (Edit(_BURY, _ADD_DEAD, f"await remove_task(task_id); {_ADD_DEAD}"),),
        "queue",
        "new;0;put:j,fail",
        "QueueRemoveFirst",
    ),
    Mutant(
        "timeout-removes",
        "a give-up that failed removes the task all the same (U3, D14)",
        (Edit(_BURY, 'core.count("left")', "await remove_task(task_id)"),),
        "queue-faults",
        "new;0;put:j,fail",
        "QueueTimeoutRemoves",
        focus=("AppendRecord",),
    ),
    Mutant(
        "retry-deletes-first",
        "a dead task is deleted before its successor is stored (U4)",
        (Edit(_RETRY, _AGAIN, _REMOVE_DEAD), Edit(_RETRY, _REMOVE_DEAD, _AGAIN)),
        "queue",
        "new;0;put:j,fail,back:j",
        "QueueRetryDeleteFirst",
    ),
    Mutant(
        "retry-unsynced",
        "a dead task is deleted before its successor is durable (U4)",
        (Edit("_queue_flow._remove_dead", "await sync()", "pass"),),
        "queue-batched",
        "new;0.5;put:j,fail,back:j",
        "QueueRetryNoSync",
    ),
    Mutant(
        "uncounted",
        "a run is not counted before it begins: one that kills its worker never ends (U7)",
        (
            Edit(
                "_queue_flow._count",
                "await add_task(to_json(item.job), item.publish_at, item.task_id)",
                "pass",
            ),
        ),
        "queue",
        "new;0;put:j,run",
        "QueueUncounted",
    ),
    Mutant(
        "unburied",
        "a task that gave up is dropped and not kept among the dead ones (U3)",
        (Edit(_BURY, _ADD_DEAD, "pass"),),
        "queue",
        "new;0;put:j,fail",
    ),
)
