"""What an answer is: a quantity, a list, a set, a point, an interval, a relation, a matrix. `structure` reads it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from rema_env.grading.expression import Call, Expr, Name, Number
from rema_env.grading.units import Unit


@dataclass(frozen=True)
class Quantity:
    """One number or formula. `expr` is None where only math-verify can read `source` (integrals, limits).

    Quantities are equal by what they say, however it is spelled: `x_1` and `x_{1}`.
    """

    expr: Expr | None
    source: str
    unit: Unit | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self._said() == other._said()

    def __hash__(self) -> int:
        return hash(self._said())

    def _said(self) -> tuple[Expr | str, Unit | None]:
        return (self.source if self.expr is None else self.expr, self.unit)


@dataclass(frozen=True)
class Listing:
    """Several answers side by side, in any order; `joined` is "," or "and" or "or"."""

    items: tuple[Answer, ...]
    joined: str = ","


@dataclass(frozen=True)
class Bracket:
    """A point, an interval, or a set: `(3, 7)`, `[2, 5)`, `\\{1, 4\\}`; which of them, the delimiters say."""

    opener: str
    items: tuple[Answer, ...]
    closer: str


@dataclass(frozen=True)
class Union:
    """Sets joined by `\\cup`."""

    parts: tuple[Answer, ...]


@dataclass(frozen=True)
class Without:
    """`\\mathbb{R} \\setminus \\{2\\}`: what is in the first set and in none of the others."""

    parts: tuple[Answer, ...]


@dataclass(frozen=True)
class Relation:
    """`parts[0] signs[0] parts[1] signs[1] ...`, e.g. x = 5, 0 < x < 12, x in [2, 3]."""

    parts: tuple[Answer, ...]
    signs: tuple[str, ...]


@dataclass(frozen=True)
class Named:
    """`l: x + 2y = 5`, a curve by name and equation."""

    name: str
    equation: Relation


@dataclass(frozen=True)
class Builder:
    """`\\{ variable | condition \\}`."""

    condition: Answer


@dataclass(frozen=True)
class Matrix:
    """Rows of a matrix or column vector; a determinant `|A|` is none."""

    rows: tuple[tuple[Answer, ...], ...]


@dataclass(frozen=True)
class Based:
    """A numeral with its base, `52_8`."""

    digits: str
    base: int


@dataclass(frozen=True)
class Ratio:
    """`3:4`, `1:2:3`."""

    items: tuple[Answer, ...]


@dataclass(frozen=True)
class Residue:
    """`7 \\pmod{11}`."""

    value: Answer
    modulus: Answer


@dataclass(frozen=True)
class Reals:
    """All real numbers."""


@dataclass(frozen=True)
class Dots:
    """`\\ldots` among the items of a list."""


Answer = (
    Quantity
    | Listing
    | Bracket
    | Union
    | Without
    | Relation
    | Named
    | Builder
    | Matrix
    | Based
    | Ratio
    | Residue
    | Reals
    | Dots
)


def is_label(answer: Answer) -> bool:
    """Whether the left side of an equation only names what is asked: `x`, `f(x)`, `AB`, `\\text{Area}`, `(x, y)`."""
    if isinstance(answer, Bracket | Ratio):
        return (isinstance(answer, Ratio) or answer.opener == "(") and all(map(is_label, answer.items))
    return isinstance(answer, Quantity) and answer.unit is None and answer.expr is not None and _is_name(answer.expr)


def _is_name(expr: Expr) -> bool:
    if isinstance(expr, Name):
        return expr.text not in ("pi", "e", "i", "infty")
    return isinstance(expr, Call) and (
        expr.op == "apply"
        or (expr.op == "mul" and all(isinstance(arg, Name | Call) and _is_name(arg) for arg in expr.args))
    )


_VALUE = re.compile(r"(?:[fghFGPE]|\\Pr)(?:'|\^\s*\{?\s*-\s*1\s*\}?)?\s*\([^()]*\)")
_ASKED = frozenset("mul div min max gcd lcm".split())
_OF_AN_ANGLE = frozenset("sin cos tan cot sec csc".split())


def is_asked(answer: Answer) -> bool:
    r"""Whether a question can ask for it: built of names alone, as `a + b`, `100m + n`, `|AB|`, `\frac{m}{n}`,
    `\sin A` are, or the value of a function, as `f(\frac12)` is."""
    if is_label(answer):
        return True
    if not isinstance(answer, Quantity) or answer.expr is None:
        return False
    return _of_names(answer.expr) or bool(_VALUE.fullmatch(answer.source))


def _of_names(expr: Expr) -> bool:
    if not isinstance(expr, Call) or _is_name(expr):
        return _is_name(expr)
    if expr.op == "pow":
        inverse = expr.args[1] in (Call("neg", (Number(Fraction(1)),)), Name("T")) and _is_name(expr.args[0])
        return inverse or (_of_names(expr.args[0]) and isinstance(expr.args[1], Number))
    if expr.op == "abs":  # |x| = 7 is two answers, |AB| = 7 and |\vec a| = 7 are one
        inner = expr.args[0]
        return _of_names(inner) and (isinstance(inner, Call) or (isinstance(inner, Name) and " " in inner.text))
    if expr.op == "add":
        terms = [_without_coefficient(term) for term in expr.args]
        return all(map(_of_names, terms)) and len(set(terms)) > 1
    if expr.op in _OF_AN_ANGLE:
        return _names_something(expr.args[0])
    return expr.op in _ASKED and all(map(_of_names, expr.args))


def _names_something(expr: Expr) -> bool:
    r"""Whether a name stands anywhere in it, as in the angle `2\theta`."""
    return any(map(_names_something, expr.args)) if isinstance(expr, Call) else _is_name(expr)


def _without_coefficient(term: Expr) -> Expr:
    """`m` of the terms `100m` and `-m`."""
    if isinstance(term, Call) and term.op == "neg":
        return _without_coefficient(term.args[0])
    if isinstance(term, Call) and term.op == "mul" and isinstance(term.args[0], Number) and len(term.args) == 2:
        return term.args[1]
    return term


def scaled(quantity: Quantity, factor: Fraction) -> Quantity:
    """That many times the quantity."""
    if quantity.expr is None or factor == 1:
        return quantity
    return Quantity(Call("mul", (Number(factor), quantity.expr)), quantity.source, quantity.unit)
