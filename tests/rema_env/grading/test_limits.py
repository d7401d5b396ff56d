r"""What hostile answers may cost: time, memory and workers, none of it an easy answer's.

The tower is asked of the workers themselves, without the quick path. `big integer` is arithmetic inside C, which no
signal and no alarm interrupts.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import rema_env
from rema_env.grading import Grader, load, pooled
from rema_env.grading.child import Spec
from rema_env.grading.pool import GIB, Pool
from rema_env.transcript import Outcome, Problem
from tests.rema_env.grading.test_pool import EASY, gone

MakePool = Callable[..., Pool]
MATH = Spec("math")
TOWER = r"\boxed{\dfrac{6^{\left(6^{\left(6^{\left(6^6\right)}\right)} - 4\right)} - 6}{16}}"
STUCK = "big integer"


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def most_memory(pid: int) -> int:
    """The most memory [B] that a process ever had resident."""
    found = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def test_a_tower_scores_0_within_time_and_memory_and_the_next_answer_is_right(make_pool: MakePool) -> None:
    pool = make_pool(workers=1, time_limit=1.0)
    assert pool.submit(MATH, EASY, r"\boxed{3}").result().score == 1.0  # the worker has started
    start = time.monotonic()
    assert pool.submit(MATH, EASY, TOWER).result().score == 0.0
    assert time.monotonic() - start < 1.0 + 1.0
    (pid,) = pool.pids()
    assert most_memory(pid) < GIB
    assert pool.submit(MATH, EASY, r"\boxed{3}").result().score == 1.0


@pytest.mark.parametrize(("slow", "right"), [(TOWER, r"\boxed{3}"), (STUCK, "3"), ("hang", "3")])
def test_a_batch_with_one_hostile_answer_is_scored_in_order_and_in_time(
    slow: str, right: str, obedient: Grader, make_pool: MakePool
) -> None:
    grade = pooled(load("math") if slow == TOWER else obedient, pool=make_pool(workers=2, time_limit=1.0))
    for done in [grade.pool.submit(grade.spec, EASY, right) for _ in range(8)]:
        done.result()  # both workers have started
    start = time.monotonic()
    texts = [right] * 3 + [slow] + [right] * 4
    assert [grade.score for grade in grade.grade_all((EASY, text) for text in texts)] == [1, 1, 1, 0, 1, 1, 1, 1]
    assert time.monotonic() - start < 1.0 + 2.0


def test_four_workers_outlive_five_stuck_answers_and_score_a_hundred_easy_ones(
    obedient: Grader, make_pool: MakePool
) -> None:
    pool = make_pool(workers=4, time_limit=0.5)
    grade = pooled(obedient, pool=pool)
    seen: set[int] = set()
    stuck = [grade.submit(EASY, STUCK) for _ in range(5)]
    while not all(future.done() for future in stuck):
        seen |= set(pool.pids())
        time.sleep(0.02)
    start = time.monotonic()
    assert [future.result().outcome for future in stuck] == [Outcome.TIMED_OUT] * 5
    assert {result.outcome for result in grade.grade_all((EASY, "3") for _ in range(100))} == {Outcome.RIGHT}
    assert time.monotonic() - start < 10
    assert len(pool.pids()) == 4
    assert len(seen) >= 4
    assert all(map(gone, seen - set(pool.pids())))
    assert not seen & set(pool.pids())


def test_close_after_a_batch_with_one_hang_returns_and_leaves_no_child(obedient: Grader) -> None:
    before = children()
    pool = Pool(workers=2, time_limit=0.5)
    grade = pooled(obedient, pool=pool)
    scores = [result.score for result in grade.grade_all((EASY, text) for text in ("3", "child", "3"))]
    assert scores == [1, 0, 1]
    start = time.monotonic()
    pool.close()
    assert time.monotonic() - start < 2
    assert children() <= before


@pytest.mark.parametrize("text", ["raise", "exit", "score 7", "nothing"])
def test_an_answer_whose_grading_failed_is_named_and_paid_0_and_the_dialogue_ends(obedient: Grader, text: str) -> None:
    env = rema_env.math_v0.raw_env(grader="obedient_grader:grade")
    env.reset(options={"problem": EASY})
    env.step("[FINISH]")
    env.step(text)
    info = env.infos["reasoner_0"]
    assert (info["ending"], info["outcome"], info["score"]) == ("finished", "crashed", 0.0)
    assert env.rewards == {"meta_0": 0.0, "reasoner_0": 0.0}


def test_a_quick_path_that_fails_leaves_the_answer_to_the_workers(
    obedient: Grader, make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quick(problem: Problem, text: str) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr(obedient, "quick", quick, raising=False)
    assert pooled(obedient, pool=make_pool(workers=1))(EASY, "3").score == 1.0


@pytest.mark.parametrize(("answer", "said"), [(r"\frac13", r"\boxed{\frac13}"), ("2", r"\boxed{2}")])
def test_a_pool_scores_alike_at_start_up_and_from_another_thread(answer: str, said: str, make_pool: MakePool) -> None:
    pool, problem = make_pool(workers=1), Problem("1", "?", answer)
    scores = [pool.submit(MATH, problem, said).result().score]
    thread = threading.Thread(target=lambda: scores.append(pool.submit(MATH, problem, said).result().score))
    thread.start()
    thread.join()
    assert scores == [1.0, 1.0]
