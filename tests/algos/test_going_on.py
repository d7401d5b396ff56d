"""What a resumed run may change, what it may not, and what it says of a checkpoint that it cannot use."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from algos.command_line import parse
from algos.comparable import asked
from algos.config import TrainConfig
from algos.evaluate import evaluate_sets
from algos.world import make_world
from rema_env.transcript import Problem
from tests.algos.steps import steps_of

if TYPE_CHECKING:
    from algos.state import Run

FLAGS = ["--env", "math_v0", "--problems-per-step", "4", "--num-generations", "4", "--eval-num-problems", "4"]
FLAGS += ["--eval-steps", "0", "--num-completions-to-print", "0", "--num-minibatches", "1", "--save-steps", "1"]


def run(*argv: str) -> None:
    from algos.grpo import main

    main([*FLAGS, *argv])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One step of a run, with a checkpoint."""
    folder = tmp_path_factory.mktemp("done") / "run"
    run("--max-steps", "1", "--output-dir", str(folder))
    return folder


@pytest.fixture
def folder(done: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(done, tmp_path / "run")


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *argv: str) -> str:
    """What is said, with exit code 2, to a run that wants to go on."""
    with pytest.raises(SystemExit) as exit_:
        run("--max-steps", "2", "--resume-from-checkpoint", "latest", "--output-dir", str(folder), *argv)
    assert exit_.value.code == 2
    assert (folder / "metrics.jsonl").read_text().count("\n") == 2, "nothing is lost"
    return capsys.readouterr().err


