r"""Mathematical answers: the last \boxed{} of a message against the golden answer.

In order: the same text once cleaned; the same words; the same structure with the same quantities, told by exact
arithmetic and floats (all this in the calling process, linear in the text, without sympy); and for what is still open,
high precision and math-verify, which only workers run.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from fractions import Fraction

from rema_env.grading.answer import Answer, Quantity
from rema_env.grading.boxed import find_answer
from rema_env.grading.compare import same_answer
from rema_env.grading.exact import QUICK_BITS, Inexact, exact, folded
from rema_env.grading.expression import Call, Expr, Number
from rema_env.grading.latex import Unreadable, clean, tokens
from rema_env.grading.numeric import FLOAT, Unsure, value
from rema_env.grading.points import Point, points
from rema_env.grading.structure import read_answer
from rema_env.grading.verdict import Judge, Verdict, any_of
from rema_env.grading.words import (
    as_number,
    clock,
    is_no_solution,
    is_words,
    labelled_option,
    option,
    plain,
    same_time,
    same_words,
    spread,
    without_frame,
    without_name,
    without_option,
)
from rema_env.transcript import Grade, Outcome, Problem

LONGEST_BOX = 1 << 16  # characters between the braces
LONGEST_ANSWER = 4_096  # characters once cleaned
_INTEGER = re.compile(r"-?[0-9]{1,18}")  # two of these are compared as they are: the common case, kept cheap
_SHORT = 512  # characters of an answer worth remembering: every gold, and what most samples say
_FAR = 1e-6  # a relative distance that rounding of floats never makes


@dataclass(frozen=True)
class MathGrader:
    r"""Grades the last complete \boxed{} of a message against the golden answer.

    Args:
        rtol: relative tolerance for golden answers that are measured values (written with a decimal point or as
            a x 10^n); None compares them exactly, like all others.
    """

    rtol: float | None = None

    def __post_init__(self) -> None:
        if self.rtol is not None and not 0 < self.rtol < 1:
            raise ValueError(f"rtol is a relative tolerance between 0 and 1, got {self.rtol}")

    def quick(self, problem: Problem, text: str) -> Grade | None:
        """The grade where it needs no computer algebra, else None. Never slow, never raises."""
        return self._grade(problem.answer, text, _Quick(self.rtol))

    def __call__(self, problem: Problem, text: str) -> Grade:
        """The grade. May take long on a hostile answer: call it through `grading.pooled`."""
        grade = self._grade(problem.answer, text, _Sure(self.rtol))
        assert grade is not None, "a sure judge leaves nothing open"
        return grade

    def gold_fault(self, answer: str) -> str | None:
        """What is wrong with a golden answer, or None: one that no message could match."""
        return _read(answer).fault

    def warm_up(self) -> None:
        """Import what the slow path needs."""
        from rema_env.grading.proof import by_math_verify

        by_math_verify("1", "1")

    def _grade(self, answer: str, text: str, judge: Judge) -> Grade | None:
        found = find_answer(text)
        if found is None:
            return Grade(0.0, Outcome.NO_ANSWER)
        if len(found) > LONGEST_BOX:
            return Grade(0.0, Outcome.TOO_LONG, found[:LONGEST_ANSWER])
        if _INTEGER.fullmatch(found) and _INTEGER.fullmatch(answer):
            right = int(found) == int(answer)
            return Grade(float(right), Outcome.RIGHT if right else Outcome.WRONG, found)
        gold, said = _read(answer), _read(found)
        if gold.fault or said.fault:
            return Grade(0.0, Outcome.UNPARSABLE, found)
        if gold.text == said.text:
            return Grade(1.0, Outcome.RIGHT, found)
        if len(said.text) > LONGEST_ANSWER:
            return Grade(0.0, Outcome.TOO_LONG, found[:LONGEST_ANSWER])
        verdict = _same(gold, said, judge)
        if verdict is None:
            return None
        if verdict:
            return Grade(1.0, Outcome.RIGHT, found)
        unread = said.answer is None and not gold.words
        return Grade(0.0, Outcome.UNPARSABLE if unread else Outcome.WRONG, found)


@dataclass(frozen=True)
class _Reading:
    """An answer as far as it is understood: cleaned text, whether it is words, structure or None, fault or None."""

    text: str
    words: bool
    answer: Answer | None
    fault: str | None


def _read(answer: str) -> _Reading:
    return _remembered(answer) if len(answer) <= _SHORT else _understood(answer)


@functools.lru_cache(maxsize=8192)
def _remembered(answer: str) -> _Reading:
    return _understood(answer)


def _understood(answer: str) -> _Reading:
    try:
        text = clean(answer)
    except Unreadable as error:
        return _Reading("", False, None, str(error))
    if not any(c.isalnum() for c in text) and not is_no_solution(text):
        return _Reading(text, False, None, "it has neither a letter nor a digit")
    if len(text) > LONGEST_ANSWER:
        return _Reading(text, False, None, None)
    words = is_words(text)
    for written in (text, spread(text)):
        try:
            return _Reading(text, words, read_answer(written), None)
        except (Unreadable, RecursionError):
            continue
    return _Reading(text, words, None, None)


def forget() -> None:
    """Drop the readings remembered so far (they only save time)."""
    _remembered.cache_clear()


def _same(gold: _Reading, said: _Reading, judge: Judge) -> Verdict:
    if "," not in gold.text and tokens(gold.text) == tokens(said.text):
        return True
    if is_no_solution(gold.text) or is_no_solution(said.text):
        return is_no_solution(gold.text) and is_no_solution(said.text)
    times = clock(gold.text), clock(said.text)
    if times[0] and times[1]:
        return same_time(times[0], times[1])
    letter = labelled_option(gold.text)
    if letter and option(said.text):
        return letter == option(said.text)
    if gold.words:
        return same_words(gold.text, without_frame(said.text)) or same_words(gold.text, said.text)
    if gold.answer is None:
        return plain(gold.text) == plain(said.text) or tokens(gold.text) == tokens(said.text)
    return any_of(same_answer(gold.answer, answer, judge) for answer in _readings(gold, said))


def _readings(gold: _Reading, said: _Reading) -> list[Answer]:
    """What was said, read in each way the notation allows: `100,200` as a list too, `four` as 4, `(C) 12` as 12."""
    texts = [(said.text, False)] if "," in said.text and not isinstance(gold.answer, Quantity) else []
    ways = [as_number(said.text), without_option(said.text)]
    if not isinstance(gold.answer, Quantity):
        ways.append(without_name(said.text))
    texts += [(other, True) for other in ways if other and other != said.text]
    found = [] if said.answer is None else [said.answer]
    for text, thousands in texts:
        try:
            answer = read_answer(text, thousands=thousands)
        except (Unreadable, RecursionError):
            continue
        if answer not in found:
            found.append(answer)
    return found


def is_measured(expr: Expr) -> bool:
    """Whether a number is a measured value: a decimal, or a x 10^n, with a sign or not."""
    if isinstance(expr, Number):
        return expr.measured
    if not isinstance(expr, Call):
        return False
    if expr.op == "neg":
        return is_measured(expr.args[0])
    power = expr.args[-1]
    ten = isinstance(power, Call) and power.op == "pow" and power.args[0] == Number(Fraction(10))
    return expr.op == "mul" and len(expr.args) == 2 and isinstance(expr.args[0], Number) and ten


def _within(gold: Expr, said: Expr, rtol: float) -> bool:
    """|said - gold| <= rtol |gold|, both real."""
    try:
        a, b = value(gold, Point(), FLOAT), value(said, Point(), FLOAT)
    except Unsure:
        return False
    return not a.imag and not b.imag and bool(abs(b - a) <= rtol * abs(a) * (1 + 1e-12))


@dataclass(frozen=True)
class _Quick:
    """Judges by small exact arithmetic, and by floats where they are far apart; leaves the rest open."""

    rtol: float | None = None

    def same(self, gold: Expr, said: Expr) -> Verdict:
        if self.rtol is not None and is_measured(gold):
            return _within(gold, said, self.rtol)
        try:
            return exact(gold, QUICK_BITS) == exact(said, QUICK_BITS)
        except Inexact:
            if folded(gold) == folded(said):
                return True
            return False if self._far_apart(gold, said) else None

    def proportional(self, gold: Expr, said: Expr) -> int | None:
        ratios = []
        for point in points(gold, said):
            try:
                a, b = value(gold, point, FLOAT), value(said, point, FLOAT)
                ratios.append(b / a)
            except (Unsure, ZeroDivisionError):
                continue
        apart = any(abs(ratio - ratios[0]) > _FAR * (abs(ratio) + abs(ratios[0])) for ratio in ratios)
        return 0 if apart else None

    def foreign(self, gold: str, said: str) -> Verdict:
        return None

    def _far_apart(self, gold: Expr, said: Expr) -> bool:
        """Whether they differ clearly at a point where the gold is real, under each reading of a bare log."""
        apart: dict[int | None, bool] = {}
        for point in points(gold, said):
            apart.setdefault(point.log_base, False)
            try:
                a, b = value(gold, point, FLOAT), value(said, point, FLOAT)
            except Unsure:
                continue
            if abs(a.imag) <= 1e-12 * abs(a) or not point.names:
                apart[point.log_base] |= abs(a - b) > _FAR * (abs(a) + abs(b))
        return all(apart.values())


@dataclass(frozen=True)
class _Sure:
    """Judges by all means, and always decides."""

    rtol: float | None = None

    def same(self, gold: Expr, said: Expr) -> Verdict:
        from rema_env.grading.proof import proven

        if self.rtol is not None and is_measured(gold):
            return _within(gold, said, self.rtol)
        return proven(gold, said)

    def proportional(self, gold: Expr, said: Expr) -> int | None:
        from rema_env.grading.proof import proportional

        return proportional(gold, said)

    def foreign(self, gold: str, said: str) -> Verdict:
        from rema_env.grading.proof import by_math_verify

        return by_math_verify(gold, said)
