"""Exact values of written numbers: decimals, powers of ten, repeating digits."""

from __future__ import annotations

from fractions import Fraction

from rema_env.grading.latex import Unreadable


def decimal(token: str) -> Fraction:
    """The exact value of a written number. Exponents beyond a few thousand are not numbers anyone writes."""
    mantissa, _, exponent = token.lower().partition("e")
    if len(exponent) > 5 or len(mantissa) > 4000:
        raise Unreadable("a number of that size")
    whole, _, decimals = mantissa.partition(".")
    value = Fraction(int((whole + decimals) or "0"), 10 ** len(decimals))
    return value * Fraction(10) ** int(exponent) if exponent else value


def repeating(token: str, digits: str) -> Fraction:
    """`0.1` with `6` under a bar is 1/6."""
    decimals = len(token.partition(".")[2])
    return decimal(token.rstrip(".")) + Fraction(int(digits), (10 ** len(digits) - 1) * 10**decimals)


def is_proper(over: Fraction, under: Fraction) -> bool:
    """Whether a fraction is the second part of a mixed number: of whole numbers, and below one."""
    return 0 < over < under and over.denominator == under.denominator == 1
