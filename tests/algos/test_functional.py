"""The mathematics of algos.functional against numbers worked by hand and against its own laws."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algos.functional import (
    SHARES,
    clipped,
    clipped_surrogate,
    discounted,
    generalised_advantages,
    group_advantages,
    importance_weights,
    kl_k2,
    kl_k3,
    log_ratio,
    returns_to_go,
    token_shares,
    whiten,
)

# Trajectory 0: turn 0 with 3 tokens, turn 1 with 1; trajectory 1: turn 0 with 2. Seven tokens in all are not trained.
TURN_BT = torch.tensor([[-1, 0, 0, 0, -1, 1], [-1, -1, 0, 0, -1, -1]])
TRAJECTORY_B = torch.tensor([0, 1])
T = pytest.approx


@pytest.mark.parametrize(
    ("share", "first_turn", "second_turn", "other"),
    [
        ("token", 1 / 6, 1 / 6, 1 / 6),
        ("trajectory", 1 / 8, 1 / 8, 1 / 4),
        ("turn", 1 / 9, 1 / 3, 1 / 6),
        ("turn_in_trajectory", 1 / 12, 1 / 4, 1 / 4),
        ("turn_sum", 1 / 6, 1 / 2, 1 / 4),
        ("constant", 1 / 20, 1 / 20, 1 / 20),
    ],
)
def test_shares_are_those_worked_by_hand(share: str, first_turn: float, second_turn: float, other: float) -> None:
    got = token_shares(TURN_BT, TRAJECTORY_B, share, length=10)
    a, b, c = first_turn, second_turn, other
    assert got.tolist() == [T([0, a, a, a, 0, b]), T([0, 0, c, c, 0, 0])]


@st.composite
def turns_of_rows(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of several trajectories, some of them in several rows, with at least one trained token."""
    trajectories = draw(st.lists(st.integers(0, 4), min_size=1, max_size=8))
    rows = [draw(st.lists(st.integers(-1, 3), min_size=6, max_size=6)) for _ in trajectories]
    rows[0][1] = 0
    return torch.tensor(rows), torch.tensor(trajectories)


@given(turns_of_rows(), st.sampled_from(["token", "trajectory", "turn", "turn_in_trajectory"]))
def test_shares_sum_to_one_and_only_trained_tokens_have_one(
    rows: tuple[torch.Tensor, torch.Tensor], share: str
) -> None:
    turn_BT, trajectory_B = rows
    got = token_shares(turn_BT, trajectory_B, share)
    assert float(got.sum()) == T(1.0)
    assert torch.equal(got > 0, turn_BT >= 0)


@given(turns_of_rows())
def test_turn_sum_sums_to_the_mean_number_of_turns(rows: tuple[torch.Tensor, torch.Tensor]) -> None:
    turn_BT, trajectory_B = rows
    turns = {(s, k) for s, row in zip(trajectory_B.tolist(), turn_BT.tolist(), strict=True) for k in row if k >= 0}
    mean = len(turns) / len({s for s, _ in turns})
    assert float(token_shares(turn_BT, trajectory_B, "turn_sum").sum()) == T(mean)


@pytest.mark.parametrize("share", SHARES)
def test_shares_are_the_same_for_one_row_and_for_several(share: str) -> None:
    whole = token_shares(TURN_BT, TRAJECTORY_B, share, length=5)
    parts = torch.tensor([[-1, 0, 0, 0], [-1, -1, -1, 1], [-1, -1, 0, 0]])
    split = token_shares(parts, torch.tensor([0, 0, 1]), share, length=5)
    assert split[parts >= 0].tolist() == T(whole[TURN_BT >= 0].tolist())


def test_shares_of_nothing_are_zero_and_not_nan() -> None:
    assert token_shares(torch.full((2, 3), -1), torch.tensor([0, 1]), "trajectory").tolist() == [[0, 0, 0]] * 2


def test_an_unknown_share_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"share must be one of token, .*, got 'batch'"):
        token_shares(TURN_BT, TRAJECTORY_B, "batch")
    with pytest.raises(ValueError, match="constant needs the length"):
        token_shares(TURN_BT, TRAJECTORY_B, "constant")


