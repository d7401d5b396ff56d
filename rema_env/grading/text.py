"""Short answers in words: exact match and token F1, as SQuAD scores them (arXiv:1606.05250), for any language."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from dataclasses import dataclass

from rema_env.grading.boxed import find_answer
from rema_env.transcript import Grade, Outcome, Problem

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_WRAPPED = re.compile(r"\\(?:text(?:normal|bf|it|rm|sf|tt|sc|up)?|math(?:rm|bf|it|sf|tt)|mbox|emph)\s*\{([^{}]*)\}")
_LATEX_BLANK = re.compile(r"\\[ ,;:!]|~")
_NESTED = 8  # wrappers within wrappers
_LONG_WORD = 1_000  # characters; to normalise a word takes up to the square of its length


class _WithoutPunctuation(dict[int, "str | None"]):
    """For `str.translate`: ASCII punctuation, as SQuAD has it, and what Unicode calls punctuation; filled as needed."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        is_punctuation = character in string.punctuation or unicodedata.category(character).startswith("P")
        self[code] = None if is_punctuation else character
        return self[code]


_UNPUNCTUATED = _WithoutPunctuation()


def words(text: str) -> list[str]:
    r"""Lower-case words without punctuation and articles, in Unicode's form NFKC; accents stay.

    Wrappers such as `\text{}` are taken off. An answer of articles alone keeps them: `A` is an answer.
    """
    said = _nfkc(_unwrapped(text)).lower().translate(_UNPUNCTUATED)
    return _ARTICLE.sub(" ", said).split() or said.split()


def _unwrapped(text: str) -> str:
    for _ in range(_NESTED if "\\" in text else 0):
        text, found = _WRAPPED.subn(r"\1", text)
        if not found:
            break
    return _LATEX_BLANK.sub(" ", text)


def _nfkc(text: str) -> str:
    if text.isascii():
        return text
    return " ".join(word if len(word) > _LONG_WORD else unicodedata.normalize("NFKC", word) for word in text.split())


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
