"""Schedules, groups, sampling and credit in whole runs of the embedded model, a step or two each."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rema_agents.episodes import read_episodes
from rema_agents.types import Episode
from tests.algos.steps import steps_of

SMALL = "--problems-per-step 4 --num-generations 4 --eval-num-problems 4 --eval-steps 0 --save-steps 0 --seed 3".split()


def run(folder: Path, *argv: str, algorithm: str = "grpo") -> list[dict[str, Any]]:
    """The metrics of a run."""
    importlib.import_module(f"algos.{algorithm}").main([*SMALL, "--output-dir", str(folder), *argv])
    return steps_of(folder)


def played(folder: Path, step: int) -> list[Episode]:
    return list(read_episodes(folder / "episodes" / f"step-{step:06d}.jsonl"))


def test_alternating_trains_one_role_a_step_and_each_by_its_own_rate(tmp_path: Path, embedded: Path) -> None:
    who = ["--team", "separate", "--train", "alternate:1", "--first", "reasoner", "--learning-rates", '{"meta": 0.0}']
    first, second = run(tmp_path / "run", *who, "--max-steps", "2")
    assert "reasoner/grad_norm" in first
    assert "meta/grad_norm" not in first
    assert (second["meta/learning_rate"], first["reasoner/learning_rate"]) == (0.0, 5e-4)
    start = load_file(embedded / "model.safetensors")
    final = {role: load_file(tmp_path / "run" / "final" / role / "model.safetensors") for role in ("meta", "reasoner")}
    assert all(torch.equal(final["meta"][name], weight) for name, weight in start.items())
    assert not all(torch.equal(final["reasoner"][name], weight) for name, weight in start.items())


def test_a_learning_rate_for_weights_that_there_are_not_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(tmp_path / "run", "--learning-rates", '{"meta": 1e-4}', "--max-steps", "1")
    assert "there are no weights of 'meta' alone; there are: policy" in capsys.readouterr().err


def test_dynamic_sampling_keeps_whole_groups_that_teach_and_draws_on(tmp_path: Path) -> None:
    wants = ["--dynamic-sampling", "--success-rate", "0.3:0.6", "--max-sampling-rounds", "6", "--max-steps", "2"]
    lines = run(tmp_path / "run", *wants)
    for line in lines:
        assert line["frac_reward_zero_std"] == 0.0
        assert 0 < line["sampling/kept"] <= 1
        assert (line["sampling/dropped"] > 0) == (line["sampling/kept"] < 1)
        assert 0 <= line["sampling/reward"] <= 1
    for step in (1, 2):
        episodes = played(tmp_path / "run", step)
        assert [e.group for e in episodes] == [n // 4 for n in range(len(episodes))]
        for g in range(0, len(episodes), 4):
            group = episodes[g : g + 4]
            assert len({e.problem.id for e in group}) == 1
            assert 0.3 <= sum(e.rewards["meta_0"] for e in group) / 4 <= 0.6
    assert any(line["sampling/kept"] < 1 for line in lines)
    drawn = [{e.problem.id for e in played(tmp_path / "run", step)} for step in (1, 2)]
    assert not drawn[0] & drawn[1]


def test_branches_share_their_stem_and_only_what_follows_is_sampled_anew(tmp_path: Path) -> None:
    run(tmp_path / "run", "--num-branches", "3", "--group-by", "context", "--max-steps", "1")
    episodes = played(tmp_path / "run", 1)
    branches = [e for e in episodes if "branch_of" in e.info]
    assert len(episodes) == 16 + len(branches) == 48
    for branch in branches:
        stem = episodes[branch.info["branch_of"]]
        assert branch.transcript.turns[0] == stem.transcript.turns[0]
        assert branch.group == stem.group
        assert min(call.turn for call in branch.calls) == 1
    assert any(b.transcript.turns[1] != episodes[b.info["branch_of"]].transcript.turns[1] for b in branches)


def test_the_limit_of_rounds_rises_at_the_step_that_the_schedule_names(tmp_path: Path) -> None:
    first, second = run(tmp_path / "run", "--max-rounds", "1:0,4:1", "--max-steps", "2")
    assert first["turns/mean"] == 2.0
    assert second["turns/mean"] > 2.0


def test_importance_correction_of_the_same_engine_is_near_1_and_off_unless_asked_for(tmp_path: Path) -> None:
    (off,) = run(tmp_path / "off", "--max-steps", "1")
    (on,) = run(tmp_path / "on", "--max-steps", "1", "--importance-correction", "on")
    assert "sampling/importance_mean" not in off
    assert on["sampling/importance_mean"] == pytest.approx(1.0, abs=1e-4)
    assert on["grad_norm"] == pytest.approx(off["grad_norm"], rel=1e-3)


@pytest.mark.parametrize(
    ("algorithm", "argv"),
    [
        ("grpo", "--ratio sequence --share trajectory"),
        ("grpo", "--credit agent_turn --beta 0.01 --kl-in reward"),
        ("grpo", "--credit running --entropy-coef 0.01 --overlong mask --num-iterations 2"),
        ("grpo", "--num-branches 2 --branch-turn 0 --credit counterfactual --baseline leave_one_out"),
        ("turn_ppo", "--ratio turn_arithmetic --share turn_sum --dual-clip 3"),
        ("turn_ppo", "--credit critic"),
        ("reinforce_pp", "--reinforce-baseline group --overlong penalise --overlong-buffer 4"),
    ],
)
def test_every_option_trains(algorithm: str, argv: str, tmp_path: Path) -> None:
    lines = run(tmp_path / "run", *argv.split(), "--max-steps", "2", algorithm=algorithm)
    for line in lines:
        assert line["grad_norm"] > 0
        assert 0 <= line["clip_ratio/region_mean"] <= 1
        assert line["update/count"] > 0


def test_a_running_baseline_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    argv = ["--credit", "running", "--save-steps", "1"]
    whole = run(tmp_path / "whole", *argv, "--max-steps", "2")
    run(tmp_path / "parts", *argv, "--max-steps", "1")
    parts = run(tmp_path / "parts", *argv, "--max-steps", "2", "--resume-from-checkpoint", "latest")
    assert parts[1]["grad_norm"] == whole[1]["grad_norm"]
    carry = json.loads((tmp_path / "parts" / "checkpoint-2" / "trainer" / "progress.json").read_text())["carry"]
    assert set(carry["policy"]) == {"meta_0", "reasoner_0"}


def test_the_folders_of_a_single_turn_run_start_a_multi_turn_run_of_both_roles(tmp_path: Path) -> None:
    separate = ["--team", "separate", "--max-steps", "1"]
    run(tmp_path / "single", *separate, "--process", "single_turn")
    start = ["--preset", "embedded", "--model-name-or-path", str(tmp_path / "single"), "--learning-rate", "0"]
    (line,) = run(tmp_path / "multi", *separate, *start, "--max-rounds", "2")
    assert 2.0 < line["turns/mean"] <= 4.0
    for role in ("meta", "reasoner"):
        trained, taken = (load_file(tmp_path / r / "final" / role / "model.safetensors") for r in ("single", "multi"))
        assert all(torch.equal(taken[name], weight) for name, weight in trained.items())
    assert any(
        not torch.equal(load_file(tmp_path / "multi" / "final" / "meta" / "model.safetensors")[name], weight)
        for name, weight in load_file(tmp_path / "multi" / "final" / "reasoner" / "model.safetensors").items()
    )
