"""What goes wrong in a long run: numbers that are none, memory, disk; and what is kept."""

from __future__ import annotations

import errno
import importlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from algos import grpo, scoring
from algos import learner as learner_module
from algos.command_line import parse
from algos.disk_full import DiskFull, room_for
from algos.launch import launch
from algos.learner import Learner
from algos.memory import OutOfMemory, mending
from algos.rollout import play_on_all_ranks
from algos.run_folder import RunFolder
from rema_agents.episodes import read_episodes
from tests.algos.steps import steps_of

FLAGS = ["--env", "math_v0", "--problems-per-step", "4", "--num-generations", "4", "--eval-num-problems", "4"]
FLAGS += ["--eval-steps", "0", "--num-completions-to-print", "0", "--num-minibatches", "1"]


def run(folder: Path, *argv: str) -> None:
    from algos.grpo import main

    main([*FLAGS, "--output-dir", str(folder), *argv])


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the log-probability of one sampled token NaN in the forward passes of some updates (from 1).

    With `loss_alone` the loss is infinite instead, and its gradient what it is.
    """

    score = scoring.score

    def arrange(updates: Sequence[int], *, loss_alone: bool = False) -> None:
        backward = Learner.backward
        seen: list[None] = []

        def poison(self: Learner, minibatch: Any, loss: Any) -> Any:
            seen.append(None)
            number = len(seen)

            def bad(*args: Any, **kwargs: Any) -> Any:
                out = score(*args, **kwargs)
                batch, logp_BT = args[1], out.logp_BT.clone()
                logp_BT[0, torch.nonzero(batch.trained_BT[0])[0]] *= float("nan")
                return replace(out, logp_BT=logp_BT)

            def infinite(*args: Any) -> Any:
                value, scalars = loss(*args)
                return value + torch.inf, scalars

            if number in updates and loss_alone:
                return backward(self, minibatch, infinite)
            if number in updates:
                monkeypatch.setattr(learner_module, "score", bad)
            try:
                return backward(self, minibatch, loss)
            finally:
                monkeypatch.setattr(learner_module, "score", score)

        monkeypatch.setattr(Learner, "backward", poison)

    return arrange


@pytest.mark.parametrize("zero", [[], ["--zero-stage", "1"], ["--zero-stage", "2"], ["--zero-stage", "3"]])
def test_an_update_that_is_not_finite_is_left_out_counted_and_written_down(
    zero: list[str], poisoned: Callable[..., None], tmp_path: Path
) -> None:
    poisoned([2])
    folder = tmp_path / "run"
    run(folder, "--max-steps", "3", "--save-steps", "1", *zero)
    lines = steps_of(folder)
    assert [line["update/skipped"] for line in lines] == [0, 1, 0]
    assert [line["update/count"] for line in lines] == [1, 0, 1]
    weights = [(folder / f"checkpoint-{n}" / "policy" / "model.safetensors").read_bytes() for n in (1, 2, 3)]
    assert weights[0] == weights[1] != weights[2]
    (written,) = (folder / "skipped").iterdir()
    assert written.name == "step-000002-update-1.jsonl"
    offending, played = read_episodes(written), list(read_episodes(folder / "episodes" / "step-000002.jsonl"))
    assert all(episode in played for episode in offending)
    assert lines[2]["grad_norm"] > 0


def test_three_in_a_row_end_the_run_with_one_message(
    poisoned: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    poisoned([2, 3, 4], loss_alone=True)
    folder = tmp_path / "run"
    with pytest.raises(SystemExit) as exit_:
        run(folder, "--max-steps", "6", "--save-steps", "1")
    assert exit_.value.code == 1
    said = capsys.readouterr().err
    assert "3 updates in a row were not finite: step 4" in said
    assert len(list((folder / "skipped").iterdir())) == 3
    assert f"{folder / 'checkpoint-3'} is whole: go on from it with --resume-from-checkpoint latest" in said


def test_a_full_disk_keeps_the_last_good_checkpoint_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save_state, folder = Learner.save_state, tmp_path / "run"

    def full(self: Learner, target: Path) -> None:
        if "checkpoint-2" in str(target):
            raise OSError(errno.ENOSPC, "No space left on device")
        save_state(self, target)

    monkeypatch.setattr(Learner, "save_state", full)
    with pytest.raises(SystemExit) as exit_:
        run(folder, "--max-steps", "3", "--save-steps", "1")
    assert exit_.value.code == 1
    said = capsys.readouterr().err
    assert f"No space left on the disk for {folder / 'checkpoint-2'}" in said
    assert f"{folder / 'checkpoint-1'} is whole" in said
    assert (folder / "latest").read_text() == "checkpoint-1"
    assert not list(folder.glob("*.tmp"))
    monkeypatch.undo()
    run(folder, "--max-steps", "2", "--save-steps", "1", "--resume-from-checkpoint", "latest")
    assert [line["step"] for line in steps_of(folder)] == [1, 2]


def test_a_crash_names_step_problems_and_checkpoint_and_the_run_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    update, folder = Learner.update, tmp_path / "run"
    seen: list[None] = []

    def fails(self: Learner, *args: Any) -> Any:
        seen.append(None)
        if len(seen) == 5:
            raise KeyError("a bug")
        return update(self, *args)

    monkeypatch.setattr(Learner, "update", fails)
    argv = ["--save-steps", "2", "--zero-advantage", "keep"]
    with pytest.raises(KeyError) as error:
        run(folder, *argv, "--max-steps", "6")
    learning, checkpoint = error.value.__notes__
    played = dict.fromkeys(e.problem.id for e in read_episodes(folder / "episodes" / "step-000005.jsonl"))
    assert learning == f"in update 1 of step 5, learning from 16 episodes on {', '.join(map(repr, played))}"
    assert f"{folder / 'checkpoint-4'} is whole" in checkpoint
    run(folder, *argv, "--max-steps", "6", "--resume-from-checkpoint", "latest")
    assert [line["step"] for line in steps_of(folder)] == [1, 2, 3, 4, 5, 6]
    assert len(seen) == 7  # steps 5 and 6 alone were made again


def test_a_carry_that_no_checkpoint_can_hold_ends_the_run_in_its_first_step(tmp_path: Path) -> None:
    config = parse(grpo.Config, [*FLAGS, "--output-dir", str(tmp_path / "run")], prog="test")
    own = grpo.algorithm(config)

    def running(batch: Any, carry: Any) -> Any:
        return own.advantages(batch, None)[0], {"mean": batch.reward_S.mean()}

    with pytest.raises(ValueError, match=r"gave a carry that no checkpoint can hold .*Tensor.*tolist") as error:
        launch(config, replace(own, advantages=running), command="grpo")
    assert "after 0 steps" in error.value.__notes__[0]


def test_out_of_memory_names_the_limit_to_lower() -> None:
    told = r"while updating: lower --micro-batch-tokens \(now 64\)"
    with pytest.raises(OutOfMemory, match=told), mending("updating", micro_batch_tokens=64):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
    with pytest.raises(RuntimeError, match="something else"), mending("updating", micro_batch_tokens=64):
        raise RuntimeError("something else")


def test_a_run_killed_between_two_renames_finds_its_old_folder_again(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")

    def fill(path: Path) -> None:
        (path / "weights").write_text("old")

    folder.write_config({"resume_from_checkpoint": None})
    folder.write_checkpoint(3, fill, keep=None)
    (tmp_path / "run" / "checkpoint-3").rename(tmp_path / "run" / "checkpoint-3.old")
    (tmp_path / "run" / "checkpoint-3.tmp").mkdir()
    latest = folder.latest()
    assert latest is not None
    assert (latest / "weights").read_text() == "old"
    again = RunFolder(tmp_path / "run", resume="latest")
    assert again.latest() == tmp_path / "run" / "checkpoint-3"
    assert {path.name for path in again.path.iterdir()} == {"checkpoint-3", "latest", "config.yaml", ".lock"}


def test_a_line_of_metrics_half_written_does_not_count(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.log({"step": 1})
    with (folder.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "rew')
    folder.forget_after(5, logged=5)
    folder.log({"step": 2})
    assert [line["step"] for line in folder.metrics()] == [1, 2]


def test_a_disk_that_is_full_for_episodes_is_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "run" / "evaluation" / "heldout-step-000000"
    start = RunFolder.write_config

    def then_full(self: RunFolder, settings: Mapping[str, Any]) -> None:
        start(self, settings)
        kept.parent.mkdir()
        kept.with_suffix(".tmp").symlink_to("/dev/full")

    monkeypatch.setattr(RunFolder, "write_config", then_full)
    with pytest.raises(SystemExit) as exit_:
        run(tmp_path / "run", "--max-steps", "1")
    assert exit_.value.code == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert f"No space left on the disk for {kept.with_suffix('.jsonl')}" in said
    assert "no checkpoint was written yet, after 0 steps" in said


@pytest.mark.parametrize("command", ["grpo", "sft", "evaluate"])
def test_a_disk_that_is_full_for_the_settings_is_one_message_of_every_command(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    monkeypatch.setattr(RunFolder, "_mend", lambda self: (self.path / "config.yaml.tmp").symlink_to("/dev/full"))
    target = ["embedded"] if command == "evaluate" else []
    with pytest.raises(SystemExit) as exit_:
        importlib.import_module(f"algos.{command}").main([*target, "--output-dir", str(folder)])
    assert exit_.value.code == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert f"No space left on the disk for {folder / 'config.yaml'}" in said
    assert not (folder / "config.yaml.tmp").is_symlink(), "what was begun is gone"


def test_a_full_disk_is_told_by_any_library_in_its_own_words(tmp_path: Path) -> None:
    def fill(path: Path) -> None:
        raise RuntimeError("I/O error: No space left on device (os error 28)")

    with pytest.raises(DiskFull):
        RunFolder(tmp_path / "run").write_folder("best", fill)


def test_what_was_learnt_before_an_evaluation_without_a_score_is_kept_and_evaluated_when_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = itertools.count()

    def too_slow_after_training(*args: Any, **told: Any) -> Any:
        return play_on_all_ranks(*args, **(told if next(calls) < 2 else told | {"time_limit": 1e-9}))

    folder = tmp_path / "run"
    monkeypatch.setattr("algos.evaluate.play_on_all_ranks", too_slow_after_training)
    with pytest.raises(SystemExit) as exit_:
        run(folder, "--max-steps", "1", "--save-steps", "0")
    assert exit_.value.code == 1
    said = capsys.readouterr().err
    assert "there is no score: all 4 dialogues were aborted" in said
    assert f"{folder / 'checkpoint-1'} is whole: go on from it with --resume-from-checkpoint latest" in said
    monkeypatch.undo()
    run(folder, "--max-steps", "1", "--resume-from-checkpoint", "latest")
    assert ["eval/heldout/accuracy" in line for line in steps_of(folder)] == [True]


def test_a_first_evaluation_without_a_score_leaves_no_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        run(tmp_path / "run", "--dialogue-timeout", "1e-9")
    assert exit_.value.code == 1
    assert "no checkpoint was written yet, after 0 steps" in capsys.readouterr().err


def test_where_a_run_folder_is_gone_the_error_is_the_one_that_came_first(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="cause"), room_for(tmp_path / "gone" / "best", tmp_path / "gone"):
        raise KeyError("cause")
