"""What `lychgate dead` does: one function for each action, from a store to an exit code.

Rules of this file
  * stdout has the result: tables for people, with `--json` one JSON object a line, in ASCII. What
    is told about the result (where the next page begins, how much was done) goes to stderr.
  * What changes says with `--dry-run` what it would change, and changes exactly the records that it
    has seen.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from heapq import nsmallest
from pathlib import Path
from typing import TextIO

from lychgate import DeadTask, LychgateError, Refused
from lychgate_tools.dead.records import (
    Record,
    Ref,
    Store,
    context_text,
    cursor_of,
    from_export,
    key_of,
    mark_of_dead,
    parse_cursor,
    time_text,
    to_export,
)
from lychgate_tools.dead.retry import Retry, groups
from lychgate_tools.ui import ExitCode, Progress, UserError, plain, table, wrapped

_MESSAGE_MAX = 60
_RESTORE_BATCH = 200
_RESTORE_BYTES_MAX = 4 * 1024 * 1024


# --- looking ----------------------------------------------------------------------------------


def list_(store: Store, args: argparse.Namespace) -> int:
    """A page, oldest first."""
    after = parse_cursor(args.cursor) if args.cursor else None
    wanted = (
        record
        for record in _seen(store, "reading")
        if args.filter(record.dead) and (after is None or key_of(record) > after)
    )
    page = nsmallest(args.limit + 1, wanted, key=key_of)
    shown = page[: args.limit]
    if args.json:
        for record in shown:
            _line({**to_export(record.dead), "cursor": cursor_of(record)})
    elif shown:
        print(table(_HEADERS, (_row(record.dead) for record in shown)))
    if len(page) > len(shown):
        _say(f"more: --cursor {cursor_of(shown[-1])}")
    elif not page:
        _say("none")
    _warn_damaged(store)
    return ExitCode.OK


def find(store: Store, args: argparse.Namespace) -> int:
    """The same among the records that contain a text, which the filter has."""
    return list_(store, args)


def show(store: Store, args: argparse.Namespace) -> int:
    """Every record of the ids, in the order of the store: the last of an id counts."""
    left = set(args.ids)
    for record in _seen(store, "reading"):
        if record.dead.task_id in args.ids:
            left.discard(record.dead.task_id)
            if args.json:
                _line({**to_export(record.dead), "cursor": cursor_of(record)})
            else:
                print(_block(record.dead))
    return _missing(left)


def count(store: Store, args: argparse.Namespace) -> int:
    """How many records, all together or by class."""
    by: Counter[str] = Counter()
    for record in _seen(store, "counting"):
        if args.filter(record.dead):
            dead = record.dead
            by[dead.task_class if args.by == "class" else dead.error_class if args.by else ""] += 1
    if args.json:
        for name, number in by.most_common() if args.by else [("", by.total())]:
            _line({args.by: name, "records": number} if args.by else {"records": number})
    elif args.by:
        print(table((args.by, "records"), ((plain(k) or "-", n) for k, n in by.most_common())))
    else:
        print(by.total())
    _warn_damaged(store)
    return ExitCode.OK


def verify(store: Store, args: argparse.Namespace) -> int:
    """Every record: its checksum and its content. Never writes."""
    found = []
    with Progress("verifying", unit="findings") as progress:
        for finding in store.verify():
            found.append(finding)
            progress.update(len(found))
    for it in found:
        if args.json:
            _line({"where": it.where, "offset": it.offset, "bytes": it.size, "what": it.what})
        else:
            print("\n".join(wrapped(f"{it.where}:{it.offset}: {it.size} bytes: {it.what}")))
    _say(f"damaged: {len(found)}" if found else "every record is sound")
    return ExitCode.SHORT if found else ExitCode.OK


# --- changing ---------------------------------------------------------------------------------


def retry(store: Store, args: argparse.Namespace) -> int:
    """Bring back a snapshot."""
    with Progress("reading") as progress:
        chosen = groups(store, args.filter, frozenset(args.ids))
        progress.clear()
    left = set(args.ids) - {group.task_id for group in chosen}
    if args.dry_run:
        return _would("retry", [group.task_id for group in chosen], args) or _missing(left)

    def told(task_id: str, fresh: str | None, why: str) -> None:
        if args.json:
            _line({"task_id": task_id, "fresh_id": fresh, "why": why or None})
        elif fresh is None:
            progress.message(f"{plain(task_id)} stays: {plain(why)}")

    work = Retry(store, args.rate, told)
    tally = work.tally
    try:
        with Progress("retrying", len(chosen), "tasks") as progress:
            for done in work.run(chosen):
                progress.update(done)
    finally:
        _say(f"{tally.revived} of {len(chosen)} brought back; {store.afterwards}")
        if tally.not_retriable or tally.gone:
            _say(f"cannot be: {tally.not_retriable}; gone already: {tally.gone}")
        if tally.left:
            _say(f"brought back, and dead as well because of an error: {tally.left}")
        if tally.twice:
            _say(f"removed by somebody else meanwhile, and may run twice: {tally.twice}")
    return _missing(left) or (ExitCode.SHORT if tally.not_retriable else ExitCode.OK)


def remove(store: Store, args: argparse.Namespace) -> int:
    """Every record of the ids."""
    ids = frozenset(args.ids)
    found = [_named(it) for it in _seen(store, "reading") if it.dead.task_id in ids]
    left = set(ids) - {task_id for task_id, _ in found}
    return _drop(store, found, args) or _missing(left)


def purge(store: Store, args: argparse.Namespace) -> int:
    """Every record that the filters name."""
    found = [_named(it) for it in _seen(store, "reading") if args.all or args.filter(it.dead)]
    return _drop(store, found, args)


def _named(record: Record) -> tuple[str, Ref]:
    return record.dead.task_id, record.ref  # not the whole of it: there may be millions


def _drop(store: Store, found: list[tuple[str, Ref]], args: argparse.Namespace) -> int:
    if args.dry_run:
        return _would("remove", [task_id for task_id, _ in found], args)
    removed = store.remove([ref for _, ref in found])
    if args.json:
        _line({"removed": removed})
    _say(f"removed: {removed}")
    return ExitCode.OK


def _would(what: str, ids: list[str], args: argparse.Namespace) -> int:
    for task_id in ids:
        if args.json:
            _line({"task_id": task_id, "would": what})
        else:
            print(plain(task_id))
    _say(f"would {what}: {len(ids)}; nothing was changed")
    return ExitCode.OK


# --- moving -----------------------------------------------------------------------------------


def export(store: Store, args: argparse.Namespace) -> int:
    """All that the filters name, in the order of the store."""
    number = 0
    with _output(args.output) as out:
        for record in _seen(store, "exporting"):
            if args.filter(record.dead):
                print(json.dumps(to_export(record.dead)), file=out)
                number += 1
    _say(f"exported: {number}")
    return ExitCode.SHORT if _warn_damaged(store) else ExitCode.OK


@contextmanager
def _output(name: str | None) -> Iterator[TextIO]:
    """Standard output, or a file that is there when it is complete."""
    if name is None:
        yield sys.stdout
        return
    path = Path(name)
    try:
        fd, made = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(fd, "w", encoding="ascii") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            os.replace(made, path)
        except BaseException:
            os.unlink(made)
            raise
    except LychgateError:
        raise  # of the store, and an OSError as well
    except OSError as error:
        raise UserError(f"cannot write {name}: {error.strerror}; name another --output") from error


def import_(store: Store, args: argparse.Namespace) -> int:
    """What an export holds and the store has not: doing it again changes nothing."""
    present = Counter(mark_of_dead(record.dead) for record in _seen(store, "reading"))
    batch: list[DeadTask] = []
    size = added = known = wrong = 0

    def settle() -> None:
        nonlocal size, added
        if batch and not args.dry_run:
            store.restore(batch)
        added += len(batch)
        batch.clear()
        size = 0

    with _input(args.file) as lines, Progress("importing", unit="records") as progress:
        for number, text in enumerate(lines, start=1):
            try:
                dead = from_export(text)
                mark = mark_of_dead(dead)
                store.check(dead)
            except (Refused, ValueError) as error:
                wrong += 1
                progress.message(f"{args.file}:{number}: {error}")
                continue
            if present[mark]:
                present[mark] -= 1
                known += 1
            else:
                batch.append(dead)
                size += len(text)
            if len(batch) >= _RESTORE_BATCH or size >= _RESTORE_BYTES_MAX:
                settle()
            progress.update(number)
        settle()
    if args.json:
        _line({"added": added, "present": known, "wrong": wrong, "dry_run": args.dry_run})
    would = "would be added" if args.dry_run else "added"
    _say(f"{would}: {added}; there already: {known}; wrong lines: {wrong}")
    return ExitCode.SHORT if wrong else ExitCode.OK


@contextmanager
def _input(name: str) -> Iterator[TextIO]:
    if name == "-":
        yield sys.stdin
        return
    try:
        file = open(name, encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}", ExitCode.USAGE) from error
    with file:
        yield file


# --- showing ----------------------------------------------------------------------------------

_HEADERS = ("id", "died at", "class", "attempts", "error")


def _row(dead: DeadTask) -> tuple[object, ...]:
    error = plain(f"{dead.error_class}: {dead.error_message}".strip(": "))
    if len(error) > _MESSAGE_MAX:
        error = error[: _MESSAGE_MAX - 3] + "..."
    when = time_text(dead.failed_at)
    return plain(dead.task_id), when, plain(dead.task_class), dead.attempts, error


def _block(dead: DeadTask) -> str:
    since = None if dead.enqueued_at is None else time_text(dead.enqueued_at)
    fields = {
        "class": dead.task_class,
        "attempts": f"{dead.attempts}",
        "died at": time_text(dead.failed_at),
        "enqueued at": since or "",
        "error": f"{dead.error_class}: {dead.error_message}".strip(": "),
        "context": context_text(dead),
    }
    lines = wrapped(plain(dead.task_id))
    for name, value in fields.items():
        if value:
            lines += wrapped(f"{name}: {plain(value)}", "  ", "    ")
    return "\n".join(lines)


def _line(fields: dict[str, object]) -> None:
    print(json.dumps(fields))


def _say(text: str) -> None:
    print("\n".join(wrapped(text, stream=sys.stderr)), file=sys.stderr)


def _missing(ids: set[str]) -> int:
    for task_id in sorted(ids):
        _say(f"no dead task has the id {plain(task_id)}")
    return ExitCode.SHORT if ids else ExitCode.OK


def _warn_damaged(store: Store) -> int:
    if store.damaged:
        _say(f"{store.damaged} damaged records left out: lychgate dead verify shows where")
    return store.damaged


def _seen(store: Store, doing: str) -> Iterator[Record]:
    """The records, with progress."""
    with Progress(doing, unit="records") as progress:
        for number, record in enumerate(store.records(), start=1):
            if number % 100 == 0:
                progress.update(number)
            yield record
