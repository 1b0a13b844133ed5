"""strace: how a command is started under it, and what its output means.

Rules of this file
  * Nothing here knows what a call does to files; that is `_record`.
  * Text of the traced program is always in hexadecimal (`-xx`), so that no byte of a path or of a
    payload can be taken for punctuation. Every line has a time of its own in nanoseconds and every
    call its duration, so that the outputs of several straces can be merged.
  * A line that cannot be read is an error (`TraceError`), never skipped.
  * `--seccomp-bpf` makes a recording much cheaper, but strace 6.1 silently drops injected signals
    with it: whoever injects leaves it out.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

STRING_BYTES_MAX = 64 * 1024 * 1024
"""Longer strings would be cut; a cut string is an error for whoever needs its bytes."""


class TraceError(Exception):
    """A line of strace's output that means nothing to us."""


def strace_path() -> str | None:
    """Where strace is; None when there is none."""
    return shutil.which("strace")


def options(
    output: Path,
    calls: Iterable[str],
    *,
    quick: bool = True,
    raw: Sequence[str] = (),
    inject: Sequence[str] = (),
) -> list[str]:
    """The words before `-- COMMAND` or `-p PID`: follow every child, write to `output`.

    `calls` that a machine does not have are left out by strace. `raw` are calls whose data is not
    wanted. `inject` are strace's own texts, such as `fsync:error=EIO:when=2`.
    """
    assert not (quick and inject), "seccomp drops injected signals"
    wanted = ",".join(f"?{name}" for name in calls)
    found = [
        "strace", "-f", "-q", "-xx", "-y",
        "--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns",
        "-s", str(STRING_BYTES_MAX), "-o", str(output), "-e", f"trace={wanted}",
    ]  # fmt: skip
    if quick:
        found.append("--seccomp-bpf")
    if raw:
        found += ["-e", f"raw={','.join(f'?{name}' for name in raw)}"]
    for text in inject:
        found += ["-e", f"inject={text}"]
    return found


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A descriptor as strace shows it: its number, and what it leads to."""

    number: int
    path: str  # decoded; empty when strace did not say
    deleted: bool = False


@dataclass(slots=True)
class Call:
    """One system call of one thread."""

    pid: int
    name: str
    args: tuple[str, ...]
    result: int | None
    """None when it never returned: its thread was killed within it."""
    error: str
    """The name of the error, empty for success."""
    entered: int  # nanoseconds
    left: int
    line: int
    answer: str = ""
    """What stands behind the `=`, as it is."""
    injected: bool = False

    @property
    def worked(self) -> bool:
        return self.result is not None and not self.error


@dataclass(frozen=True, slots=True)
class Gone:
    """A thread ended."""

    pid: int
    how: str
    left: int
    line: int


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal reached a thread."""

    pid: int
    name: str
    left: int
    line: int


Event = Call | Gone | Signal

_LINE = re.compile(r"(?:\[pid +)?(\d+)\]? +(\d+)\.(\d{9}) (.*)", re.DOTALL)
_BEGIN = re.compile(r"(\w+)\((.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed> ?(.*)", re.DOTALL)
_SECONDS = re.compile(r" <(\d+)\.(\d{9})>$")
_ERROR = re.compile(r"-1 (E\w+)")
_SIGNAL = re.compile(r"--- (\w+) ")
_UNFINISHED = ("<unfinished ...>", "<detached ...>")


def parse(lines: Iterable[str]) -> Iterator[Event]:
    """The events of one strace's output, a call when it is left. TraceError on strange lines."""
    begun: dict[int, tuple[str, str, int, int]] = {}
    for number, line in enumerate(lines, 1):
        line = line.rstrip("\n")
        match = _LINE.fullmatch(line)
        if match is None:
            raise TraceError(f"line {number}: {line[:200]!r}")
        pid, rest = int(match[1]), match[4]
        now = int(match[2]) * 10**9 + int(match[3])
        if rest.startswith("+++ "):
            begun_call = begun.pop(pid, None)
            if begun_call is not None:
                yield _call(pid, *begun_call, now)
            yield Gone(pid, rest.strip("+ "), now, number)
        elif rest.startswith("--- "):
            signal = _SIGNAL.match(rest)
            yield Signal(pid, signal[1] if signal else rest, now, number)
        elif (resumed := _RESUMED.fullmatch(rest)) is not None:
            found = begun.pop(pid, None)
            if found is None or found[0] != resumed[1]:
                raise TraceError(f"line {number}: {resumed[1]} resumes nothing")
            name, text, entered, first = found
            if resumed[2].startswith(_UNFINISHED):  # a signal came in between
                begun[pid] = found
                continue
            yield _call(pid, name, text + resumed[2], entered, first, now)
        elif (begin := _BEGIN.fullmatch(rest)) is not None:
            text = begin[2]
            mark = next((it for it in _UNFINISHED if text.endswith(it)), None)
            if mark is not None:
                begun[pid] = begin[1], text.removesuffix(mark).rstrip(" "), now, number
            else:
                yield _call(pid, begin[1], text, now, number, None)
        else:
            raise TraceError(f"line {number}: {line[:200]!r}")
    for pid, found in begun.items():
        yield _call(pid, *found, found[2])


