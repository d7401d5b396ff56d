"""What is trained on and evaluated on too."""

from __future__ import annotations

from pathlib import Path

from rema_env.problems.named import load_known
from rema_env.problems.overlap import overlap, shared_questions
from rema_env.transcript import Problem


def test_training_on_what_is_evaluated_is_told() -> None:
    train = [Problem("a", "What is  1 + 1?", "2"), Problem("b", "And 2 + 2?", "4")]
    test = [Problem("c", "what is 1 + 1?\n", "2"), Problem("d", "And 3 + 3?", "6")]
    assert shared_questions(train, test) == {"what is 1 + 1?"}
    assert overlap(train, test, "math500") == (
        "1 of the 2 questions of math500 are also trained on: its score says little"
    )
    assert overlap(train, test[1:]) is None


def test_math_level_3_to_5_shares_nothing_with_math500(data: Path) -> None:
    assert overlap(load_known("math_train_lv3to5"), load_known("math500")) is None
    assert overlap(load_known("math_train"), load_known("math_train_lv3to5")) is not None
