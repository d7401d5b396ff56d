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


def group_advantages(
    reward_S: Tensor,
    group_S: Tensor,
    *,
    baseline: str = "mean",
    scale: str = "group",
    scale_group_S: Tensor | None = None,
) -> Tensor:
    """Each trajectory's reward against its group: A_s = (R_s - b_s) / (sigma + 1e-6).

    Source: GRPO, arXiv:2402.03300. A group whose rewards agree (max = min, compared) gets exactly 0, and so does a
    group of one, which has no baseline.

    The group's mean contains the own sample, so baseline `mean` without division estimates (1 - 1/G) times the policy
    gradient. Baseline `leave_one_out` without division is unbiased (RLOO, arXiv:2402.14740): it equals the other one
    times G / (G - 1). Division by a standard deviation of the same samples is biased, towards groups that agree more.

    Args:
        reward_S: float, one total reward for each trajectory.
        group_S: int, trajectories with the same number share a baseline.
        baseline: b_s is the `mean` of the group, or `leave_one_out`: the mean of its other members.
        scale: sigma is the standard deviation of the `group` (one degree of freedom taken off, as in TRL and the
            released code of ReMA), or of the whole `batch` (arXiv:2508.08221), or there is no division: `none`
            (Dr. GRPO, arXiv:2503.20783).
        scale_group_S: int, for `batch`: a standard deviation for each of these numbers (e.g. agents) instead of one.

    Returns:
        advantage_S in the dtype of `reward_S`.
    """
    if scale not in ("group", "batch", "none"):
        raise ValueError(f"scale must be group, batch or none, got {scale!r}")
    if baseline not in ("mean", "leave_one_out"):
        raise ValueError(f"baseline must be mean or leave_one_out, got {baseline!r}")
    exact_S = reward_S.double()
    centred_S, count_S, std_S, varies_S = _about_the_mean(exact_S, group_S)
    if baseline == "leave_one_out":
        centred_S = centred_S * count_S / (count_S - 1).clamp(min=1)
    if scale == "batch":
        whole_S = torch.zeros_like(group_S) if scale_group_S is None else scale_group_S
        std_S = _about_the_mean(exact_S, whole_S)[2]
    advantage_S = centred_S if scale == "none" else centred_S / (std_S + 1e-6)
    return torch.where(varies_S, advantage_S, torch.zeros_like(advantage_S)).to(reward_S.dtype)


