"""Learner weights to the sampler, after each step: one by one, under a new version number, and checked on arrival."""

from __future__ import annotations

from algos import ranks
from algos.team import Policy
from rema_agents.checksum import Counted


def publish(policy: Policy) -> None:
    """Hand the learner's weights to the policy's sampler under the next version number. Every rank takes part.

    Raises:
        ValueError: the policy does not learn.
        RuntimeError: the sampler can tell a checksum of its weights, and it is not that of the learner's.
    """
    if policy.learner is None:
        raise ValueError(f"policy {policy.name} does not learn, so there is nothing to publish")
    policy.version += 1
    policy.learner.rest()
    sent = Counted(policy.weights, again=policy.learner.holds_all)
    policy.sampler.update_weights(sent, policy.version)
    ranks.wait()  # a server is told by the first rank alone
    arrived = policy.sampler.checksum() if hasattr(policy.sampler, "checksum") else None
    if arrived not in (None, sent.checksum):
        raise RuntimeError(
            f"the sampler of policy {policy.name} does not hold the weights that were published as version "
            f"{policy.version}: their checksums differ"
        )
