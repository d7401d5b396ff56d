"""Faults that public trainers met: small inputs, and the outcome that is right."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoTokenizer

from algos.algorithm import Out
from algos.batch import Batch, deal
from algos.config import LearnerConfig
from algos.grpo import GRPOConfig
from algos.grpo import advantages as grpo_advantages
from algos.grpo import loss as grpo_loss
from algos.learner import Learner
from algos.learning import informative
from algos.scoring import Precision
from rema_agents.episodes import read_episodes, write_episodes
from rema_agents.play import play
from rema_agents.types import Episode
from rema_env.transcript import role_of
from tests.algos.batches import batch_of, weighed
from tests.algos.plain import plain_sgd, weights_of
from tests.algos.steps import steps_of
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
    for step, problems in ((2, 8), (3, 12)):  # problems, not episodes: 32 episodes are 8 problems
        assert json.loads((folder / f"checkpoint-{step}/trainer/progress.json").read_text())["problems"] == problems


def test_groups_that_wait_while_a_run_is_stopped_and_saved_are_trained_once_after_it_goes_on(
    sixteen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    argv = ["--dataset-name", str(sixteen), "--max-steps", "4"]
    plays = itertools.count()

    def stopped(make_env: Any, seats_for: Any, problems: Any, **more: Any) -> Any:
        if len(problems) == 16 and next(plays) == 2:  # training, step 3: two groups are done, two are waiting
            play(make_env, seats_for, problems[:8], **{**more, "groups": more["groups"][:8]})
            os.kill(os.getpid(), signal.SIGTERM)
        return play(make_env, seats_for, problems, **more)

    monkeypatch.setattr("algos.rollout.play", stopped)
    with pytest.raises(SystemExit) as exit_:
        run(folder, *argv)
    assert exit_.value.code == 143
    assert (folder / "latest").read_text() == "checkpoint-2"
    run(folder, *argv, "--resume-from-checkpoint", "latest")
    seen = trained_on(folder, range(1, 5))
    assert (len(seen), set(seen.values())) == (16, {1})


def test_weights_as_a_start_bring_neither_step_nor_optimizer_with_them(sixteen: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    run(first, "--max-steps", "2", "--save-steps", "2")
    start = ["--preset", "embedded", "--model-name-or-path", str(first / "checkpoint-2")]
    run(second, *start, "--max-steps", "1", "--save-steps", "1")
    (step,) = (second / "checkpoint-1" / "trainer" / "policy" / "state").glob("*model_states.pt")
    state = torch.load(step, weights_only=False)
    assert state["global_steps"] == 2  # the two minibatches of its own first step
    assert state["lr_scheduler"]["last_epoch"] == 2


def test_messages_cut_at_the_limit_leave_the_loss_and_stay_in_the_metrics(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    cut = ["--max-completion-length", "1", "--overlong", "mask", "--unfinished-reward", "grade"]
    run(folder, *cut, "--zero-advantage", "keep", "--beta", "0.1", "--max-steps", "1", "--save-steps", "0")
    (line,) = steps_of(folder)
    assert (line["loss"], line["grad_norm"], line["update/count"], line["update/skipped"]) == (0, 0, 0, 0)
    assert (line["meta/completions/clipped_ratio"], line["meta/completions/max_length"]) == (1.0, 1.0)
    assert (folder / "final/policy/model.safetensors").read_bytes() == (
        folder / "best/policy/model.safetensors"
    ).read_bytes()


@pytest.mark.parametrize(
    ("argv", "policy", "nobody"),
    [
        (["--unfinished-reward", "drop"], "", "meta_0, reasoner_0"),
        (["--team", "separate"], "reasoner/", "reasoner_0"),  # a planner that is cut leaves it no word
    ],
)
def test_a_step_in_which_a_policy_has_nothing_to_learn_from_is_told_and_the_run_goes_on(
    argv: list[str], policy: str, nobody: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path / "run", *argv, "--max-completion-length", "1", "--max-steps", "2", "--save-steps", "0")
    said = capsys.readouterr().out
    for step, line in enumerate(steps_of(tmp_path / "run"), start=1):
        assert [line[f"{policy}{name}"] for name in ("loss", "grad_norm", "update/count")] == [0, 0, 0]
        assert f"step {step}: nothing to train on: none of the 16 episodes holds a sampled token of {nobody}" in said


def test_a_group_that_agrees_is_left_out_of_the_kl_too_unless_it_is_kept() -> None:
    config = GRPOConfig(beta=0.1)
    batch = batch_of([[0], [0], [0], [0]], reward=[0.0, 0.0, 1.0, 0.0], group=[0, 0, 1, 1])
    zero_BT = torch.zeros(4, 1, dtype=torch.float64)
    batch = batch.with_tensors(old_logp_BT=zero_BT, ref_logp_BT=zero_BT - 1)
    batch = batch.with_tensors(adv_BT=grpo_advantages(batch, None, config=config)[0])

    def gradient(batch: Batch) -> dict[int, float]:
        """How much each trajectory's token is pulled."""
        logp_BT = torch.zeros(len(batch), 1, dtype=torch.float64, requires_grad=True)
        grpo_loss(Out(logp_BT), weighed(batch, "token"), config=config)[0].backward()
        assert logp_BT.grad is not None
        return dict(zip(batch.trajectory_B.tolist(), logp_BT.grad[:, 0].tolist(), strict=True))

    pull = 0.1 * (1 - math.exp(-1))
    assert LearnerConfig().zero_advantage == "drop"
    assert set(gradient(informative(batch))) == {2, 3}
    kept = gradient(batch)
    assert [kept[0], kept[1]] == pytest.approx([pull / 4] * 2)