def test_group_advantages_are_those_worked_by_hand() -> None:
    reward_S, group_S = torch.tensor([1.0, 0, 0, 1, 5, 5]), torch.tensor([7, 7, 7, 7, 2, 2])
    a = 0.5 / (math.sqrt(1 / 3) + 1e-6)
    assert group_advantages(reward_S, group_S).tolist() == T([a, -a, -a, a, 0, 0])
    assert group_advantages(reward_S, group_S, scale="none").tolist() == T([0.5, -0.5, -0.5, 0.5, 0, 0])


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize(("reward", "size"), [(1.0, 4), (0.7, 16), (0.1, 10), (1 / 3, 7), (0.0, 2)])
def test_a_group_that_agrees_has_no_advantage(reward: float, size: int, scale: str) -> None:
    for dtype in (torch.float32, torch.float64):  # ten times 0.1 is not 1 in float64
        got = group_advantages(torch.full((size,), reward, dtype=dtype), torch.zeros(size).long(), scale=scale)
        assert got.tolist() == [0.0] * size


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 1, 3], [3, 1, 2, 0]])
def test_groups_are_told_apart_by_number_and_not_by_place(order: list[int]) -> None:
    reward_S, group_S = torch.tensor([1.0, 0, 5, 5])[order], torch.tensor([0, 0, 1, 1])[order]
    a = 0.5 / (math.sqrt(0.5) + 1e-6)
    expected = torch.tensor([a, -a, 0, 0])[order]
    assert group_advantages(reward_S, group_S).tolist() == T(expected.tolist())
    plain = group_advantages(reward_S, group_S, scale="none")
    assert plain.tolist() == torch.tensor([0.5, -0.5, 0, 0])[order].tolist()


@pytest.mark.parametrize("scale", ["group", "none"])
def test_a_reward_that_is_no_number_spoils_its_own_group_visibly_and_no_other(scale: str) -> None:
    got = group_advantages(torch.tensor([float("nan"), 1.0, 1.0, 0.0]), torch.tensor([0, 0, 1, 1]), scale=scale)
    assert got.isnan().tolist() == [True, True, False, False]
    assert whiten(torch.tensor([[float("nan"), 1.0]]), torch.tensor([0]), torch.ones(1, 2).bool()).isnan().all()


def test_a_group_of_one_has_no_baseline_and_no_advantage() -> None:
    assert group_advantages(torch.tensor([3.0]), torch.tensor([0])).tolist() == [0.0]


def test_log_ratio_is_zero_where_nothing_is_trained_so_the_gradient_stays_finite() -> None:
    logp_BT = torch.zeros(1, 2, requires_grad=True)
    old_BT = torch.tensor([[-200.0, -0.5]])
    torch.exp(log_ratio(logp_BT, old_BT, torch.tensor([[-1, 0]]))).sum().backward()
    assert logp_BT.grad is not None
    assert logp_BT.grad.tolist() == [[0.0, T(math.exp(0.5))]]


@pytest.mark.parametrize("gap", [-300.0, 300.0])
def test_log_ratio_is_guarded_on_both_sides(gap: float) -> None:
    got = log_ratio(torch.tensor([[gap]]), torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.long))
    assert math.isfinite(math.exp(float(got)))
    assert math.copysign(1, float(got)) == math.copysign(1, gap)


def test_the_token_surrogate_is_the_one_worked_by_hand() -> None:
    ratio = torch.exp(torch.tensor([0.2, 0.4, -0.1, 0.5]))
    got = -clipped_surrogate(ratio, torch.ones(4), 0.2, 0.2)
    assert got.tolist() == T([-1.2, -1.2, -0.9048374, -1.2])
    assert float(got.mean()) == T(-1.1262, abs=1e-4)
    assert [side.tolist() for side in clipped(ratio, torch.ones(4), 0.2, 0.2)] == [
        [False] * 4,
        [True, True, False, True],
    ]
    assert not any(side.any() for side in clipped(ratio, -torch.ones(4), 0.2, 0.2))


