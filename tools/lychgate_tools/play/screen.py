"""A game as lines of text: what stands where, what can be done, what a crash may leave.

Rules of this file
  * Contents are shown as the pieces of `lychgate explain`: a record `p`, a torn line `p~`, a bad
    one `!p`, a removal `-p`, NULs `0*5`, a mark in brackets. The bytes are in the plan's replay.
  * Every line fits the terminal, or is wrapped; a word says what a colour says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lychgate_conformance.lab._image import Content, Image
from lychgate_conformance.lab._recover import Outcome
from lychgate_tools.page.pieces import of_file, shape
from lychgate_tools.page.text import pieces_text
from lychgate_tools.play.game import Choice, Game, Left
from lychgate_tools.ui import colour, table, wrapped

_WAYS_MAX = 3
"""Contents that are shown of one file; further ones are counted."""

HELP = """\
  a number   take that step (Enter: the first); a kill is a step, too
  n          run on to the next change of a file, or of what a crash may leave of it
  r          run on to the end: the first step again and again
  c          the host crashes: choose what survives
  e          every process ends, the host does not: another one opens the store
  u          take the last move back
  t          tell all steps so far
  p          print the command that replays this game
  q          stop"""


def board(game: Game) -> Iterator[str]:
    """The state of a game, and what can be done."""
    images, partial = game.images()
    rows = [
        (_short(path), text_of(path, content), _ways(path, content, images))
        for path, content in _files(game.cache())
    ]
    ghosts = {path for image in images for path, _ in _files(image)}
    for path in sorted(ghosts - {path for path, _ in _files(game.cache())}):
        rows.append((_short(path), "no such name", _ways(path, None, images)))
    more = f" (and more: {partial})" if partial else ""
    text = f"move {len(game.moves)}: a crash of the host may leave {_images(len(images))}{more}"
    yield from wrapped(text)
    if rows:
        yield table(("file", "every process sees", "a host crash may leave"), rows)
    yield from _choices(game.choices())


def _choices(choices: Sequence[Choice]) -> Iterator[str]:
    for number, it in enumerate(choices, 1):
        what = it.step or "begins"
        if it.killed:
            part = f"after {it.keeps} bytes of" if it.keeps else "before"
            what = f"SIGKILL {part} {it.step.partition('(')[0] or 'its first step'}"
        yield from wrapped(f"worker {it.worker}  {it.call}  {what}", f"{number:3}  ", " " * 7)
    if not choices:
        text = "everybody is done; the host may still crash (c), or the processes end (e)"
        yield from wrapped(text, "  ", "  ")


def question(left: Sequence[Left], cache: Image, hints: bool) -> Iterator[str]:
    """What a crash may leave, one line or more for each thing that a new process then sees."""
    yield from wrapped("What survives? A new process will then see one of these:")
    for number, it in enumerate(left, 1):
        text = f"{seen_text(it.outcome)}  ({_images(it.images)})"
        yield from wrapped(text, f"{number:3}  ", " " * 7)
        for path, content in _files(it.image):
            if content != cache.get(path):
                yield from wrapped(f"{_short(path)}: {text_of(path, content)}", " " * 7, " " * 9)
        for path, _ in _files(cache):
            if it.image.get(path) is None:
                yield from wrapped(f"{_short(path)}: gone", " " * 7)
        if hints:
            yield from wrapped(it.broken or "no promise is broken", " " * 7, " " * 9)


def seen_text(outcome: Outcome) -> str:
    """What a new process sees."""
    if outcome.error:
        return outcome.error
    dead, tasks = (" ".join(key for key, _ in it) or "none" for it in (outcome.dead, outcome.tasks))
    return f"dead tasks: {dead}; waiting tasks: {tasks}"


def judgement(game: Game) -> Iterator[str]:
    """What the last move has shown."""
    if game.seen is not None:
        yield from wrapped(f"a new process sees {seen_text(game.seen)}", rest="  ")
    text, kind = (f"BROKEN {game.broken}", "bad") if game.broken else _WELL
    yield from (colour(line, kind) for line in wrapped(text, rest="  "))


_WELL = ("no promise is broken", "good")


def text_of(path: str, content: Content | None) -> str:
    """The content of a file in a few words."""
    if content is None:
        return "no such name"
    if not isinstance(content, bytes):
        return "not a file"
    return pieces_text(of_file(path, content), {})


def _ways(path: str, cached: Content | None, images: Sequence[Image]) -> str:
    """What a crash may leave of one file; `the same` where it is durable."""
    found = list(dict.fromkeys(image.get(path) for image in images))
    if found == [cached]:
        return "the same"
    alike: dict[object, Content | None] = {}
    for content in found:
        pieces = of_file(path, content) if isinstance(content, bytes) else None
        alike.setdefault(shape(pieces), content)
    texts = [text_of(path, content) for content in alike.values()]
    shown = " | ".join(texts[:_WAYS_MAX])
    return shown if len(texts) <= _WAYS_MAX else f"{shown} | {len(texts) - _WAYS_MAX} more"


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count} images"


def _files(image: Image) -> list[tuple[str, Content]]:
    pairs = zip(image.paths, image.contents, strict=True)
    return [(path, content) for path, content in pairs if isinstance(content, bytes)]


def _short(path: str) -> str:
    return path.rpartition("/")[2]
