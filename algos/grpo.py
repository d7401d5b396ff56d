"""GRPO: an episode's reward against its group's, through PPO's clipped ratio.

    A_s = (R_s - mean_g) / (std_g + 1e-6)                    every token of trajectory s is paid A_s
    r_t = exp( logp_t - old_logp_t )                         or one ratio for the whole trajectory (GSPO)
    L   = - sum_t w_t min( r_t A_t, clip(r_t, 1 - epsilon, 1 + epsilon_high) A_t ) + beta sum_t w_t KL_t

A group is one agent's trajectories on one problem, for shared weights too; w are the shares.

Source: DeepSeekMath, arXiv:2402.03300; the wider upper clip and equal weight of tokens: DAPO, arXiv:2503.14476; the
sequence ratio: GSPO, arXiv:2507.18071; no division by std: Dr. GRPO, arXiv:2503.20783.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor
from tyro.conf import OmitArgPrefixes as Flat

from algos.algorithm import Algorithm, Metrics, Out
from algos.command_line import parse
from algos.config import TrainConfig
from algos.credit import CreditConfig, credit
from algos.surrogate import Share, SurrogateConfig, reward_less_kl, surrogate_loss

if TYPE_CHECKING:
    from algos.batch import Batch


@dataclass(frozen=True, kw_only=True)
class GRPOConfig(SurrogateConfig, CreditConfig):
    """GRPO's own settings."""

    ratio: Literal["token", "sequence"] = "token"
    """One ratio for each token, or one for each trajectory (GSPO)."""
    share: Share = "token"
    """What the loss weighs equally."""


@dataclass(frozen=True)
class Config(TrainConfig):
    """Train a meta-thinker and a reasoner with GRPO."""

    grpo: Flat[GRPOConfig] = field(default_factory=GRPOConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.grpo.check_group(self.sampling.num_generations * self.sampling.num_branches)


def advantages(batch: Batch, carry: Any, *, config: GRPOConfig) -> tuple[Tensor, Any]:
    """Every token is paid its trajectory's advantage (or what `--credit` names instead)."""
    return credit(batch, reward_less_kl(batch, config), carry, config)


def loss(out: Out, batch: Batch, *, config: GRPOConfig) -> tuple[Tensor, Metrics]:
    """The sum over tokens in the module's docstring; scalars are weighted by the same shares."""
    return surrogate_loss(out, batch, config.ratio, config)


def algorithm(config: Config) -> Algorithm:
    """GRPO as the trainer takes it."""
    return Algorithm(
        advantages=partial(advantages, config=config.grpo),
        loss=partial(loss, config=config.grpo),
        share=config.grpo.share,
        share_length=config.limits.max_completion_length,
        needs=config.grpo.needs,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """The command line: `python -m algos.grpo --env math_v0`."""
    config = parse(Config, sys.argv[1:] if argv is None else argv, prog="python -m algos.grpo")
    from algos.launch import launch

    launch(config, algorithm(config), command="grpo")


if __name__ == "__main__":
    main()