def _about_the_mean(value_S: Tensor, group_S: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """By trajectory: value less its group's mean, the group's size, standard deviation, and whether its values vary."""
    _, group_S = torch.unique(group_S, return_inverse=True)
    groups = int(group_S.max()) + 1 if len(group_S) else 0
    count_P = torch.bincount(group_S, minlength=groups).to(value_S.dtype)
    mean_P = torch.zeros_like(count_P).index_add_(0, group_S, value_S) / count_P
    centred_S = value_S - mean_P[group_S]
    square_P = torch.zeros_like(count_P).index_add_(0, group_S, centred_S**2)
    std_P = (square_P / (count_P - 1).clamp(min=1)).sqrt()
    high_P = torch.full_like(count_P, -torch.inf).scatter_reduce_(0, group_S, value_S, "amax")
    low_P = torch.full_like(count_P, torch.inf).scatter_reduce_(0, group_S, value_S, "amin")
    return centred_S, count_P[group_S], std_P[group_S], (high_P != low_P)[group_S]  # NaN differs, and so is seen


def segment_sum(value_BT: Tensor, segment_BT: Tensor, count: int) -> Tensor:
    """The sum of values by segment, shape (count,): one pass over the tokens, whatever the number of segments.

    Args:
        segment_BT: int, the segment of each token; -1 where it belongs to none.
    """
    number_N = torch.where(segment_BT >= 0, segment_BT, count).flatten()  # the last bin takes what belongs to none
    sums = torch.zeros(count + 1, dtype=value_BT.dtype, device=value_BT.device)
    return sums.index_add(0, number_N, value_BT.flatten())[:count]


def turn_sums(turn_BT: Tensor) -> Callable[[Tensor], Tensor]:
    """A function value_BT -> sum_BK, the sum of values by turn: one pass over the tokens, however many turns there are.

    What stands where nothing is trained goes into a column of its own, which is cut off: not even a NaN there matters.
    """
    number_BT = turn_BT + 1
    K = int(number_BT.amax()) if number_BT.numel() else 0

    def sums(value_BT: Tensor) -> Tensor:
        return value_BT.new_zeros(len(value_BT), K + 1).scatter_add(1, number_BT, value_BT)[:, 1:]

    return sums


def turn_segments(turn_BT: Tensor, trajectory_B: Tensor) -> tuple[Tensor, int]:
    """A number for each (trajectory, turn), -1 where nothing is trained; and how many numbers there are, S * K.

    The number of turn k of trajectory s is s * K + k, so that sums by segment reshape to (S, K).
    """
    K = int(turn_BT.max()) + 1 if turn_BT.numel() else 0
    K = max(K, 1)
    S = int(trajectory_B.max()) + 1 if len(trajectory_B) else 0
    return torch.where(turn_BT >= 0, trajectory_B[:, None] * K + turn_BT, -1), S * K


def spread(value_K: Tensor, segment_BT: Tensor) -> Tensor:
    """Every token its segment's value; 0 where it belongs to none."""
    value_BT = value_K[segment_BT.clamp(min=0)]
    return torch.where(segment_BT >= 0, value_BT, torch.zeros_like(value_BT))


def discounted(reward_SK: Tensor, gamma: float) -> Tensor:
    """G_k = r_k + gamma G_{k+1} along the last axis. Source: ReMA's released turn-level return."""
    return_SK = torch.zeros_like(reward_SK)
    ahead_S = torch.zeros_like(reward_SK[:, 0])
    for k in reversed(range(reward_SK.shape[1])):
        ahead_S = reward_SK[:, k] + gamma * ahead_S
        return_SK[:, k] = ahead_S
    return return_SK


def generalised_advantages(
    reward_SK: Tensor, value_SK: Tensor, real_SK: Tensor, *, gamma: float = 1.0, lam: float = 0.95
) -> Tensor:
    """GAE over turns: A_k = sum_j (gamma lam)^j (r_{k+j} + gamma V_{k+j+1} - V_{k+j}); 0 where there is no turn.

    Source: arXiv:1506.02438. After a trajectory's last turn V is 0; with gamma = lam = 1 it is the return less V_k.

    Args:
        real_SK: bool, whether trajectory s has a turn k; no turn follows one that is not real.
    """
    reward_SK, value_SK = reward_SK * real_SK, value_SK * real_SK
    next_SK = torch.cat([value_SK[:, 1:], torch.zeros_like(value_SK[:, :1])], dim=1)
    return discounted(reward_SK + gamma * next_SK - value_SK, gamma * lam) * real_SK


def returns_to_go(
    reward_BT: Tensor, final_S: Tensor, turn_BT: Tensor, trajectory_B: Tensor, *, gamma: float = 1.0
) -> Tensor:
    """What each sampled token still earns: later tokens of its turn, then later turns, each turn later times gamma.

        R_t = sum of r over tokens >= t of turn k + gamma G_{k+1},     G_k = r_k + gamma G_{k+1}

    Source: REINFORCE++, arXiv:2501.03262, with turns as in ReMA's released code.

    Args:
        reward_BT: per token, e.g. -beta (old_logp - ref_logp).
        final_S: paid after a trajectory's last token.
    """
    segment_BT, count = turn_segments(turn_BT, trajectory_B)
    reward_BT = torch.where(segment_BT >= 0, reward_BT, torch.zeros_like(reward_BT))
    S = len(final_S)
    K = count // max(1, int(trajectory_B.max()) + 1)
    sums = segment_sum(reward_BT, segment_BT, count)
    reward_SK = torch.cat([sums, sums.new_zeros(S * K - count)]).view(S, K)
    tokens = segment_sum(torch.ones_like(reward_BT), segment_BT, count)
    turns_S = (torch.cat([tokens, tokens.new_zeros(S * K - count)]).view(S, K) > 0) * torch.arange(K)
    last_SK = torch.arange(K) == turns_S.amax(1, keepdim=True)
    return_SK = discounted(reward_SK + last_SK * final_S[:, None], gamma)
    spent_BT = _spent_in_turn(reward_BT, segment_BT)
    return spread(return_SK.flatten(), segment_BT) - spent_BT


def _spent_in_turn(reward_BT: Tensor, segment_BT: Tensor) -> Tensor:
    """What the earlier tokens of the same turn earned; a turn's tokens stand together in one row."""
    before_BT = torch.cumsum(reward_BT, 1) - reward_BT
    starts_BT = segment_BT != torch.cat([torch.full_like(segment_BT[:, :1], -2), segment_BT[:, :-1]], 1)
    start_BT = torch.cummax(torch.where(starts_BT, torch.arange(segment_BT.shape[1]), 0), 1).values
    return torch.where(segment_BT >= 0, before_BT - before_BT.gather(1, start_BT), torch.zeros_like(before_BT))


def whiten(value_BT: Tensor, kind_B: Tensor, trained_BT: Tensor) -> Tensor:
    """(value - mean) / sqrt(var + 1e-8) over the trained tokens of each kind of row; 0 elsewhere.

    Mean and population variance are over all rows given, so all ranks' rows have to be. Where the values of a kind
    agree (max = min, compared) they become exactly 0. Source: REINFORCE++, arXiv:2501.03262.

    Args:
        kind_B: int, e.g. the agent of each row: every kind is whitened by itself.
    """
    out_BT = torch.zeros_like(value_BT)
    for kind in torch.unique(kind_B).tolist():
        where_BT = trained_BT & (kind_B == kind)[:, None]
        value_N = value_BT[where_BT].double()
        if len(value_N) and value_N.max() != value_N.min():  # a NaN differs from itself, and so is seen
            white_N = (value_N - value_N.mean()) * torch.rsqrt(value_N.var(correction=0) + 1e-8)
            out_BT[where_BT] = white_N.to(value_BT.dtype)
    return out_BT


def log_ratio(logp_BT: Tensor, old_logp_BT: Tensor, turn_BT: Tensor, *, limit: float = LOG_RATIO_LIMIT) -> Tensor:
    """logp - old_logp at trained tokens, guarded on both sides; exactly 0 elsewhere, before any exp."""
    difference_BT = torch.where(turn_BT >= 0, logp_BT - old_logp_BT, torch.zeros_like(logp_BT))
    return difference_BT.clamp(-limit, limit)


def importance_weights(old_logp_BT: Tensor, sampled_logp_BT: Tensor, turn_BT: Tensor, *, cap: float = 2.0) -> Tensor:
    """min(exp(old_logp - sampled_logp), cap) at trained tokens, 0 elsewhere: the sampler was not quite the learner.

    Weighs a token by how much likelier the learner was to say it than the sampler that did. It mends the choice of the
    token itself, not the odds of the context it was said in: E_sampler[c_t f_t] is the mean of f_t with token t drawn
    from the learner and the tokens before and after it from the sampler. The cap trades bias for variance.

    Source: truncated importance sampling, Ionides, J. Comput. Graph. Stat. 17(2), 2008.
    """
    weight_BT = torch.exp(log_ratio(old_logp_BT, sampled_logp_BT, turn_BT)).clamp(max=cap)
    weight_BT = torch.where(sampled_logp_BT == 0, torch.ones_like(weight_BT), weight_BT)  # a server that tells none
    return torch.where(turn_BT >= 0, weight_BT, torch.zeros_like(weight_BT))


def clipped_surrogate(ratio: Tensor, advantage: Tensor, low: float, high: float, dual: float | None = None) -> Tensor:
    """PPO's pessimistic surrogate min(r A, clip(r, 1 - low, 1 + high) A), elementwise, to be maximised.

    Source: PPO, arXiv:1707.06347, Eq. 7; two clip ranges as in DAPO, arXiv:2503.14476. With `dual` = c > 1 it is at
    least c A where A < 0, so that a huge ratio cannot rule the step (dual clip, arXiv:1912.09729).
    """
    value = torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)
    if dual is None:
        return value
    return torch.where(advantage < 0, torch.maximum(value, dual * advantage), value)


def clipped(ratio: Tensor, advantage: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Where `clipped_surrogate` has no gradient: True at the lower end of the range, and True at its upper end."""
    return (ratio < 1 - low) & (advantage < 0), (ratio > 1 + high) & (advantage > 0)


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
