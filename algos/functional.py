"""The mathematics that two or more algorithms use: shares, group advantages, log-ratios, KL estimators.

Pure functions of tensors; axes as in CONTRIBUTING (B rows, T token positions, S trajectories, V vocabulary).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

SHARES = ("token", "trajectory", "turn", "turn_in_trajectory", "turn_sum", "constant")

LOG_RATIO_LIMIT = 20.0
"""Log-ratios [nats] are clamped to +-this before exp: far beyond any clip range, far below overflow."""


def token_shares(turn_BT: Tensor, trajectory_B: Tensor, share: str, *, length: int = 0) -> Tensor:
    """What part of the loss each trained token carries, decided once for a whole minibatch.

    With S trajectories that have trained tokens, n_s tokens in trajectory s, T_s turns in it and n_sk tokens in its
    turn k, a token of turn k of trajectory s gets

        token               1 / sum_s n_s           DAPO, arXiv:2503.14476
        trajectory          1 / (S n_s)             GRPO, arXiv:2402.03300
        turn                1 / (sum_s T_s  n_sk)
        turn_in_trajectory  1 / (S T_s n_sk)        ReMA, arXiv:2503.09501, Eq. 12
        turn_sum            1 / (S n_sk)            no 1/T_s: arXiv:2511.02303
        constant            1 / (S length)          Dr. GRPO, arXiv:2503.20783

    Args:
        turn_BT: int, the turn within its trajectory that each token belongs to; -1 where the token is not trained.
        trajectory_B: int, the trajectory of each row.
        share: one of `SHARES`.
        length: the fixed length of `constant` [tokens].

    Returns:
        share_BT, float64, 0 where nothing is trained. The shares sum to 1, those of `turn_sum` to the mean number of
        turns, those of `constant` to trained tokens / (S length). All zeros where no token is trained.
    """
    if share not in SHARES:
        raise ValueError(f"share must be one of {', '.join(SHARES)}, got {share!r}")
    if share == "constant" and length < 1:
        raise ValueError(f"share constant needs the length to divide by, a positive number of tokens, got {length}")
    trained_BT = turn_BT >= 0
    out_BT = torch.zeros(turn_BT.shape, dtype=torch.float64)
    if not trained_BT.any():
        return out_BT
    trajectory_N = trajectory_B[:, None].expand_as(turn_BT)[trained_BT]
    turns = int(turn_BT.max()) + 1
    turn_key_N = trajectory_N * turns + turn_BT[trained_BT]
    n_s_N = torch.bincount(trajectory_N)[trajectory_N].double()
    n_sk_N = torch.bincount(turn_key_N)[turn_key_N].double()
    turn_keys = torch.unique(turn_key_N)
    T_s_N = torch.bincount(turn_keys // turns)[trajectory_N].double()
    S = len(torch.unique(trajectory_N))
    weight_N = {
        "token": lambda: torch.full_like(n_s_N, 1 / len(trajectory_N)),
        "trajectory": lambda: 1 / (S * n_s_N),
        "turn": lambda: 1 / (len(turn_keys) * n_sk_N),
        "turn_in_trajectory": lambda: 1 / (S * T_s_N * n_sk_N),
        "turn_sum": lambda: 1 / (S * n_sk_N),
        "constant": lambda: torch.full_like(n_s_N, 1 / (S * length)),
    }[share]()
    out_BT[trained_BT] = weight_N
    return out_BT


def group_advantages(reward_S: Tensor, group_S: Tensor, *, scale: str = "group") -> Tensor:
    """Each trajectory's reward against its group: A_s = (R_s - mean_g) / (std_g + 1e-6).

    Source: GRPO, arXiv:2402.03300; `scale="none"` leaves the division out (Dr. GRPO, arXiv:2503.20783). The standard
    deviation has one degree of freedom taken off, as in TRL and the released code of ReMA. A group whose rewards
    agree (max = min, compared) gets exactly 0, and so does a group of one, which has no baseline.

    The mean contains the own sample, so without the division the estimate is (1 - 1/G) times the policy gradient.

    Args:
        reward_S: float, one total reward for each trajectory.
        group_S: int, trajectories with the same number share a baseline.
        scale: `group` or `none`.
    """
    if scale not in ("group", "none"):
        raise ValueError(f"scale must be group or none, got {scale!r}")
    _, group_S = torch.unique(group_S, return_inverse=True)
    reward_S = reward_S.double()
    groups = int(group_S.max()) + 1 if len(group_S) else 0
    count_P = torch.bincount(group_S, minlength=groups).double()
    mean_P = torch.zeros(groups, dtype=torch.float64).index_add_(0, group_S, reward_S) / count_P
    centred_S = reward_S - mean_P[group_S]
    square_P = torch.zeros(groups, dtype=torch.float64).index_add_(0, group_S, centred_S**2)
    std_P = (square_P / (count_P - 1).clamp(min=1)).sqrt()
    high_P = torch.full((groups,), -torch.inf, dtype=torch.float64).scatter_reduce_(0, group_S, reward_S, "amax")
    low_P = torch.full((groups,), torch.inf, dtype=torch.float64).scatter_reduce_(0, group_S, reward_S, "amin")
    varies_S = (high_P > low_P)[group_S]
    advantage_S = centred_S / (std_P[group_S] + 1e-6) if scale == "group" else centred_S
    return torch.where(varies_S, advantage_S, torch.zeros_like(advantage_S)).float()


def log_ratio(logp_BT: Tensor, old_logp_BT: Tensor, turn_BT: Tensor) -> Tensor:
    """logp - old_logp at trained tokens, guarded on both sides; exactly 0 elsewhere, before any exp."""
    difference_BT = torch.where(turn_BT >= 0, logp_BT - old_logp_BT, torch.zeros_like(logp_BT))
    return difference_BT.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)


def clipped_surrogate(ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    """PPO's pessimistic surrogate min(r A, clip(r, 1 - low, 1 + high) A), elementwise, to be maximised.

    Source: PPO, arXiv:1707.06347, Eq. 7; two clip ranges as in DAPO, arXiv:2503.14476.
    """
    return torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)


def clipped(ratio: Tensor, advantage: Tensor, low: float, high: float) -> Tensor:
    """True where `clipped_surrogate` has no gradient."""
    return ((ratio > 1 + high) & (advantage > 0)) | ((ratio < 1 - low) & (advantage < 0))


def kl_k2(logp_BT: Tensor, ref_logp_BT: Tensor) -> Tensor:
    """(logp - ref)^2 / 2: on-policy, its expected gradient is the KL's. Source: Schulman, approximating KL."""
    return (logp_BT - ref_logp_BT) ** 2 / 2


def kl_k3(logp_BT: Tensor, ref_logp_BT: Tensor) -> Tensor:
    """exp(ref - logp) - (ref - logp) - 1: its value is unbiased, its gradient is not (TRL's default).

    Source: GRPO, arXiv:2402.03300, Eq. 4.
    """
    d_BT = (ref_logp_BT - logp_BT).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    return torch.exp(d_BT) - d_BT - 1


KL_ESTIMATORS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"k2": kl_k2, "k3": kl_k3}
