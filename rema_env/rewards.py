"""What each role is paid for: named terms, pure functions of a graded transcript.

A role's reward is the weighted sum of its terms. No term looks at another episode or at the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rema_env.roles import BOX, Tag
from rema_env.transcript import Grade, Transcript

UnfinishedReward = Literal["zero", "drop", "grade"]


@dataclass(frozen=True)
class Graded:
    """A dialogue that is over.

    Attributes:
        transcript: what was said.
        grade: of the final message; None where there was none to grade.
        answerer: the role whose last message was graded.
        tag: the form an answer has in this task.
    """

    transcript: Transcript
    grade: Grade | None
    answerer: str = "reasoner"
    tag: Tag = BOX

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


def for_role(rewards: Sequence[Reward], role: str) -> tuple[Reward, ...]:
    """The terms that pay a role."""
    return tuple(reward for reward in rewards if reward.roles is None or role in reward.roles)


def paid_to(role: str, graded: Graded, rewards: Sequence[Reward]) -> tuple[float, dict[str, float]]:
    """What a role is paid: the weighted sum of its terms, and each term's value before weighting."""
    own = for_role(rewards, role)
    terms = {reward.name: float(reward.term(graded, role)) for reward in own}
    return sum(reward.weight * terms[reward.name] for reward in own), terms
