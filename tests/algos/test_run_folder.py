"""The run on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from algos.run_folder import RunFolder


def holding(text: str) -> Callable[[Path], None]:
    """Fills a folder with one file."""

    def fill(path: Path) -> None:
        (path / "weights").write_text(text)

    return fill


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.write_folder("best", holding("old"))

    def fails(path: Path) -> None:
        (path / "weights").write_text("new")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        folder.write_folder("best", fails)
    assert (folder.path / "best" / "weights").read_text() == "old"
    folder.write_folder("best", holding("new"))
    assert (folder.path / "best" / "weights").read_text() == "new"
    assert {path.name for path in folder.path.iterdir()} == {"best"}


def test_latest_names_the_newest_whole_checkpoint(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert folder.latest() is None
    for step in (2, 10, 9):
        folder.write_checkpoint(step, lambda path: None, keep=None)
    assert [path.name for path in folder.checkpoints()] == ["checkpoint-2", "checkpoint-9", "checkpoint-10"]
    assert folder.latest() == folder.path / "checkpoint-9"


def test_steps_beyond_a_checkpoint_are_forgotten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    for step in (1, 2, 3):
        folder.log({"step": step})
        folder.write_step(step, [])
    folder.forget_after(2)
    assert [line["step"] for line in folder.metrics()] == [1, 2]
    assert sorted(path.name for path in (folder.path / "episodes").iterdir()) == [
        "step-000001.jsonl",
        "step-000002.jsonl",
    ]


def test_a_folder_in_use_or_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        RunFolder(tmp_path / "file")
    with pytest.raises(ValueError, match="is not empty"):
        RunFolder(tmp_path)
    assert RunFolder(tmp_path, resume=True).path == tmp_path
