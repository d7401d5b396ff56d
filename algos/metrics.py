"""What a step's episodes say about the team, by the names that TRL's users know. Pure functions.

| name | meaning |
|---|---|
| `reward`, `reward_std` | mean over episodes of the agents' mean reward; mean over groups of its standard deviation |
| `ROLE/reward` | mean total reward of one role |
| `ROLE/reward/TERM` | mean of one reward term before weighting |
| `accuracy` | mean raw grade of those graded or unfinished (0), whatever was paid |
| `completions/mean_length`, `ROLE/completions/mean_length`, `.../max_length` | sampled tokens of a message |
| `ROLE/completions/clipped_ratio` | part of messages cut at the limit |
| `ROLE/empty_ratio` | part of messages without a visible character |
| `turns/mean` | messages of an episode |
| `endings/NAME`, `grading/OUTCOME` | part of episodes |
| `actions/NAME/level` | with JSON actions: mean level of the problems for which the planner took that action |
| `frac_reward_zero_std` | part of groups in which every agent's rewards agree, which teach nothing |
| `sampling/kept`, `sampling/dropped` | dynamic sampling: part of the groups played that was kept, number left out |
| `sampling/reward`, `sampling/accuracy` | ... `reward`, `accuracy` over all groups played; elsewhere: over those kept |
| `sampling/logp_gap_max`, `sampling/logp_gap_mean` | between sampler and learner, at sampled tokens [nats] |
| `sampling/log_ratio_max` | that gap summed up over a whole trajectory, as far as it goes, before any cap [nats] |
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from algos.batch import Batch
from algos.groups import by_group, vary
from rema_agents.types import Episode
from rema_env.actions import ACTIONS, level_by_action
from rema_env.transcript import Ending, Finish, Outcome, role_of

GRADER_FAILED = (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY)
FEW = 0.2  # of the answers: hard ones may well take a grader too long


def episode_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """All metrics of the table but those of sampler against learner."""
    if not episodes:
        raise ValueError("there is no episode to measure")
    groups = by_group(episodes)
    metrics = {
        "reward": float(np.mean([_pay(e) for e in episodes])),
        "reward_std": float(np.mean([np.std([_pay(e) for e in group], ddof=len(group) > 1) for group in groups])),
        "frac_reward_zero_std": float(np.mean([not vary(group) for group in groups])),
        "accuracy": accuracy(episodes),
        "turns/mean": float(np.mean([len(e.transcript.turns) for e in episodes])),
    }
    metrics |= {f"endings/{ending}": _part(episodes, ending) for ending in Ending}
    outcomes = Counter(str(outcome) for e in episodes if (outcome := e.info.get("outcome")) is not None)
    metrics |= {f"grading/{name}": count / len(episodes) for name, count in outcomes.items()}
    lengths = _lengths(episodes)
    metrics["completions/mean_length"] = float(np.mean([n for role in lengths.values() for n in role] or [0]))
    metrics |= action_metrics(episodes)
    for agent in episodes[0].rewards:
        metrics |= _role_metrics(episodes, agent, lengths[agent])
    return metrics


def before_choice(played: Sequence[Sequence[Episode]], dropped: int) -> dict[str, float]:
    """What dynamic sampling chose from: `sampling/kept`, `sampling/dropped`, `sampling/reward`, `sampling/accuracy`.

    Args:
        played: all groups.
        dropped: how many of them were left out.
    """
    episodes = [episode for group in played for episode in group]
    return {
        "sampling/kept": (len(played) - dropped) / len(played),
        "sampling/dropped": float(dropped),
        "sampling/reward": float(np.mean([_pay(e) for e in episodes])),
        "sampling/accuracy": accuracy(episodes),
    }


def _pay(episode: Episode) -> float:
    return float(np.mean(list(episode.rewards.values())))


def action_metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """`actions/NAME/level`: the mean level of the problems for which the planner took a JSON action, where it did."""
    by_action = level_by_action(episode.transcript for episode in episodes)
    taken = {name: level for name, level in by_action.items() if name in ACTIONS}
    return {f"actions/{name}/level": level for name, level in taken.items()}


def accuracy(episodes: Sequence[Episode]) -> float:
    """Mean raw grade; an episode that was never graded counts 0."""
    return float(np.mean([float(e.info.get("score") or 0.0) for e in episodes]))


def finished(episodes: Sequence[Episode]) -> float:
    """Part of the episodes that came to their own end."""
    return _part(episodes, Ending.FINISHED)


def aborted(episodes: Sequence[Episode]) -> int:
    """How many dialogues lost a speaker or ran out of time; each counts as wrong."""
    return sum(e.ending is Ending.ABORTED for e in episodes)


def grading_failures(episodes: Sequence[Episode]) -> str | None:
    """One sentence where grading itself failed on more than a few answers; None elsewhere."""
    told = Counter(str(outcome) for e in episodes if (outcome := e.info.get("outcome")) is not None)
    failed = {name: told[name] for name in map(str, GRADER_FAILED) if told[name]}
    count, of = sum(failed.values()), told.total()
    if count <= FEW * of:
        return None
    named = ", ".join(f"{name} {number}" for name, number in failed.items())
    return f"the grader failed on {count} of {of} answers ({named}), which count as wrong: mend the grader first"


def _part(episodes: Sequence[Episode], ending: Ending) -> float:
    return float(np.mean([e.ending is ending for e in episodes]))


def _lengths(episodes: Sequence[Episode]) -> Mapping[str, list[int]]:
    lengths: dict[str, list[int]] = defaultdict(list)
    for episode in episodes:
        for call in episode.calls:
            lengths[call.agent].append(len(call.completion.token_ids))
    return lengths


def _role_metrics(episodes: Sequence[Episode], agent: str, lengths: Sequence[int]) -> dict[str, float]:
    role = role_of(agent)
    calls = [call for e in episodes for call in e.calls if call.agent == agent]
    said = [message for e in episodes for message in e.transcript.by(role)]
    metrics = {
        f"{role}/reward": float(np.mean([e.rewards[agent] for e in episodes])),
        f"{role}/completions/mean_length": _mean(lengths),
        f"{role}/completions/max_length": float(max(lengths, default=0)),
        f"{role}/completions/clipped_ratio": _mean(c.completion.finish is Finish.LENGTH for c in calls),
        f"{role}/empty_ratio": _mean(not message.strip() for message in said),
        f"{role}/repeated_ratio": _mean(flag for e in episodes for flag in repeated(e, role)),
    }
    terms = {name for e in episodes for name in e.terms.get(agent, {})}
    for name in sorted(terms):
        metrics[f"{role}/reward/{name}"] = float(np.mean([e.terms.get(agent, {}).get(name, 0.0) for e in episodes]))
    return metrics


def repeated(episode: Episode, role: str) -> list[bool]:
    """For each message of a role: whether it says again what was said before in its dialogue, or runs in circles.

    Circles: fewer than half of its runs of four words are different ones, in a message of at least 16 words.
    """
    seen: set[tuple[str, ...]] = set()
    flags = []
    for turn in episode.transcript.turns:
        words = tuple(turn.message.split())
        runs = [words[n : n + 4] for n in range(len(words) - 3)]
        circles = len(words) >= 16 and len(set(runs)) < len(runs) / 2
        if role_of(turn.agent) == role:
            flags.append(bool(words) and (words in seen or circles))
        seen.add(words)
    return flags


def _mean(values: Iterable[float]) -> float:
    """The mean; 0 of nothing."""
    return float(np.mean([float(value) for value in values] or [0.0]))


def logp_gap(batch: Batch) -> dict[str, float]:
    """How far the sampler's log-probabilities are from the learner's own before the update [nats]."""
    gap_BT = (batch.old_logp_BT - batch.sampled_logp_BT).where(batch.trained_BT, 0.0)
    gap_N = gap_BT[batch.trained_BT].abs()
    whole_S = gap_BT.new_zeros(len(batch.reward_S)).index_add(0, batch.trajectory_B, gap_BT.sum(1))
    return {
        "sampling/logp_gap_max": float(gap_N.max()),
        "sampling/logp_gap_mean": float(gap_N.mean()),
        "sampling/log_ratio_max": float(whole_S.abs().max()),
    }
