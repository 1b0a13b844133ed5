"""File names: who owns which file (D6, D7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lychgate import ConfigError, Disk
from lychgate._names import (
    VERSION,
    check_prefix,
    dead_data_name,
    dead_lock_name,
    is_wal_name,
    staging_name,
    wal_name,
)

parts = st.sampled_from(
    ["a", "-", "0", "a-", "0-", "20260101", "-1-", "0123456789abcdef", "dead_tasks", "*", "é", " ",
     "?", "[a]", "dead_tasks-0", ".lock", ".tmp", "\n", "%", "\udc80"]
)
prefixes = st.lists(parts, max_size=6).map("".join)
pids = st.integers(1, 2**31)
randoms = st.binary(min_size=8, max_size=8)


def dead_names(prefix: str) -> set[str]:
    data = dead_data_name(prefix)
    return {data, dead_lock_name(prefix), staging_name(data)}


@given(prefixes, prefixes)
def test_no_dead_task_file_is_ever_a_wal_file(one: str, other: str) -> None:
    """D7: whatever the two prefixes are."""
    assert not any(is_wal_name(other, name) for name in dead_names(one))


@given(prefixes, prefixes, pids, randoms)
@example("a-", "a-0-20260101-1-", 1, bytes(8))
@example("", "0", 1, bytes(8))
def test_two_prefixes_never_share_a_file(one: str, other: str, pid: int, random: bytes) -> None:
    """D7: a WAL file belongs to one prefix, and so do the files of a dead-task store."""
    assume(one != other)
    name = wal_name(one, "20260101", pid, random)
    assert is_wal_name(one, name)
    assert not is_wal_name(other, name)
    assert not dead_names(one) & dead_names(other)
    assert name not in dead_names(other)


@pytest.mark.parametrize(
    "name",
    [
        "p-0-20260101-1-0123456789abcdef\n",
        "p-0-20260101-1-0123456789ABCDEF",
        "p-0-20260101-1-0123456789abcde",
        "p-0-2026010-1-0123456789abcdef",
        "p-0-20260101--0123456789abcdef",
        "p-0-20260101-1-0123456789abcdef.tmp",
        "p-1-20260101-1-0123456789abcdef",
        "P-0-20260101-1-0123456789abcdef",
        "p-0-٢0260101-1-0123456789abcdef",
    ],
)
def test_a_wal_name_is_a_full_match(name: str) -> None:
    """D7: never a glob, never a part; D6: other versions are left alone."""
    assert not is_wal_name("p-", name)


def test_the_names_are_those_of_the_format() -> None:
    """D6."""
    assert VERSION == "0"
    assert dead_data_name("p-") == "p-dead_tasks-0"
    assert dead_lock_name("p-") == "p-dead_tasks.lock"
    assert staging_name("p-dead_tasks-0") == "p-dead_tasks-0.tmp"
    assert wal_name("p-", "20261130", 7, bytes(8)) == "p-0-20261130-7-0000000000000000"


@pytest.mark.parametrize("prefix", ["a/b", "/", "a\0", "x" * 300, "é" * 100, "\ud800", 3, None])
def test_a_prefix_that_can_start_no_file_name_is_refused(prefix: object, tmp_path: Path) -> None:
    """D7: before anything is opened."""
    with pytest.raises(ConfigError):
        Disk(tmp_path / "storage", prefix)  # type: ignore[arg-type]  # that is the test
    assert not (tmp_path / "storage").exists()


@pytest.mark.parametrize(
    "prefix", ["", "a-", "a-0-", "*", "[ab]?", "with space ", "déjà-", "x" * 190]
)
def test_backends_with_any_prefixes_share_a_directory(prefix: str, tmp_path: Path) -> None:
    """D7: neither sees what the other stores."""
    check_prefix(prefix)
    with Disk(tmp_path, prefix) as one, Disk(tmp_path, prefix + "b") as other:
        task_id = one.add_task("one")
        one.add_dead_task("dead", None, ValueError(), "Job", 1)
        assert other.pending_tasks() == [] and other.list_dead_tasks() == []
    with Disk(tmp_path, prefix + "b") as other:
        assert other.pending_tasks() == [] and other.list_dead_tasks() == []
    with Disk(tmp_path, prefix) as one:
        assert [found[0] for found in one.pending_tasks()] == [task_id]
        assert [dead.task_id for dead in one.list_dead_tasks()] == ["dead"]
