"""The training loop, written once: play, score, weigh, update, publish. It names no algorithm.

Its parts are public, so another loop is a short script: `play`, `make_batch`, `Learner.logp`, `Learner.update`,
`Learner.save`, `publish`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from algos.alarms import COLLAPSE, alarm_metrics
from algos.algorithm import Algorithm
from algos.batch import Batch, make_batch, minibatches
from algos.checkpoint import save_checkpoint, save_weights
from algos.collect import collect
from algos.evaluate import Scores, evaluate_sets
from algos.functional import importance_weights, token_shares
from algos.groups import by_context, paid_by_branches
from algos.interrupt import Interrupts, Stopped
from algos.learner import NotFinite
from algos.memory import mending
from algos.metrics import episode_metrics, finished, logp_gap
from algos.overlong import cut, penalised
from algos.publish import publish
from algos.state import Clock, Run
from algos.team import Policy, sampler_kind
from rema_agents.types import Episode

FEW_FINISHED, FEW_VARY = 0.2, 0.1
MOST_SKIPPED = 3


def train(run: Run) -> dict[str, Any]:
    """Train to the end of the run; returns its summary, which is also in summary.json.

    Ctrl-C and SIGTERM stop after what is under way, save a checkpoint, say where, and exit with 130 and 143.
    """
    config, progress = run.config, run.progress
    with Interrupts() as interrupts:
        try:
            if progress.before is None:
                start_from(run, evaluated(run, greedy=True))
            while progress.step < config.run.max_steps or progress.unlogged is not None:
                if progress.unlogged is None:
                    progress.unlogged = one_step(run)
                if not interrupts.agreed() or not evaluation_is_due(run):
                    log_step(run, progress.unlogged)
                if interrupts.asked:
                    raise Stopped
                stop_at_collapse(run)
                if config.run.save_steps and progress.step % config.run.save_steps == 0:
                    save_checkpoint(run)
            after = evaluated(run, greedy=True)
        except Stopped:
            interrupts.agreed()
            run.console.say(f"stopped after step {progress.step}; what was done is in {save_checkpoint(run)}")
            raise SystemExit(interrupts.exit_code) from None
    keep_best(run, after)
    run.folder.write_folder("final", lambda folder: save_weights(run, folder))
    return summarise(run, after)


def stop_at_collapse(run: Run) -> None:
    """End a run that was told to stop when its reward collapses, with a checkpoint, and exit code 3."""
    if run.config.run.on_alarm == "stop" and any(m.signal == COLLAPSE for m in run.alarms.now):
        path = save_checkpoint(run)
        run.console.say(f"stopped by its alarm after step {run.progress.step}; what was done is in {path}")
        raise SystemExit(3)


def start_from(run: Run, before: Mapping[str, Scores]) -> None:
    """Note how well the team does before it has learnt anything."""
    warn_of_cold_start(run, [e for score in before.values() for e in score.episodes])
    keep_best(run, before)
    run.progress.before = {name: [score.accuracy, score.accuracy_greedy] for name, score in before.items()}


def evaluation_is_due(run: Run) -> bool:
    """Whether the step just done is one to evaluate after."""
    every = run.config.evaluation.eval_steps
    return bool(every) and run.progress.step % every == 0


def log_step(run: Run, metrics: dict[str, Any]) -> None:
    """Evaluate where it is time to, and keep the step's metrics: from here on the step is over."""
    step = run.progress.step
    if evaluation_is_due(run):
        scores = evaluated(run)
        metrics |= {f"eval/{name}/accuracy": score.accuracy for name, score in scores.items()}
        keep_best(run, scores)
    run.folder.log(metrics)
    run.reporters.log(step, metrics)
    run.progress.unlogged = None


def one_step(run: Run) -> dict[str, Any]:
    """Play and learn once. Raises `Stopped` where a signal came before anything was learnt."""
    config, progress, clock = run.config, run.progress, Clock()
    start, step = time.perf_counter(), progress.step + 1
    with clock("play"):
        collected = collect(run, step)
        episodes = collected.episodes
    with clock("write"):
        run.folder.write_step(step, episodes)
    metrics: dict[str, Any] = {"step": step, **episode_metrics(episodes)}
    if config.sampling.dynamic_sampling:
        metrics["sampling/kept"] = collected.kept
    for policy in run.team.learning():
        agents = tuple(agent for agent in policy.agents if agent in run.schedule.learning(step))
        if not agents:
            continue
        prefix = f"{policy.name}/" if len(run.team.learning()) > 1 else ""
        metrics |= {prefix + name: value for name, value in learn(run, policy, agents, episodes, step, clock).items()}
        with clock("publish"):
            publish(policy)
    seconds = time.perf_counter() - start
    progress.step, progress.train_seconds = step, progress.train_seconds + seconds
    progress.problems += collected.problems
    metrics |= {"step_time": seconds, **clock.seconds}
    metrics |= watched(run, metrics)
    shows = step % config.run.logging_steps == 0 or step == config.run.max_steps
    run.console.step(step, config.run.max_steps, metrics, show=shows)
    if step in (1, config.run.max_steps):
        run.console.dialogues(f"step {step}", episodes, config.run.num_completions_to_print)
    if step == 1 and 1 - metrics["frac_reward_zero_std"] < FEW_VARY:
        run.console.warn(
            f"in step 1 only {1 - metrics['frac_reward_zero_std']:.0%} of groups have rewards that vary, so there is "
            f"hardly anything to learn from; {COLD_START}"
        )
    return metrics


COLD_START = (
    "give the model a cold start on dialogues first (python -m algos.sft), or pay unfinished dialogues by their answer "
    "(--unfinished-reward grade)"
)


