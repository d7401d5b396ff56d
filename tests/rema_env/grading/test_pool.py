from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from rema_env.grading import Grader, load, pooled
from rema_env.grading.pool import LoadError, Pool
from rema_env.transcript import Grade, Outcome, Problem

MakePool = Callable[..., Pool]
EASY = Problem("1", "?", "3")


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether that process ends within the time; a zombie counts as gone."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def test_results_come_in_input_order(obedient: Grader, make_pool: MakePool) -> None:
    grade = pooled(obedient, pool=make_pool())
    texts = [f"sleep {0.1 if k % 7 == 0 else 0}" if k % 2 else "3" for k in range(40)]
    results = list(grade.grade_all((EASY, text) for text in texts))
    assert [result.extracted for result in results] == texts


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("hang", Outcome.TIMED_OUT),
        ("big integer", Outcome.TIMED_OUT),
        ("child", Outcome.TIMED_OUT),
        ("memory", Outcome.OUT_OF_MEMORY),
        ("die", Outcome.CRASHED),
        ("segfault", Outcome.CRASHED),
        ("exit", Outcome.CRASHED),
        ("raise", Outcome.CRASHED),
        ("score 7", Outcome.CRASHED),
        ("nothing", Outcome.CRASHED),
        ("print", Outcome.RIGHT),
        ("read", Outcome.RIGHT),
    ],
)
def test_every_end_of_an_answer_is_named_and_harms_no_other(
    obedient: Grader, make_pool: MakePool, text: str, outcome: Outcome
) -> None:
    grade = pooled(obedient, pool=make_pool(workers=1, time_limit=0.7))
    texts = ["3", text, "3", "4"]
    results = [result.outcome for result in grade.grade_all((EASY, each) for each in texts)]
    assert results == [Outcome.RIGHT, outcome, Outcome.RIGHT, Outcome.WRONG]


def test_a_stuck_worker_is_killed_with_all_it_started_and_replaced(obedient: Grader, make_pool: MakePool) -> None:
    pool = make_pool(workers=2, time_limit=0.5)
    grade = pooled(obedient, pool=pool)
    stuck = [grade.submit(EASY, "child") for _ in range(3)]
    until(lambda: len(pool.pids()) == 2)
    first = pool.pids()
    until(lambda: any(psutil.Process(pid).children() for pid in first if psutil.pid_exists(pid)))
    grandchildren = [child.pid for pid in first if psutil.pid_exists(pid) for child in psutil.Process(pid).children()]
    assert [future.result().outcome for future in stuck] == [Outcome.TIMED_OUT] * 3
    easy = list(grade.grade_all((EASY, "3") for _ in range(100)))
    assert {result.outcome for result in easy} == {Outcome.RIGHT}
    assert all(map(gone, [*first, *grandchildren]))
    assert not set(first) & set(pool.pids())


def test_a_worker_killed_in_the_middle_costs_only_the_answer_it_held(
    obedient: Grader, make_pool: MakePool, tmp_path: Path
) -> None:
    grade = pooled(obedient, pool=make_pool(workers=2, time_limit=60))
    mark = tmp_path / "pid"
    texts = ["3"] * 20 + [f"mark {mark}"] + ["3"] * 20
    futures = [grade.submit(EASY, text) for text in texts]
    until(lambda: mark.exists() and mark.read_text() != "")
    os.kill(int(mark.read_text()), signal.SIGKILL)
    outcomes = [future.result().outcome for future in futures]
    assert outcomes == [Outcome.RIGHT] * 20 + [Outcome.CRASHED] + [Outcome.RIGHT] * 20


def test_a_worker_killed_while_it_starts_is_replaced(obedient: Grader, make_pool: MakePool) -> None:
    pool = make_pool(workers=1)
    future = pooled(obedient, pool=pool).submit(EASY, "3")
    until(lambda: pool.pids() != [])
    os.kill(pool.pids()[0], signal.SIGKILL)
    assert future.result().outcome is Outcome.RIGHT


