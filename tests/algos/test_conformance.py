"""The conformance checks pass what is right and catch, each, an algorithm that does the one thing wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from algos import conformance, grpo, reinforce_pp, turn_ppo
from algos.algorithm import Algorithm, Metrics, Out
from algos.batch import Batch
from algos.conformance import CHECKS, check, exact_gradient, examine, load

GRPO = grpo.algorithm(grpo.Config())
UNBIASED = grpo.algorithm(grpo.Config(grpo=grpo.GRPOConfig(baseline="leave_one_out", scale_rewards="none")))


@pytest.mark.parametrize("module", [grpo, turn_ppo, reinforce_pp])
def test_the_algorithms_here_conform(module: Any) -> None:
    check(module.algorithm(module.Config()), factor=None)


def test_turn_ppo_with_a_critic_conforms() -> None:
    settings = turn_ppo.TurnPPOConfig(credit="critic", lam=1.0, scale_rewards="none")
    check(turn_ppo.algorithm(turn_ppo.Config(turn_ppo=settings)))


def test_the_exact_gradient_holds_for_an_unbiased_estimator_and_with_its_factor_for_a_biased_one() -> None:
    check(UNBIASED)
    mean = grpo.algorithm(grpo.Config(grpo=grpo.GRPOConfig(scale_rewards="none")))
    assert exact_gradient(mean, factor=2 / 3, group_size=3).holds
    assert not exact_gradient(mean, group_size=3).holds
    assert not exact_gradient(GRPO).holds


Loss = Callable[[Out, Batch], tuple[Tensor, Metrics]]


def mean_of_the_micro_batch(out: Out, batch: Batch) -> tuple[Tensor, Metrics]:
    return -(out.logp_BT * batch.adv_BT)[batch.trained_BT].mean(), {}


def everything(out: Out, batch: Batch) -> tuple[Tensor, Metrics]:
    return -(out.logp_BT * batch.adv_BT).sum() / 100, {}


def by_row(out: Out, batch: Batch) -> tuple[Tensor, Metrics]:
    ratio_B = (torch.where(batch.trained_BT, out.logp_BT - batch.old_logp_BT, 0.0)).sum(1).exp()
    return -(ratio_B * batch.adv_BT[:, -1] * batch.share_BT.sum(1)).sum(), {}


def whitened_over_both(batch: Batch, carry: Any) -> tuple[Tensor, Any]:
    adv_S = (batch.reward_S - batch.reward_S.mean()) / batch.reward_S.std()
    return adv_S[batch.trajectory_B, None].expand_as(batch.turn_BT), carry


def first_agent_twice(batch: Batch, carry: Any) -> tuple[Tensor, Any]:
    adv_S = batch.reward_S * torch.where(batch.agent_S == 0, 2.0, 1.0)
    return adv_S[batch.trajectory_B, None].expand_as(batch.turn_BT), carry


def writes(batch: Batch, carry: Any) -> tuple[Tensor, Any]:
    batch.reward_S.mul_(2)
    return batch.reward_S[batch.trajectory_B, None].expand_as(batch.turn_BT), carry


def carries_a_tensor(batch: Batch, carry: Any) -> tuple[Tensor, Any]:
    return batch.reward_S[batch.trajectory_B, None].expand_as(batch.turn_BT), (1.0, 2.0)


@pytest.mark.parametrize(
    ("wrong", "caught"),
    [
        (replace(GRPO, loss=mean_of_the_micro_batch), "split"),
        (replace(GRPO, loss=everything), "mask"),
        (replace(GRPO, loss=by_row), "rows"),
        (replace(GRPO, advantages=whitened_over_both), "freezing"),
        (replace(GRPO, advantages=first_agent_twice), "agents"),
        (replace(GRPO, advantages=writes), "pure"),
        (replace(GRPO, advantages=carries_a_tensor), "pure"),
    ],
)
def test_an_algorithm_that_does_one_thing_wrong_is_caught(wrong: Algorithm, caught: str) -> None:
    assert not CHECKS[caught](wrong).holds
    with pytest.raises(AssertionError, match=caught):
        check(wrong, factor=None)


def test_the_command_says_what_holds_and_fails_where_something_does_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert conformance.main(["algos.grpo"]) == 0
    out = capsys.readouterr().out
    assert [line.split()[-1] for line in out.splitlines()[:-1]] == ["holds"] * len(CHECKS)
    assert "times the policy gradient" in out.splitlines()[-1]
    monkeypatch.setattr(grpo, "algorithm", lambda config: replace(GRPO, loss=everything))
    assert conformance.main(["algos.grpo"]) == 1
    assert "FAILS" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "said"),
    [([], "name one module"), (["algos.nothing"], "No module named"), (["algos.batch"], "has no `Config`")],
)
def test_what_is_no_algorithm_is_refused_in_one_line(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        conformance.main(argv)
    assert exit_.value.code == 2
    assert said in capsys.readouterr().err


def test_findings_name_every_check() -> None:
    assert [finding.name for finding in examine(load("algos.grpo"), factor=None)] == list(CHECKS)


@pytest.mark.parametrize(
    ("paid", "said"),
    [
        (lambda batch: batch.reward_S, r"gave adv_BT of shape \(18,\); the batch has"),
        (lambda batch: {"advantage": batch.reward_S}, "must give adv_BT, but gave advantage"),
        (
            lambda batch: {"adv_BT": batch.old_logp_BT, "return_BK": batch.reward_S[:1]},
            r"gave return_BK of shape \(1,\)",
        ),
    ],
)
def test_advantages_of_the_wrong_shape_are_told_by_name(paid: Callable[[Batch], Any], said: str) -> None:
    wrong = replace(GRPO, advantages=lambda batch, carry: (paid(batch), carry))
    with pytest.raises(ValueError, match=said):
        check(wrong, factor=None)
