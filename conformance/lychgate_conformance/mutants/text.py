"""Mutants of the control: text in ids and payloads of waiting tasks."""

from __future__ import annotations

import json
import unicodedata

from lychgate_conformance._control import Control
from lychgate_conformance.mutants._base import mutant


class _Rewrites(Control):
    """Stores ids and payloads as the two functions below make them."""

    def rewrite_id(self, task_id: str) -> str:
        return task_id

    def rewrite_text(self, text: str) -> str:
        return text

    def add_task(
        self, task: object, publish_at: float | None = None, task_id: str | None = None
    ) -> str:
        key = None if task_id is None else self.rewrite_id(task_id)
        stored = json.loads(self.rewrite_text(json.dumps(task, ensure_ascii=False)))
        given = super().add_task(stored, publish_at, key)
        return given if task_id is None else task_id

    def remove_task(self, task_id: str) -> None:
        super().remove_task(self.rewrite_id(task_id))


@mutant("cuts-ids-at-colons", "L0-TEXT-001 L0-REM-004")
class CutsIdsAtColons(_Rewrites):
    """Keeps an id up to its first colon."""

    def rewrite_id(self, task_id: str) -> str:
        return task_id.partition(":")[0] or "empty"


@mutant("normalises-ids", "L0-TEXT-002")
class NormalisesIds(_Rewrites):
    """Brings ids into Unicode's composed form."""

    def rewrite_id(self, task_id: str) -> str:
        return unicodedata.normalize("NFC", task_id)


@mutant("replaces-surrogates", "L0-TEXT-003")
class ReplacesSurrogates(_Rewrites):
    """Puts question marks for lone surrogates in ids."""

    def rewrite_id(self, task_id: str) -> str:
        return task_id.encode("utf-8", "replace").decode()


@mutant("plain-payloads", "L0-TEXT-007")
class PlainPayloads(_Rewrites):
    """Drops what is not ASCII from payloads."""

    def rewrite_text(self, text: str) -> str:
        return text.encode("ascii", "ignore").decode()


@mutant("cuts-payloads", "L0-TEXT-008")
class CutsPayloads(_Rewrites):
    """Keeps the first megabyte of a payload."""

    def rewrite_text(self, text: str) -> str:
        return text if len(text) < 1_000_000 else text[:1_000_000] + '"'


@mutant("cuts-ids", "L0-TEXT-010")
class CutsIds(_Rewrites):
    """Keeps the first 1024 characters of an id."""

    def rewrite_id(self, task_id: str) -> str:
        return task_id[:1024]
