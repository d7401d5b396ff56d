"""REINFORCE++'s advantages against numbers worked by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from algos.batch import Batch
from algos.reinforce_pp import Config, ReinforcePPConfig, advantages, algorithm
from tests.algos.batches import batch_of

T = pytest.approx


def paid(data: Batch, kl: list[list[float]] | None = None, **settings: Any) -> list[list[float]]:
    """Advantages where old_logp - ref_logp is `kl`."""
    old_BT = torch.tensor(kl, dtype=torch.float64) if kl else torch.zeros(data.turn_BT.shape, dtype=torch.float64)
    data = data.with_tensors(old_logp_BT=old_BT, ref_logp_BT=torch.zeros_like(old_BT))
    adv_BT, _ = advantages(data, None, config=ReinforcePPConfig(**settings))
    return [[round(float(a), 4) for a in row] for row in adv_BT]


def test_returns_are_whitened_over_trained_tokens() -> None:
    data = batch_of([[0, 0, -1], [0, -1, -1]], reward=[1.0, 0.0])
    mean, std = 2 / 3, math.sqrt(2 / 9)
    high, low = round((1 - mean) / std, 4), round(-mean / std, 4)
    assert paid(data) == [[high, high, 0], [low, 0, 0]]


def test_each_role_is_whitened_by_itself_unless_asked_for_all() -> None:
    data = batch_of([[0], [0], [0], [0]], reward=[1.0, 0.0, 11.0, 10.0], agent=[0, 0, 1, 1])
    assert paid(data) == [[1.0], [-1.0], [1.0], [-1.0]]
    together = paid(data, whiten_over="all")
    assert together[0][0] < 0 < together[3][0]


def test_a_token_pays_for_its_own_kl_and_what_follows_but_not_for_what_came_before() -> None:
    data = batch_of([[0, 0, -1, 1]], reward=[1.0])
    got = paid(data, [[1.0, 2.0, 50.0, 4.0]], beta=0.1)
    returns = [1 - 0.7, 1 - 0.6, 1 - 0.4]
    mean = sum(returns) / 3
    std = math.sqrt(sum((r - mean) ** 2 for r in returns) / 3)
    white = [(r - mean) / std for r in returns]
    assert got[0] == T([white[0], white[1], 0, white[2]], abs=1e-4)


def test_a_later_turn_counts_gamma_times_as_much() -> None:
    data = batch_of([[0, 1, 2], [0, -1, -1]], reward=[1.0, 0.0])
    returns = [0.81, 0.9, 1.0, 0.0]
    mean = sum(returns) / 4
    std = math.sqrt(sum((r - mean) ** 2 for r in returns) / 4)
    assert paid(data, gamma=0.9)[0] == T([(r - mean) / std for r in returns[:3]], abs=1e-4)


def test_the_baseline_variant_takes_the_group_mean_off_and_divides_by_the_deviation_over_all_trajectories() -> None:
    data = batch_of([[0]] * 8, reward=[1, 1, 0, 0, 0, 0, 0, 1], group=[0] * 4 + [1] * 4)
    got = [row[0] for row in paid(data, reinforce_baseline="group")]
    assert got == T([1.0690, 1.0690, -1.0690, -1.0690, -0.5345, -0.5345, -0.5345, 1.6036], abs=1e-4)


def test_the_deviation_of_the_baseline_variant_counts_trajectories_and_not_tokens() -> None:
    one = paid(batch_of([[0], [0], [0], [0]], reward=[1, 0, 1, 0], group=[0, 0, 1, 1]), reinforce_baseline="group")
    longer = batch_of([[0, 0, 0], [0, -1, -1], [0, -1, -1], [0, -1, -1]], reward=[1, 0, 1, 0], group=[0, 0, 1, 1])
    assert [row[0] for row in paid(longer, reinforce_baseline="group")] == [row[0] for row in one]


def test_where_all_rewards_agree_the_baseline_variant_leaves_a_kl_its_own_size() -> None:
    data = batch_of([[0, 0], [0, -1]], reward=[0.7, 0.7], group=[0, 0])
    got = paid(data, [[1.0, 2.0], [4.0, 9.0]], reinforce_baseline="group", beta=0.1)
    assert got == [[T(-0.3), T(-0.2)], [T(-0.4), 0]]


def test_rewards_that_agree_teach_nothing() -> None:
    assert paid(batch_of([[0, 0], [0, -1]], reward=[0.7, 0.7])) == [[0, 0], [0, 0]]


def test_a_reference_is_loaded_unless_there_is_no_kl() -> None:
    assert algorithm(Config()).needs == ("ref_logp",)
    assert algorithm(Config(reinforce_pp=ReinforcePPConfig(beta=0.0))).needs == ()
