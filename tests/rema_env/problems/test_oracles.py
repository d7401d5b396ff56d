"""The oracles that say all of their part in one message."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rema_env
from rema_env.problems.arithmetic import Expression, Oracle, arithmetic
from rema_env.problems.oracles import oracle_of

QUESTION = "Compute 3+(4*2) modulo 10."
ONE_MESSAGE = ["single_turn", "mrp", "vrp"]
levels, indices = st.integers(1, 4), st.integers(0, 10_000)


def said(process: str, question: str, **mistakes: Any) -> list[str]:
    """Everything that the oracle says in the environment's process about a question."""
    env = rema_env.math_v0(process=process)
    oracle = oracle_of(process, **mistakes)
    env.reset(options={"problem": {"id": "p", "question": question, "answer": "1"}})
    while env.agents:
        observation, _, over, cut, _ = env.last()
        env.step(None if over or cut else oracle(observation["messages"]))
    return [str(turn.message) for turn in env.unwrapped.transcript.turns]


def boxed(message: str) -> int:
    return int(re.findall(r"\\boxed\{(\d)\}$", message)[0])


def test_each_process_is_spoken_as_the_module_text_shows() -> None:
    plan, solution = "Compute 4*2 then 3+a", "4*2=8 3+8=1 \\boxed{1}"
    assert said("single_turn", QUESTION) == [plan, solution]
    assert said("mrp", QUESTION) == [f"{plan}\n{solution}"]
    assert said("vrp", QUESTION) == [solution]


@pytest.mark.parametrize("process", ONE_MESSAGE)
@given(levels, indices)
def test_every_problem_is_solved(process: str, operations: int, index: int) -> None:
    problem = arithmetic(operations).draw(3, index)
    assert boxed(said(process, problem.question)[-1]) == int(problem.answer)


@pytest.mark.parametrize("process", ONE_MESSAGE)
@given(levels, indices)
def test_plain_order_comes_to_the_plain_value(process: str, operations: int, index: int) -> None:
    question = arithmetic(operations).draw(4, index).question
    assert boxed(said(process, question, plain=True)[-1]) == Expression.parse(question).plain_value()


@given(levels, indices)
def test_a_plan_holds_no_result(operations: int, index: int) -> None:
    question = arithmetic(operations).draw(5, index).question
    plan, _ = said("single_turn", question)
    assert sorted(re.findall(r"\d", plan)) == sorted(map(str, Expression.parse(question).numbers))


@pytest.mark.parametrize("process", ONE_MESSAGE)
def test_a_slip_is_a_wrong_result_that_later_steps_go_on_from(process: str) -> None:
    solution = said(process, QUESTION, slip=1.0, seed=1)[-1].splitlines()[-1]
    first, second = re.findall(r"=(\d)", solution)
    assert first != "8"
    assert f" 3+{first}={second} " in solution
    assert int(second) != (3 + int(first)) % 10
    assert boxed(solution) == int(second)


@pytest.mark.parametrize("process", ONE_MESSAGE)
def test_an_early_end_leaves_the_last_operation_out(process: str) -> None:
    assert said(process, QUESTION, early=1.0)[-1].splitlines()[-1] == "4*2=8 \\boxed{8}"


@pytest.mark.parametrize("process", ONE_MESSAGE)
def test_the_only_operation_is_never_left_out(process: str) -> None:
    assert boxed(said(process, "Compute 3+4 modulo 10.", early=1.0)[-1]) == 7


@pytest.mark.parametrize(("plan", "solution"), [("", "\\boxed{?}"), ("Compute b+2", "b+2=? \\boxed{?}")])
def test_a_plan_that_names_no_number_gets_none(plan: str, solution: str) -> None:
    chat = [{"role": "user", "content": f"Question:\n{QUESTION}\n\nInstruction:\n{plan}"}]
    assert oracle_of("single_turn")(chat) == solution


def test_a_system_prompt_changes_nothing() -> None:
    chat = [{"role": "user", "content": QUESTION}]
    system = {"role": "system", "content": "Plan (1+1)."}
    assert oracle_of("single_turn")([system, *chat]) == oracle_of("single_turn")(chat)


def test_multi_turn_is_spoken_by_the_oracle_of_arithmetic() -> None:
    assert oracle_of("multi_turn", plain=True, slip=0.1, early=0.2, seed=3) == Oracle(True, 0.1, 0.2, 3)


def test_an_unknown_process_is_named() -> None:
    with pytest.raises(ValueError, match="no oracle speaks in process 'debate'"):
        oracle_of("debate")
