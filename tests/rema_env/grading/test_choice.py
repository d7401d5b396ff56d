from __future__ import annotations

import pytest

from rema_env.grading import load
from rema_env.grading.choice import ChoiceGrader
from rema_env.problems.files import gold_of
from rema_env.transcript import Outcome, Problem

GRADE = load("choice")


def outcome(text: str, answer: str = "A") -> Outcome:
    return GRADE(Problem("1", "Which is better?", answer), text).outcome


@pytest.mark.parametrize("text", ["[[A]]", "A is clearer. [[A]]", "So [[A]].\n", "**[[A]]**", "Final verdict: [[A]] "])
def test_one_verdict_at_the_end_that_names_the_answer_is_right(text: str) -> None:
    assert outcome(text) is Outcome.RIGHT


def test_the_other_verdict_is_wrong() -> None:
    assert outcome("[[B]]") is Outcome.WRONG
    assert outcome("[[A]]", answer="B") is Outcome.WRONG


@pytest.mark.parametrize(
    "text",
    ["", "A", "[A]", "[[a]]", "[[C]]", "[[A]] or [[B]]", "[[B]][[A]]", "[[A]] [[A]]", "[[A]] because it is longer",
     "[[ A ]]", "I would not say [[A]]; rather B", r"\boxed{A}", "[[A or B]]", "[[AB]]"],
)  # fmt: skip
def test_anything_but_one_verdict_at_the_end_is_no_answer(text: str) -> None:
    assert outcome(text) is Outcome.NO_ANSWER


def test_a_gold_in_its_own_brackets_is_understood() -> None:
    assert outcome("[[B]]", answer="[[B]]") is Outcome.RIGHT


def test_a_gold_that_no_verdict_names_is_a_fault() -> None:
    grade = ChoiceGrader()
    assert [grade.gold_fault(gold) for gold in ("A", "[[B]]")] == [None, None]
    assert grade.gold_fault("tie") == "a verdict is one of A, B"
    with pytest.raises(ValueError, match="'E' is no answer to be checked: a verdict is one of A, B"):
        gold_of("E", "x.jsonl", 0, "answer", grade.gold_fault)


def test_other_letters_count_where_they_are_asked_for() -> None:
    grade = load("choice", choices=("A", "B", "C"))
    assert grade(Problem("1", "", "C"), "[[C]]").score == 1.0
