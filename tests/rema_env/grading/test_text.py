from __future__ import annotations

import pytest

from rema_env.grading import load
from rema_env.grading.text import token_f1
from rema_env.transcript import Outcome, Problem


@pytest.mark.parametrize(
    ("gold", "said", "score"),
    [
        ("The Eiffel Tower", "eiffel tower", 1.0),
        ("Paris", r"It is \boxed{Paris}.", 1.0),
        ("Paris", "It is Paris", 0.0),
        ("U.S.A.", "usa", 1.0),
        ("Paris", "", 0.0),
        ("10", "100", 0.0),
    ],
)
def test_exact_match_compares_words_without_case_articles_and_punctuation(gold: str, said: str, score: float) -> None:
    assert load("exact")(Problem("1", "?", gold), said).score == score


def test_token_f1_by_hand() -> None:
    # shared: "cat", "sat"; 2 * 2 / (3 + 4)
    assert token_f1(["cat", "sat", "down"], ["black", "cat", "sat", "there"]) == pytest.approx(4 / 7)
    assert token_f1([], ["a"]) == 0.0
    assert token_f1([], []) == 1.0
    assert token_f1(["a", "a"], ["a"]) == pytest.approx(2 / 3)


def test_token_f1_is_right_only_when_all_words_agree() -> None:
    grade = load("token_f1")
    part = grade(Problem("1", "?", "black cat"), "white cat")
    assert (part.score, part.outcome) == (0.5, Outcome.WRONG)
    assert grade(Problem("1", "?", "black cat"), "a cat, black").outcome is Outcome.RIGHT
    assert grade(Problem("1", "?", "black cat"), " ").outcome is Outcome.NO_ANSWER