@pytest.mark.parametrize(("zero", "rate"), [("0", 1e-3), ("0", 5e-4), ("2", 1e-3)])
def test_a_run_goes_on_with_the_learning_rate_that_it_is_told_now(zero: str, rate: float, tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    linear = ["--lr-scheduler-type", "linear", "--zero-stage", zero, "--output-dir", folder]
    run(*linear, "--max-steps", "1")
    run(*linear, "--max-steps", "4", "--learning-rate", str(rate), "--resume-from-checkpoint", "latest")
    lines = steps_of(tmp_path / "run")
    assert [line["learning_rate"] for line in lines] == pytest.approx([5e-4, 0.75 * rate, 0.5 * rate, 0.25 * rate])


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--optimizer", "sgd"], "written with --optimizer adamw and cannot be taken up with --optimizer sgd"),
        (["--lora-rank", "4"], "written with --lora-rank 0 and cannot be taken up with --lora-rank 4"),
        (["--bf16", "True"], "written with --bf16 False and cannot be taken up with --bf16 True"),
        (["--team", "separate"], "holds the training of ['policy'], not of ['meta', 'reasoner']"),
    ],
)
def test_what_gives_a_checkpoint_its_form_cannot_change(
    argv: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refused(capsys, folder, *argv)


def cut(name: str, size: int) -> Callable[[Path], None]:
    def damage(checkpoint: Path) -> None:
        (file,) = checkpoint.glob(name)
        with file.open("r+b") as opened:
            opened.truncate(size)

    return damage


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut("trainer/progress.json", 20), "progress.json is damaged; choose another checkpoint"),
        (cut("trainer/policy/state/*", 1000), "trainer/policy is damaged or of another form"),
        (lambda checkpoint: shutil.rmtree(checkpoint / "trainer" / "policy"), "trainer/policy is damaged or of"),
        (lambda checkpoint: shutil.rmtree(checkpoint / "trainer"), "checkpoint-1 is no checkpoint of a run"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_nothing_else_is_touched(
    damage: Callable[[Path], None], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder / "checkpoint-1")
    assert said in refused(capsys, folder)


@pytest.mark.parametrize("pointer", [None, "", "checkpoint-99", "latest names the checkpoint"])
def test_where_latest_names_nothing_the_newest_checkpoint_is_taken(
    pointer: str | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "latest").unlink()
    if pointer is not None:
        (folder / "latest").write_text(pointer)
    run("--max-steps", "1", "--resume-from-checkpoint", "latest", "--output-dir", str(folder))
    assert f"resumed from {folder / 'checkpoint-1'}, after step 1" in capsys.readouterr().out


def test_a_run_stands_for_its_latest_checkpoint(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    run("--max-steps", "1", "--resume-from-checkpoint", str(folder), "--output-dir", str(other))
    assert f"resumed from {folder / 'checkpoint-1'}, after step 1" in capsys.readouterr().out
    assert json.loads((other / "summary.json").read_text())["best_step"] == 1
    assert (other / "best").is_dir(), "a branch has the best weights of its own"


def test_a_run_that_goes_on_beyond_its_result_stands_for_its_latest_checkpoint_and_the_result_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from algos import trainer
    from rema_agents.models import model_folder

    first, one_step = (folder / "final" / "policy" / "model.safetensors").read_bytes(), trainer.one_step

    def under_way(run: Run) -> dict[str, Any]:
        assert model_folder(str(folder)) == str(folder / "checkpoint-1" / "policy")
        assert not (folder / "summary.json").exists()
        return one_step(run)

    monkeypatch.setattr(trainer, "one_step", under_way)
    run("--max-steps", "2", "--resume-from-checkpoint", "latest", "--output-dir", str(folder))
    kept = folder / "earlier-1"
    assert f"is in {kept}\n" in capsys.readouterr().out
    assert sorted(path.name for path in kept.iterdir()) == ["config.yaml", "final", "summary.json"]
    assert (kept / "final" / "policy" / "model.safetensors").read_bytes() == first
    assert [json.loads((f / "summary.json").read_text())["steps"] for f in (kept, folder)] == [1, 2]
    run("--max-steps", "2", "--resume-from-checkpoint", "latest", "--output-dir", str(folder))
    assert not (folder / "earlier-2").exists(), "nothing was learnt"


def test_where_there_is_no_checkpoint_a_run_starts_again_and_what_it_had_done_is_kept(folder: Path) -> None:
    for name in ("checkpoint-1", "final"):
        shutil.rmtree(folder / name)
    before = (folder / "metrics.jsonl").read_text()
    run("--max-steps", "0", "--resume-from-checkpoint", "latest", "--output-dir", str(folder))
    assert (folder / "earlier-1" / "metrics.jsonl").read_text() == before
    assert (folder / "earlier-1" / "episodes" / "step-000001.jsonl").is_file()
    assert (folder / "metrics.jsonl").read_text() == before.splitlines(keepends=True)[0]
    assert not (folder / "episodes").exists()


@pytest.mark.parametrize("other", [["--eval-num-problems", "5"], ["--process", "single_turn"]])
def test_an_evaluation_on_other_problems_is_not_compared_with_the_one_before_training(
    other: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("--max-steps", "1", "--resume-from-checkpoint", "latest", "--output-dir", str(folder), *other)
    said = capsys.readouterr().out
    assert "warning: evaluation is on other problems than at the start of this run" in said
    assert "before it, it was not measured on the same problems" in said
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["accuracy_before"], summary["evaluation"]["heldout"]["before"]) == (None, None)
    assert (summary["best_step"], summary["best_accuracy"]) == (1, summary["accuracy_after"])
    assert (folder / "earlier-1" / "best" / "policy" / "config.json").is_file()


def test_another_run_or_what_is_none_is_not_written_over(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = folder.parent / "other"
    shutil.copytree(folder, other)
    assert "holds another run" in refused(capsys, folder, "--resume-from-checkpoint", str(other / "checkpoint-1"))
    (folder / "config.yaml").unlink()
    assert "holds something else than a run to go on with" in refused(capsys, folder)


def test_latest_of_no_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        run("--resume-from-checkpoint", "latest")
    assert exit_.value.code == 2
    assert "--resume-from-checkpoint latest needs --output-dir" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit) as exit_:
        run("--output-dir", str(tmp_path / "file" / "run"))
    assert exit_.value.code == 2
    assert "file/run cannot be written: Not a directory" in capsys.readouterr().err


def test_a_step_that_was_stopped_before_its_evaluation_is_logged_once_however_often_it_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from algos import trainer

    where = ["--eval-steps", "2", "--max-steps", "3", "--output-dir", str(tmp_path / "run")]
    one_step = trainer.one_step

    def interrupted(run: Run) -> dict[str, Any]:
        metrics = one_step(run)
        if metrics["step"] == 2:
            signal.raise_signal(signal.SIGTERM)
        return metrics

    monkeypatch.setattr(trainer, "one_step", interrupted)
    with pytest.raises(SystemExit) as exit_:
        run(*where)
    assert exit_.value.code == 143
    monkeypatch.undo()
    for _ in range(2):
        run(*where, "--resume-from-checkpoint", str(tmp_path / "run" / "checkpoint-2"))
        lines = steps_of(tmp_path / "run")
        assert [(line["step"], "eval/heldout/accuracy" in line) for line in lines] == [(1, False), (2, True), (3, True)]


def best_of(folder: Path) -> tuple[int, float]:
    held = json.loads((folder / "best" / "score.json").read_text())
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["best_step"], summary["best_accuracy"]) == (held["step"], held["score"])
    return held["step"], held["score"]


def test_best_weights_are_those_of_the_highest_score_whenever_a_run_was_over_and_went_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    given = iter((0.5, 0.9, 0.4, 0.6))

    def scoring(*args: Any, **told: Any) -> Any:
        return {name: replace(score, accuracy=next(given)) for name, score in evaluate_sets(*args, **told).items()}

    def goes_on_to(step: int, checkpoint: str) -> None:
        run("--max-steps", str(step), "--resume-from-checkpoint", checkpoint, "--output-dir", str(folder))

    monkeypatch.setattr("algos.trainer.evaluate_sets", scoring)
    run("--max-steps", "1", "--output-dir", str(folder))
    weights = (folder / "best" / "policy" / "model.safetensors").read_bytes()
    assert best_of(folder) == (1, 0.9)
    for step in (2, 3):  # 0.4, then 0.6: neither is better, and step 1 itself is not evaluated again
        goes_on_to(step, "latest")
        assert best_of(folder) == (1, 0.9)
        assert (folder / "best" / "policy" / "model.safetensors").read_bytes() == weights
    assert weights == (folder / "checkpoint-1" / "policy" / "model.safetensors").read_bytes()


def test_best_weights_of_a_step_that_is_made_again_are_set_aside(folder: Path) -> None:
    said = folder / "best" / "score.json"
    said.write_text(json.dumps({**json.loads(said.read_text()), "step": 2, "score": 2.0}))
    run("--max-steps", "2", "--resume-from-checkpoint", "latest", "--output-dir", str(folder))
    assert best_of(folder)[0] == 2
    assert best_of(folder)[1] <= 1
    assert json.loads((folder / "earlier-1" / "best" / "score.json").read_text())["score"] == 2.0


@pytest.mark.parametrize(
    "other",
    [
        ["--env-kwargs", '{"actions": "json"}'],
        ["--on-cut", "continue"],
        ["--max-prompt-length", "4000"],
        ["--chat-template-kwargs", '{"enable_thinking": false}'],
        ["--share-thinking"],
        ["--max-rounds", "4:0,5:100"],
    ],
)
def test_whatever_an_evaluation_depends_on_tells_it_from_others(other: list[str]) -> None:
    assert asked(evaluating(*other)) != asked(evaluating())


def test_an_evaluation_is_under_the_rounds_that_a_schedule_ends_with() -> None:
    assert asked(evaluating("--max-rounds", "1:0,5:100")) == asked(evaluating("--max-rounds", "5"))


def evaluating(*argv: str) -> Any:
    """What `asked` reads of a run."""
    config = parse(TrainConfig, list(argv), prog="test")
    return SimpleNamespace(config=config, world=make_world(config.env), sets={"one": [Problem("1", "1+1", "2")]})
