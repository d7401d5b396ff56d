"""Short answers in words: exact match and token F1, as SQuAD scores them (arXiv:1606.05250)."""

from __future__ import annotations

import re
import string
from collections import Counter
from dataclasses import dataclass

from rema_env.grading.boxed import find_answer
from rema_env.transcript import Grade, Outcome, Problem

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_UNPUNCTUATED = str.maketrans("", "", string.punctuation)


def words(text: str) -> list[str]:
    """Lower-case words without punctuation and articles."""
    return _ARTICLE.sub(" ", text.lower().translate(_UNPUNCTUATED)).split()


@dataclass(frozen=True)
class ExactMatch:
    """1 where the answer's words are the gold's words, else 0."""

    def __call__(self, problem: Problem, text: str) -> Grade:
        """The answer is the last \\boxed{} where there is one, else the whole message."""
        answer = _answer(text)
        if answer is None:
            return Grade(0.0, Outcome.NO_ANSWER)
        right = words(answer) == words(problem.answer)
        return Grade(float(right), Outcome.RIGHT if right else Outcome.WRONG, answer)

    quick = __call__


@dataclass(frozen=True)
class TokenF1:
    """Harmonic mean of precision and recall over words, in [0, 1]; `right` only at 1."""

    def __call__(self, problem: Problem, text: str) -> Grade:
        """The answer is the last \\boxed{} where there is one, else the whole message."""
        answer = _answer(text)
        if answer is None:
            return Grade(0.0, Outcome.NO_ANSWER)
        score = token_f1(words(answer), words(problem.answer))
        return Grade(score, Outcome.RIGHT if score == 1.0 else Outcome.WRONG, answer)

    quick = __call__


def token_f1(said: list[str], gold: list[str]) -> float:
    """2 |said & gold| / (|said| + |gold|), words counted as often as they stand; 1 where both are empty."""
    if not said and not gold:
        return 1.0
    shared = sum((Counter(said) & Counter(gold)).values())
    return 2 * shared / (len(said) + len(gold))


def _answer(text: str) -> str | None:
    answer = find_answer(text) or text
    return answer.strip() or None
