"""What each role is paid for: named terms, pure functions of a graded transcript.

A role's reward is the weighted sum of its terms. No term looks at another episode or at the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rema_env.transcript import Grade, Transcript

UnfinishedReward = Literal["zero", "drop", "grade"]


@dataclass(frozen=True)
class Graded:
    """A dialogue that is over, with the grade of its final message (None where there was none to grade)."""

    transcript: Transcript
    grade: Grade | None

    @property
    def score(self) -> float:
        """The grade as a number in [0, 1]; 0 where nothing was graded."""
        return 0.0 if self.grade is None else self.grade.score


Term = Callable[[Graded, str], float]


@dataclass(frozen=True)
class Reward:
    """One named term of the reward.

    Attributes:
        name: under which it is logged.
        term: its value for one role, before weighting.
        weight: what it is multiplied by.
        roles: who is paid by it; None for everyone.
    """

    name: str
    term: Term
    weight: float = 1.0
    roles: tuple[str, ...] | None = None


def answer(graded: Graded, role: str) -> float:
    """The score of the final answer, the same for every role."""
    return graded.score


ANSWER = Reward("answer", answer)


def as_paid(graded: Graded, unfinished: UnfinishedReward) -> Graded:
    """The graded transcript as the terms see it.

    Under `zero` an unfinished dialogue scores 0 whatever it says; under `drop` (it is left out of the loss) and `grade`
    its score counts as it is.
    """
    finished = graded.transcript.ending is not None and graded.transcript.ending.terminated
    if finished or unfinished != "zero" or graded.grade is None:
        return graded
    return replace(graded, grade=replace(graded.grade, score=0.0))


def terms_of(graded: Graded, role: str, rewards: Sequence[Reward]) -> dict[str, float]:
    """The value of every term that pays this role, before weighting."""
    return {r.name: float(r.term(graded, role)) for r in rewards if r.roles is None or role in r.roles}


def pay(terms: Mapping[str, float], rewards: Sequence[Reward]) -> float:
    """The weighted sum of the terms."""
    return float(sum(r.weight * terms[r.name] for r in rewards if r.name in terms))
