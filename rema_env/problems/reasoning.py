"""Tasks of the package reasoning-gym (arXiv:2505.24760) as problems, graded by the tasks' own checkers.

    math_v0(problems=gym_task("chain_sum"), grader="rema_env.problems.reasoning:grade")

Needs `pip install reasoning-gym`.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from dataclasses import dataclass, field, replace
from typing import Any

from rema_env.grading.boxed import find_answer
from rema_env.problems.procedural import Split
from rema_env.transcript import Grade, Outcome, Problem


@dataclass(frozen=True)
class GymTask:
    """An endless source of one task's problems.

    Attributes:
        task: its name in reasoning-gym, e.g. `chain_sum`.
        settings: its own settings, e.g. `{"max_terms": 4}`.
        split: each has draws of its own; None has others again. A task of few problems may still draw one in both.
    """

    task: str
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    split: Split | None = None

    @property
    def name(self) -> str:
        """For example `reasoning-gym/chain_sum-heldout`."""
        return "-".join([f"reasoning-gym/{self.task}", *([self.split] if self.split else [])])

    @property
    def size(self) -> None:
        """None: the source has no end and no epochs."""
        return None

    def parted(self, split: Split) -> GymTask:
        """The same task with only the draws of one split."""
        return replace(self, split=split)

    def draw(self, seed: int, index: int) -> Problem:
        """The problem at one index: a pure function of (seed, index)."""
        entry = _dataset(self.task, self.settings, _seed(self.name, seed, index))[0]
        extra = {"task": self.task, "settings": self.settings, "entry": json.dumps(entry, default=str)}
        return Problem(
            f"{self.name}/{seed}/{index}", entry["question"], str(entry["answer"]), source=self.name, extra=extra
        )


def gym_task(task: str, **settings: Any) -> GymTask:
    """A task of reasoning-gym by name.

    Raises:
        ValueError: where the package or the task is not there, or the task does not take the settings.
    """
    _dataset(task, settings, 0)
    return GymTask(task, settings)


def grade(problem: Problem, text: str) -> Grade:
    """The task's own score, in [0, 1], of the last box of a message; `right` at 1."""
    answer = find_answer(text)
    if answer is None:
        return Grade(0.0, Outcome.NO_ANSWER)
    entry = json.loads(problem.extra["entry"])
    score = float(_dataset(problem.extra["task"], problem.extra["settings"], 0).score_answer(answer, entry=entry))
    return Grade(score, Outcome.RIGHT if score == 1.0 else Outcome.WRONG, answer)


def _seed(name: str, seed: int, index: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{name} {seed} {index}".encode(), digest_size=4).digest(), "big")


def _dataset(task: str, settings: dict[str, Any], seed: int) -> Any:
    try:
        reasoning_gym = importlib.import_module("reasoning_gym")
    except ImportError:
        raise ValueError(f"reasoning-gym/{task} needs the package: pip install reasoning-gym") from None
    try:
        return reasoning_gym.create_dataset(task, size=1, seed=seed, **settings)
    except (ValueError, TypeError, AssertionError) as error:
        raise ValueError(f"reasoning-gym/{task} with {settings or 'its own settings'}: {error}") from error