def test_workers_killed_again_and_again_cost_answers_and_raise_nothing(
    obedient: Grader, make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make_pool(workers=1)
    grade = pooled(obedient, pool=pool)
    assert grade(Problem("1", "?", "5"), "5").score == 1.0
    os.kill(pool.pids()[0], signal.SIGKILL)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        assert grade(Problem("1", "?", "5"), "5").outcome is Outcome.CRASHED
    assert grade(Problem("1", "?", "5"), "5").score == 1.0


def test_a_worker_that_died_while_idle_costs_nothing(obedient: Grader, make_pool: MakePool) -> None:
    pool = make_pool(workers=1)
    grade = pooled(obedient, pool=pool)
    grade(EASY, "3")
    (pid,) = pool.pids()
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    assert grade(EASY, "3").outcome is Outcome.RIGHT


def test_close_leaves_no_process_and_ends_at_once(obedient: Grader) -> None:
    pool = Pool(workers=2, time_limit=60)
    grade = pooled(obedient, pool=pool)
    waiting = [grade.submit(EASY, "hang") for _ in range(6)]
    until(lambda: len(pool.pids()) == 2)
    pids, start = pool.pids(), time.monotonic()
    pool.close()
    assert time.monotonic() - start < 5
    assert all(map(gone, pids))
    assert {future.result().outcome for future in waiting} == {Outcome.CRASHED}
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        grade(EASY, "3")


def test_workers_start_at_the_first_answer_that_needs_them(make_pool: MakePool) -> None:
    pool = make_pool()
    grade = pooled(load("math"), pool=pool)
    assert grade(Problem("1", "?", "3"), r"\boxed{3}").score == 1.0
    assert pool.pids() == []
    assert grade(Problem("1", "?", r"\sqrt{8}"), r"\boxed{2\sqrt{2}}").score == 1.0
    assert pool.pids() != []


def test_workers_have_no_torch(obedient: Grader, make_pool: MakePool) -> None:
    assert pooled(obedient, pool=make_pool(workers=1))(EASY, "torch").score == 0.0


def test_threads_share_a_pool(obedient: Grader, make_pool: MakePool) -> None:
    pool = make_pool(workers=2)
    grade = pooled(obedient, pool=pool)
    results: dict[int, list[Grade]] = {}

    def work(number: int) -> None:
        results[number] = [grade(Problem("1", "?", str(number)), str(k)) for k in range(8)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all([result.score for result in results[n]] == [float(k == n) for k in range(8)] for n in range(8))
    assert len(pool.pids()) <= 2


def test_asyncio_goes_on_while_answers_are_graded(obedient: Grader, make_pool: MakePool) -> None:
    grade = pooled(obedient, pool=make_pool(workers=2))

    async def main() -> tuple[int, list[Grade]]:
        ticks = 0
        graded = asyncio.gather(*(asyncio.wrap_future(grade.submit(EASY, "sleep 0.3")) for _ in range(4)))
        while not graded.done():
            ticks += 1
            await asyncio.sleep(0.01)
        return ticks, await graded

    ticks, results = asyncio.run(main())
    assert ticks > 20
    assert [result.outcome for result in results] == [Outcome.WRONG] * 4


def test_a_grader_that_workers_cannot_import_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"module of its own.*package\.module:function"):
        pooled(lambda problem, text: Grade(1.0, Outcome.RIGHT))


def test_a_grader_that_fails_to_load_in_a_worker_says_why(
    obedient: Grader, make_pool: MakePool, tmp_path: Path
) -> None:
    grade = pooled(obedient, pool=make_pool(workers=1))
    (tmp_path / "obedient_grader.py").write_text("raise RuntimeError('changed under your feet')")
    with pytest.raises(LoadError, match="changed under your feet"):
        grade(EASY, "3")


@pytest.mark.parametrize("options", [{"workers": 0}, {"time_limit": 0}, {"memory_limit": 0}])
def test_limits_must_be_positive(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|positive"):
        Pool(**options)


def run(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    """A script without a main guard, read from standard input."""
    return subprocess.run(
        [sys.executable, "-W", "error"],
        input=textwrap.dedent(code),
        capture_output=True,
        text=True,
        timeout=60,
        **options,  # type: ignore[call-overload]
    )


def test_a_script_without_a_main_guard_can_grade() -> None:
    done = run(
        r"""
        from rema_env.grading import load, pooled
        from rema_env.transcript import Problem
        print(pooled(load("math"))(Problem("1", "?", "\\sqrt{8}"), "\\boxed{2\\sqrt{2}}").score)
        """
    )
    assert (done.stdout, done.stderr) == ("1.0\n", "")


def test_importing_grading_is_light() -> None:
    done = run(
        """
        import sys
        import rema_env
        before = set(sys.modules)
        import rema_env.grading.pool
        light = {"multiprocessing", "asyncio", "rich"} & (set(sys.modules) - before)
        assert not light, light
        assert not {"torch", "sympy", "mpmath", "math_verify"} & set(sys.modules)
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_forked_child_grades_with_workers_of_its_own() -> None:
    done = run(
        r"""
        import os, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
        from rema_env.grading import load, pooled
        from rema_env.transcript import Problem
        grade = pooled(load("math"))
        problem, text = Problem("1", "?", "\\sqrt{8}"), "\\boxed{2\\sqrt{2}}"
        assert grade(problem, text).score == 1.0
        mine = set(grade.pool.pids())
        child = os.fork()
        if not child:
            assert grade(problem, text).score == 1.0 and not mine & set(grade.pool.pids())
            grade.pool.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert grade(problem, text).score == 1.0 and mine <= set(grade.pool.pids())
        """
    )
    assert done.returncode == 0, done.stderr


SLOW_PARENT = r"""
import os, sys, time
from rema_env.grading import load, pooled
from rema_env.grading.pool import Pool
from rema_env.transcript import Problem
pool = Pool(time_limit=60)
grade = pooled(load("obedient_grader:grade"), pool=pool)
waiting = [grade.submit(Problem("1", "?", "3"), "hang") for _ in range(4)]
while len(pool.pids()) < 2:
    time.sleep(0.05)
print(*pool.pids(), flush=True)
waiting[0].result()
"""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_a_parent_that_is_stopped(obedient: Grader, tmp_path: Path, sign: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", SLOW_PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *map(os.path.abspath, sys.path)])},
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    start = time.monotonic()
    parent.send_signal(sign)
    parent.communicate(timeout=10)
    assert time.monotonic() - start < 5
    assert all(map(gone, pids))
