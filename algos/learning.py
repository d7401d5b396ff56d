"""From a step's episodes to new weights, for one policy: score, pay, weigh, update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch

from algos.alarms import apart_at_first
from algos.algorithm import Algorithm, advantages_of, as_kept, loss_of
from algos.batch import Batch, NothingToTrainOn, make_batch, minibatches
from algos.functional import importance_weights, token_shares
from algos.groups import by_context, paid_by_branches
from algos.learner import NotFinite
from algos.memory import mending
from algos.metrics import logp_gap
from algos.overlong import cut, penalised
from algos.state import Clock, Run
from algos.team import Policy
from rema_agents.hf import HFSampler
from rema_agents.types import Episode

MOST_SKIPPED = 3


def learn(
    run: Run, policy: Policy, agents: Sequence[str], episodes: Sequence[Episode], step: int, clock: Clock
) -> dict[str, float]:
    """Everything between episodes and new weights, for one policy and those of its agents that learn in this step."""
    lower = {"micro_batch_tokens": run.config.learner.micro_batch_tokens}
    try:
        batch = make_batch(episodes, agents)
    except NothingToTrainOn as error:  # the next step's episodes may be others
        run.console.warn(f"step {step}: {error}")
        return mean_of([], skipped=0)
    with clock("logp"), mending("scoring", **lower):
        batch = scored(run, policy, compared(run, batch, episodes))
    assert policy.learner is not None
    gap = logp_gap(batch)
    if step == 1 and (said := apart_at_first(gap, bf16=policy.learner.precision.bf16)) is not None:
        run.console.warn(said)
    metrics = gap | {"entropy": -float(batch.old_logp_BT[batch.trained_BT].mean())}
    if "importance_BT" in batch.more:
        metrics["sampling/importance_mean"] = float(batch.importance_BT[batch.trained_BT].mean())
    batch = paid(run, policy, batch)
    if run.config.sampling.overlong == "mask":
        batch = batch.of_trajectories(~cut(batch, episodes))
    if run.config.learner.zero_advantage == "drop":
        batch = informative(batch)
    with clock("update"), mending("updating", **lower):
        return metrics | updated(run, policy, batch, episodes, step)


def scored(run: Run, policy: Policy, batch: Batch) -> Batch:
    """The batch with what learner and reference say about it, and importance weights where the sampler is another."""
    learner, needs = policy.learner, run.algorithm.needs
    assert learner is not None
    batch = batch.with_tensors(old_logp_BT=learner.logp(batch))
    if policy.reference is not None:
        batch = batch.with_tensors(ref_logp_BT=policy.reference.logp(batch))
    if "old_value" in needs:
        batch = batch.with_tensors(old_value_BK=learner.values(batch))
    if not corrects(run, policy):
        return batch
    weight_BT = importance_weights(batch.old_logp_BT, batch.sampled_logp_BT, batch.turn_BT)
    return batch.with_tensors(importance_BT=weight_BT)


def paid(run: Run, policy: Policy, batch: Batch) -> Batch:
    """The batch with the algorithm's advantages; its carry goes on to the next step."""
    before = run.progress.carry.get(policy.name, run.algorithm.carry)
    advantages, after = advantages_of(run.algorithm, batch, before)
    run.progress.carry[policy.name] = as_kept(after)
    return batch.with_tensors(**advantages)


def updated(run: Run, policy: Policy, batch: Batch, episodes: Sequence[Episode], step: int) -> dict[str, float]:
    """All optimizer steps on a batch; the mean of each of their scalars. One that is not finite is left out."""
    learner, config, seed = policy.learner, run.config.learner, run.config.common.seed
    assert learner is not None
    updates: list[Mapping[str, float]] = []
    skipped = 0
    for iteration in range(config.num_iterations):
        for part in minibatches(batch, config.num_minibatches, seed=(seed, step, iteration)):
            try:
                updates.append(learner.update(weighed(part, run.algorithm), partial(loss_of, run.algorithm)))
                run.progress.skipped_in_a_row = 0
            except NotFinite as error:
                skipped += 1
                offending = sorted({int(batch.episode_S[s]) for s in error.trajectories})
                report_skipped(run, step, len(updates) + skipped, [episodes[e] for e in offending])
            except Exception as error:
                number = len(updates) + skipped + 1
                error.add_note(f"in update {number} of step {step}, learning from {told(part, episodes)}")
                raise
    return mean_of(updates, skipped)


