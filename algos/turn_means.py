"""Means over turns, in a few passes over the tokens, however many turns there are.

A product with a (rows, tokens, turns) mask says the same; `python -m benchmarks.loss_speed` compares the two.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class TurnMeans(torch.autograd.Function):
    """By turn of each row: the mean of a differentiable value and of a fixed one, weighted by shares; and the weight.

        mean_BK, fixed_BK, weight_BK = TurnMeans.apply(value_BT, fixed_BT, share_BT, turn_BT)

    Where a row has no turn k all three are 0. What stands where nothing is trained has no part, not even a NaN. Equal
    turns of a row stand in runs, and each run is added up as it lies in memory: a few passes over the tokens, however
    many turns there are. The backward pass is  d value_t = share_t / weight_k  d mean_k.
    """

    @staticmethod
    def forward(
        ctx: Any, value_BT: Tensor, fixed_BT: Tensor, share_BT: Tensor, turn_BT: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The three tensors above."""
        cell_N, cell_R, offset_R, columns = _runs(turn_BT)

        def by_turn(x_BT: Tensor) -> Tensor:
            sum_R = torch.segment_reduce(x_BT.flatten(), "sum", offsets=offset_R, unsafe=True)
            sum_C = sum_R.new_zeros(len(x_BT) * columns).index_add_(0, cell_R, sum_R)
            return sum_C.view(len(x_BT), columns)[:, 1:]

        weight_BK = by_turn(share_BT)
        part_BT = share_BT * fixed_BT
        fixed_BK = by_turn(part_BT)
        mean_BK = by_turn(torch.mul(share_BT, value_BT, out=part_BT))
        divisor_BK = torch.where(weight_BK > 0, weight_BK, 1.0)
        ctx.save_for_backward(cell_N, share_BT, divisor_BK)
        fixed_BK = fixed_BK / divisor_BK
        ctx.mark_non_differentiable(fixed_BK, weight_BK)
        return mean_BK / divisor_BK, fixed_BK, weight_BK

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        """By the value alone."""
        cell_N, share_BT, divisor_BK = ctx.saved_tensors
        grad_C = torch.nn.functional.pad(grads[0] / divisor_BK, (1, 0)).flatten()
        return grad_C.index_select(0, cell_N).view_as(share_BT).mul_(share_BT), None, None, None


def _runs(turn_BT: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    """Each token's cell, each run's cell, where runs start in memory (and the end), and the columns of cells.

    Turn k of row b is cell b (K + 1) + k + 1; what is not trained is in the first cell of its row.
    """
    cell_BT = turn_BT.to(torch.int32, copy=True)
    columns = int(cell_BT.amax()) + 2
    first_B = torch.arange(1, len(turn_BT) * columns + 1, columns, dtype=torch.int32, device=turn_BT.device)
    cell_N = cell_BT.add_(first_B[:, None]).flatten()
    cell_R, length_R = torch.unique_consecutive(cell_N, return_counts=True)
    offset_R = torch.nn.functional.pad(length_R.cumsum(0), (1, 0))
    return cell_N, cell_R.clone(), offset_R, columns  # what unique_consecutive gives keeps room for N runs
