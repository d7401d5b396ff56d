from __future__ import annotations

import time

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
        ("Paris", r"\boxed{\text{Paris}}", 1.0),
        ("Paris", r"\boxed{\textbf{\text{The Paris}}.}", 1.0),
        (r"\text{New York}", r"\boxed{$\mathrm{New~York}$}", 1.0),
        ("New York", r"\boxed{New~York}", 1.0),
        ("Rock & Roll", r"\boxed{\text{Rock\ \&\ Roll}}", 1.0),
        ("Caf\u00e9", "Cafe\u0301", 1.0),  # one character, or a letter and its accent
        ("Caf\u00e9", "Cafe", 0.0),
        ("H2O", "\uff28\u2082\uff2f", 1.0),  # wide letters and a subscript
        ("O'Neill", "O\u2019Neill", 1.0),
        ("Saint-Denis", "saint\u2010denis", 1.0),
        ("\u4e1c\u4eac", "\u4e1c\u4eac\u3002", 1.0),
        ("A", "the", 0.0),
        ("A", r"\boxed{a}", 1.0),
        ("The Who", "who", 1.0),
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


def test_token_f1_counts_words_as_they_are_normalised() -> None:
    # said: citt\u00e0, del, vaticano, s\u00ec; gold: citt\u00e0, di, vaticano; shared 2; 2 * 2 / (4 + 3)
    grade = load("token_f1")(
        Problem("1", "?", "Citt\u00e0 di \u00abVaticano\u00bb"), "Citta\u0300 del VATICANO, s\u00ec"
    )
    assert grade.score == pytest.approx(4 / 7)


def test_a_megabyte_of_accents_costs_little() -> None:
    hostile = "\u0301\u0327" * 2**19
    started = time.perf_counter()
    assert load("exact")(Problem("1", "?", "Paris"), hostile).outcome is Outcome.WRONG
    assert load("token_f1")(Problem("1", "?", "Paris"), r"\text{" * 2**17).outcome is Outcome.WRONG
    assert time.perf_counter() - started < 5


def test_token_f1_is_right_only_when_all_words_agree() -> None:
    grade = load("token_f1")
    part = grade(Problem("1", "?", "black cat"), "white cat")
    assert (part.score, part.outcome) == (0.5, Outcome.WRONG)
    assert grade(Problem("1", "?", "black cat"), "a cat, black").outcome is Outcome.RIGHT
    assert grade(Problem("1", "?", "black cat"), " ").outcome is Outcome.NO_ANSWER
