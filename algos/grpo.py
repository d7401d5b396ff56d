"""GRPO: an episode's reward against its group's, through PPO's clipped token ratio.

    A_s = (R_s - mean_g) / (std_g + 1e-6)                    every token of trajectory s is paid A_s
    r_t = exp( logp_t - old_logp_t )
    L   = - sum_t w_t min( r_t A_t, clip(r_t, 1 - epsilon, 1 + epsilon_high) A_t ) + beta sum_t w_t KL_t

A group is one agent's trajectories on one problem, for shared weights too; w are the shares.

Source: DeepSeekMath, arXiv:2402.03300; the wider upper clip and equal weight of tokens: DAPO, arXiv:2503.14476.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor
from tyro.conf import OmitArgPrefixes as Flat

from algos.algorithm import Algorithm, Metrics, Out
from algos.config import TrainConfig, parse
from algos.functional import KL_ESTIMATORS, clipped, clipped_surrogate, group_advantages, log_ratio

if TYPE_CHECKING:
    from algos.batch import Batch


@dataclass(frozen=True)
class GRPOConfig:
    """GRPO's own settings."""

    epsilon: float = 0.2
    """The ratio is clipped below at 1 - epsilon."""
    epsilon_high: float = 0.28
    """The ratio is clipped above at 1 + epsilon_high."""
    share: Literal["token", "trajectory", "turn", "turn_in_trajectory", "turn_sum", "constant"] = "token"
    """What the loss weighs equally."""
    scale_rewards: Literal["group", "none"] = "group"
    """Divide by the group's standard deviation, or not (Dr. GRPO)."""
    beta: float = 0.0
    """Coefficient of the KL to the start of training; 0 loads no reference."""
    kl_estimator: Literal["k2", "k3"] = "k3"
    """k2: the gradient is the KL's on-policy; k3: the value is unbiased (TRL's)."""

    def __post_init__(self) -> None:
        for name in ("epsilon", "epsilon_high", "beta"):
            if getattr(self, name) < 0:
                raise ValueError(f"--{name.replace('_', '-')} must be at least 0, got {getattr(self, name)}")


@dataclass(frozen=True)
class Config(TrainConfig):
    """Train a meta-thinker and a reasoner with GRPO."""

    grpo: Flat[GRPOConfig] = field(default_factory=GRPOConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling.num_generations < 2:
            raise ValueError(
                "--num-generations must be at least 2 for a group to have a baseline, got "
                f"{self.sampling.num_generations}"
            )


def advantages(batch: Batch, carry: None, *, scale: str) -> tuple[Tensor, None]:
    """Every token is paid its trajectory's advantage."""
    advantage_S = group_advantages(batch.reward_S, batch.group_S, scale=scale)
    return advantage_S[batch.trajectory_B, None].expand_as(batch.turn_BT), carry


def loss(out: Out, batch: Batch, *, config: GRPOConfig) -> tuple[Tensor, Metrics]:
    """The sum over tokens in the module's docstring; scalars are weighted by the same shares."""
    low, high, share_BT = config.epsilon, config.epsilon_high, batch.share_BT
    ratio_BT = torch.exp(log_ratio(out.logp_BT, batch.old_logp_BT, batch.turn_BT))
    value = -(share_BT * clipped_surrogate(ratio_BT, batch.adv_BT, low, high)).sum()
    scalars = {"clip_ratio/region_mean": (share_BT * clipped(ratio_BT, batch.adv_BT, low, high)).sum()}
    if config.beta:
        kl = (share_BT * KL_ESTIMATORS[config.kl_estimator](out.logp_BT, batch.ref_logp_BT)).sum()
        value, scalars["kl"] = value + config.beta * kl, kl.detach()
    return value, scalars


def algorithm(config: Config) -> Algorithm:
    """GRPO as the trainer takes it."""
    return Algorithm(
        advantages=partial(advantages, scale=config.grpo.scale_rewards),
        loss=partial(loss, config=config.grpo),
        share=config.grpo.share,
        share_length=config.limits.max_completion_length,
        needs=("ref_logp",) if config.grpo.beta else (),
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: `python -m algos.grpo --env math_v0`."""
    config = parse(Config, sys.argv[1:] if argv is None else argv, prog="python -m algos.grpo")
    from algos.launch import launch

    launch(config, algorithm(config), command="grpo")


if __name__ == "__main__":
    main()
