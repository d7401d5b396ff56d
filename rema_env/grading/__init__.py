"""Graders: pure functions `grade(problem, text) -> Grade`, and the pool that makes any of them safe to call.

    grade = pooled(load("math"))
    grade(Problem("1", "2+2?", "4"), r"So it is \\boxed{4}.")  # Grade(score=1.0, outcome=right, extracted="4")

`load` takes a built-in name or `package.module:function`. `pooled` decides what it can in the calling process, by the
grader's own `quick` where it has one, and gives the rest to killable worker processes, shared by the whole process.
Nothing heavy is imported here; sympy is loaded in the workers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from rema_env.transcript import Grade, Outcome, Problem

if TYPE_CHECKING:
    from rema_env.grading.child import Spec
    from rema_env.grading.pool import Pool

__all__ = ["BUILT_IN", "Grade", "Grader", "Outcome", "Pooled", "load", "pooled"]

BUILT_IN = {
    "math": "rema_env.grading.math:MathGrader",
    "choice": "rema_env.grading.choice:ChoiceGrader",
    "exact": "rema_env.grading.text:ExactMatch",
    "token_f1": "rema_env.grading.text:TokenF1",
}


class Grader(Protocol):
    """A pure function of a problem and the message that answers it.

    It may also offer `quick(problem, text) -> Grade | None`: the grade where it can be told in microseconds and without
    risk, else None; and `gold_fault(answer) -> str | None`: what is wrong with a golden answer, None where nothing is.
    """

    def __call__(self, problem: Problem, text: str) -> Grade:
        """Score in [0, 1] and why."""
        ...


def load(name: str, **options: Any) -> Grader:
    """The grader of that name: math, choice, exact, token_f1, or `package.module:function`.

    Options go to the built-in's class (`load("math", rtol=0.02)`). Raises ValueError where the name leads nowhere.
    """
    target = BUILT_IN.get(name, name)
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise ValueError(f"a grader is one of {', '.join(BUILT_IN)} or package.module:function, got {name!r}")
    try:
        found: Any = import_module(module_name)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"no grader {name!r}: {error}") from error
    if name in BUILT_IN:
        try:
            found = found(**options)
        except TypeError as error:
            raise ValueError(f"the grader {name!r} does not take {', '.join(options)}: {error}") from None
    elif options:
        raise ValueError(f"options {sorted(options)} belong to built-in graders; {name!r} takes none")
    if not callable(found):
        raise ValueError(f"the grader {name!r} is a {type(found).__name__}, not a function")
    grader: Grader = found
    return grader


def pooled(grade: Grader, *, pool: Pool | None = None) -> Pooled:
    """The same grader, safe: it never hangs, never raises over an answer, never takes the process with it.

    Args:
        grade: a grader from `load`, or any function that can be imported by name.
        pool: workers to use; by default those shared by the whole process, started at the first answer they are for.

    Raises:
        ValueError: where a worker could not import the grader by name.
    """
    return Pooled(grade, pool)


class Pooled:
    """A grader backed by a pool; what `pooled` returns."""

    def __init__(self, grade: Grader, pool: Pool | None) -> None:
        self.grade = grade
        self.spec = _spec(grade)
        self._quick = getattr(grade, "quick", None)
        self._pool = pool

    def __call__(self, problem: Problem, text: str) -> Grade:
        """The grade of one answer, within the pool's limits."""
        known = self._known(problem, text)
        return self.pool.submit(self.spec, problem, text).result() if known is None else known

    def submit(self, problem: Problem, text: str) -> Future[Grade]:
        """The same without waiting; `asyncio.wrap_future` makes it awaitable."""
        known = self._known(problem, text)
        if known is None:
            return self.pool.submit(self.spec, problem, text)
        done: Future[Grade] = Future()
        done.set_result(known)
        return done

    def grade_all(self, answers: Iterable[tuple[Problem, str]], window: int = 1024) -> Iterator[Grade]:
        """Grades in the order of the answers, with at most `window` of them in hand."""
        from collections import deque

        waiting: deque[Future[Grade]] = deque()
        for problem, text in answers:
            waiting.append(self.submit(problem, text))
            if len(waiting) >= window:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    @property
    def pool(self) -> Pool:
        """The workers behind this grader."""
        if self._pool is None:
            from rema_env.grading.pool import shared

            return shared()
        return self._pool

    def _known(self, problem: Problem, text: str) -> Grade | None:
        try:
            known: Grade | None = None if self._quick is None else self._quick(problem, text)
        except Exception:  # anyone's code; a worker then decides, or names what is wrong
            return None
        return known


def _spec(grade: Any) -> Spec:
    """The name by which a worker can import this grader."""
    from dataclasses import asdict, is_dataclass

    from rema_env.grading.child import Spec

    for name, target in BUILT_IN.items():
        if (
            f"{type(grade).__module__}:{type(grade).__qualname__}" == target
            and is_dataclass(grade)
            and not isinstance(grade, type)
        ):
            return Spec(name, asdict(grade))
    module, path = getattr(grade, "__module__", None), getattr(grade, "__qualname__", None)
    way_out = "move it to the top level of a module of its own and pass it as package.module:function"
    if not module or not path or module == "__main__" or "<" in path:
        raise ValueError(f"workers import a grader by name, and {grade!r} has none that they can import: {way_out}")
    if load(f"{module}:{path}") is not grade:
        raise ValueError(f"{module}:{path} is not {grade!r}: {way_out}")
    return Spec(f"{module}:{path}")
