"""`configure` chooses the backend (D5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lychgate._config import configure
from lychgate._disk import Disk
from lychgate._errors import ConfigError
from lychgate._nil import Nil


def test_disk(tmp_path: Path) -> None:
    """D3, D5: the options of the disk backend reach it."""
    backend = configure("disk", path=tmp_path / "s", prefix="jobs-", fsync_frequency=0)
    try:
        assert isinstance(backend, Disk)
        task_id = backend.add_task(1)
        assert all(file.name.startswith("jobs-") for file in (tmp_path / "s").iterdir())
        assert backend.pending_tasks() == [(task_id, 1, None)]
    finally:
        backend.close()


def test_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: `disk` in `storage`, prefix `deferred-`."""
    monkeypatch.chdir(tmp_path)
    backend = configure()
    backend.close()
    assert (tmp_path / "storage" / "deferred-dead_tasks-0").exists()


def test_none() -> None:
    """D4, D5: no backend takes the options of any other."""
    assert isinstance(configure(None, path="/nowhere", tasks=3), Nil)


@pytest.mark.parametrize("name", ["tape", "", 3, ["disk"]])
def test_unknown_backend(name: Any) -> None:
    """D5: the message names those that there are."""
    with pytest.raises(ConfigError, match="'disk', 'sql' or None"):
        configure(name)


@pytest.mark.parametrize("option", ["tasks", "dead_tasks", "colour"])
def test_unknown_option(option: str) -> None:
    """D3, D5: there are no options for one of the two files, and none is silently ignored."""
    with pytest.raises(ConfigError, match=f"no option {option}; its options are path, prefix"):
        configure("disk", **{option: 1})


@pytest.mark.parametrize(
    "options",
    [{"fsync_frequency": -1}, {"fsync_frequency": "often"}, {"prefix": "a/b"}, {"path": ""}],
)
def test_nonsense(options: dict[str, Any], tmp_path: Path) -> None:
    """D5, D7: a value that cannot be meant opens nothing."""
    with pytest.raises(ConfigError):
        configure("disk", **{"path": tmp_path / "s", **options})
    assert not (tmp_path / "s").exists()
