"""REINFORCE with a leave-one-out baseline: A_s = R_s - mean of the others' rewards in its group. arXiv:2402.14740."""

import sys
from dataclasses import dataclass

from algos.algorithm import Algorithm
from algos.command_line import parse
from algos.config import TrainConfig
from algos.functional import group_advantages


@dataclass(frozen=True)
class Config(TrainConfig):
    """Train with REINFORCE and a leave-one-out baseline."""


def advantages(batch, carry):
    """Every token is paid its trajectory's reward less the mean of the others."""
    adv_S = group_advantages(batch.reward_S, batch.group_S, baseline="leave_one_out", scale="none")
    return adv_S[batch.trajectory_B, None].expand_as(batch.turn_BT), carry


def loss(out, batch):
    """The policy gradient at the sampled tokens; a sum, weighted by the shares."""
    return -(batch.share_BT * batch.adv_BT * out.logp_BT * batch.trained_BT).sum(), {}


def algorithm(config):
    """As the trainer takes it."""
    return Algorithm(advantages, loss, share="token")


if __name__ == "__main__":
    config = parse(Config, sys.argv[1:], prog="rema run rloo")
    from algos.launch import launch

    launch(config, algorithm(config), command="rloo")
