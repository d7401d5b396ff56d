"""The clipped surrogates against numbers worked by hand, and the table of defaults."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algos import grpo, reinforce_pp, turn_ppo
from algos.algorithm import Out
from algos.batch import Batch, micro_batches
from algos.surrogate import CLIPS, RATIOS, SurrogateConfig, reward_less_kl, surrogate_loss
from tests.algos.batches import batch_of, on_policy, weighed

# One trajectory: turn 0 with three tokens, turn 1 with one.
LOG_RATIOS = [[0.2, 0.4, -0.1, 0.5]]
TURNS = [[0, 0, 0, 1]]
T = pytest.approx


def value(data: Batch, logp: list[list[float]], ratio: str, **settings: Any) -> float:
    got, _ = surrogate_loss(Out(torch.tensor(logp, dtype=torch.float64)), data, ratio, SurrogateConfig(**settings))
    return float(got)


@pytest.mark.parametrize(
    ("ratio", "share", "expected"),
    [
        ("turn_geometric", "turn", -(1.18136 + 1.2) / 2),
        ("turn_arithmetic", "turn", -1.2),
        ("token", "token", -(1.2 + 1.2 + 0.9048374 + 1.2) / 4),
        ("turn_geometric", "turn_in_trajectory", -(1.18136 + 1.2) / 2),
        ("turn_geometric", "turn_sum", -(1.18136 + 1.2)),
        ("token", "turn", -((1.2 + 1.2 + 0.9048374) / 3 + 1.2) / 2),
        ("sequence", "trajectory", -1.2),
    ],
)
def test_every_ratio_gives_the_loss_worked_by_hand(ratio: str, share: str, expected: float) -> None:
    data = on_policy(batch_of(TURNS), 1.0, share)
    assert value(data, LOG_RATIOS, ratio, epsilon=0.2) == T(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("ratio", "first", "second"),
    [("turn_geometric", math.exp(0.5 / 3), math.exp(0.5)), ("turn_arithmetic", 1.2060, math.exp(0.5))],
)
def test_turn_ratios_are_those_worked_by_hand_and_never_the_sum(ratio: str, first: float, second: float) -> None:
    data = on_policy(batch_of(TURNS), 1.0, "turn")
    got, adv, weight = RATIOS[ratio](Out(torch.tensor(LOG_RATIOS, dtype=torch.float64)), data, 20.0)
    assert got.tolist() == [T([first, second], abs=1e-4)]
    assert adv.tolist() == [T([1.0, 1.0])]
    assert weight.tolist() == [T([0.5, 0.5])]
    assert float(got[0, 0]) != T(math.exp(0.5), abs=0.1)


def test_the_readings_of_the_turn_ratio_agree_where_all_its_tokens_moved_alike() -> None:
    data = on_policy(batch_of(TURNS), 1.0, "turn")
    out = Out(torch.tensor([[0.3, 0.3, 0.3, -0.2]], dtype=torch.float64))
    assert torch.allclose(RATIOS["turn_geometric"](out, data, 20.0)[0], RATIOS["turn_arithmetic"](out, data, 20.0)[0])


@given(st.lists(st.floats(-2, 2), min_size=4, max_size=4))
def test_the_arithmetic_reading_is_never_below_the_geometric_one(log_ratios: list[float]) -> None:
    data = on_policy(batch_of(TURNS), 1.0, "turn")
    out = Out(torch.tensor([log_ratios], dtype=torch.float64))
    geometric, arithmetic = (RATIOS[f"turn_{name}"](out, data, 20.0)[0] for name in ("geometric", "arithmetic"))
    assert (arithmetic >= geometric - 1e-12).all()


@pytest.mark.parametrize("ratio", RATIOS)
def test_one_row_and_several_give_the_same_loss(ratio: str) -> None:
    one = on_policy(batch_of(TURNS), 0.7, "turn_in_trajectory")
    two = on_policy(batch_of([[0, 0, 0], [-1, -1, 1]], trajectory=[0, 0]), 0.7, "turn_in_trajectory")
    split = [[0.2, 0.4, -0.1], [9.0, 9.0, 0.5]]
    assert value(two, split, ratio, epsilon=10) == T(value(one, LOG_RATIOS, ratio, epsilon=10))


def test_the_dual_clip_is_the_one_worked_by_hand() -> None:
    data = on_policy(batch_of([[0]]), -1.0, "token")
    assert value(data, [[math.log(5)]], "token", epsilon=0.2) == T(5.0)
    assert value(data, [[math.log(5)]], "token", epsilon=0.2, dual_clip=3.0) == T(3.0)
    assert value(data, [[math.log(2)]], "token", epsilon=0.2, dual_clip=3.0) == T(2.0)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("log_ratio", [100.0, -100.0, 5.0, -5.0])
def test_log_ratios_are_guarded_on_both_sides_and_have_no_gradient_beyond(ratio: str, log_ratio: float) -> None:
    data = on_policy(batch_of([[0, 0]]), -1.0, "token")
    logp_BT = torch.full((1, 2), log_ratio, dtype=torch.float64, requires_grad=True)
    got, _ = surrogate_loss(Out(logp_BT), data, ratio, SurrogateConfig(epsilon=1e3, log_ratio_limit=3.0))
    got.backward()
    assert float(got.detach()) == T(math.exp(math.copysign(3.0, log_ratio)))
    assert logp_BT.grad is not None
    assert logp_BT.grad.tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("ratio", RATIOS)
def test_padding_has_no_part_in_ratio_loss_or_gradient(ratio: str) -> None:
    data = weighed(batch_of([[-1, 0, -1]]), "token").with_tensors(
        old_logp_BT=torch.tensor([[-200.0, -1.0, 7.0]], dtype=torch.float64),
        adv_BT=torch.tensor([[5.0, 1.0, 5.0]], dtype=torch.float64),
    )
    logp_BT = torch.tensor([[0.0, -1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    got, scalars = surrogate_loss(Out(logp_BT), data, ratio, SurrogateConfig())
    got.backward()
    assert float(got.detach()) == T(-1.0)
    assert logp_BT.grad is not None
    assert logp_BT.grad.tolist() == [[0.0, T(-1.0), 0.0]]
    assert float(scalars["clip_ratio/region_mean"]) == 0.0


@pytest.mark.parametrize("share", ["token", "trajectory", "turn", "turn_in_trajectory", "turn_sum"])
@pytest.mark.parametrize("ratio", RATIOS)
def test_where_nothing_is_trained_loss_and_gradient_are_0_and_not_nan(ratio: str, share: str) -> None:
    data = on_policy(batch_of([[-1, -1], [-1, -1]]), 1.0, share)
    data = data.with_tensors(ref_logp_BT=torch.ones(2, 2, dtype=torch.float64))
    logp_BT = torch.zeros(2, 2, dtype=torch.float64, requires_grad=True)
    got, scalars = surrogate_loss(Out(logp_BT), data, ratio, SurrogateConfig(beta=0.1))
    got.backward()
    assert float(got.detach()) == 0.0
    assert {float(scalar) for scalar in scalars.values()} == {0.0}
    assert logp_BT.grad is not None
    assert logp_BT.grad.tolist() == [[0.0, 0.0]] * 2


@pytest.mark.parametrize("estimator", ["k2", "k3"])
@pytest.mark.parametrize("placeholder", [1.0, -200.0, 200.0])
def test_what_stands_in_for_masked_log_probabilities_is_in_no_sum_and_no_metric(
    placeholder: float, estimator: Any
) -> None:
    def scalars(at_masked: float) -> dict[str, float]:
        data = on_policy(batch_of([[0, -1, 0, -1]]), 1.0, "token").with_tensors(
            old_logp_BT=torch.tensor([[-1.0, at_masked, -1.0, at_masked]], dtype=torch.float64),
            ref_logp_BT=torch.tensor([[-1.5, at_masked, -1.0, at_masked]], dtype=torch.float64),
        )
        out = Out(torch.tensor([[-0.5, 0.0, -1.0, 0.0]], dtype=torch.float64))
        config = SurrogateConfig(beta=0.1, kl_estimator=estimator)
        got, told = surrogate_loss(out, data, "token", config)
        return {"loss": float(got), **{name: float(scalar) for name, scalar in told.items()}}

    assert scalars(placeholder) == scalars(0.0)
    assert scalars(placeholder)["clip_ratio/region_mean"] == 0.5


@pytest.mark.parametrize("tokens", [1, 3, 4, 9, 10, 12, 18, 1000])
@pytest.mark.parametrize("rows", [[3, 9], [1, 2, 4, 5], [3, 3, 3, 3], [1] * 12])
def test_three_tokens_of_loss_0_9_and_nine_of_0_1_have_the_mean_0_3_in_every_split(
    rows: list[int], tokens: int
) -> None:
    turn = [[0] * n + [-1] * (max(rows) - n) for n in rows]
    dear_BT = (torch.tensor(turn) >= 0).flatten().cumsum(0).reshape(len(rows), -1) <= 3
    data = on_policy(batch_of(turn), torch.where(dear_BT, -0.9, -0.1).double(), "token")
    data = replace(data, length_B=torch.tensor(rows))
    parts = [data.rows(index) for index in micro_batches(data, tokens)]
    assert sum(value(part, part.old_logp_BT.tolist(), "token") for part in parts) == T(0.3)
    assert len(parts) > 1 or tokens >= 12


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        ("token", [math.exp(0.2) / 4, math.exp(0.4) / 4, math.exp(-0.1) / 4, math.exp(0.5) / 4]),
        ("turn_geometric", [math.exp(0.5 / 3) / 6] * 3 + [math.exp(0.5) / 2]),
        ("turn_arithmetic", [math.exp(0.2) / 6, math.exp(0.4) / 6, math.exp(-0.1) / 6, math.exp(0.5) / 2]),
    ],
)
def test_a_token_pulls_by_its_own_ratio_or_by_its_turns_whichever_the_reading_says(
    ratio: str, expected: list[float]
) -> None:
    data = on_policy(batch_of(TURNS), 1.0, "token" if ratio == "token" else "turn")
    logp_BT = torch.tensor(LOG_RATIOS, dtype=torch.float64, requires_grad=True)
    got, _ = surrogate_loss(Out(logp_BT), data, ratio, SurrogateConfig(epsilon=10))
    got.backward()
    assert logp_BT.grad is not None
    assert (-logp_BT.grad)[0].tolist() == T(expected)


def test_clip_ratios_tell_both_sides_apart() -> None:
    data = on_policy(batch_of([[0, 0, 0, 0]]), torch.tensor([[1.0, 1.0, -1.0, -1.0]], dtype=torch.float64), "token")
    out = Out(torch.tensor([[0.5, -0.5, 0.5, -0.5]], dtype=torch.float64))
    _, scalars = surrogate_loss(out, data, "token", SurrogateConfig())
    assert {name: float(scalar) for name, scalar in scalars.items()} == {
        "clip_ratio/region_mean": 0.5,
        "clip_ratio/low_mean": 0.25,
        "clip_ratio/high_mean": 0.25,
    }


def test_the_entropy_bonus_is_weighted_by_the_same_shares() -> None:
    data = on_policy(batch_of([[0, 1, 1]]), 0.0, "turn")
    out = Out(torch.zeros(1, 3, dtype=torch.float64), entropy_BT=torch.tensor([[1.0, 2.0, 4.0]], dtype=torch.float64))
    got, scalars = surrogate_loss(out, data, "token", SurrogateConfig(entropy_coef=0.1))
    assert float(scalars["entropy"]) == T(2.0)
    assert float(got) == T(-0.2)


def test_the_kl_in_the_reward_is_the_trajectorys_own_sum() -> None:
    data = batch_of([[0, -1, 1], [0, -1, -1]], reward=[1.0, 0.0]).with_tensors(
        old_logp_BT=torch.tensor([[-1.0, 9.0, -2.0], [-3.0, 9.0, 9.0]], dtype=torch.float64),
        ref_logp_BT=torch.tensor([[-1.5, 0.0, -1.0], [-3.0, 0.0, 0.0]], dtype=torch.float64),
    )
    paid = reward_less_kl(data, SurrogateConfig(beta=0.1, kl_in="reward"))
    assert paid.tolist() == T([1.0 - 0.1 * (0.5 - 1.0), 0.0])
    assert reward_less_kl(data, SurrogateConfig(beta=0.1)) is data.reward_S


def test_k1_in_a_loss_is_refused_with_its_reason() -> None:
    with pytest.raises(ValueError, match="the expected gradient of logp - ref_logp is 0"):
        SurrogateConfig(kl_estimator="k1")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epsilon": -0.1}, "--epsilon must be at least 0"),
        ({"epsilon": math.nan}, "--epsilon must be at least 0 and finite, got nan"),
        ({"beta": math.inf}, "--beta must be at least 0 and finite, got inf"),
        ({"log_ratio_limit": 1e3}, "--log-ratio-limit must be above 0 and at most 80"),
        ({"dual_clip": 1.0}, "--dual-clip must be above 1"),
        ({"log_ratio_limit": 0.0}, "--log-ratio-limit must be above 0"),
        ({"entropy_coef": -1.0}, "--entropy-coef must be at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        SurrogateConfig(**settings)


# algorithm, ratio, share, (epsilon, epsilon_high), beta, where its KL goes
DEFAULTS = [
    (grpo.GRPOConfig(), "token", "token", (0.2, 0.28), 0.0, "loss"),
    (grpo.GRPOConfig(ratio="sequence"), "sequence", "token", (3e-4, 4e-4), 0.0, "loss"),
    (turn_ppo.TurnPPOConfig(), "turn_geometric", "turn_in_trajectory", (0.2, 0.2), 0.0, "loss"),
    (turn_ppo.TurnPPOConfig(ratio="turn_arithmetic"), "turn_arithmetic", "turn_in_trajectory", (0.2, 0.2), 0.0, "loss"),
    (reinforce_pp.ReinforcePPConfig(), "token", "token", (0.2, 0.2), 0.01, "reward"),
]


@pytest.mark.parametrize(("config", "ratio", "share", "clip", "beta", "kl_in"), DEFAULTS)
def test_defaults_are_those_of_the_table(
    config: Any, ratio: str, share: str, clip: tuple[float, float], beta: float, kl_in: str
) -> None:
    assert (getattr(config, "ratio", "token"), config.share, config.clip(ratio)) == (ratio, share, clip)
    assert (config.beta, config.kl_in, config.dual_clip, config.entropy_coef) == (beta, kl_in, None, 0.0)


def test_epsilon_alone_holds_on_both_sides() -> None:
    assert SurrogateConfig(epsilon=0.1).clip("token") == (0.1, 0.1)
    assert SurrogateConfig(epsilon_high=0.3).clip("token") == (0.2, 0.3)
    assert set(CLIPS) == set(RATIOS)


@pytest.mark.parametrize(
    ("share", "total", "policy", "critic"), [("turn", 1.0, -1.0, 0.375), ("turn_sum", 2.0, -2.0, 0.75)]
)
def test_critic_and_policy_are_weighed_alike_and_the_value_loss_told_is_a_mean(
    share: str, total: float, policy: float, critic: float
) -> None:
    """One trajectory has one turn, the other three: w_k is 1/4 or, with `turn_sum`, 1/2. V = 0 and G is 1, 0, 1, 1."""
    data = on_policy(batch_of([[0, -1, -1], [0, 1, 2]]), 1.0, share)
    assert float(data.share_BT.sum()) == T(total)
    return_BK = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
    data = data.with_tensors(return_BK=return_BK, share_total=torch.tensor(total))
    zero = torch.zeros(2, 3, dtype=torch.float64)
    config = turn_ppo.TurnPPOConfig(credit="critic", value_coef=0.1)
    got, scalars = turn_ppo.loss(Out(zero, value_BK=zero), data, config=config)
    assert float(got) == T(policy + 0.1 * critic)
    assert float(scalars["value_loss"]) == T(3 / 8)  # three of four turns are 1 off, which costs 1/2
