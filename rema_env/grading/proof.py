"""Equality of expressions as sure as it gets, for the workers: exact arithmetic, high precision, math-verify.

Only this module imports mpmath (sympy's arithmetic) and math-verify, each when it is first needed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rema_env.grading.exact import FULL_BITS, Inexact, exact, folded
from rema_env.grading.expression import Expr
from rema_env.grading.numeric import Arithmetic, Unsure, value
from rema_env.grading.points import Point, points

_DIGITS = (80, 160)


def proven(gold: Expr, said: Expr) -> bool:
    """Whether the two are the same number, or the same function of their names.

    Rational values of up to 2^18 bits are compared exactly. Everything else is evaluated at fixed points to 80 and to
    160 digits: a difference that is truly zero shrinks with the precision, one that is merely tiny does not. What
    cannot be evaluated (too big, undefined) counts as different.
    """
    try:
        return exact(gold, FULL_BITS) == exact(said, FULL_BITS)
    except Inexact:
        return folded(gold) == folded(said) or _vanishes(
            gold, said, lambda point, real: _difference(gold, said, point, real)
        )


def proportional(gold: Expr, said: Expr) -> int:
    """The sign of c in `said = c * gold` for a constant c, so that `gold = 0` is `said = 0`; 0 where there is none."""
    all_points = points(gold, said)
    if not all_points[0].names:
        return 0
    try:
        first = [value(said, all_points[0], _mp(d)) / value(gold, all_points[0], _mp(d)) for d in _DIGITS]
    except (Unsure, ZeroDivisionError):
        return 0
    if not first[1] or abs(first[1].imag) > abs(first[1]) * 1e-30:
        return 0

    def gap(point: Point, _: bool) -> tuple[Any, Any, Any]:
        return _gap(
            lambda d: value(said, point, _mp(d)) - first[_DIGITS.index(d)] * value(gold, point, _mp(d)), gold, point
        )

    return (1 if first[1].real > 0 else -1) if _vanishes(gold, said, gap) else 0


def _vanishes(gold: Expr, said: Expr, gap: Callable[[Point, bool], tuple[Any, Any, Any]]) -> bool:
    """Whether the gap is zero wherever the gold is real (everywhere, if nowhere), under one reading of a bare log."""
    groups: dict[int | None, list[Point]] = {}
    for point in points(gold, said):
        groups.setdefault(point.log_base, []).append(point)
    return any(_zero_everywhere(gold, group, gap) for group in groups.values())


def _zero_everywhere(gold: Expr, group: list[Point], gap: Callable[[Point, bool], tuple[Any, Any, Any]]) -> bool:
    usable, real = [], []
    for point in group:
        try:
            number = value(gold, point, _mp(_DIGITS[0]))
        except Unsure:
            continue
        usable.append(point)
        if abs(number.imag) <= abs(number) * 1e-40:
            real.append(point)
    where = real or usable
    try:
        return bool(where) and all(_is_zero(*gap(point, bool(real))) for point in where)
    except Unsure:
        return False


def _difference(gold: Expr, said: Expr, point: Point, _: bool) -> tuple[Any, Any, Any]:
    return _gap(lambda d: value(gold, point, _mp(d)) - value(said, point, _mp(d)), gold, point)


def _gap(difference: Callable[[int], Any], gold: Expr, point: Point) -> tuple[Any, Any, Any]:
    low, high = (abs(difference(d)) for d in _DIGITS)
    return low, high, abs(value(gold, point, _mp(_DIGITS[1])))


def _is_zero(low: Any, high: Any, scale: Any) -> bool:
    """Zero to 60 and to 140 digits of the gold's size (of 1 for a gold of 0), and shrinking: 10^-200 does not."""
    from mpmath import mpf  # type: ignore[import-untyped,unused-ignore]

    bound = scale if scale > mpf(10) ** -60 else mpf(1)
    small = low <= bound * mpf(10) ** -60 and high <= bound * mpf(10) ** -140
    return bool(small and (not low or high <= low * mpf(10) ** -20))


@functools.cache
def _mp(digits: int) -> Arithmetic:
    """mpmath at that precision, each with a context of its own."""
    from mpmath import MPContext

    mp = MPContext()
    mp.dps = digits
    functions = {
        "exp": mp.exp, "log": mp.log, "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "arcsin": mp.asin, "arccos": mp.acos,
        "arctan": mp.atan, "gamma": mp.gamma,
    }  # fmt: skip
    return Arithmetic(
        number=lambda fraction: mp.mpc(mp.mpf(fraction.numerator) / fraction.denominator),
        functions=functions,
        pi=mp.mpc(mp.pi),
        digits=digits,
        cancels=0.0,
        biggest=1e9,
        steps=20_000,
    )


def by_math_verify(gold: str, said: str) -> bool:
    """math-verify's word on two LaTeX strings that the grammar of `expression` does not know (integrals, limits, ...).

    Its own time limits are off, since they arm signals; whoever calls this sets the limit. Its TimeoutException is a
    BaseException and counts as "not equal".
    """
    import logging

    logging.getLogger("math_verify").setLevel(logging.ERROR)
    from math_verify import LatexExtractionConfig, parse, verify
    from math_verify.errors import TimeoutException

    config = [LatexExtractionConfig()]
    try:
        sides = [
            parse(f"\\boxed{{{text}}}", config, fallback_mode="no_fallback", parsing_timeout=None)
            for text in (gold, said)
        ]
        if not all(sides):
            return False
        return bool(verify(*sides, float_rounding=12, numeric_precision=60, timeout_seconds=None))
    except (TimeoutException, RecursionError):
        return False
