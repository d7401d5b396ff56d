"""Verdicts of a judge: [[A]] or [[B]], exactly one, at the end of the message."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rema_env.transcript import Grade, Outcome, Problem

_VERDICT = re.compile(r"\[\[([A-Z])\]\]")
_CLOSING = " \t\r\n.*_`"


@dataclass(frozen=True)
class ChoiceGrader:
    """Grades the one verdict [[A]] or [[B]] that ends the message; `choices` are the letters that count."""

    choices: tuple[str, ...] = ("A", "B")

    def __call__(self, problem: Problem, text: str) -> Grade:
        """Right where the only verdict of the message ends it and names `problem.answer`.

        No verdict, two verdicts (also of the same letter) or words after it: no answer, so that hedging never pays.
        """
        verdicts = [match for match in _VERDICT.finditer(text) if match[1] in self.choices]
        if len(verdicts) != 1 or text[verdicts[0].end() :].strip(_CLOSING):
            return Grade(0.0, Outcome.NO_ANSWER)
        letter = verdicts[0][1]
        right = letter == problem.answer.strip(" []")
        return Grade(float(right), Outcome.RIGHT if right else Outcome.WRONG, letter)

    quick = __call__

    def gold_fault(self, answer: str) -> str | None:
        """What is wrong with a golden answer that no verdict names."""
        return None if answer.strip(" []") in self.choices else f"a verdict is one of {', '.join(self.choices)}"
