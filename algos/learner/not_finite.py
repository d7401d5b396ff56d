"""A loss that is no finite number: what it is called, where it came from, and what stands in for it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from algos.algorithm import Out
from algos.batch import Batch


class NotFinite(ArithmeticError):
    """A loss or gradient that is no finite number: the update was left out, weights and optimizer are as before.

    Attributes:
        trajectories: those among which the cause is, as far as the forward pass tells; by default the minibatch's.
    """

    def __init__(self, trajectories: Sequence[int]) -> None:
        super().__init__(f"a loss or gradient is not finite, among trajectories {', '.join(map(str, trajectories))}")
        self.trajectories = tuple(trajectories)


def nothing(out: Out) -> Tensor:
    """A loss of 0 that every weight has a part in: what a rank without rows adds."""
    return out.logp_BT.sum() * 0 + (0 if out.value_BK is None else out.value_BK.sum() * 0)


def suspects(out: Out, micro: Batch) -> list[int]:
    """The trajectories of a micro-batch in which a number is not finite; all of them where none is found."""
    per_token = {"logp_BT": out.logp_BT.detach().cpu(), **{n: t for n, t in micro.more.items() if n.endswith("_BT")}}
    bad_B = torch.zeros(len(micro), dtype=torch.bool)
    for value_BT in per_token.values():
        bad_B |= ~torch.isfinite(value_BT).all(1)
    rows = bad_B if bad_B.any() else ~bad_B
    return sorted(set(micro.trajectory_B[rows].tolist()))
