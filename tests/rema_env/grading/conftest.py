from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rema_env.grading import Grader, load
from rema_env.grading.pool import Pool

GRADERS = '''
import ctypes, os, signal, subprocess, sys, time
from rema_env.transcript import Grade, Outcome

def grade(problem, text):
    """What the text tells it to do."""
    if text == "hang":
        time.sleep(60)
    if text == "big integer":
        10 ** (10 ** 9) % 7
    if text == "memory":
        bytearray(8 * 1024**3)
    if text == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if text == "segfault":
        ctypes.string_at(0)
    if text == "exit":
        sys.exit(3)
    if text == "raise":
        raise RuntimeError("no")
    if text == "score 7":
        return Grade(7.0, Outcome.RIGHT)
    if text == "nothing":
        return None
    if text == "print":
        print("x" * 100_000)
        os.write(1, b"noise")
    if text == "read":
        sys.stdin.read()
    if text == "child":
        subprocess.Popen(["sleep", "60"])
        time.sleep(60)
    if text == "torch":
        return Grade(float("torch" in sys.modules), Outcome.RIGHT)
    if text == "pid":
        time.sleep(0.05)
        return Grade(1.0, Outcome.RIGHT, str(os.getpid()))
    if text.startswith("mark"):
        with open(text.split()[1], "w") as mark:
            mark.write(str(os.getpid()))
        time.sleep(60)
    if text.startswith("sleep"):
        time.sleep(float(text.split()[1]))
    right = problem.answer == text.strip() or text in ("print", "read")
    return Grade(float(right), Outcome.RIGHT if right else Outcome.WRONG, text)
'''


@pytest.fixture
def obedient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Grader]:
    """A user's grader, in a module of its own outside the repository, that hangs or dies when told to."""
    (tmp_path / "obedient_grader.py").write_text(GRADERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("obedient_grader", None)
    yield load("obedient_grader:grade")
    sys.modules.pop("obedient_grader", None)


@pytest.fixture
def make_pool() -> Iterator[Callable[..., Pool]]:
    """Pools that are closed when the test ends."""
    pools: list[Pool] = []

    def make(**options: object) -> Pool:
        pools.append(Pool(**options))  # type: ignore[arg-type]
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()
