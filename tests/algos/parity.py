"""A grader that models of random weights can please: half of what they say is right."""

from __future__ import annotations

from rema_env.transcript import Grade, Outcome, Problem


def grade(problem: Problem, text: str) -> Grade:
    """Right where the number of characters is even."""
    even = len(text) % 2 == 0
    return Grade(float(even), Outcome.RIGHT if even else Outcome.WRONG)
