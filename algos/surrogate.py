"""What the losses of PPO's family share: one clipped ratio per segment of tokens, a KL term, an entropy bonus.

    L = - sum_j w_j min( r_j A_j, clip(r_j, 1 - epsilon, 1 + epsilon_high) A_j )
        + beta sum_t w_t KL_t - entropy_coef sum_t w_t H_t

A segment j is a token, a turn or a trajectory; w_j is the sum of its tokens' shares, A_j their mean advantage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from algos.algorithm import Metrics, Out
from algos.functional import (
    KL_ESTIMATORS,
    LOG_RATIO_LIMIT,
    clipped,
    clipped_surrogate,
    log_ratio,
    segment_sum,
)
from algos.turn_means import TurnMeans

if TYPE_CHECKING:
    from algos.batch import Batch

Share = Literal["token", "trajectory", "turn", "turn_in_trajectory", "turn_sum", "constant"]

CLIPS: Mapping[str, tuple[float, float]] = {
    "token": (0.2, 0.28),
    "sequence": (3e-4, 4e-4),
    "turn_geometric": (0.2, 0.2),
    "turn_arithmetic": (0.2, 0.2),
}
"""ratio -> (epsilon, epsilon_high) where none are given: DAPO's, GSPO's, and ReMA's for both readings."""


MOST_LOG_RATIO = 80.0
"""exp of it is still a float32."""


@dataclass(frozen=True, kw_only=True)
class SurrogateConfig:
    """Settings of a clipped surrogate with a KL term and an entropy bonus."""

    epsilon: float | None = None
    """The ratio is clipped below at 1 - epsilon. None: what suits the ratio (token 0.2, sequence 0.0003, turn 0.2)."""
    epsilon_high: float | None = None
    """The ratio is clipped above at 1 + epsilon_high. None: epsilon where that is given, else token 0.28, sequence
    0.0004, turn 0.2."""
    dual_clip: float | None = None
    """Above 1: where the advantage is negative, the surrogate is at least this times the advantage, e.g. 3."""
    log_ratio_limit: float = LOG_RATIO_LIMIT
    """Log-ratios [nats] are guarded at plus and minus this before exp; beyond it there is no gradient."""
    beta: float = 0.0
    """Coefficient of the KL to the start of training; 0 loads no reference."""
    kl_in: Literal["loss", "reward"] = "loss"
    """Whether the KL is a term of the loss, or is taken off the reward. There, division by a group's deviation
    tells a group whose rewards agree apart by its KL alone, however small beta is."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    """In the loss. k2: on-policy the gradient is the KL's; k3: the value is unbiased (TRL's). k1 is refused."""
    entropy_coef: float = 0.0
    """Coefficient of the entropy bonus; above 0 entropy is computed and logged."""

    def __post_init__(self) -> None:
        for name in ("epsilon", "epsilon_high", "beta", "entropy_coef"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 0 and finite, got {value}")
        if self.dual_clip is not None and not self.dual_clip > 1:
            raise ValueError(
                f"--dual-clip must be above 1, or it would cut ratios that are not clipped, got {self.dual_clip}"
            )
        if not 0 < self.log_ratio_limit <= MOST_LOG_RATIO:
            raise ValueError(
                f"--log-ratio-limit must be above 0 and at most {MOST_LOG_RATIO:g}, got {self.log_ratio_limit}"
            )
        if self.kl_estimator == "k1":
            raise ValueError(
                "--kl-estimator k1: in a loss, the expected gradient of logp - ref_logp is 0, so it would pull "
                "nowhere; use k2 (the KL's own gradient) or k3, or take the KL off the reward with --kl-in reward"
            )

    def clip(self, ratio: str) -> tuple[float, float]:
        """(epsilon, epsilon_high) for a kind of ratio; where only epsilon is given, it holds on both sides."""
        low, high = CLIPS[ratio]
        if self.epsilon is not None:
            low = high = self.epsilon
        return low, high if self.epsilon_high is None else self.epsilon_high

    @property
    def needs(self) -> tuple[str, ...]:
        """What the learner has to fill in."""
        return ("ref_logp",) * (self.beta > 0) + ("entropy",) * (self.entropy_coef > 0)


def token_ratio(out: Out, batch: Batch, limit: float) -> tuple[Tensor, Tensor, Tensor]:
    """r_t = exp(logp_t - old_logp_t), with each token's advantage and share."""
    return (
        torch.exp(log_ratio(out.logp_BT, batch.old_logp_BT, batch.turn_BT, limit=limit)),
        batch.adv_BT,
        batch.share_BT,
    )


