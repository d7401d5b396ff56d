"""The conformance checks pass what is right and catch, each, an algorithm that does the one thing wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
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


def carries_no_json(batch: Batch, carry: Any) -> tuple[Tensor, Any]:
    return batch.reward_S[batch.trajectory_B, None].expand_as(batch.turn_BT), batch.reward_S


def over_the_plain_deviation(batch: Batch, carry: Any) -> tuple[Tensor, Any]:
    """Where a group agrees, 0 / 0."""
    group_S = [batch.reward_S[batch.group_S == group] for group in batch.group_S]
    mean_S, std_S = (
        torch.stack([f(group) for group in group_S]) for f in (torch.mean, partial(torch.std, correction=0))
    )
    return ((batch.reward_S - mean_S) / std_S)[batch.trajectory_B, None].expand_as(batch.turn_BT), carry


def changed(
    factor: float | Callable[[Batch], Tensor] = 1.0, **scalars: Callable[[Out, Batch], Any]
) -> Callable[[Out, Batch], Any]:
    """GRPO's loss times a factor, with other scalars."""

    def loss(out: Out, batch: Batch) -> Any:
        value, _ = GRPO.loss(out, batch)
        by = factor(batch) if callable(factor) else factor
        return value * by, {name: scalar(out, batch) for name, scalar in scalars.items()}

    return loss


def without_shares(out: Out, batch: Batch) -> tuple[Tensor, Metrics]:
    return -(out.logp_BT * batch.adv_BT)[batch.trained_BT].sum(), {}


def one_agent_downhill(out: Out, batch: Batch) -> tuple[Tensor, Metrics]:
    sign_S = torch.where(batch.agent_S == 1, -1.0, 1.0)
    return -(sign_S[batch.trajectory_B, None] * batch.share_BT * out.logp_BT * batch.adv_BT).sum(), {}


@pytest.mark.parametrize(
    ("wrong", "caught"),
    [
        (replace(GRPO, loss=changed(0.0)), "uphill"),
        (replace(GRPO, loss=changed(-1.0)), "uphill"),
        (replace(GRPO, loss=one_agent_downhill), "uphill"),
        (replace(GRPO, loss=changed(float("nan"))), "finite"),
        (replace(GRPO, loss=changed(float("nan"))), "split"),
        (replace(GRPO, loss=changed(x=lambda out, batch: float("inf"))), "finite"),
        (replace(GRPO, advantages=over_the_plain_deviation), "finite"),
        (replace(GRPO, loss=changed(x=lambda out, batch: out.logp_BT.mean())), "split"),
        (replace(GRPO, loss=changed(x=lambda out, batch: 1)), "split"),
        (replace(GRPO, loss=without_shares), "shares"),
        (replace(GRPO, loss=changed(lambda batch: batch.share_BT.sum())), "shares"),
        (replace(GRPO, advantages=carries_no_json), "pure"),
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


def test_all_that_fails_is_listed_at_once() -> None:
    with pytest.raises(AssertionError, match=r"(?s)finite: not finite: gradient, loss.*\nsplit: loss \(in parts of"):
        check(replace(GRPO, loss=changed(float("nan"))), factor=None)


def test_a_scalar_that_is_a_sum_holds_and_one_that_is_not_is_named() -> None:
    good = changed(x=lambda out, batch: (batch.share_BT * out.logp_BT).sum())
    assert CHECKS["split"](replace(GRPO, loss=good)).holds
    bad = changed(x=lambda out, batch: out.logp_BT.mean())
    assert "x (in parts of" in CHECKS["split"](replace(GRPO, loss=bad)).fault


@pytest.mark.parametrize("needs", [("nope",), "ref_logp"])
def test_needs_that_the_learner_does_not_know_are_refused(needs: Any) -> None:
    with pytest.raises(ValueError, match=r"`needs` names .*; it is a tuple of names among ref_logp, entropy"):
        replace(GRPO, needs=needs)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (
            lambda out, batch: out.logp_BT.sum(),
            r"must return \(loss, scalars\), .* but returned a tensor of shape \(\)",
        ),
        (lambda out, batch: (out.logp_BT.detach().sum(), {}), "one number with a gradient, .* without a gradient"),
        (lambda out, batch: (out.logp_BT, {}), "one number with a gradient, .* but gave a tensor of shape"),
        (lambda out, batch: (0.0, {}), r"one number with a gradient, .* but gave float 0\.0"),
        (lambda out, batch: (out.logp_BT.sum(), None), "scalars as a mapping from name to number, but gave nothing"),
        (lambda out, batch: (out.logp_BT.sum(), {"x": "high"}), "scalars as name and number, but gave 'x': str 'high'"),
        (lambda out, batch: (out.logp_BT.sum(), {"x": out.logp_BT}), "one number for x, but gave a tensor of shape"),
    ],
)
def test_what_is_no_loss_is_told_as_such(loss: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check(replace(GRPO, loss=loss), factor=None)


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
        (lambda batch: None, "must give adv_BT, or a mapping from name to tensor, but gave nothing"),
        (lambda batch: {"adv_BT": 1.0}, r"must give tensors, but gave adv_BT: float 1\.0"),
    ],
)
def test_advantages_of_the_wrong_shape_or_kind_are_told_by_name(paid: Callable[[Batch], Any], said: str) -> None:
    wrong = replace(GRPO, advantages=lambda batch, carry: (paid(batch), carry))
    with pytest.raises(ValueError, match=said):
        check(wrong, factor=None)


@pytest.mark.parametrize("given", [lambda batch, carry: batch.old_logp_BT, lambda batch, carry: None])
def test_advantages_without_a_carry_are_told_as_such(given: Any) -> None:
    with pytest.raises(ValueError, match=r"`advantages` must return \(adv_BT, carry\), but returned"):
        check(replace(GRPO, advantages=given), factor=None)