def _call(pid: int, name: str, text: str, entered: int, line: int, left: int | None) -> Call:
    """The call behind `args) = result <seconds>`, or behind an unfinished `args`."""
    seconds = _SECONDS.search(text)
    if seconds is not None:
        text = text[: seconds.start()]
        duration = int(seconds[1]) * 10**9 + int(seconds[2])
        left = entered + duration if left is None else left
    args, end = split_args(text)
    answer = text[end:].strip()
    if not answer.startswith("="):  # never left
        return Call(pid, name, args, None, "", entered, left or entered, line)
    answer = answer[1:].strip()
    error = _ERROR.match(answer)
    return Call(
        pid,
        name,
        args,
        _number_or_none(answer),
        error[1] if error else "",
        entered,
        entered if left is None else left,
        line,
        answer,
        "(INJECTED)" in answer,
    )


_CLOSING = {"[": "]", "{": "}", "(": ")"}
_MARK = re.compile(r'[][{}(),"]')


def split_args(text: str) -> tuple[tuple[str, ...], int]:
    """The arguments in front of the parenthesis that closes the call, and where that ends.

    Quoted strings hold hexadecimal only, so that no quote or bracket in them is text.
    """
    args: list[str] = []
    expected: list[str] = []
    start = position = 0
    while (found := _MARK.search(text, position)) is not None:
        position, char = found.start(), found[0]
        if char == '"':
            position = text.find('"', position + 1)
            if position < 0:
                position = len(text)
        elif char in _CLOSING:
            expected.append(_CLOSING[char])
        elif expected and char == expected[-1]:
            expected.pop()
        elif char == ")" and not expected:
            break
        elif char == "," and not expected:
            args.append(text[start:position].strip())
            start = position + 1
        position += 1
    else:
        position = len(text)
    if last := text[start:position].strip():
        args.append(last)
    return tuple(args), position + 1


def _number_or_none(answer: str) -> int | None:
    match = re.match(r"(0x[0-9a-f]+|-?\d+)", answer)
    return int(match[1], 0) if match else None


# --- arguments --------------------------------------------------------------------------------

_HEX = re.compile(r"(?:\\x[0-9a-f]{2})*")
_FD = re.compile(r"(AT_FDCWD|-?\d+)(?:<(.*)>(\(deleted\))?)?", re.DOTALL)
_BASES = re.compile(r'iov_base=("[^"]*"(?:\.\.\.)?|NULL|0x[0-9a-f]+)')


def bytes_of(arg: str) -> bytes:
    """The bytes of a quoted argument. TraceError when it is none, or was cut."""
    if len(arg) < 2 or arg[0] != '"' or arg[-1] != '"':
        raise TraceError(f"no whole string: {arg[:60]}")
    body = arg[1:-1]
    if _HEX.fullmatch(body) is None:
        raise TraceError(f"no hexadecimal string: {arg[:60]}")
    return bytes.fromhex(body.replace("\\x", ""))


def path_of(arg: str) -> str:
    """A path argument as Python names it."""
    return bytes_of(arg).decode("utf-8", "surrogateescape")


def descriptor_of(arg: str) -> Descriptor:
    """A descriptor argument, AT_FDCWD (as -100) included."""
    match = _FD.fullmatch(arg)
    if match is None:
        raise TraceError(f"no descriptor: {arg[:60]}")
    number = -100 if match[1] == "AT_FDCWD" else int(match[1])
    where = match[2] or ""
    if "\\x" in where:
        where = _plain(where)
    return Descriptor(number, where, match[3] is not None)


def _plain(text: str) -> str:
    decoded = re.sub(
        rb"\\x([0-9a-f]{2})", lambda it: bytes([int(it[1], 16)]), text.encode("ascii")
    )
    return decoded.decode("utf-8", "surrogateescape")


def vectors_of(arg: str) -> bytes:
    """The bytes of an array of vectors, joined."""
    return b"".join(bytes_of(text) for text in _BASES.findall(arg))


def flags_of(arg: str) -> frozenset[str]:
    """The names of a set of flags."""
    return frozenset(arg.split("|"))


def number_of(arg: str) -> int:
    """A numeric argument; TraceError when it is none."""
    try:
        return int(arg.split(" ")[0], 0)
    except ValueError:
        raise TraceError(f"no number: {arg[:60]}") from None