def sequence_ratio(out: Out, batch: Batch, limit: float) -> tuple[Tensor, Tensor, Tensor]:
    """r_s = exp( sum over t in trajectory s of w_t (logp_t - old_logp_t) / w_s ), one for each trajectory.

    Source: GSPO, arXiv:2507.18071 (there with equal w_t). Weighing by the shares makes the gradient at ratio 1 that of
    the token ratio, whatever the shares.
    """
    segment_BT = torch.where(batch.turn_BT >= 0, batch.trajectory_B[:, None], -1)
    sums = partial(segment_sum, segment_BT=segment_BT, count=len(batch.reward_S))
    weight_S = sums(batch.share_BT)
    divisor_S = torch.where(weight_S > 0, weight_S, 1.0)
    mean_S = sums(batch.share_BT * log_ratio(out.logp_BT, batch.old_logp_BT, batch.turn_BT)) / divisor_S
    return torch.exp(mean_S.clamp(-limit, limit)), sums(batch.share_BT * batch.adv_BT) / divisor_S, weight_S


def turn_ratio_geometric(out: Out, batch: Batch, limit: float) -> tuple[Tensor, Tensor, Tensor]:
    """r_k = exp( mean over t in turn k of (logp_t - old_logp_t) ), one for each turn of each row.

    Source: ReMA's released code, `clip_mode=turn`.
    """
    moved_BT = out.logp_BT - batch.old_logp_BT
    mean_BK, adv_BK, weight_BK = TurnMeans.apply(moved_BT, batch.adv_BT, batch.share_BT, batch.turn_BT)
    return torch.exp(mean_BK.clamp(-limit, limit)), adv_BK, weight_BK


def turn_ratio_arithmetic(out: Out, batch: Batch, limit: float) -> tuple[Tensor, Tensor, Tensor]:
    """r_k = mean over t in turn k of exp(logp_t - old_logp_t), one for each turn of each row.

    Source: ReMA, arXiv:2503.09501, Eq. 13.
    """
    ratio_BT = torch.exp((out.logp_BT - batch.old_logp_BT).clamp(-limit, limit))
    ratio_BK, adv_BK, weight_BK = TurnMeans.apply(ratio_BT, batch.adv_BT, batch.share_BT, batch.turn_BT)
    return ratio_BK, adv_BK, weight_BK


RATIOS: Mapping[str, Callable[[Out, Batch, float], tuple[Tensor, Tensor, Tensor]]] = {
    "token": token_ratio,
    "sequence": sequence_ratio,
    "turn_geometric": turn_ratio_geometric,
    "turn_arithmetic": turn_ratio_arithmetic,
}


def surrogate_loss(out: Out, batch: Batch, ratio: str, config: SurrogateConfig) -> tuple[Tensor, Metrics]:
    """The sum in the module's docstring. Scalars are means, weighted by the same shares.

    Args:
        ratio: one of `RATIOS`.
    """
    low, high = config.clip(ratio)
    ratio_N, adv_N, weight_N = RATIOS[ratio](out, batch, config.log_ratio_limit)
    value = -(weight_N * clipped_surrogate(ratio_N, adv_N, low, high, config.dual_clip)).sum()
    at_low, at_high = ((weight_N * cut_N).sum() for cut_N in clipped(ratio_N, adv_N, low, high))
    scalars = {
        "clip_ratio/region_mean": at_low + at_high,
        "clip_ratio/low_mean": at_low,
        "clip_ratio/high_mean": at_high,
    }
    if config.beta:
        kl = (batch.share_BT * KL_ESTIMATORS[config.kl_estimator](out.logp_BT, batch.ref_logp_BT)).sum()
        scalars["kl"] = kl.detach()
        if config.kl_in == "loss":
            value = value + config.beta * kl
    if config.entropy_coef:
        assert out.entropy_BT is not None
        entropy = (batch.share_BT * out.entropy_BT).sum()
        value, scalars["entropy"] = value - config.entropy_coef * entropy, entropy.detach()
    return value, means(scalars, batch)


def means(sums: Metrics, batch: Batch) -> Metrics:
    """Sums weighted by shares, divided by what the shares of the whole minibatch sum to, which need not be 1."""
    total = getattr(batch, "share_total", 1.0)
    return {name: scalar.detach() / total for name, scalar in sums.items()}


def reward_less_kl(batch: Batch, config: SurrogateConfig) -> Tensor:
    """R_s - beta sum over the trajectory's own tokens of (old_logp - ref_logp) where the KL is in the reward, else R_s.

    The partner's tokens are left out: the gradient is that of each agent's own reward less its own KL.
    """
    if not config.beta or config.kl_in == "loss":
        return batch.reward_S
    segment_BT = torch.where(batch.turn_BT >= 0, batch.trajectory_B[:, None], -1)
    kl_S = segment_sum(batch.old_logp_BT - batch.ref_logp_BT, segment_BT, len(batch.reward_S))
    return batch.reward_S - config.beta * kl_S.to(batch.reward_S.dtype)
