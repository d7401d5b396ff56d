r"""Units written as bare letters, `576\pi m^2` and `60 km/h`: products to the eye, told from them by what was asked.

A lone letter, `35m`, stays a variable unless the golden answer has a unit; areas, volumes and rates are units.
"""

from __future__ import annotations

from fractions import Fraction

from rema_env.grading.expression import Call, Expr, Name, Number
from rema_env.grading.points import names
from rema_env.grading.units import Unit, rate, unit_of

_POWERS = (Number(Fraction(2)), Number(Fraction(3)))


def without_unit(expr: Expr, *, asked: bool) -> tuple[Expr, Unit] | None:
    """(value, unit) of a value without letters before letters that are a unit; None where they are none.

    `asked`: a unit was asked for, so that a lone letter can be one.
    """
    if isinstance(expr, Name | Number):
        return None
    if expr.op == "neg":
        inner = without_unit(expr.args[0], asked=asked)
        return inner and (Call("neg", (inner[0],)), inner[1])
    found = _split(expr)
    if not found:
        return _without_rate(expr)
    return found if asked or (found[1].dimension == "length" and found[1].power > 1) else None


def _without_rate(expr: Expr) -> tuple[Expr, Unit] | None:
    """(value, unit) where the last fraction is a rate: `2 g/cm^3`, which reads as `(2g/c) m^3`, or `9 (m/s)`."""
    factors = _factors(expr)
    for k, factor in reversed(list(enumerate(factors))):
        if isinstance(factor, Call) and factor.op == "div":
            over, under = factor.args
            found = _split(Call("mul", (*factors[:k], *_factors(over))))
            per = _unit((*_factors(under), *factors[k + 1 :]))
            unit = rate(found[1], per) if found and per else None
            return (found[0], unit) if found and unit else None
    return None


def _split(product: Expr) -> tuple[Expr, Unit] | None:
    factors = _factors(product)
    count = next((k for k, factor in enumerate(reversed(factors)) if not _letter(factor)), len(factors))
    values, unit = factors[: len(factors) - count], _unit(factors[len(factors) - count :])
    value = values[0] if len(values) == 1 else Call("mul", values)
    return (value, unit) if values and unit and not names(value) else None


def _factors(expr: Expr) -> tuple[Expr, ...]:
    return expr.args if isinstance(expr, Call) and expr.op == "mul" else (expr,)


def _unit(factors: tuple[Expr, ...]) -> Unit | None:
    """The unit that letters side by side spell, the last of them raised or not."""
    letters = [_letter(factor) for factor in factors]
    raised = [factor for factor in factors if isinstance(factor, Call)]
    if not all(letters) or raised not in ([], list(factors[-1:])):
        return None
    power = raised[0].args[1] if raised else Number(Fraction(1))
    return unit_of("".join(letters), int(power.value)) if isinstance(power, Number) else None


def _letter(factor: Expr) -> str:
    """The letter that this factor is, or is a square or cube of; empty where it is something else."""
    if isinstance(factor, Call) and factor.op == "pow" and factor.args[1] in _POWERS:
        factor = factor.args[0]
    return factor.text if isinstance(factor, Name) and len(factor.text) == 1 and factor.text.isalpha() else ""
