"""GRPO's loss against numbers worked by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from algos.algorithm import Out
from algos.batch import Batch
from algos.functional import token_shares
from algos.grpo import Config, GRPOConfig, advantages, algorithm, loss


def batch(turn: list[list[int]], old: list[list[float]], adv: float = 1.0, share: str = "token") -> Batch:
    turn_BT, old_BT = torch.tensor(turn), torch.tensor(old)
    rows = torch.arange(len(turn))
    plain = Batch(
        ids_BT=torch.zeros_like(turn_BT),
        turn_BT=turn_BT,
        sampled_logp_BT=old_BT,
        length_B=torch.full((len(turn),), turn_BT.shape[1]),
        trajectory_B=rows,
        reward_S=torch.zeros(len(turn)),
        group_S=rows,
        agent_S=rows,
        episode_S=rows,
        agents=("meta_0",),
    )
    share_BT = token_shares(turn_BT, rows, share).float()
    return plain.with_tensors(old_logp_BT=old_BT, adv_BT=torch.full(old_BT.shape, adv), share_BT=share_BT)


def value(data: Batch, logp: list[list[float]], **settings: Any) -> float:
    got, _ = loss(Out(torch.tensor(logp)), data, config=GRPOConfig(**settings))
    return float(got.detach())


RATIOS = [[0.2, 0.4, -0.1, 0.5]]


def test_the_token_ratio_loss_is_the_one_worked_by_hand() -> None:
    data = batch([[0, 0, 0, 1]], [[0.0] * 4])
    assert value(data, RATIOS, epsilon_high=0.2) == pytest.approx(-(1.2 + 1.2 + 0.9048374 + 1.2) / 4)
    assert value(data, RATIOS, epsilon_high=0.28) == pytest.approx(-(1.2214028 + 1.28 + 0.9048374 + 1.28) / 4)


def test_clip_ratio_counts_tokens_without_gradient_by_their_share() -> None:
    _, scalars = loss(Out(torch.tensor(RATIOS)), batch([[0, 0, 0, 1]], [[0.0] * 4]), config=GRPOConfig())
    assert float(scalars["clip_ratio/region_mean"]) == pytest.approx(0.5)


def test_untrained_positions_count_for_nothing() -> None:
    data = batch([[-1, 0, -1]], [[-200.0, -1.0, 7.0]])
    assert value(data, [[0.0, -1.0, 0.0]]) == pytest.approx(-1.0)


def test_the_kl_term_is_weighted_by_the_same_shares() -> None:
    data = batch([[0, 1]], [[-1.0, -2.0]], adv=0.0).with_tensors(ref_logp_BT=torch.tensor([[-1.5, -2.0]]))
    k3 = math.exp(-0.5) + 0.5 - 1
    assert value(data, [[-1.0, -2.0]], beta=0.1) == pytest.approx(0.1 * k3 / 2)
    assert value(data, [[-1.0, -2.0]], beta=0.1, kl_estimator="k2") == pytest.approx(0.1 * 0.125 / 2)


def test_on_policy_the_loss_is_near_zero_and_its_gradient_is_not() -> None:
    data = batch([[0], [0]], [[-1.0], [-1.0]])
    data = data.with_tensors(adv_BT=torch.tensor([[1.0], [-1.0]]))
    logp_BT = torch.tensor([[-1.0], [-1.0]], requires_grad=True)
    got, _ = loss(Out(logp_BT), data, config=GRPOConfig())
    got.backward()
    assert float(got.detach()) == 0.0
    assert logp_BT.grad is not None
    assert logp_BT.grad.tolist() == [[-0.5], [0.5]]


def test_every_token_is_paid_its_trajectorys_advantage() -> None:
    data = batch([[0, 1], [0, -1]], [[0.0, 0.0]] * 2)
    data = Batch(**{**vars(data), "reward_S": torch.tensor([1.0, 0.0]), "group_S": torch.tensor([3, 3])})
    adv_BT, carry = advantages(data, None, config=GRPOConfig(scale_rewards="none"))
    assert adv_BT.tolist() == [[0.5, 0.5], [-0.5, -0.5]]
    assert carry is None


def test_a_reference_is_loaded_only_for_a_kl_term() -> None:
    assert algorithm(Config()).needs == ()
    assert algorithm(Config(grpo=GRPOConfig(beta=0.1))).needs == ("ref_logp",)