def watched(run: Run, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Warn where a signal has newly left its band; `alarm/<signal>` for each that is outside."""
    before = {m.signal for m in run.alarms.now}
    found = run.alarms.look(metrics)
    if {m.signal for m in found} - before:
        run.console.warn(run.alarms.said())
    return alarm_metrics(found)


def learn(
    run: Run, policy: Policy, agents: Sequence[str], episodes: Sequence[Episode], step: int, clock: Clock
) -> dict[str, float]:
    """Everything between episodes and new weights, for one policy and those of its agents that learn in this step."""
    learner, algorithm, config = policy.learner, run.algorithm, run.config.learner
    assert learner is not None
    with clock("logp"), mending("scoring", micro_batch_tokens=config.micro_batch_tokens):
        batch = compared(run, make_batch(episodes, agents), episodes)
        batch = batch.with_tensors(old_logp_BT=learner.logp(batch))
        if policy.reference is not None:
            batch = batch.with_tensors(ref_logp_BT=policy.reference.logp(batch))
        if "old_value" in algorithm.needs:
            batch = batch.with_tensors(old_value_BK=learner.values(batch))
    metrics = logp_gap(batch) | {"entropy": -float(batch.old_logp_BT[batch.trained_BT].mean())}
    if corrects(run, policy):
        weight_BT = importance_weights(batch.old_logp_BT, batch.sampled_logp_BT, batch.turn_BT)
        batch = batch.with_tensors(importance_BT=weight_BT)
        metrics["sampling/importance_mean"] = float(weight_BT[batch.trained_BT].mean())
    advantages, carry = algorithm.advantages(batch, run.progress.carry.get(policy.name, algorithm.carry))
    run.progress.carry[policy.name] = carry
    batch = batch.with_tensors(**({"adv_BT": advantages} if isinstance(advantages, Tensor) else advantages))
    if run.config.sampling.overlong == "mask":
        batch = batch.of_trajectories(~cut(batch, episodes))
    if config.zero_advantage == "drop":
        batch = informative(batch)
    updates: list[Mapping[str, float]] = []
    skipped = 0
    with clock("update"), mending("updating", micro_batch_tokens=config.micro_batch_tokens):
        for iteration in range(config.num_iterations):
            for part in minibatches(batch, config.num_minibatches, seed=(run.config.common.seed, step, iteration)):
                try:
                    updates.append(learner.update(weighed(part, algorithm), algorithm.loss))
                    run.progress.skipped_in_a_row = 0
                except NotFinite as error:
                    skipped += 1
                    offending = sorted({int(batch.episode_S[s]) for s in error.trajectories})
                    report_skipped(run, step, len(updates) + skipped, [episodes[e] for e in offending])
    names = sorted({"loss", "grad_norm"}.union(*updates))  # also where every group agreed and nothing was updated
    metrics |= {name: float(np.mean([update[name] for update in updates] or [0.0])) for name in names}
    return metrics | {"update/count": float(len(updates)), "update/skipped": float(skipped)}


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
    assert policy.learner is not None
    same = sampler_kind(run.config.model.sampler, policy.learner.precision) == "hf"
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


def evaluated(run: Run, *, greedy: bool = False) -> dict[str, Scores]:
    """The team on every evaluation set, sampled and, where asked for, greedily; episodes are kept."""
    scores = evaluate_sets(run.team, run.evaluation, run.sets, greedy=greedy)
    for name, score in scores.items():
        run.folder.write_evaluation(f"{name}-step-{run.progress.step:06d}", score.episodes)
        extra = "" if score.accuracy_greedy is None else f", greedy {score.accuracy_greedy:.3f}"
        run.console.say(
            f"evaluation after step {run.progress.step}: {name}, {len(score.episodes)} episodes: accuracy "
            f"{score.accuracy:.3f}{extra}, finished {finished(score.episodes):.0%}"
        )
    return scores


def warn_of_cold_start(run: Run, episodes: Sequence[Episode]) -> None:
    """Say so where hardly any dialogue of the first evaluation comes to its end."""
    if episodes and finished(episodes) < FEW_FINISHED:
        run.console.warn(
            f"in the first evaluation only {finished(episodes):.0%} of dialogues finished, and others are paid nothing "
            f"unless told otherwise; {COLD_START}"
        )


def keep_best(run: Run, scores: Mapping[str, Scores]) -> None:
    """Keep the weights in best/ where they score higher than all before, by the mean over evaluation sets."""
    if not scores:
        return
    score = float(np.mean([s.accuracy for s in scores.values()]))
    if score > run.progress.best_score:
        run.progress.best_score, run.progress.best_step = score, run.progress.step
        run.folder.write_folder("best", lambda folder: save_weights(run, folder))


def summarise(run: Run, after: Mapping[str, Scores]) -> dict[str, Any]:
    """Write and return summary.json."""
    before = run.progress.before or {}
    last = {name: [score.accuracy, score.accuracy_greedy] for name, score in after.items()}

    def mean(scores: Mapping[str, Sequence[float | None]], place: int) -> float | None:
        values = [value for score in scores.values() if (value := score[place]) is not None]
        return float(np.mean(values)) if values else None

    summary = {
        "seed": run.config.common.seed,
        "steps": run.progress.step,
        "train_seconds": round(run.progress.train_seconds, 2),
        "accuracy_before": mean(before, 0),
        "accuracy_after": mean(last, 0),
        "accuracy_greedy_before": mean(before, 1),
        "accuracy_greedy_after": mean(last, 1),
        "best_step": run.progress.best_step,
        "best_accuracy": run.progress.best_score if run.progress.best_step is not None else None,
        "evaluation": {
            name: {"before": before[name][0] if name in before else None, "after": score[0]}
            for name, score in last.items()
        },
        "command": " ".join(sys.argv),
    }
    run.folder.write_summary(summary)
    return summary
