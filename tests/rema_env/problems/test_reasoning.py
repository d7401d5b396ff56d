from __future__ import annotations

import sys

import pytest

import rema_env
from rema_env.problems.named import load
from rema_env.problems.reasoning import GymTask, grade, gym_task


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(ValueError, match="reasoning-gym/chain_sum needs the package: pip install reasoning-gym"):
        gym_task("chain_sum")


@pytest.mark.filterwarnings("ignore")  # of the package's own dependencies
def test_a_task_is_played_and_graded_by_its_own_checker() -> None:
    pytest.importorskip("reasoning_gym", exc_type=ImportError)
    source = load("reasoning-gym/chain_sum")
    problem = source.draw(3, 1)
    assert source.draw(3, 1) == problem != source.draw(3, 2)
    assert isinstance(source, GymTask)
    parts = [source.parted("train").draw(3, 1), source.parted("heldout").draw(3, 1)]
    assert len({p.question for p in (problem, *parts)}) == 3
    env = rema_env.math_v0.raw_env(source, grader=grade, process="vrp")
    for answer, pay in ((problem.answer, 1.0), ("no number", 0.0)):
        env.reset(options={"problem": problem})
        env.step(rf"\boxed{{{answer}}}")
        assert env.rewards["reasoner_0"] == pytest.approx(pay, abs=0.1)
    with pytest.raises(ValueError, match="reasoning-gym/no_such_task"):
        gym_task("no_such_task")
