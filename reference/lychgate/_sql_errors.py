"""What the SQL backend raises besides `ClaimLost`, `Refused` and `ConfigError`.

Nobody but a driver module sees an error of a driver: each becomes one of these, with a remedy, and
says whether the change may have happened. Before a commit nothing has; an answer to a commit that
never came leaves it open.
"""

from __future__ import annotations

from lychgate._errors import LychgateError


class SqlError(LychgateError):
    """The database failed, or could not be reached.

    `step` is what was being done, `code` the database's own name for the reason, and `definite`
    says whether the change may have happened all the same.
    """

    def __init__(self, step: str, code: str, text: str, remedy: str, definite: bool) -> None:
        what = "nothing was changed" if definite else "the change may or may not have happened"
        super().__init__(f"{text} ({code}) in {step}: {what}; {remedy}")
        self.step = step
        self.code = code
        self.definite = definite
        self._parts = (text, remedy)

    def __reduce__(self) -> tuple[object, ...]:  # to travel between processes
        return type(self), (self.step, self.code, *self._parts, self.definite)


class SchemaError(LychgateError):
    """The tables are missing, or of another version; nothing was changed (Q3)."""
