"""Exact rational values of expressions, as far as they have one of bearable size."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from rema_env.grading.expression import Call, Expr, Name, Number

QUICK_BITS = 4_096  # enough for 2^2024 and 100!, and cheap in the calling process
FULL_BITS = 1 << 18


class Inexact(ArithmeticError):
    """No rational value, or one beyond the bits allowed."""


def exact(expr: Expr, bits: int = QUICK_BITS) -> Fraction:
    """The rational value, with numerator and denominator below 2^bits. Raises Inexact."""
    if isinstance(expr, Number):
        return _bounded(expr.value, bits)
    if isinstance(expr, Name) or expr.op not in _EXACT:
        raise Inexact
    try:
        return _bounded(_EXACT[expr.op]([exact(arg, bits) for arg in expr.args], bits), bits)
    except ZeroDivisionError:
        raise Inexact from None


def folded(expr: Expr, bits: int = QUICK_BITS) -> Expr:
    """The expression with every part that has a bearable rational value replaced by it: 2^(10^10) and 2^10000000000."""
    if not isinstance(expr, Call):
        return expr
    whole = Call(expr.op, tuple(folded(arg, bits) for arg in expr.args))
    if expr.op == "degree":  # what it is worth depends on what stands around it
        return whole
    try:
        return Number(exact(whole, bits))
    except Inexact:
        return whole


def _bounded(value: Fraction, bits: int) -> Fraction:
    if value.numerator.bit_length() > bits or value.denominator.bit_length() > bits:
        raise Inexact
    return value


def _sum(args: list[Fraction], bits: int) -> Fraction:
    total = Fraction(0)
    for arg in args:
        total = _bounded(total + arg, bits)
    return total


def _product(args: list[Fraction], bits: int) -> Fraction:
    total = Fraction(1)
    for arg in args:
        total = _bounded(total * arg, bits)
    return total


def _power(args: list[Fraction], bits: int) -> Fraction:
    base, exponent = args
    if exponent.denominator > 1:
        base, exponent = _root([base, Fraction(exponent.denominator)], bits), Fraction(exponent.numerator)
    if base == 0 and exponent <= 0:
        raise Inexact
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if base not in (0, 1, -1) and (size - 1) * abs(exponent) > bits:
        raise Inexact
    if abs(exponent) > bits:
        exponent = Fraction(exponent.numerator % 2)  # the base is 0, 1 or -1
        return base ** int(exponent) if base == -1 else base
    return base ** int(exponent)


def _root(args: list[Fraction], bits: int) -> Fraction:
    value, index = args
    if index.denominator > 1 or not 2 <= index <= 64 or value < 0:
        raise Inexact
    return Fraction(_whole_root(value.numerator, int(index)), _whole_root(value.denominator, int(index)))


def _whole_root(value: int, index: int) -> int:
    """The integer whose index-th power is value; Inexact where there is none."""
    if index == 2:
        root = math.isqrt(value)
    else:
        low, high = 0, 1 << (value.bit_length() // index + 1)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**index <= value else (low, middle - 1)
        root = low
    if root**index != value:
        raise Inexact
    return root


def _whole(value: Fraction, most: int) -> int:
    if value.denominator != 1 or not 0 <= value <= most:
        raise Inexact
    return int(value)


def _factorial(args: list[Fraction], bits: int) -> Fraction:
    n = _whole(args[0], bits)
    if n > 1 and math.lgamma(n + 1) / math.log(2) > bits:
        raise Inexact
    return Fraction(math.factorial(n))


def _double_factorial(args: list[Fraction], bits: int) -> Fraction:
    n = _whole(args[0], min(bits, 1000))
    return Fraction(math.prod(range(n, 0, -2)))


def _binomial(args: list[Fraction], bits: int) -> Fraction:
    n, k = _whole(args[0], 1 << 62), _whole(args[1], 1 << 62)
    k = min(k, n - k)
    if k < 0:
        raise Inexact  # as (n - k)! is
    if k > bits or k * n.bit_length() > 4 * bits:
        raise Inexact
    return Fraction(math.comb(n, k))


def _modulo(args: list[Fraction], bits: int) -> Fraction:
    return args[0] % args[1]


def _gcd(args: list[Fraction], bits: int) -> Fraction:
    return Fraction(math.gcd(*_integers(args)))


def _lcm(args: list[Fraction], bits: int) -> Fraction:
    total = 1
    for value in _integers(args):
        total = int(_bounded(Fraction(math.lcm(total, value)), bits))
    return Fraction(total)


def _integers(args: list[Fraction]) -> list[int]:
    if any(arg.denominator != 1 for arg in args):
        raise Inexact
    return [int(arg) for arg in args]


_EXACT: dict[str, Callable[[list[Fraction], int], Fraction]] = {
    "add": _sum,
    "mul": _product,
    "neg": lambda args, bits: -args[0],
    "div": lambda args, bits: args[0] / args[1],
    "pow": _power,
    "root": _root,
    "mod": _modulo,
    "abs": lambda args, bits: abs(args[0]),
    "floor": lambda args, bits: Fraction(math.floor(args[0])),
    "ceil": lambda args, bits: Fraction(math.ceil(args[0])),
    "factorial": _factorial,
    "double_factorial": _double_factorial,
    "binom": _binomial,
    "gcd": _gcd,
    "lcm": _lcm,
    "max": lambda args, bits: max(args),
    "min": lambda args, bits: min(args),
    "percent": lambda args, bits: args[0] / 100,
    "degree": lambda args, bits: args[0],  # 45 degrees is 45 wherever it is not the argument of a function
}
