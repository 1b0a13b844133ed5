"""What the queue raises, and what it writes into dead tasks that never ran.

`definite` as in `_errors.py`: True means that nothing happened.
"""

from __future__ import annotations

from lychgate._errors import LychgateError


class QueueError(LychgateError):
    """The root of the queue's own errors."""


class QueueClosed(QueueError):
    """The queue was closed or has stopped; make a new one over a new backend."""


class QueueFull(QueueError, TimeoutError):
    """The backlog stayed over its mark for the whole waiting time; nothing was enqueued (U5)."""


class QueueBusy(QueueError):
    """The queue is running already, in this or another thread."""


class NotRetriable(QueueError):
    """A dead task cannot be made a live one: unknown id, unknown class or raw bytes (U8)."""


class Unloadable(QueueError):
    """A stored task cannot be loaded; it goes to the dead tasks as it is (U6)."""


class WorkerDied(QueueError):
    """Runs of a task that nobody saw the end of; past the limit it goes to the dead tasks (U7)."""