def mean_of(updates: Sequence[Mapping[str, float]], skipped: int) -> dict[str, float]:
    """The mean of each scalar of the updates, 0 where there was none, and how many were made and left out."""
    names = sorted({"loss", "grad_norm"}.union(*updates))
    means = {name: float(np.mean([u[name] for u in updates if name in u] or [0.0])) for name in names}
    return means | {"update/count": float(len(updates)), "update/skipped": float(skipped)}


def told(part: Batch, episodes: Sequence[Episode]) -> str:
    """How many episodes a minibatch comes from, and the problems they are on."""
    numbers = sorted({int(part.episode_S[s]) for s in part.trajectory_B})
    names = dict.fromkeys(episodes[e].problem.id for e in numbers)
    return f"{len(numbers)} episodes on {', '.join(map(repr, names))}"


def compared(run: Run, batch: Batch, episodes: Sequence[Episode]) -> Batch:
    """The batch with rewards and groups as `--overlong`, `--num-branches` and `--group-by` have them."""
    s = run.config.sampling
    if s.num_branches > 1:
        batch = paid_by_branches(batch, episodes)
    if s.overlong == "penalise":
        batch = penalised(batch, episodes, limit=run.config.limits.max_completion_length, buffer=s.overlong_buffer)
    return by_context(batch) if s.group_by == "context" else batch


def corrects(run: Run, policy: Policy) -> bool:
    """Whether tokens are weighed by how far the sampler is from the learner."""
    asked = run.config.learner.importance_correction
    same = isinstance(policy.sampler, HFSampler)
    return asked == "on" or (asked == "auto" and not same)


class Diverged(RuntimeError):
    """Update after update has a loss or gradient that is not finite."""


def report_skipped(run: Run, step: int, update: int, episodes: Sequence[Episode]) -> None:
    """Write down the episodes of an update that was left out. Raises Diverged after three in a row."""
    path = run.folder.write_skipped(step, update, episodes)
    said = (
        f"step {step}: loss or gradient of update {update} is not finite, so it was left out; its "
        f"{len(episodes)} episodes, the first on problem {episodes[0].problem.id}, are in {path}"
    )
    run.console.warn(said)
    run.progress.skipped_in_a_row += 1
    if run.progress.skipped_in_a_row >= MOST_SKIPPED:
        raise Diverged(f"{MOST_SKIPPED} updates in a row were not finite: {said}")


def weighed(minibatch: Batch, algorithm: Algorithm) -> Batch:
    """The minibatch with every token's share of the loss, decided before anything is split.

    Where the sampler was not quite the learner, a share is multiplied by the token's importance weight.
    """
    share_BT = token_shares(minibatch.turn_BT, minibatch.trajectory_B, algorithm.share, length=algorithm.share_length)
    total = share_BT.sum()
    if "importance_BT" in minibatch.more:
        share_BT = share_BT * minibatch.importance_BT
    return minibatch.with_tensors(share_BT=share_BT.float(), share_total=total.float())


def informative(batch: Batch) -> Batch:
    """Without the trajectories whose advantage is exactly 0 at every trained token."""
    says_BT = batch.trained_BT & (batch.adv_BT != 0)
    keep_S = torch.zeros(len(batch.reward_S), dtype=torch.bool)
    keep_S[batch.trajectory_B[says_BT.any(1)]] = True
    return batch.of_trajectories(keep_S)
