from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rema_env.grading.boxed import find_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"So it is \boxed{41}.", "41"),
        (r"\boxed{\frac{\sqrt{a^{2}+b^{2}}}{c_{1}}}", r"\frac{\sqrt{a^{2}+b^{2}}}{c_{1}}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{ x \right.} and so on", r"\left\{ x \right."),
        (r"First \boxed{41}. Wait, it is \boxed{12}", "12"),
        (r"Mark your solution with \boxed{}. ... \boxed{17}", "17"),
        (r"\boxed{41}. (I used \boxed{} as you asked.)", "41"),
        (r"\boxed{C} ... \boxed{\text{E}}", r"\text{E}"),
        (r"\fbox{41}", "41"),
        (r"\boxed {41}", "41"),
        (r"The result is $\boxed 41$", "41"),
        (r"\boxed{\boxed{41}}", r"\boxed{41}"),
        (r"\boxed{12} and the cut one: \boxed{41", "12"),
        (r"\boxed{12 \boxed{41}", "41"),
        (r"a stray { brace \boxed{41} and } more }", "41"),
        (r"\\boxed{41}", "41"),
        ("\\boxed{\n41\n}", "41"),
        (r"\boxed{41}[FINISH]", "41"),
        (r"$\boxed{2}$ and $\boxed{5}$.", "2, 5"),
        (r"\boxed{7}, \boxed{9}", "7, 9"),
        (r"\boxed{615}, \boxed{615}", "615"),
        (r"\boxed{12}; no: \boxed{2}, \boxed{5}", "2, 5"),
        (r"\boxed{12} \boxed{41}", "41"),
        (r"<think> \boxed{41} </think> It is \boxed{12}.", "12"),
        (r"... \boxed{41} </think> It is \boxed{12}.", "12"),
    ],
)
def test_the_answer_is_the_last_complete_box(text: str, answer: str) -> None:
    assert find_answer(text) == answer


@pytest.mark.parametrize(
    "text",
    ["", "41", r"\boxed{}", r"\boxed{ }", r"\boxed{41", r"\boxed", r"\boxedfoo{41}", r"use \boxed for the answer 41",
     r"}\boxed", r"<think> so \boxed{41} and now", r"<think> \boxed{41} </think> done"],
)  # fmt: skip
def test_no_complete_box_is_no_answer(text: str) -> None:
    assert find_answer(text) is None


@given(st.text(alphabet="ab{}\\$, \n").filter(lambda s: s.count("{") == 0 and s.count("}") == 0 and "\\" not in s))
def test_whatever_stands_around_it_the_box_is_found(noise: str) -> None:
    assert find_answer(noise + r" \boxed{41} " + noise) == "41"


PARTS = ["\\boxed{", "\\fbox", "{", "}", "\\", "4", ",", " ", "<think>", "</think>"]


@given(st.lists(st.sampled_from(PARTS), max_size=60).map("".join))
def test_any_soup_of_boxes_and_braces_is_read(soup: str) -> None:
    found = find_answer(soup)
    assert found is None or found.strip() == found


@pytest.mark.parametrize("part", ["\\boxed{", "{", "}", "\\boxed{}", "\\boxed{1},", "\\boxed", "<think>", "\\"])
def test_a_megabyte_takes_time_in_proportion_to_its_length(part: str) -> None:
    def seconds(count: int) -> float:
        text = "\\boxed{1}" + part * count
        start = time.perf_counter()
        find_answer(text)
        return time.perf_counter() - start

    count = 100_000 // len(part)
    small = min(seconds(count) for _ in range(3))
    assert seconds(8 * count) < 40 * small + 0.2  # quadratic would be 64 times
