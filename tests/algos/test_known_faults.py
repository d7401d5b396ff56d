"""Faults that public trainers met: small inputs, and the outcome that is right."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
import torch

from algos.batch import deal
from algos.config import LearnerConfig
from algos.learner import Learner
from algos.scoring import Precision
from rema_agents.episodes import read_episodes, write_episodes
from rema_agents.types import Episode
from tests.algos.zero_worker import LOSS, stored_batch

CPU = Precision(torch.device("cpu"), torch.float32)
FLAGS = ["--env", "math_v0", "--problems-per-step", "4", "--num-generations", "4", "--eval-steps", "0"]
FLAGS += ["--num-completions-to-print", "0", "--eval-num-problems", "4"]


def run(folder: Path, *argv: str) -> None:
    from algos.grpo import main

    main([*FLAGS, "--output-dir", str(folder), *argv])


@pytest.fixture
def sixteen(tmp_path: Path) -> Path:
    """A data set of 16 problems: four steps are an epoch."""
    path = tmp_path / "sixteen.jsonl"
    rows = ({"question": f"Compute {a}+{b} modulo 10.", "answer": (a + b) % 10} for a in range(4) for b in range(4))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def trained_on(folder: Path, steps: range) -> Counter[str]:
    """How many groups of each problem the steps were trained on."""
    seen: Counter[str] = Counter()
    for step in steps:
        episodes = read_episodes(folder / "episodes" / f"step-{step:06d}.jsonl")
        seen.update({e.group: e.problem.question for e in episodes}.values())
    return seen


def test_a_run_resumed_within_or_at_the_end_of_an_epoch_trains_on_every_problem_once_an_epoch(
    sixteen: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    data = ["--dataset-name", str(sixteen), "--save-steps", "1"]
    run(folder, *data, "--max-steps", "3")  # within the first epoch: 12 problems, 48 episodes
    resume = ["--resume-from-checkpoint", "latest"]
    run(folder, *data, *resume, "--max-steps", "4")  # exactly at its end
    run(folder, *data, *resume, "--max-steps", "8")
    assert json.loads((folder / "summary.json").read_text())["steps"] == 8
    for epoch in (range(1, 5), range(5, 9)):
        seen = trained_on(folder, epoch)
        assert len(seen) == 16
        assert set(seen.values()) == {1}
    progress = json.loads((folder / "checkpoint-3" / "trainer" / "progress.json").read_text())
    assert progress["problems"] == 12  # problems, not episodes


def test_weights_as_a_start_bring_neither_step_nor_optimizer_with_them(sixteen: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run(first, "--max-steps", "2", "--save-steps", "2")
    start = ["--preset", "embedded", "--model-name-or-path", str(first / "checkpoint-2")]
    run(second, *start, "--max-steps", "1", "--save-steps", "1")
    (step,) = (second / "checkpoint-1" / "trainer" / "policy" / "state").glob("*model_states.pt")
    state = torch.load(step, weights_only=False)
    assert state["global_steps"] == 2  # the two minibatches of its own first step
    assert state["lr_scheduler"]["last_epoch"] == 2


def test_an_evaluation_need_not_divide_by_the_group_size(tmp_path: Path) -> None:
    run(tmp_path / "run", "--max-steps", "0", "--eval-num-problems", "3", "--num-generations", "8")
    kept = list(read_episodes(tmp_path / "run" / "evaluation" / "heldout-step-000000.jsonl"))
    assert len(kept) == 3


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_one_optimizer_step_a_batch_of_3_5_or_10_micro_batches_with_the_gradient_of_the_whole(
    stage: int, embedded: Path, episodes: list[Episode], tmp_path: Path
) -> None:
    write_episodes(tmp_path / "episodes.jsonl", episodes)
    (tmp_path / "accumulate.json").write_text('{"gradient_accumulation_steps": 4}')
    whole = stored_batch(tmp_path / "episodes.jsonl")
    number_S = torch.arange(len(whole.reward_S))
    parts = [
        whole.of_trajectories((number_S >= first) & (number_S < last)) for first, last in ((0, 3), (3, 8), (8, 18))
    ]
    assert [len(deal(part, 1, 1)[0]) for part in parts] == [3, 5, 10]
    changes = []
    for tokens in (1, 10**6):
        config = LearnerConfig(
            optimizer="sgd",
            learning_rate=1.0,
            max_grad_norm=0,
            gradient_checkpointing=False,
            micro_batch_tokens=tokens,
            zero_stage=stage,  # type: ignore[arg-type]
            deepspeed=str(tmp_path / "accumulate.json"),
        )
        learner = Learner(str(embedded), config, CPU, temperature=0.7)
        start = torch.cat([w.flatten().clone() for _, w in learner.named_weights()])
        for steps, part in enumerate(parts, start=1):
            learner.update(part.with_tensors(old_logp_BT=learner.logp(part)), LOSS)
            assert learner.engine.global_steps == steps
        changes.append(torch.cat([w.flatten() for _, w in learner.named_weights()]) - start)
    assert float((changes[1] - changes[0]).norm() / changes[0].norm()) < 1e-3
