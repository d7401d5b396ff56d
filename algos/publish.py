"""Learner weights to the sampler, after each step."""

from __future__ import annotations

from algos.team import Policy


def publish(policy: Policy) -> None:
    """Hand the learner's weights to the policy's sampler under the next version number."""
    if policy.learner is None:
        raise ValueError(f"policy {policy.name} does not learn, so there is nothing to publish")
    policy.version += 1
    policy.sampler.update_weights(policy.learner.named_weights(), policy.version)