def test_in_the_first_update_the_loss_is_0_and_the_gradient_is_not(tmp_path: Path) -> None:
    run(tmp_path / "run", "--num-minibatches", "1", "--share", "trajectory", "--max-steps", "1", "--save-steps", "0")
    (line,) = steps_of(tmp_path / "run")
    assert abs(line["loss"]) < 1e-6
    assert line["grad_norm"] > 0.01
    assert line["clip_ratio/region_mean"] == 0


def test_a_prompt_over_the_limit_ends_its_dialogue_is_counted_and_none_is_ever_cut(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    questions = ["Compute 1+2 modulo 10.", "Compute 1+2 modulo 10." + " " * 300]
    path.write_text("".join(json.dumps({"question": q, "answer": 3}) + "\n" for q in questions))
    limit = ["--dataset-name", str(path), "--max-prompt-length", "256", "--max-steps", "1", "--save-steps", "0"]
    run(tmp_path / "run", *limit)
    (line,) = steps_of(tmp_path / "run")
    assert line["endings/context_full"] == 0.5
    episodes = list(read_episodes(tmp_path / "run" / "episodes" / "step-000001.jsonl"))
    assert {len(e.calls) == 0 for e in episodes if e.problem.question == questions[1]} == {True}
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run" / "final" / "policy")
    system = yaml.safe_load((tmp_path / "run" / "system_prompts.yaml").read_text())
    for call in (call for e in episodes for call in e.calls):
        assert len(call.prompt_ids) <= 256
        assert system[role_of(call.agent)] in tokenizer.decode(call.prompt_ids)


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
        config = plain_sgd(1.0, stage=stage, tokens=tokens, deepspeed=str(tmp_path / "accumulate.json"))
        learner = Learner(str(embedded), config, CPU, temperature=0.7)
        start = weights_of(learner)
        for steps, part in enumerate(parts, start=1):
            learner.update(part.with_tensors(old_logp_BT=learner.logp(part)), LOSS)
            assert learner.engine.global_steps == steps
        changes.append(weights_of(learner) - start)
    assert float((changes[1] - changes[0]).norm() / changes[0].norm()) < 1e-3
