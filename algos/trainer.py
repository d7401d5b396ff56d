"""The training loop, written once: play, score, weigh, update, publish. It names no algorithm.

Its parts are public, so another loop is a short script: `play`, `make_batch`, `Learner.logp`, `Learner.update`,
`Learner.save`, `publish`.
"""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from algos.alarms import COLLAPSE, alarm_metrics
from algos.best import keep_best
from algos.checkpoint import save_checkpoint, save_weights
from algos.collect import collect
from algos.comparable import asked
from algos.evaluate import NothingPlayed, Scores, evaluate_sets, provenance
from algos.groups import vary
from algos.interrupt import Interrupts, Stopped
from algos.learning import learn
from algos.metrics import before_choice, episode_metrics, finished, grading_failures
from algos.publish import publish
from algos.state import Clock, Run
from rema_agents.types import Episode

FEW_FINISHED, FEW_VARY = 0.2, 0.1


def train(run: Run) -> dict[str, Any]:
    """Train to the end of the run; returns its summary, which is also in summary.json.

    Ctrl-C and SIGTERM stop after what is under way, save a checkpoint, say where, and exit with 130 and 143.

    Raises:
        NothingPlayed: all dialogues of an evaluation were aborted; what was learnt before it is in a checkpoint.
    """
    config, progress = run.config, run.progress
    run.console.progress("steps", progress.step, config.run.max_steps)
    with Interrupts() as interrupts:
        try:
            if progress.before is None:
                start_from(run, evaluated(run, greedy=True))
            after: Mapping[str, Scores] = {}
            while progress.step < config.run.max_steps or progress.unlogged is not None:
                if progress.unlogged is None:
                    progress.unlogged = one_step(run)
                    if checkpoint_is_due(run) and not interrupts.agreed():
                        save_checkpoint(run)  # before any evaluation: a longer run may have none here
                if not interrupts.agreed() or not evaluation_is_due(run):
                    after = log_step(run, progress.unlogged)
                if interrupts.asked:
                    raise Stopped
                stop_at_collapse(run)
            after = after or evaluated(run, greedy=True)  # where the last step was over before this run began
        except Stopped:
            interrupts.agreed()
            run.console.say(f"stopped after step {progress.step}; what was done is in {save_checkpoint(run)}")
            raise SystemExit(interrupts.exit_code) from None
        except NothingPlayed:
            if progress.before is not None:  # the weights are sound: a resumed run begins with this evaluation
                save_checkpoint(run)
            raise
    keep_best(run, after)
    run.folder.write_folder("final", lambda folder: save_weights(run, folder))
    return summarise(run, after)


def stop_at_collapse(run: Run) -> None:
    """End a run that was told to stop when its reward collapses, with a checkpoint, and exit code 3."""
    if run.config.run.on_alarm == "stop" and any(m.signal in COLLAPSE for m in run.alarms.now):
        path = save_checkpoint(run)
        run.console.say(f"stopped by its alarm after step {run.progress.step}; what was done is in {path}")
        raise SystemExit(3)


def start_from(run: Run, before: Mapping[str, Scores]) -> None:
    """Note how well the team does before it has learnt anything."""
    warn_of_cold_start(run, [e for score in before.values() for e in score.episodes])
    keep_best(run, before)
    run.progress.before = {name: [score.accuracy, score.accuracy_greedy] for name, score in before.items()}
    run.progress.asked = asked(run)
    if before:
        keep_metrics(run, {"step": 0, **score_metrics(before)})


def checkpoint_is_due(run: Run) -> bool:
    """Whether the step just done is one to save after."""
    every = run.config.run.save_steps
    return bool(every) and run.progress.step % every == 0


def evaluation_is_due(run: Run) -> bool:
    """Whether the step just done is one to evaluate after: the last one is."""
    every, step = run.config.evaluation.eval_steps, run.progress.step
    return step >= run.config.run.max_steps or (bool(every) and step % every == 0)


def log_step(run: Run, metrics: dict[str, Any]) -> Mapping[str, Scores]:
    """Evaluate where it is time to, and keep the step's metrics: from here on the step is over. Returns the scores."""
    scores: Mapping[str, Scores] = {}
    if evaluation_is_due(run):
        scores = evaluated(run, greedy=run.progress.step >= run.config.run.max_steps)
        metrics |= score_metrics(scores)
        keep_best(run, scores)
    keep_metrics(run, metrics)
    run.progress.unlogged = None
    return scores


def keep_metrics(run: Run, metrics: Mapping[str, Any]) -> None:
    """One step's metrics, in metrics.jsonl and wherever else they go."""
    run.folder.log(metrics)
    run.reporters.log(metrics["step"], metrics)