def test_kl_estimators_are_those_worked_by_hand() -> None:
    logp, ref = torch.tensor([-1.0]), torch.tensor([-1.5])
    assert float(kl_k2(logp, ref)) == T(0.125)
    assert float(kl_k3(logp, ref)) == T(math.exp(-0.5) + 0.5 - 1)


def test_turn_returns_are_those_worked_by_hand_and_stop_at_the_last_turn() -> None:
    assert discounted(torch.tensor([[0.0, 0.0, 1.0, 0.0]]), 0.9)[0].tolist() == T([0.81, 0.9, 1.0, 0.0])
    reward_SK, real_SK = torch.tensor([[0.0, 0.0, 1.0, 50.0]]), torch.tensor([[True, True, True, False]])
    got = generalised_advantages(reward_SK, torch.zeros(1, 4), real_SK, gamma=0.9, lam=1.0)
    assert got[0].tolist() == T([0.81, 0.9, 1.0, 0.0])
    four, padded = torch.tensor([0.0, 0.0, 0.0, 50.0]), torch.tensor([[0, 1, 2, -1]])
    to_go = returns_to_go(four[None], torch.tensor([1.0]), padded, torch.tensor([0]), gamma=0.9)
    assert to_go[0].tolist() == T([0.81, 0.9, 1.0, 0.0])


def test_returns_to_go_pass_over_rows_and_turns_of_one_trajectory() -> None:
    turn_BT, trajectory_B = torch.tensor([[-1, 0, 0, -1], [-1, -1, 1, 1], [0, -1, -1, -1]]), torch.tensor([0, 0, 1])
    reward_BT = torch.tensor([[9.0, 1, 2, 9], [9, 9, 4, 8], [16, 9, 9, 9]])
    got = returns_to_go(reward_BT, torch.tensor([100.0, 200.0]), turn_BT, trajectory_B, gamma=0.5)
    assert got.tolist() == [[0, 3 + 56, 2 + 56, 0], [0, 0, 112, 108], [216, 0, 0, 0]]


def test_turn_level_gae_is_the_one_worked_by_hand() -> None:
    reward, value = torch.tensor([[0.0, 1.0, 7.0]]), torch.tensor([[0.5, 0.25, 7.0]])
    real = torch.tensor([[True, True, False]])
    last = 1.0 - 0.25
    got = generalised_advantages(reward, value, real, lam=0.5)
    assert got[0].tolist() == T([0.25 - 0.5 + 0.5 * last, last, 0.0])
    full = generalised_advantages(reward, value, real, lam=1.0)
    assert full[0].tolist() == T([1.0 - 0.5, 1.0 - 0.25, 0.0])


def test_whitening_is_by_kind_over_trained_tokens_alone() -> None:
    value_BT = torch.tensor([[1.0, 3.0, 99.0], [5.0, 5.0, 5.0]])
    trained_BT = torch.tensor([[True, True, False], [True, True, True]])
    assert whiten(value_BT, torch.tensor([0, 1]), trained_BT).tolist() == [[T(-1), T(1), 0], [0, 0, 0]]


def test_leave_one_out_is_the_mean_of_the_others() -> None:
    reward_S, group_S = torch.tensor([1.0, 0, 0.5]), torch.tensor([4, 4, 4])
    got = group_advantages(reward_S, group_S, baseline="leave_one_out", scale="none")
    assert got.tolist() == T([0.75, -0.75, 0.0])


def test_importance_weights_are_capped_and_count_sampled_tokens_alone() -> None:
    old, sampled = torch.tensor([[-1.0, -1.0, 50.0]]), torch.tensor([[-1.2, -3.0, 0.0]])
    got = importance_weights(old, sampled, torch.tensor([[0, 0, -1]]))
    assert got[0].tolist() == T([math.exp(0.2), 2.0, 0.0])


def test_a_gap_of_0_012_a_token_compounds_to_3_32_over_100_tokens() -> None:
    difference = log_ratio(torch.full((1, 100), 0.012), torch.zeros(1, 100), torch.zeros(1, 100, dtype=torch.long))
    assert float(difference.sum().exp()) == T(3.32, abs=0.01)
