"""Questions that are trained on and evaluated on too, compared without regard to whitespace and case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rema_env.transcript import Problem


def asked(question: str) -> str:
    """The form in which questions are compared."""
    return " ".join(question.casefold().split())


def shared_questions(one: Iterable[Problem], other: Iterable[Problem]) -> set[str]:
    """The questions that two sets share."""
    known = {asked(problem.question) for problem in other}
    return {question for problem in one if (question := asked(problem.question)) in known}


def overlap(train: Iterable[Problem], evaluation: Sequence[Problem], name: str = "the evaluation set") -> str | None:
    """One sentence where training problems are evaluated on, else None."""
    shared = shared_questions(train, evaluation)
    if not shared:
        return None
    return f"{len(shared)} of the {len(evaluation)} questions of {name} are also trained on: its score says little"
