"""A turn against what else could have been said in its place: the other continuations of the very same context.

    A_sk = (R_s - b_c) / (sigma_c + 1e-6)      over all turns of the step that answer the same tokens c

Two turns are alike where one agent saw exactly the same tokens before them. At a dialogue's first turn these are the
group; further on they come from branching (`--num-branches`): play resumes from a transcript, so several continuations
share a context. A turn whose context nobody shares has no baseline and advantage 0.

Bias: given a context, the others' rewards do not depend on the turn's own tokens, so baseline `leave_one_out` without
division is unbiased wherever a context is shared by design; `mean` multiplies by (1 - 1/n). Where contexts coincide by
chance, turn k's part of the gradient in context c is multiplied by the chance that c has company.

Source: COMA, arXiv:1705.08926, with samples in the place of a critic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from algos.functional import group_advantages, spread, turn_segments

if TYPE_CHECKING:
    from algos.batch import Batch
    from algos.credit import CreditConfig


def counterfactual(batch: Batch, reward_S: Tensor, carry: Any, config: CreditConfig) -> tuple[Tensor, Any]:
    """One advantage for each turn."""
    segment_BT, count = turn_segments(batch.turn_BT, batch.trajectory_B)
    contexts: dict[tuple[int, bytes], int] = {}
    number, turns = [], []
    for b, row in enumerate(segment_BT.numpy()):
        for turn in sorted({int(n) for n in row if n >= 0}):
            start = int((row == turn).argmax())
            said = int(batch.agent_S[batch.trajectory_B[b]]), batch.ids_BT[b, :start].numpy().tobytes()
            number.append(contexts.setdefault(said, len(contexts)))
            turns.append(turn)
    turn_N = torch.tensor(turns)
    s_N = turn_N // (count // (int(batch.trajectory_B.max()) + 1))
    advantage_N = group_advantages(
        reward_S[s_N],
        torch.tensor(number),
        baseline=config.baseline,
        scale=config.scale_rewards,
        scale_group_S=batch.agent_S[s_N],
    )
    advantage_SK = torch.zeros(count, dtype=reward_S.dtype).index_put((turn_N,), advantage_N)
    return spread(advantage_SK, segment_BT), carry
