"""Answers made to hang, to blow up or to get through: none is paid, none escapes, none harms the next."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rema_env.grading import load, pooled
from rema_env.grading.math import MathGrader
from rema_env.grading.pool import GIB, Pool
from rema_env.transcript import Outcome, Problem

MORE = Path(__file__).parents[2] / "data" / "more_answer_pairs.jsonl"
LISTED = [row["said"] for row in map(json.loads, MORE.read_text().splitlines()) if row["kind"] == "hostile"]
GRADE = MathGrader()

PIECES = [
    "9^{9^{9}}", "^", "_", "{", "}", "(", ")", "[", "]", "|", "!", "\\frac", "\\sqrt", "\\boxed{", "\\text{",
    "\\int_0^1", "\\sum_{k=1}^{n}", "\\binom{10^9}{10^8}", "\\log", "\\sin", "\\left", "\\right", "\\begin{pmatrix}",
    "\\end{pmatrix}", "\\\\", "&", ",", ";", "=", "<", "\\le", "\\cup", "\\infty", "\\pm", "\\pmod{7}", "_8", ":",
    "%", "\\%", "$", "\\$", "^\\circ", "x", "n", "i", "e", "\\pi", "1", "10", "0", "3.7", "1e9", "and", "or", " ",
    "\\text{ or }", "\\text{cm}", "½", "²", "\x00", "\ud800", "\u200b", "−", "\\overline{3}", "\\dot", "'", "f(x)",
    "\\lfloor", "\\rceil", "\\{", "\\}", "\\ldots", "\\mathbb{R}", "\\in", "\\gcd(", "\\lim", "\\prod_{k=1}^{9}",
    "+", "-", "*", "/", "**",
]  # fmt: skip
SOUP = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
NUMBERS = st.integers(2, 10**6).map(str)
TOWER = st.lists(NUMBERS, min_size=3, max_size=6).map(lambda parts: "^{".join(parts) + "}" * (len(parts) - 1))
HOSTILE = st.one_of(
    TOWER,
    NUMBERS.map(lambda n: f"(({n}!)!)!"),
    st.tuples(NUMBERS, TOWER).map(lambda pair: rf"\sum_{{k={pair[0]}}}^{{{pair[1]}}} k^k"),
    st.tuples(TOWER, TOWER).map(lambda pair: rf"\int_0^{{{pair[0]}}} e^{{x^{{{pair[1]}}}}} dx"),
    st.tuples(st.sampled_from(["{", "(", "\\sqrt{", "\\frac{1}{", "|", "[", "-"]), st.integers(500, 5000)).map(
        lambda p: p[0] * p[1]
    ),
    st.integers(10_000, 1_000_000).map(lambda n: "9" * n),
    SOUP,
    st.text(max_size=200),
)


def gather(count: int) -> list[str]:
    """The listed hostile answers and enough drawn ones."""
    drawn: list[str] = []

    @settings(
        max_examples=2 * count, database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(HOSTILE)
    def draw(answer: str) -> None:
        drawn.append(answer)

    draw()
    return (LISTED + drawn)[:count]


def easy(count: int) -> list[tuple[Problem, str]]:
    return [(Problem(str(k), "?", str(k)), f"\\boxed{{{k + k % 3}}}") for k in range(count)]


def bytes_of(pids: Iterable[int]) -> int:
    """Resident memory of some processes, those that have ended left out."""
    total = 0
    for pid in pids:
        try:
            total += psutil.Process(pid).memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def check_hostile_among_easy(hostile_count: int, easy_count: int, limit: float) -> dict[str, float]:
    """All come back, the easy ones exactly right, in time and within the memory limit; no process is left."""
    golds = ["3", r"\sqrt{2}", r"\{1, 2\}", "x^2+1", r"\int_0^1 2x dx"]
    hostile = [
        (Problem(f"h{k}", "?", golds[k % 5]), f"\\boxed{{{text}}}") for k, text in enumerate(gather(hostile_count))
    ]
    mixed: list[tuple[Problem, str]] = easy(easy_count)
    for k, row in enumerate(hostile):
        mixed.insert(k * (easy_count // hostile_count + 1), row)
    peak, before = 0, bytes_of([os.getpid()])  # other tests of this process may have left much behind
    with Pool(workers=2, time_limit=limit) as pool:
        grade = pooled(load("math"), pool=pool)
        start = time.monotonic()
        alone = list(grade.grade_all(easy(easy_count)))
        easy_seconds = time.monotonic() - start
        grade(Problem("w", "?", r"\sqrt{8}"), r"\boxed{2\sqrt{2}}")  # workers started
        start, results = time.monotonic(), []
        for k, result in enumerate(grade.grade_all(mixed)):
            results.append(result)
            peak = max(peak, bytes_of([os.getpid(), *pool.pids()]) - before) if k % 50 == 0 else peak
        seconds, pids = time.monotonic() - start, pool.pids()
    assert len(results) == len(mixed)
    got = {problem.id: result.score for (problem, _), result in zip(mixed, results, strict=True)}
    assert [got[str(k)] for k in range(easy_count)] == [float(k % 3 == 0) for k in range(easy_count)]
    assert [result.score for result in alone] == [float(k % 3 == 0) for k in range(easy_count)]
    assert seconds < 3 * easy_seconds + hostile_count / 2 * 1.3 * limit + 2
    assert peak < 3 * GIB
    assert not any(psutil.pid_exists(pid) for pid in pids)
    return {"easy_s": easy_seconds, "mixed_s": seconds, "peak_gib": peak / GIB}


def test_hostile_answers_among_easy_ones() -> None:
    check_hostile_among_easy(60, 600, 0.5)


@pytest.mark.long
def test_five_hundred_hostile_answers_among_five_thousand_easy_ones() -> None:
    check_hostile_among_easy(500, 5000, 1.0)


def never_raises(answer: str, gold: str) -> None:
    grade = GRADE.quick(Problem("1", "?", gold), f"\\boxed{{{answer}}}")
    assert grade is None or (grade.score in (0.0, 1.0) and isinstance(grade.outcome, Outcome))
    GRADE.quick(Problem("1", "?", answer), f"\\boxed{{{gold}}}")
    GRADE.quick(Problem("1", "?", gold), answer)
    GRADE.gold_fault(answer)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.one_of(SOUP, st.text(max_size=80)),
    st.sampled_from(["3", r"\sqrt{2}", r"\{1,2\}", "x<3", r"\text{A}", "x^2=1", "52_8"]),
)
def test_no_exception_escapes_the_fast_path(answer: str, gold: str) -> None:
    never_raises(answer, gold)


@pytest.mark.long
@settings(max_examples=20_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    st.one_of(SOUP, st.text(max_size=80)),
    st.sampled_from(["3", r"\sqrt{2}", r"\{1,2\}", "x<3", r"\text{A}", "x^2=1", "52_8"]),
)
def test_no_exception_escapes_in_twenty_thousand_strings(answer: str, gold: str) -> None:
    never_raises(answer, gold)
    GRADE(Problem("1", "?", gold), f"\\boxed{{{answer}}}")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SOUP)
def test_an_answer_scores_against_itself_or_is_not_readable(answer: str) -> None:
    problem = Problem("1", "?", answer)
    if GRADE.gold_fault(answer) is None and answer.count("{") == answer.count("}") == 0 and "\\" not in answer:
        assert GRADE(problem, f"\\boxed{{{answer}}}").score == 1.0


@pytest.mark.parametrize("said", LISTED, ids=lambda said: ascii(said[:20]))
def test_the_fast_path_is_never_slow(said: str) -> None:
    problem = Problem("1", "?", r"\sqrt{3}")
    start = time.process_time()
    GRADE.quick(problem, f"\\boxed{{{said}}}")
    assert time.process_time() - start < 1.0
