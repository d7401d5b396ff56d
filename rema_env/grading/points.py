"""Where to compare expressions: values for the names in them, always the same for the same expressions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from rema_env.grading.expression import Expr, Name, Number

CONSTANTS = frozenset(["pi", "e", "i", "infty"])
_COUNTING = frozenset(["factorial", "double_factorial", "binom", "sum", "prod"])
_ON_WHOLES = frozenset(["mod", "gcd", "lcm"])
_STEPS = _ON_WHOLES | {"floor", "ceil"}
_REAL = frozenset("xyzt")  # what these letters are by custom, where the floor of one is taken
_CHOICES = frozenset(["max", "min"])
_KINKS = _CHOICES | {"abs"}
_FAR = (10**3, 10**5)
_ROWS = 6


@dataclass(frozen=True)
class Point:
    """Where to evaluate: values of the names, and the base that a bare `log` has."""

    names: Mapping[str, Fraction] = field(default_factory=dict)
    log_base: int | None = None


def names(expr: Expr) -> frozenset[str]:
    """The variables in an expression; constants, and functions applied, are none."""
    if isinstance(expr, Number):
        return frozenset()
    if isinstance(expr, Name):
        return frozenset() if expr.text in CONSTANTS else frozenset([expr.text])
    if expr.op in ("sum", "prod"):
        return frozenset().union(*map(names, expr.args[1:])) - names(expr.args[0])
    return frozenset().union(*map(names, expr.args[expr.op == "apply" :]))


def ops(expr: Expr) -> frozenset[str]:
    """The operations in an expression."""
    if isinstance(expr, Number | Name):
        return frozenset()
    bare_log = frozenset(["bare_log"] if expr.op == "log" and len(expr.args) == 1 else [])
    return bare_log.union([expr.op], *map(ops, expr.args))


def is_flat_in_parts(expr: Expr) -> bool:
    r"""Whether it may be constant for a while and then not, as `\max(7, x)` and `7 + \lfloor x/1000 \rfloor` are."""
    if isinstance(expr, Number | Name):
        return False
    return (expr.op in _STEPS | _CHOICES and bool(names(expr))) or any(map(is_flat_in_parts, expr.args))


def points(*exprs: Expr) -> list[Point]:
    """Points at which two expressions that are not the same differ somewhere.

    One point where there is nothing to vary. Whole numbers where an operation wants them (floor, factorial, ...), else
    positive and some negative fractions; far ones too, where what is seen near zero says little about the rest (floor,
    |x - 10|, ...). All of them once for each base that a bare `log` may have.
    """
    variables = sorted(frozenset().union(*map(names, exprs)))
    used = frozenset().union(*map(ops, exprs))
    rng = random.Random(20250313)
    rows: list[dict[str, Fraction]] = [{}]
    if variables:
        rows = (_whole if used & (_STEPS | _COUNTING) else _fractional)(variables, used, rng)
    bases: tuple[int | None, ...] = (None, 10) if "bare_log" in used else (None,)
    return [Point(row, base) for base in bases for row in rows]


def _whole(variables: list[str], used: frozenset[str], rng: random.Random) -> list[dict[str, Fraction]]:
    """Whole numbers from 2 on; in every other row with a fraction, where a real number may stand."""
    real = frozenset[str]() if used & (_COUNTING | _ON_WHOLES) else _REAL
    sizes = [(2, 24)] * (2 * _ROWS) + [(size, 9 * size) for size in _FAR if not used & _COUNTING]
    return [
        {name: rng.randint(*size) + Fraction(rng.randint(1, 12), 13) * (name in real and row % 2) for name in variables}
        for row, size in enumerate(sizes)
    ]


def _fractional(variables: list[str], used: frozenset[str], rng: random.Random) -> list[dict[str, Fraction]]:
    """Fractions between 1 and 5, the first rows positive, then by chance; and far ones of one sign."""
    signs = [1, 1, 1, 1, *([-1] if len(variables) == 1 or "abs" in used else [])]
    near = [
        {
            name: Fraction(rng.randint(1100, 4900), 1009) * (signs[row] if row < len(signs) else rng.choice((-1, 1)))
            for name in variables
        }
        for row in range(_ROWS)
    ]
    sizes = [*(_FAR if used & (_KINKS | {"root"}) else ()), *(-size for size in _FAR if used & _KINKS)]
    return near + [{name: size * Fraction(rng.randint(1100, 4900), 1009) for name in variables} for size in sizes]
