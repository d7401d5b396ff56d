"""Procedural arithmetic: the draws, the rule, and the oracle that solves them in turns."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rema_env.problems import Problems
from rema_env.problems.arithmetic import Arithmetic, Expression, Oracle, arithmetic, oracle
from rema_env.problems.procedural import Split

SPLIT_OF_ONE_OPERATION: dict[Split, int] = {"train": 271, "heldout": 29}
indices = st.integers(0, 10_000)
levels = st.sampled_from([1, 2, 3, 4])


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def solve(question: str, meta: Oracle, reasoner: Oracle) -> list[str]:
    """Everything that two oracles say about a question, as the multi-turn process would show it to them."""
    plans: list[dict[str, str]] = [user(question)]
    steps: list[dict[str, str]] = []
    said: list[str] = []
    while not said or not said[-2].endswith("[FINISH]"):
        plan = meta(plans)
        steps.append(user(f"Question:\n{question}\n\nInstruction:\n{plan}" if not steps else plan))
        step = reasoner(steps)
        plans += [assistant(plan), user(step)]
        steps.append(assistant(step))
        said += [plan, step]
    return said


@pytest.mark.parametrize(
    ("written", "value", "plain"),
    [("7", 7, 7), ("3-8", 5, 5), ("3+4*2", 1, 4), ("3+(4*2)", 1, 4), ("9-(4+6)", 9, 1), ("2*(3+4*5)-1", 5, 9)],
)
def test_the_rule_is_bracket_then_product_then_left_to_right(written: str, value: int, plain: int) -> None:
    expression = Expression.parse(written)
    assert (expression.value(), expression.plain_value()) == (value, plain)


@given(levels, st.integers(0, 99), indices)
def test_the_answer_is_the_exact_value_modulo_ten(operations: int, seed: int, index: int) -> None:
    problem = arithmetic(operations).draw(seed, index)
    written = problem.question.removeprefix("Compute ").removesuffix(" modulo 10.")
    assert problem.answer == str(eval(written) % 10)
    assert str(Expression.parse(problem.question)) == written
    assert problem.level == operations


def test_a_draw_depends_on_seed_and_index_alone() -> None:
    source = arithmetic(2, "train")
    forwards = [source.draw(5, i) for i in range(20)]
    assert forwards == [arithmetic(2, "train").draw(5, i) for i in reversed(range(20))][::-1]
    assert forwards != [source.draw(6, i) for i in range(20)]
    assert forwards[0].question == "Compute 0-7*2 modulo 10."  # pinned: the same in every version


def test_training_and_heldout_problems_never_meet_and_none_is_left_out() -> None:
    train, heldout = ({p.id for p in arithmetic(1, split).listed(n)} for split, n in SPLIT_OF_ONE_OPERATION.items())
    assert not train & heldout
    assert train | heldout == {p.id for p in arithmetic(1).listed(300)}


def test_listed_problems_are_all_different() -> None:
    problems = arithmetic(2, "heldout").listed(256)
    assert len({p.question for p in problems}) == 256
    assert problems[:10] == arithmetic(2, "heldout").listed(10)


def test_more_problems_than_there_are_is_an_error() -> None:
    with pytest.raises(ValueError, match="arithmetic-1-heldout holds 29 different problems"):
        arithmetic(1, "heldout").listed(256)


def test_plain_order_solves_about_three_problems_in_five() -> None:
    source = arithmetic(2)
    drawn = [Expression.parse(source.draw(0, i).question) for i in range(2000)]
    assert 0.58 < sum(e.value() == e.plain_value() for e in drawn) / 2000 < 0.65
    assert 0.45 < sum(e.bracket is not None for e in drawn) / 2000 < 0.58


@pytest.mark.parametrize(
    ("arguments", "message"), [((5,), "operations must be one of"), ((2, "test"), "split must be")]
)
def test_unknown_arguments_are_named(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arithmetic(*arguments)


def test_it_is_a_problem_source() -> None:
    assert isinstance(Arithmetic(), Problems)
    assert arithmetic(3, "heldout").name == "arithmetic-3-heldout"


def test_the_oracle_speaks_the_dialogue_of_the_module_text() -> None:
    said = solve("Compute 3+(4*2) modulo 10.", oracle, oracle)
    assert said == ["Compute 4*2", "8", "Compute 3+8 [FINISH]", "\\boxed{1}"]


@given(levels, indices)
def test_the_oracle_solves_every_problem_in_one_round_an_operation(operations: int, index: int) -> None:
    problem = arithmetic(operations).draw(3, index)
    said = solve(problem.question, oracle, oracle)
    assert said[-1] == f"\\boxed{{{problem.answer}}}"
    assert len(said) == 2 * operations


@given(levels, indices)
def test_plain_order_comes_to_the_plain_value(operations: int, index: int) -> None:
    problem = arithmetic(operations).draw(4, index)
    said = solve(problem.question, Oracle(plain=True), oracle)
    assert said[-1] == f"\\boxed{{{Expression.parse(problem.question).plain_value()}}}"


def test_a_slip_is_a_wrong_result_that_the_plan_goes_on_from() -> None:
    said = solve("Compute 3+(4*2) modulo 10.", oracle, Oracle(slip=1.0, seed=1))
    assert said[1] != "8"
    assert said[2] == f"Compute 3+{said[1]} [FINISH]"


def test_an_early_end_leaves_the_last_operation_out() -> None:
    assert solve("Compute 3+(4*2) modulo 10.", Oracle(early=1.0), oracle) == ["Compute 4*2 [FINISH]", "\\boxed{8}"]


def test_a_system_prompt_changes_nothing() -> None:
    chat = [user("Compute 3+(4*2) modulo 10.")]
    assert oracle([{"role": "system", "content": "Plan (1+1)."}, *chat]) == oracle(chat)


def test_the_oracle_goes_on_from_a_plan_that_is_not_its_own() -> None:
    chat = [user("Compute 1+2+3*4 modulo 10."), assistant("Compute 1+2"), user("It is 3.")]
    assert oracle(chat) == "Compute 3*4"


def test_the_oracle_takes_its_own_result_where_the_reply_holds_none() -> None:
    chat = [user("Compute 3+4*2 modulo 10."), assistant("Compute 4*2"), user("I do not know.")]
    assert oracle(chat) == "Compute 3+8 [FINISH]"


def test_a_plan_without_an_operation_gets_no_number() -> None:
    question = "Question:\nCompute 3+4*2 modulo 10.\n\nInstruction:\n"
    assert oracle([user(question)]) == "?"
    assert oracle([user(question + "Guess. [FINISH]")]) == "\\boxed{?}"


def test_a_chat_without_an_expression_is_an_error_that_shows_it() -> None:
    with pytest.raises(ValueError, match=r"no arithmetic expression .* 'What is love\?'"):
        oracle([user("What is love?")])
