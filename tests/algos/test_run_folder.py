"""The run on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from algos.checkpoint import keep_frozen
from algos.run_folder import RunFolder, unused
from rema_agents.models import latest_checkpoint


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
    assert {path.name for path in folder.path.iterdir()} == {"best", ".lock"}


def test_weights_are_as_readable_as_any_other_file(tmp_path: Path) -> None:
    def fill(path: Path) -> None:
        save_file({"w": torch.zeros(1)}, path / "model.safetensors")
        (path / "config.json").touch()

    made = RunFolder(tmp_path / "run").write_folder("best", fill)
    assert (made / "model.safetensors").stat().st_mode == (made / "config.json").stat().st_mode


def test_runs_of_the_same_second_have_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("time.strftime", lambda _: "now")
    for _ in range(3):
        unused("grpo").mkdir(parents=True)
    assert sorted(os.listdir("runs")) == ["grpo-now", "grpo-now-2", "grpo-now-3"]


def test_latest_names_the_newest_whole_checkpoint(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert folder.latest() is None
    for step in (2, 10, 9):
        folder.write_checkpoint(step, lambda path: None, keep=None)
    assert [path.name for path in folder.checkpoints()] == ["checkpoint-2", "checkpoint-9", "checkpoint-10"]
    assert folder.latest() == folder.path / "checkpoint-9"


def test_a_frozen_model_that_was_changed_meanwhile_is_copied_and_what_was_kept_stays_as_it_was(tmp_path: Path) -> None:
    source, run = tmp_path / "model", tmp_path / "run"
    (source / "inner").mkdir(parents=True)
    for name in ("weights", "inner/vocabulary"):
        (source / name).write_text("first")
    keep_frozen(source, run / "checkpoint-1" / "meta", run)
    (source / "weights").write_text("later")
    keep_frozen(source, run / "checkpoint-2" / "meta", run)
    first, second = run / "checkpoint-1" / "meta", run / "checkpoint-2" / "meta"
    assert [(folder / "weights").read_text() for folder in (first, second)] == ["first", "later"]
    assert (second / "inner" / "vocabulary").samefile(first / "inner" / "vocabulary")


KILLED = """
import os, signal, sys
from pathlib import Path
from algos import run_folder

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def after(count, call):
    def counted(*args):
        nonlocal count
        done, count = call(*args), count - 1
        return die() if count == 0 else done
    return counted

def kill_in(moment):
    if moment == "sync":
        run_folder._to_disk = die
    elif moment == "latest":
        Path.replace = die
    elif moment != "fill":
        Path.rename = after(int(moment), Path.rename)

def save(folder, text, dying):
    def fill(path):
        (path / "weights").write_text(text)
        die() if dying else (path / "optimizer").write_text(text)
    folder.write_checkpoint(3, fill, keep=1)

for moment in sys.argv[2:]:
    folder = run_folder.RunFolder(Path(sys.argv[1]) / moment)
    folder.write_config({"resume_from_checkpoint": None})
    save(folder, "first", False)
    if os.fork() == 0:
        kill_in(moment)
        save(folder, "second", moment == "fill")
        os._exit(0)
    assert os.wait()[1] == signal.SIGKILL, moment
"""
"""Saves step 3 twice in a folder for each moment, and is killed (signal 9) at that moment of the second time."""


def test_a_process_killed_while_it_saves_the_same_step_again_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    moments = {"fill": "first", "sync": "first", "1": "first", "2": "second", "latest": "second"}  # 1, 2: renames done
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), *moments], check=True)
    for moment, kept in moments.items():
        found = latest_checkpoint(tmp_path / moment)
        assert found is not None
        assert [(found / name).read_text() for name in ("weights", "optimizer")] == [kept, kept], moment
        again = RunFolder(tmp_path / moment, resume="latest")
        assert again.latest() == again.path / "checkpoint-3"
        assert (again.path / "checkpoint-3" / "optimizer").read_text() == kept
        assert {path.name for path in again.path.iterdir()} == {"checkpoint-3", "latest", "config.yaml", ".lock"}


def test_a_run_that_went_back_keeps_the_checkpoint_that_it_has_just_written(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    for step in (2, 10, 3):
        folder.write_checkpoint(step, holding(str(step)), keep=1)
    assert folder.latest() == folder.path / "checkpoint-3"
    assert [path.name for path in folder.checkpoints()] == ["checkpoint-3", "checkpoint-10"]
    folder.write_checkpoint(4, holding("4"), keep=2)
    assert [path.name for path in folder.checkpoints()] == ["checkpoint-3", "checkpoint-4", "checkpoint-10"]


def test_steps_beyond_a_checkpoint_are_forgotten(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    for step in (1, 2, 3):
        folder.log({"step": step})
        folder.write_step(step, [])
    folder.forget_after(2, logged=2)
    assert [line["step"] for line in folder.metrics()] == [1, 2]
    assert sorted(path.name for path in (folder.path / "episodes").iterdir()) == [
        "step-000001.jsonl",
        "step-000002.jsonl",
    ]
