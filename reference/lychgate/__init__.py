"""lychgate: crash-safe deferred tasks and a dead-letter store on plain files.

    from lychgate import Disk

    with Disk("storage") as tasks:
        task_id = tasks.add_task({"send": "welcome", "to": "ada"})
        for task_id, task, publish_at in tasks.pending_tasks():
            tasks.remove_task(task_id)
"""

from lychgate._disk import Disk, PendingTask
from lychgate._errors import (
    ClosedError,
    ConfigError,
    DeadTasksLockTimeout,
    LychgateError,
    Refused,
    StorageError,
    UnsupportedPlatform,
)
from lychgate._records import Codec, DeadTask, JsonCodec, Undecodable

__all__ = [
    "ClosedError",
    "Codec",
    "ConfigError",
    "DeadTask",
    "DeadTasksLockTimeout",
    "Disk",
    "JsonCodec",
    "LychgateError",
    "PendingTask",
    "Refused",
    "StorageError",
    "Undecodable",
    "UnsupportedPlatform",
]
