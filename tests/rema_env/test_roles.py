from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rema_env
from rema_env.factory import EnvFactory
from rema_env.grading import load
from rema_env.process import PROCESSES, process_named
from rema_env.roles import BOX, FINISH_FLAG, JUDGE_PROMPTS, MATH_PROMPTS, QA_PROMPTS, VERDICT, digest, system_prompts
from rema_env.transcript import Outcome, Problem


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("[FINISH]", True),
        ("  [FINISH]", True),
        ("Done. [FINISH]", True),
        ("Done.\n[FINISH]\n\n \t", True),
        ("Done.\u3000[FINISH]\u3000", True),
        ("Done.[FINISH]", False),
        ('"[FINISH]"', False),
        ("[FINISH] [FINISH", False),
        ("[FINISH] then", False),
        ("", False),
    ],
)
def test_the_flag_counts_at_the_end_after_whitespace_or_nothing(text: str, ends: bool) -> None:
    assert FINISH_FLAG.ends(text) is ends


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (r"\boxed{4}", True),
        (r"\boxed {\frac12}", True),
        (r"\boxed{}", False),
        (r"\boxed{ }", False),
        ("boxed 4", False),
        ("", False),
    ],
)
def test_a_box_counts_with_something_in_it(text: str, holds: bool) -> None:
    assert BOX.holds(text) is holds


def test_what_the_prompts_ask_for_passes_the_check() -> None:
    assert BOX.holds(BOX.example("42"))
    assert FINISH_FLAG.ends(f"Well done. {FINISH_FLAG.text}")
    assert VERDICT.holds(VERDICT.example("A"))
    assert not VERDICT.holds(VERDICT.text)


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize(
    ("prompts", "example"),
    [(MATH_PROMPTS, BOX.example("42")), (JUDGE_PROMPTS, VERDICT.example("A")), (QA_PROMPTS, BOX.example("Paris"))],
)
def test_every_role_of_every_process_has_a_prompt_that_shows_its_tags(
    name: str, prompts: Mapping[str, Mapping[str, str]], example: str
) -> None:
    assert prompts[name].keys() == set(process_named(name).roles)
    assert example in prompts[name]["reasoner"]
    assert any(FINISH_FLAG.text in text for text in prompts[name].values()) is (name == "multi_turn")


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize(
    ("task", "answer"), [(rema_env.math_v0, "42"), (rema_env.judge_v0, "A"), (rema_env.qa_v0, "Paris")], ids=str
)
def test_the_example_in_the_prompt_is_right_and_in_form(task: EnvFactory, answer: str, name: str) -> None:
    env = task.raw_env(process=name, rewards={"answer": 1.0, "format": 0.5})
    env.reset(options={"problem": Problem("q", "Which?", answer, extra={"answer_a": "a", "answer_b": "b"})})
    example = env.tag.example(answer)
    assert example in env.system_prompts["reasoner"]
    while env.transcript.ending is None:
        env.step(FINISH_FLAG.text if env.agent_selection == "meta_0" else example)
    assert set(env.rewards.values()) == {1.5}


@given(
    st.lists(st.sampled_from(["[[A]]", "[[B]]", "[[C]]", " ", ".", "so", "\n", "**", "[["]), max_size=6).map("".join)
)
def test_the_check_of_a_verdict_is_the_graders(text: str) -> None:
    graded = load("choice")(Problem("q", "?", "A"), text)
    assert VERDICT.holds(text) is (graded.outcome is not Outcome.NO_ANSWER)


def test_a_digest_names_the_prompts_and_not_their_order() -> None:
    assert digest({"a": "x", "b": "y"}) == digest({"b": "y", "a": "x"}) != digest({"a": "x", "b": "z"})


def test_given_prompts_replace_defaults_and_nothing_means_none() -> None:
    roles = ("meta", "reasoner")
    defaults = {"meta": "m", "reasoner": "r"}
    assert system_prompts(defaults, None, roles) == defaults
    assert system_prompts(defaults, {"meta": "x"}, roles) == {"meta": "x", "reasoner": "r"}
    assert system_prompts(defaults, {"meta": "", "reasoner": None}, roles) == {"meta": "", "reasoner": ""}
    assert system_prompts({}, None, roles) == {"meta": "", "reasoner": ""}
