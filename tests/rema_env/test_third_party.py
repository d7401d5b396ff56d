"""A package outside of this one brings a process with three agents, a grader and problems; nothing here is changed.

The critic may speak twice in a round: its process knows more turns a round than roles.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
from pettingzoo.test import api_test

import rema_env
from rema_env.testing import check_text_env

PACKAGE = '''
"""Solver, critic and refiner answer a question."""

from rema_env import Ending, Grade, Outcome, Problem, Process, dialogue_env
from rema_env.process import as_chat
from rema_env.problems.listed import Listed


def next_speaker(transcript):
    said = [turn.role for turn in transcript.turns]
    if not said or said[-1] == "refiner":
        return "solver"
    if said[-1] == "solver":
        return "critic"
    unsure = transcript.turns[-1].message.endswith("?")
    return "critic" if unsure and said[-2:] != ["critic", "critic"] else "refiner"


def view(transcript, role):
    return as_chat(f"As the {role}: {transcript.problem.question}", transcript.turns, role)


def ending(transcript):
    done = transcript.turns and transcript.turns[-1].role == "refiner" and "DONE" in transcript.turns[-1].message
    return Ending.FINISHED if done else None


def grade(problem, text):
    right = problem.answer in text
    return Grade(float(right), Outcome.RIGHT if right else Outcome.WRONG, text[:20])


PROCESS = Process("refine", ("solver", "critic", "refiner"), next_speaker, view, ending, turns_per_round=4)
PROBLEMS = Listed("two questions", [Problem("a", "1+1?", "2"), Problem("b", "2+2?", "4")])


def env(**settings):
    prompts = {"solver": "Solve.", "critic": "Criticise.", "refiner": "Refine."}
    return dialogue_env(PROCESS, PROBLEMS, grade, default_prompts=prompts, name="refine_v0", **settings)
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "refining.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "refining", raising=False)
    return "refining:env"


def test_it_passes_every_check(package: str) -> None:
    make = rema_env.resolve(package)
    check_text_env(make())
    check_text_env(make(max_rounds=1, on_cut="continue"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(probably should be gymnasium.spaces|is not a NumPy array)")
        api_test(make(max_rounds=3), num_cycles=20)


def test_the_critic_may_speak_twice_and_every_role_is_paid(package: str) -> None:
    env = rema_env.resolve(package)(rewards={"answer": 1.0, "critic/empty": -0.5})
    env.reset(options={"problem": {"question": "1+1?", "answer": "2"}})
    order, paid = [], dict.fromkeys(env.possible_agents, 0.0)
    script = iter(["3", "Really?", "", "2", "2", "Fine.", "2 DONE"])
    for agent in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last(observe=False)
        paid[agent] += reward
        if terminated or truncated:
            env.step(None)
        else:
            order.append(agent)
            env.step(next(script))
    assert order == [f"{role}_0" for role in ("solver", "critic", "critic", "refiner", "solver", "critic", "refiner")]
    assert env.unwrapped.transcript.ending == "finished"
    assert paid == {"solver_0": 1.0, "critic_0": pytest.approx(1 - 0.5 / 3), "refiner_0": 1.0}


def test_rounds_are_counted_by_the_opening_role(package: str) -> None:
    env = rema_env.resolve(package)(max_rounds=2).unwrapped
    env.reset(seed=0)
    for message in ("3", "Really?", "Sure?", "2", "3", "Fine.", "2"):
        assert env.transcript.ending is None
        env.step(message)
    assert env.transcript.ending == "round_limit"
