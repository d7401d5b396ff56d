"""Mathematical answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rema_env.grading.boxed import find_answer
from rema_env.transcript import Grade, Outcome, Problem

_INTEGER = re.compile(r"\s*(-?\d+)\s*")


@dataclass(frozen=True)
class MathGrader:
    """Grades the last \\boxed{} of a message against the golden answer."""

    rtol: float | None = None

    def quick(self, problem: Problem, text: str) -> Grade | None:
        """The grade where it needs no computer algebra, else None."""
        answer = find_answer(text)
        if answer is None:
            return Grade(0.0, Outcome.NO_ANSWER)
        gold, said = _INTEGER.fullmatch(problem.answer), _INTEGER.fullmatch(answer)
        if gold and said and len(answer) < 4000:
            right = int(gold[1]) == int(said[1])
            return Grade(float(right), Outcome.RIGHT if right else Outcome.WRONG, answer)
        return None

    def __call__(self, problem: Problem, text: str) -> Grade:
        grade = self.quick(problem, text)
        if grade is not None:
            return grade
        from math_verify import parse, verify

        answer = find_answer(text) or ""
        gold = parse("\\boxed{" + problem.answer + "}", parsing_timeout=None)
        said = parse("\\boxed{" + answer + "}", parsing_timeout=None)
        right = verify(gold, said, timeout_seconds=None)
        return Grade(float(right), Outcome.RIGHT if right else Outcome.WRONG, answer)

    def warm_up(self) -> None:
        """Import the computer algebra."""
        import math_verify  # noqa: F401
