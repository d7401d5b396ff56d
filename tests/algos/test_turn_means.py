"""Means over turns against sums written out, and their derivative against finite differences."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from algos.turn_means import TurnMeans

NAN = float("nan")
# Turns that start at a row's first token, the same turn at the end of a row and the start of the next, a turn in two
# parts, a row without any.
TURNS = torch.tensor([[0, 0, -1, 1, 1], [1, 1, -1, 0, 2], [2, -1, 2, 2, -1], [-1, -1, -1, -1, -1]])


def drawn(seed: int) -> Tensor:
    return torch.rand(TURNS.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


VALUE, FIXED, SHARE = drawn(0), drawn(1), torch.where(TURNS >= 0, drawn(2), 0.0)


def means(value_BT: Tensor, fixed_BT: Tensor, share_BT: Tensor = SHARE) -> Any:
    return TurnMeans.apply(value_BT, fixed_BT, share_BT, TURNS)


def test_means_are_those_of_sums_written_out() -> None:
    mean_BK, fixed_BK, weight_BK = means(VALUE, FIXED)
    assert mean_BK.shape == fixed_BK.shape == weight_BK.shape == (4, 3)
    for b, k in torch.cartesian_prod(torch.arange(4), torch.arange(3)).tolist():
        own_T = TURNS[b] == k
        weight = float(SHARE[b, own_T].sum())
        for got_BK, of_BT in ((mean_BK, VALUE), (fixed_BK, FIXED)):
            wanted = float((SHARE * of_BT)[b, own_T].sum()) / weight if weight else 0.0
            assert abs(float(got_BK[b, k]) - wanted) < 1e-15
        assert abs(float(weight_BK[b, k]) - weight) < 1e-15


def test_the_derivative_is_that_of_finite_differences() -> None:
    assert torch.autograd.gradcheck(lambda value_BT: means(value_BT, FIXED)[0], VALUE.clone().requires_grad_())


def test_not_even_a_nan_matters_where_nothing_is_trained() -> None:
    trained_BT = TURNS >= 0
    spoilt_BT = torch.where(trained_BT, VALUE, NAN).requires_grad_()
    got = means(spoilt_BT, torch.where(trained_BT, FIXED, NAN))
    for clean, dirty in zip(means(VALUE, FIXED), got, strict=True):
        assert torch.equal(clean, dirty)
    (grad_BT,) = torch.autograd.grad(got[0].sum(), spoilt_BT)
    assert not grad_BT[~trained_BT].any()


def test_a_turn_that_weighs_nothing_has_mean_0_and_no_derivative() -> None:
    value_BT = VALUE.clone().requires_grad_()
    mean_BK, _, _ = means(value_BT, FIXED, torch.where(TURNS == 1, 0.0, SHARE))
    assert mean_BK[:, 1].tolist() == [0.0] * 4
    (grad_BT,) = torch.autograd.grad(mean_BK.sum(), value_BT)
    assert not grad_BT[TURNS == 1].any()
    assert torch.isfinite(grad_BT).all()
