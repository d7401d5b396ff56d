"""Reward terms that look at a whole group: pure functions of its graded episodes, applied after play.

An environment's own reward never depends on other episodes; these are for the loop that has played a group. Each takes
the graded episodes of one group and gives one value for each of them, in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rema_env.process import META
from rema_env.rewards import Graded
from rema_env.transcript import Grade, Outcome, Transcript

GroupTerm = Callable[[Sequence[Graded]], list[float]]


def graded_from(transcript: Transcript, info: Mapping[str, Any], *, answerer: str = "reasoner") -> Graded:
    """A graded episode from what an environment's last info tells: outcome, score, extracted."""
    told = info.get("outcome")
    grade = None if told is None else Grade(float(info["score"]), Outcome(told), info.get("extracted"))
    return Graded(transcript, grade, answerer)


def majority_share(group: Sequence[Graded]) -> list[float]:
    """How far the group agrees: the share of its most frequent answer, the same value for every episode.

        r = count of the most frequent answer / number of episodes; 0 where most episodes have no answer

    It needs no golden answer. Where a pair's sides are swapped, verdicts count for the answer they prefer.

    Source: ReMA, arXiv:2503.09501, Eq. 14 (there for the meta-thinker alone).
    """
    said = list(filter(None, map(_said, group)))
    if 2 * len(said) < len(group) or not said:
        return [0.0] * len(group)
    return [max(Counter(said).values()) / len(group)] * len(group)


def _said(graded: Graded) -> str:
    """The answer as it is counted: single blanks, and a verdict as in the order AB; empty where there is none."""
    answer = " ".join(((graded.grade and graded.grade.extracted) or "").split())
    is_swapped = graded.transcript.problem.extra.get("order") == "BA"
    return {"A": "B", "B": "A"}.get(answer, answer) if is_swapped else answer


def position_consistency(group: Sequence[Graded]) -> list[float]:
    """How far a judge sticks to its preference when the sides are swapped.

    The group holds one pair in both orders (`problem.extra["order"]`, AB or BA); training that is paid by this term
    plays it so. An episode's value is the share of the episodes in the other order that prefer the same answer; 0
    without a verdict, or where there is no other order.
    """
    preferred = [_preferred(graded) for graded in group]
    order = [graded.transcript.problem.extra.get("order") for graded in group]
    values = []
    for k in range(len(group)):
        others = [preferred[j] for j in range(len(group)) if order[j] != order[k]]
        agreeing = sum(other is not None and other == preferred[k] for other in others)
        values.append(agreeing / len(others) if others else 0.0)
    return values


def _preferred(graded: Graded) -> str | None:
    """`better` or `worse`: which answer the judge preferred; None without a verdict."""
    if graded.grade is None or graded.grade.outcome not in (Outcome.RIGHT, Outcome.WRONG):
        return None
    return "better" if graded.grade.outcome is Outcome.RIGHT else "worse"


def mean_over_solutions(group: Sequence[Graded]) -> list[float]:
    """The mean score of all solutions of an episode's plan: what the plan is worth, whoever solved it well once.

    Episodes share a plan where they have the same problem and the same messages by the meta-thinker.

    Source: ReMA, arXiv:2503.09501, appendix C.2.
    """
    plans = [(graded.transcript.problem.id, tuple(map(str, graded.transcript.by(META)))) for graded in group]
    scores: dict[Any, list[float]] = {}
    for plan, graded in zip(plans, group, strict=True):
        scores.setdefault(plan, []).append(graded.score)
    return [sum(scores[plan]) / len(scores[plan]) for plan in plans]


GROUP_TERMS: Mapping[str, GroupTerm] = {
    "majority_share": majority_share,
    "position_consistency": position_consistency,
    "mean_over_solutions": mean_over_solutions,
}