def score_metrics(scores: Mapping[str, Scores]) -> dict[str, float]:
    """`eval/SET/accuracy` and, where it was asked for, `eval/SET/accuracy_greedy`."""
    metrics = {f"eval/{name}/accuracy": score.accuracy for name, score in scores.items()}
    greedy = {f"eval/{name}/accuracy_greedy": score.accuracy_greedy for name, score in scores.items()}
    return metrics | {name: value for name, value in greedy.items() if value is not None}


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
        metrics |= before_choice(collected.played, collected.dropped)
    if config.sampling.phase_problems and progress.phase is not None:
        metrics["sampling/phase_problems"] = len(progress.phase["draws"])
    metrics |= learnt(run, episodes, step, clock)
    seconds = time.perf_counter() - start
    progress.step, progress.train_seconds = step, progress.train_seconds + seconds
    progress.problems += collected.problems
    metrics |= {"step_time": seconds, **clock.seconds}
    metrics |= watched(run, metrics)
    shows = step % config.run.logging_steps == 0 or step == config.run.max_steps
    run.console.step(step, config.run.max_steps, metrics, show=shows)
    if step in (1, config.run.max_steps):
        run.console.dialogues(f"step {step}", episodes, config.run.num_completions_to_print)
    if step == 1 and (part := float(np.mean([vary(group) for group in collected.played]))) < FEW_VARY:
        run.console.warn(
            f"in step 1 only {part:.0%} of groups have rewards that vary, so there is hardly anything to learn from; "
            f"{grading_failures(episodes) or COLD_START}"
        )
    return metrics


def learnt(run: Run, episodes: Sequence[Episode], step: int, clock: Clock) -> dict[str, float]:
    """Have every policy learn whose turn it is, then publish them; what each says of it, under its name."""
    metrics: dict[str, float] = {}
    policies = []
    for policy in run.team.learning():
        agents = tuple(agent for agent in policy.agents if agent in run.schedule.learning(step))
        if not agents:
            continue
        prefix = f"{policy.name}/" if len(run.team.learning()) > 1 else ""
        metrics |= {prefix + name: value for name, value in learn(run, policy, agents, episodes, step, clock).items()}
        assert policy.learner is not None
        policy.learner.rest()
        policies.append(policy)
    for policy in policies:  # last, as a sampler wakes up on the GPU to take its weights
        with clock("publish"):
            publish(policy)
    return metrics


COLD_START = (
    "give the model a cold start on dialogues first (python -m algos.sft), or pay unfinished dialogues by their answer "
    "(--unfinished-reward grade)"
)


def watched(run: Run, metrics: Mapping[str, Any]) -> dict[str, float]:
    """Warn where a signal has left its band for the first time; `alarm/<signal>` for each that is outside."""
    found = run.alarms.look(metrics)
    if run.alarms.news:
        run.console.warn(run.alarms.said())
    return alarm_metrics(found)


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
        for doubt in score.doubts():
            run.console.warn(f"{name}: {doubt}")
    return scores


def warn_of_cold_start(run: Run, episodes: Sequence[Episode]) -> None:
    """Say so where hardly any dialogue of the first evaluation comes to its end."""
    if episodes and finished(episodes) < FEW_FINISHED:
        run.console.warn(
            f"in the first evaluation only {finished(episodes):.0%} of dialogues finished, and others are paid nothing "
            f"unless told otherwise; {COLD_START}"
        )


def summarise(run: Run, after: Mapping[str, Scores]) -> dict[str, Any]:
    """Write and return summary.json."""
    before = run.progress.before or {}
    last = {name: [score.accuracy, score.accuracy_greedy] for name, score in after.items()}
    compares = before.keys() == last.keys()

    def mean(scores: Mapping[str, Sequence[float | None]], place: int) -> float | None:
        values = [value for score in scores.values() if (value := score[place]) is not None]
        return float(np.mean(values)) if values else None

    summary = {
        "seed": run.config.common.seed,
        "steps": run.progress.step,
        "train_seconds": round(run.progress.train_seconds, 2),
        "accuracy_before": mean(before, 0) if compares else None,
        "accuracy_after": mean(last, 0),
        "accuracy_greedy_before": mean(before, 1) if compares else None,
        "accuracy_greedy_after": mean(last, 1),
        "best_step": run.progress.best_step,
        "best_accuracy": run.progress.best_score if run.progress.best_step is not None else None,
        "evaluation": {
            name: {"before": before[name][0] if name in before else None, "after": score[0]}
            for name, score in last.items()
        },
        **provenance(run.world),
        "command": shlex.join(sys.orig_argv),
    }
    run.folder.write_summary(summary)
    return summary
