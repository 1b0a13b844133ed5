"""strace's output, line by line: whole, cut in two, killed, strange."""

from __future__ import annotations

import pytest

from lychgate_conformance.blackbox._strace import (
    Call,
    Gone,
    Signal,
    TraceError,
    bytes_of,
    descriptor_of,
    options,
    parse,
    split_args,
    vectors_of,
)
from pathlib import Path

T0 = "1700000000.000000000"
T1 = "1700000000.000005000"


def one(*lines: str) -> Call:
    """The only call of some lines."""
    (call,) = [it for it in parse(lines) if isinstance(it, Call)]
    return call


def test_a_call_on_one_line() -> None:
    call = one(f'7  {T0} write(3<\\x2f\\x61>, "\\x68\\x0a\\x22", 3) = 3 <0.000004000>')
    assert (call.pid, call.name, call.result, call.error) == (7, "write", 3, "")
    assert call.left - call.entered == 4000
    assert descriptor_of(call.args[0]).path == "/a"
    assert bytes_of(call.args[1]) == b'h\n"'


def test_a_call_in_two_parts_with_another_between() -> None:
    found = list(
        parse(
            [
                f'7  {T0} write(3<\\x2f\\x61>, "\\x61", 1 <unfinished ...>',
                f"8  {T0} fsync(4<\\x2f\\x62>) = 0 <0.000001000>",
                f"7  {T1} <... write resumed>) = 1 <0.000005000>",
            ]
        )
    )
    assert [(it.pid, it.name) for it in found if isinstance(it, Call)] == [
        (8, "fsync"),
        (7, "write"),
    ]
    assert isinstance(found[1], Call)
    assert found[1].args == ("3<\\x2f\\x61>", '"\\x61"', "1")
    assert found[1].left - found[1].entered == 5000


def test_arguments_that_come_with_the_resumption() -> None:
    call = one(
        f"7  {T0} fcntl(3 <unfinished ...>", f"7  {T1} <... fcntl resumed>, F_GETFD) = 0 <0.1>"
    )
    assert call.args == ("3", "F_GETFD")


def test_a_call_within_which_its_thread_was_killed() -> None:
    found = list(
        parse(
            [
                f'7  {T0} write(3<\\x2f\\x61>, "\\x61", 1 <unfinished ...>',
                f"7  {T1} +++ killed by SIGKILL +++",
            ]
        )
    )
    assert isinstance(found[0], Call) and found[0].result is None and not found[0].worked
    assert found[1] == Gone(7, "killed by SIGKILL", 1_700_000_000_000_005_000, 2)


def test_a_call_that_never_leaves() -> None:
    call = one(f"7  {T0} exit_group(0) = ?")
    assert call.result is None and not call.worked


def test_failure_injection_and_signal() -> None:
    call = one(f"7  {T0} fsync(3<\\x2f\\x61>) = -1 EIO (Input/output error) (INJECTED) <0.1>")
    assert (call.result, call.error, call.injected, call.worked) == (-1, "EIO", True, False)
    found = list(parse([f"7  {T0} --- SIGCHLD {{si_signo=SIGCHLD, si_code=CLD_EXITED}} ---"]))
    assert found == [Signal(7, "SIGCHLD", 1_700_000_000_000_000_000, 1)]


def test_a_result_in_hexadecimal() -> None:
    assert one(f"7  {T0} read(0x3, 0x7ffd, 0x1000) = 0x40 <0.000001000>").result == 64


@pytest.mark.parametrize(
    "line", ["", "strace: out of memory", f"7  {T0} what", f"7  {T0} <... write resumed>) = 1"]
)
def test_strange_lines_are_errors(line: str) -> None:
    """Nothing is skipped: what was not read may have been a write."""
    with pytest.raises(TraceError):
        list(parse([line]))


def test_arguments_are_split_at_the_top_level_only() -> None:
    text = '4<\\x2f>, [{iov_base="\\x61", iov_len=1}, {iov_base="\\x62", iov_len=1}], 2) = 2'
    args, end = split_args(text)
    assert args[0] == "4<\\x2f>" and args[2] == "2" and text[end:] == " = 2"
    assert vectors_of(args[1]) == b"ab"


def test_a_string_that_was_cut_is_an_error() -> None:
    with pytest.raises(TraceError):
        bytes_of('"\\x61"...')


def test_descriptors_of_deleted_files_and_of_the_working_directory() -> None:
    assert descriptor_of("4<\\x2f\\x61>(deleted)").deleted
    assert descriptor_of("AT_FDCWD<\\x2f\\x61>").number == -100
    assert descriptor_of("5").path == ""


def test_whoever_injects_does_without_seccomp() -> None:
    """strace 6.1 drops injected signals silently with `--seccomp-bpf`."""
    words = options(Path("t"), ["fsync"], quick=False, inject=["fsync:signal=KILL:when=2"])
    assert "--seccomp-bpf" not in words and "inject=fsync:signal=KILL:when=2" in words
    with pytest.raises(AssertionError):
        options(Path("t"), ["fsync"], inject=["fsync:signal=KILL"])
