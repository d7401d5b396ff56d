from __future__ import annotations

import pytest

from rema_env.process import PROCESSES, process_named
from rema_env.roles import BOX, FINISH_FLAG, MATH_PROMPTS, VERDICT, system_prompts


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
def test_every_role_of_every_process_has_a_prompt_that_shows_its_tags(name: str) -> None:
    process, prompts = process_named(name), MATH_PROMPTS[name]
    assert prompts.keys() == set(process.roles)
    assert BOX.example("42") in prompts["reasoner"]
    assert any(FINISH_FLAG.text in text for text in prompts.values()) is (name == "multi_turn")


def test_given_prompts_replace_defaults_and_nothing_means_none() -> None:
    roles = ("meta", "reasoner")
    defaults = {"meta": "m", "reasoner": "r"}
    assert system_prompts(defaults, None, roles) == defaults
    assert system_prompts(defaults, {"meta": "x"}, roles) == {"meta": "x", "reasoner": "r"}
    assert system_prompts(defaults, {"meta": "", "reasoner": None}, roles) == {"meta": "", "reasoner": ""}
    assert system_prompts({}, None, roles) == {"meta": "", "reasoner": ""}
