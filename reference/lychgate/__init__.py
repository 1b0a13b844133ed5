"""lychgate: crash-safe deferred tasks and a dead-letter store on plain files.

    from lychgate import Queue, configure, task

    @task
    def send(address: str) -> None: ...

    with Queue(configure("disk", path="storage")) as queue:
        queue.enqueue(send, "ada@example.org")
        queue.run()

`Disk` and `Sql` are the backends by themselves; `lychgate.aio` has the same names for asyncio.
"""

from lychgate._backend import AsyncBackend, Backend, ClaimLost
from lychgate._config import configure
from lychgate._delivery_answers import Claim, Claimed, Enqueued, ItemView, Payload
from lychgate._delivery_errors import (
    DeliveryBusy,
    DeliveryCorrupt,
    DeliveryError,
    DeliveryLimits,
    DeliveryLocked,
    DeliveryPoisoned,
    Result,
)
from lychgate._delivery_queue import Delivery, DeliveryQueue
from lychgate._delivery_recover import Truncation
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
from lychgate._nil import Nil
from lychgate._policy import RetryPolicy
from lychgate._queue import Queue
from lychgate._queue_core import Limits
from lychgate._queue_errors import (
    NotRetriable,
    QueueBusy,
    QueueClosed,
    QueueError,
    QueueFull,
    Unloadable,
    WorkerDied,
)
from lychgate._records import Codec, DeadTask, JsonCodec, Undecodable
from lychgate._sql import Sql
from lychgate._sql_errors import SchemaError, SqlError
from lychgate._task import Current, Registry, Task, current, task

__all__ = [
    "AsyncBackend",
    "Backend",
    "Claim",
    "ClaimLost",
    "Claimed",
    "ClosedError",
    "Codec",
    "ConfigError",
    "Current",
    "DeadTask",
    "DeadTasksLockTimeout",
    "Delivery",
    "DeliveryBusy",
    "DeliveryCorrupt",
    "DeliveryError",
    "DeliveryLimits",
    "DeliveryLocked",
    "DeliveryPoisoned",
    "DeliveryQueue",
    "Disk",
    "Enqueued",
    "ItemView",
    "JsonCodec",
    "Limits",
    "LychgateError",
    "Nil",
    "NotRetriable",
    "Payload",
    "PendingTask",
    "Queue",
    "QueueBusy",
    "QueueClosed",
    "QueueError",
    "QueueFull",
    "Refused",
    "Registry",
    "Result",
    "RetryPolicy",
    "SchemaError",
    "Sql",
    "SqlError",
    "StorageError",
    "Task",
    "Truncation",
    "Undecodable",
    "Unloadable",
    "UnsupportedPlatform",
    "WorkerDied",
    "configure",
    "current",
    "task",
]
